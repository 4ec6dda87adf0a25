{{/* The parts that objects are made of; the same as global_ingress/render/objects.py and network.py make. */}}

{{- define "gi.cluster" -}}
{{- $found := dict }}
{{- range .Values.clusters }}{{ if eq .id $.Values.cluster }}{{ $found = . }}{{ end }}{{ end }}
{{- if not $found }}{{ fail (printf "cluster: %s is not among clusters" (.Values.cluster | quote)) }}{{ end }}
{{- toYaml $found }}
{{- end }}

{{- define "gi.labels" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Values.name }}
app.kubernetes.io/part-of: global-ingress
{{- end }}

{{- define "gi.selector" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Values.name }}
{{- end }}

{{/* part, name (else part), namespace (else the release's fleet; "-" = of the cluster), annotations */}}
{{- define "gi.metadata" -}}
metadata:
  name: {{ .name | default .part }}
  {{- if ne (.namespace | default "") "-" }}
  namespace: {{ .namespace | default .root.Values.namespace }}
  {{- end }}
  labels: {{- include "gi.labels" . | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "gi.account" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "gi.metadata" . }}
automountServiceAccountToken: false
{{- end }}

{{/* part, replicas (nil = none), command, ports, probed, resources, volumes, apiToken, preStop, grace, env */}}
{{- define "gi.deployment" -}}
{{- $volumes := list (dict "name" "tmp" "path" "/tmp" "source" (dict "emptyDir" (dict "medium" "Memory" "sizeLimit" "16Mi"))) }}
{{- if .apiToken }}
{{- $sources := list (dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" 3600)) }}
{{- $sources = append $sources (dict "configMap" (dict "name" "kube-root-ca.crt" "items" (list (dict "key" "ca.crt" "path" "ca.crt")))) }}
{{- $sources = append $sources (dict "downwardAPI" (dict "items" (list (dict "path" "namespace" "fieldRef" (dict "fieldPath" "metadata.namespace"))))) }}
{{- $volumes = append $volumes (dict "name" "api-access" "path" "/var/run/secrets/kubernetes.io/serviceaccount" "source" (dict "projected" (dict "defaultMode" 288 "sources" $sources))) }}
{{- end }}
{{- $volumes = concat $volumes .volumes }}
{{- $selector := include "gi.selector" . }}
apiVersion: apps/v1
kind: Deployment
{{ include "gi.metadata" . }}
spec:
  {{- if .replicas }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector:
    matchLabels: {{- $selector | nindent 6 }}
  template:
    metadata:
      labels: {{- include "gi.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .part }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .grace | default 30 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      topologySpreadConstraints:
        {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- $selector | nindent 14 }}
          matchLabelKeys: [pod-template-hash]
        {{- end }}
      containers:
        - name: {{ .part }}
          image: {{ .root.Values.image }}
          imagePullPolicy: IfNotPresent
          command: [{{ first .command }}]
          args: {{- toYaml (rest .command) | nindent 12 }}
          {{- with .env }}
          env: {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- range .ports }}
            - {name: {{ .name }}, containerPort: {{ .port }}}
            {{- end }}
          startupProbe:
            httpGet: {path: /livez, port: {{ .probed }}}
            periodSeconds: 2
            timeoutSeconds: 3
            failureThreshold: 30
          livenessProbe:
            httpGet: {path: /livez, port: {{ .probed }}}
            periodSeconds: 10
            timeoutSeconds: 3
            failureThreshold: 3
          readinessProbe:
            httpGet: {path: /readyz, port: {{ .probed }}}
            periodSeconds: 3
            timeoutSeconds: 3
            failureThreshold: 2
          lifecycle: {preStop: {sleep: {seconds: {{ .preStop | default 5 }}}}}
          resources: {{- toYaml .resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            {{- range $volumes }}
            - name: {{ .name }}
              mountPath: {{ .path }}
              {{- if ne .name "tmp" }}
              readOnly: true
              {{- end }}
            {{- end }}
      volumes:
        {{- range $volumes }}
        - {{- toYaml (merge (dict "name" .name) .source) | nindent 10 }}
        {{- end }}
{{- end }}

{{/* part, name, ports, headless */}}
{{- define "gi.service" -}}
apiVersion: v1
kind: Service
{{ include "gi.metadata" . }}
spec:
  type: ClusterIP
  {{- if .headless }}
  clusterIP: None
  {{- end }}
  selector: {{- include "gi.selector" . | nindent 4 }}
  ports:
    {{- range .ports }}
    - {name: {{ .name }}, port: {{ .port }}, targetPort: {{ .name }}}
    {{- end }}
{{- end }}

{{- define "gi.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "gi.metadata" . }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "gi.selector" . | nindent 6 }}
{{- end }}

{{/* part, port; nothing unless monitoring asks for it */}}
{{- define "gi.monitor" -}}
{{- with .root.Values.monitoring }}{{ if .service_monitor }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
{{ include "gi.metadata" $ }}
spec:
  selector:
    matchLabels: {{- include "gi.selector" $ | nindent 6 }}
  endpoints:
    - {port: {{ $.port }}, path: /metrics}
{{- end }}{{ end }}
{{- end }}

{{/* part, inbound, outbound: lists of rules */}}
{{- define "gi.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "gi.metadata" . }}
spec:
  podSelector:
    matchLabels: {{- include "gi.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- range list (list "ingress" .inbound) (list "egress" .outbound) }}
  {{- if index . 1 }}
  {{ index . 0 }}: {{- toYaml (index . 1) | nindent 4 }}
  {{- else }}
  {{ index . 0 }}: []
  {{- end }}
  {{- end }}
{{- end }}

{{/* direction, whom (a list, or nil for anybody), ports: a rule as YAML */}}
{{- define "gi.rule" -}}
{{- if kindIs "slice" .whom }}
{{ .direction }}: {{- toYaml .whom | nindent 2 }}
{{- end }}
ports:
  {{- range .ports }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end }}

{{/* A list of peers under "found", from CIDRs and labels of namespaces */}}
{{- define "gi.peers" -}}
found:
  {{- range . }}
  {{- if kindIs "string" . }}
  - ipBlock: {cidr: {{ . | quote }}}
  {{- else }}
  - namespaceSelector:
      matchLabels: {{- toYaml . | nindent 8 }}
  {{- end }}
  {{- end }}
{{- end }}

{{/* The pods of all clusters by address under "found"; nothing when one cluster does not say its addresses */}}
{{- define "gi.everywhere" -}}
{{- $all := true }}{{ $cidrs := list }}
{{- range .Values.clusters }}
{{- if .pod_cidrs }}{{ $cidrs = concat $cidrs .pod_cidrs }}{{ else }}{{ $all = false }}{{ end }}
{{- end }}
{{- if $all }}{{ include "gi.peers" $cidrs }}{{ end }}
{{- end }}

{{- define "gi.pods" -}}
podSelector:
  matchLabels: {{- include "gi.selector" . | nindent 4 }}
{{- end }}

{{/* root, port: rules for the monitoring under "found" */}}
{{- define "gi.monitoring" -}}
{{- with .root.Values.monitoring }}
found:
  - from:
      - namespaceSelector:
          matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
    ports:
      - {protocol: TCP, port: {{ $.port }}}
{{- end }}
{{- end }}

{{- define "gi.apiServer" -}}
{{- $cluster := include "gi.cluster" . | fromYaml }}
{{- $whom := ternary (list (dict "ipBlock" (dict "cidr" $cluster.api_server_cidr))) nil (not (empty $cluster.api_server_cidr)) }}
{{- include "gi.rule" (dict "direction" "to" "whom" $whom "ports" (list 443 6443)) }}
{{- end }}

{{/* A rule towards what a URL names: its address when it is one, else its port alone */}}
{{- define "gi.url" -}}
{{- $parts := urlParse . }}
{{- $port := regexFind "[0-9]+$" $parts.host }}
{{- $port = contains ":" $parts.host | ternary $port (eq $parts.scheme "https" | ternary "443" "80") }}
{{- $host := $parts.hostname }}
{{- $whom := regexMatch "^[0-9.]+$" $host | ternary (list (dict "ipBlock" (dict "cidr" (printf "%s/32" $host)))) nil }}
{{- include "gi.rule" (dict "direction" "to" "whom" $whom "ports" (list (int $port))) }}
{{- end }}

{{/* part, rules, namespace ("-" = ClusterRole) */}}
{{- define "gi.access" -}}
{{- $kind := eq .namespace "-" | ternary "ClusterRole" "Role" }}
{{- $name := eq .namespace "-" | ternary (printf "%s:%s" .root.Values.namespace .part) .part }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
{{ include "gi.metadata" (dict "root" .root "part" .part "name" $name "namespace" .namespace) }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
{{ include "gi.metadata" (dict "root" .root "part" .part "name" $name "namespace" .namespace) }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $kind }}, name: {{ $name | quote }}}
subjects:
  - {kind: ServiceAccount, name: {{ .part }}, namespace: {{ .root.Values.namespace }}}
{{- end }}

{{- define "gi.secretVolume" -}}
name: {{ .name }}
path: {{ .path }}
source: {secret: {secretName: {{ .secret }}, defaultMode: 288}}
{{- end }}
