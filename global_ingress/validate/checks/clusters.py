"""Checks of what the API servers say: inventory, versions, digests, live objects, rights, bystanders, rollback. Pure.

The rule: what was seen to be wrong fails; what could not be seen in one of the clusters is skipped, with the reason,
however well the others do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from global_ingress import __version__
from global_ingress.validate import matrix
from global_ingress.validate.bundle import DISCOVERY, INGRESS
from global_ingress.validate.checks.verdicts import Check, Verdict, open_check
from global_ingress.validate.evidence import Evidence, View
from global_ingress.validate.platform import ClusterEvidence, Compared, Container, Pod, Unknown

NO_KUBECONFIG = "no kubeconfig was given (--kubeconfig)"
NO_BUNDLE = "no rendered bundle was given (--bundle)"


@dataclass(slots=True)
class Seen:
    """What one check has found in the clusters so far."""

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: int = 0

    def lacks(self, cluster: ClusterEvidence, what: Unknown) -> None:
        self.unknown.append(f"{cluster.cluster}: {what.reason}")

    def all_of(self, cluster: ClusterEvidence, faults: Iterator[str]) -> None:
        found = list(faults)
        self.asked += max(len(found), 1)
        self.wrong += [f"{cluster.cluster}: {fault}" for fault in found]


_Look = Callable[[Seen, ClusterEvidence], None]


def in_every_cluster(blank: Check, evidence: Evidence, look: _Look, said: str, seen: Seen | None = None) -> Check:
    """The check made in each cluster: failed by what is wrong, skipped by what is unknown. `seen` is what was found
    beside the clusters; `said` is the reason of a pass."""
    seen = seen or Seen()
    for cluster in evidence.clusters:
        look(seen, cluster)
    found = replace(blank, asked=seen.asked, good=max(seen.asked - len(seen.wrong), 0))
    found = found.during([(one.before.at, 0.0) for one in evidence.clusters])
    if seen.wrong:
        return found.failed(f"{len(seen.wrong)} findings", seen.wrong)
    if not evidence.clusters:
        return replace(blank, reason=NO_KUBECONFIG)
    looked = {cluster.cluster for cluster in evidence.clusters}
    unknown = [
        *seen.unknown,
        *(f"{name}: {NO_KUBECONFIG}" for name, _ in evidence.task.ingresses if name not in looked),
    ]
    if unknown:
        return replace(found, reason=f"unknown: {'; '.join(dict.fromkeys(unknown))}", findings=tuple(seen.told))
    return replace(found.passed(said.format(seen=seen, clusters=len(evidence.clusters))), findings=tuple(seen.told))


def check_platform(evidence: Evidence) -> Check:
    """What is there, recorded; there is nothing to fail."""
    blank = open_check("inventory.platform", 1, "clusters, versions, nodes, pods and images are recorded", "")

    def look(seen: Seen, one: ClusterEvidence) -> None:
        words = []
        for what, value in (("version", one.version), ("nodes", one.before.nodes), ("pods", one.before.pods)):
            if isinstance(value, Unknown):
                seen.unknown.append(f"{one.cluster}: {what}: {value.reason}")
                words.append(f"{what} unknown")
        if not isinstance(one.version, Unknown):
            words.append(f"Kubernetes {one.version}")
        if not isinstance(one.before.nodes, Unknown):
            words.append(f"{len(one.before.nodes)} nodes, {sum(node.gpus for node in one.before.nodes)} GPUs")
        if not isinstance(one.before.pods, Unknown):
            within = "" if one.before.namespaces is None else f" in {', '.join(one.before.namespaces)} alone"
            pods = one.before.pods
            words.append(f"{len(pods)} pods{within}, {sum(pod.restarts for pod in pods)} restarts")
            words.append(f"{len({c.image for pod in pods for c in pod.containers})} images")
        seen.told.append(f"{one.cluster}: {', '.join(words)}")
        seen.asked += 1

    return in_every_cluster(blank, evidence, look, "{clusters} clusters are recorded")


def check_matrix(evidence: Evidence) -> Check:
    """Kubernetes, served APIs, frontends and ourselves are of versions that are supported."""
    clause = f"{matrix.KUBERNETES} and {matrix.FRONTEND}; every API of the bundle is served; one version of ours"
    blank = open_check("compatibility.matrix", 2, clause, "")
    bundle = evidence.task.bundle

    def look(seen: Seen, one: ClusterEvidence) -> None:
        for value in (one.version, one.served, one.before.pods):
            if isinstance(value, Unknown):
                seen.lacks(one, value)
        if isinstance(one.version, str):
            seen.all_of(one, _told(matrix.KUBERNETES.fault(one.version)))
        if not isinstance(one.served, Unknown):
            needed = [kind for cluster, kind in bundle.kinds if cluster == one.cluster] if bundle else []
            seen.all_of(one, (f"{kind} is not served" for kind in needed if kind not in set(one.served)))
        if not isinstance(one.before.pods, Unknown):
            seen.all_of(one, _old_frontends(seen, evidence, one, one.before.pods))

    return in_every_cluster(
        blank, evidence, look, "{clusters} clusters, all of supported versions", Seen(list(_strange_versions(evidence)))
    )


def _told(fault: str | None) -> Iterator[str]:
    if fault is not None:
        yield fault


def _old_frontends(seen: Seen, evidence: Evidence, one: ClusterEvidence, pods: tuple[Pod, ...]) -> Iterator[str]:
    """Frontends whose image says a version that is not supported; one that says none is unknown."""
    addresses = {
        (url.rpartition("//")[2].rpartition(":")[0].strip("[]"), pool.key.split("/")[1])
        for reading in evidence.readings[-1:]
        for pool in getattr(reading.seen, "pools", ())
        if pool.key.startswith(f"{one.cluster}/")
        for url in pool.frontends
    }
    for image in sorted({c.image for pod in pods if (pod.ip, pod.namespace) in addresses for c in pod.containers[:1]}):
        tag = matrix.tag_of(image)
        if not tag:
            seen.unknown.append(f"{one.cluster}: frontends' image {image} says no version")
        elif (fault := matrix.FRONTEND.fault(tag)) is not None:
            yield f"frontend {image}: {fault}"


def _strange_versions(evidence: Evidence) -> Iterator[str]:
    mine = __version__.split(".")[:2]
    for viewing in evidence.viewings:
        if isinstance(viewing.seen, View) and viewing.seen.version.split(".")[:2] != mine:
            yield f"ingress of {viewing.ingress} is {viewing.seen.version}, this client {__version__}"
            return


def check_digests(evidence: Evidence) -> Check:
    """The folder is what was rendered, and what runs is of its digests and settings."""
    blank = open_check(
        "provenance.digests", 3, "the bundle is whole, and images and settings that run have its digests", NO_BUNDLE
    )
    bundle = evidence.task.bundle
    if bundle is None:
        return blank
    seen = Seen(wrong=[f"{bundle.folder}: {fault}" for fault in bundle.faults], asked=len(bundle.faults))
    declared = evidence.task.fleet_sha256
    if declared and declared != bundle.fleet_sha256:
        seen.wrong.append(f"{bundle.folder} was rendered of another fleet file than the one declared")
    images = dict(bundle.images)
    seen.unknown += [f"{image} is rendered without a digest" for image, digest in images.items() if not digest]

    def look(found: Seen, one: ClusterEvidence) -> None:
        if isinstance(one.before.pods, Unknown):
            found.lacks(one, one.before.pods)
        else:
            found.all_of(one, _other_images(_ours(evidence, one.before.pods), images))
            if not _ours(evidence, one.before.pods):
                found.unknown.append(f"{one.cluster}: no pod of this fleet was found")
        if isinstance(one.live_config, Unknown):
            found.lacks(one, one.live_config)
        else:
            rendered = {name: digest for cluster, name, digest in bundle.configs if cluster == one.cluster}
            found.all_of(one, _other_settings(rendered, dict(one.live_config)))
            if not isinstance(one.before.pods, Unknown):
                found.all_of(one, _mounted(_ours(evidence, one.before.pods), rendered))

    return in_every_cluster(blank, evidence, look, "{clusters} clusters run what was rendered", seen)


def _ours(evidence: Evidence, pods: tuple[Pod, ...]) -> list[Pod]:
    """The pods of this fleet, by the labels that were rendered."""
    bundle = evidence.task.bundle
    wanted = {DISCOVERY, INGRESS, "mcs-registry", "mcs-controller"}
    return [pod for pod in pods if pod.part in wanted and (bundle is None or pod.instance == bundle.fleet)]


def _other_images(pods: list[Pod], images: dict[str, str]) -> Iterator[str]:
    for pod in pods:
        for one in pod.containers:
            if one.image not in images and not _pinned(one, images):
                yield f"{pod.key} runs {one.image} ({one.image_id or 'not resolved'}), which was not rendered"


def _pinned(one: Container, images: dict[str, str]) -> bool:
    """By its digest, under whatever name: a mirror's copy is the same image."""
    return any(digest and f"@{digest}" in f"{one.image} {one.image_id}" for digest in images.values())


def _other_settings(rendered: dict[str, str], live: dict[str, str]) -> Iterator[str]:
    for name, digest in rendered.items():
        if name not in live:
            yield f"settings {name} are not deployed"
        elif live[name] != digest:
            yield f"settings {name} are not the rendered ones: sha256 {live[name][:12]}…, rendered {digest[:12]}…"


def _mounted(pods: list[Pod], rendered: dict[str, str]) -> Iterator[str]:
    for pod in pods:
        if pod.part == INGRESS and not set(rendered) & set(pod.config):
            mounted = ", ".join(pod.config) or "none"
            yield f"{pod.key} runs with other settings: {mounted}, rendered {', '.join(rendered)}"


def check_signatures(evidence: Evidence) -> Check:
    """Every image of the bundle is signed, as the operator's verifier sees it."""
    task, seen = evidence.task, evidence.signatures
    blank = open_check("provenance.signatures", 3, "images are signed by who may", NO_BUNDLE)
    if task.bundle is None:
        return blank
    if not task.verifier:
        return replace(blank, reason="no verifier of signatures was given (--verifier)")
    wrong = [f"{one.image}: {one.trouble}" for one in seen if one.trouble is not None]
    found = replace(blank, asked=len(seen), good=len(seen) - len(wrong)).during([(one.at, one.took_s) for one in seen])
    if wrong:
        return found.failed(f"{len(wrong)} of {len(seen)} images are not signed by who may", wrong)
    if missing := sorted({image for image, _ in task.bundle.images} - {one.image for one in seen}):
        return replace(found, reason=f"unknown: {', '.join(missing)} rendered without a digest")
    return found.passed(f"{len(seen)} images are signed")


def check_materialization(evidence: Evidence) -> Check:
    """Live objects equal the rendered ones."""
    clause = "live objects equal the rendered ones (server-side dry run); labels and annotations beside them are listed"
    blank = open_check("materialization.diff", 4, clause, NO_BUNDLE)
    if evidence.task.bundle is None:
        return blank
    found = in_every_cluster(
        blank, evidence, lambda seen, one: _compared(seen, one, one.objects), "{seen.asked} objects are as rendered"
    )
    if found.verdict is Verdict.PASSED and found.findings:
        return replace(found, reason=f"{found.reason}; {len(found.findings)} overrides")
    return found


def _compared(seen: Seen, one: ClusterEvidence, objects: tuple[Compared, ...] | Unknown) -> None:
    if isinstance(objects, Unknown):
        seen.lacks(one, objects)
        return
    for thing in objects:
        seen.asked += 1
        if thing.unknown:
            seen.unknown.append(f"{one.cluster}: {thing.name}: {thing.unknown}")
        seen.wrong += [f"{one.cluster}: {thing.name}: {line}" for line in thing.differs]
        seen.told += [f"{one.cluster}: {thing.name}: {line}" for line in thing.beside]


def check_rollback(evidence: Evidence) -> Check:
    """The rollback bundle is whole, and every API server would take it."""
    clause = "the rollback bundle is whole, and every object of it would be taken (server-side dry run)"
    blank = open_check("rollback.bundle", 7, clause, "no rollback bundle was given (--rollback)")
    bundle = evidence.task.rollback
    if bundle is None:
        return blank
    if bundle.faults:
        return blank.failed("it is not what was rendered", [f"{bundle.folder}: {fault}" for fault in bundle.faults])
    return in_every_cluster(
        blank, evidence, lambda seen, one: _compared(seen, one, one.rollback), "{seen.asked} objects would be taken"
    )


def check_access(evidence: Evidence) -> Check:
    """Discovery reads slices and nothing else, the ingress has no token, and pods are restricted."""
    clause = "discovery can read slices and nothing else, the ingress has no right and no token, pods are restricted"
    blank = open_check("conformance.access", 5, clause, "")

    def look(seen: Seen, one: ClusterEvidence) -> None:
        if isinstance(one.access, Unknown):
            seen.lacks(one, one.access)
        else:
            answers = one.access
            for answer in answers:
                word = "may" if answer.allowed else "may not"
                seen.asked += 1
                if answer.allowed != answer.question.wanted:
                    why = f" ({answer.reason})" if answer.reason else ""
                    seen.wrong.append(f"{one.cluster}: {answer.question.account} {word} {answer.question}{why}")
            if evidence.task.bundle is None:
                seen.unknown.append(f"{one.cluster}: where discovery should read is not known: {NO_BUNDLE}")
        if not isinstance(one.before.pods, Unknown):
            ours = _ours(evidence, one.before.pods)
            lacking = sorted({DISCOVERY, INGRESS} - {pod.part for pod in ours})
            seen.unknown += [f"{one.cluster}: no pod of {part} was found" for part in lacking]
            seen.all_of(one, _unsafe(ours))

    return in_every_cluster(blank, evidence, look, "{seen.asked} answers, all as they should be")


def _unsafe(pods: list[Pod]) -> Iterator[str]:
    for pod in pods:
        if pod.part == INGRESS and pod.token:
            yield f"{pod.key} has a token of the API server"
        yield from (f"{pod.key}: {fault}" for fault in pod.lax)


def check_lives(evidence: Evidence) -> Check:
    """Pods of discovery and ingress are the same, and were not restarted."""
    clause = "pods of discovery and ingress keep uid and restart count from the first look to the last"
    blank = open_check("traffic.pods", 6, clause, "")

    def look(seen: Seen, one: ClusterEvidence) -> None:
        before, after = one.before.pods, one.after.pods
        if isinstance(before, Unknown) or isinstance(after, Unknown):
            seen.lacks(one, before if isinstance(before, Unknown) else after)  # type: ignore[arg-type]
            return
        mine = [pod for pod in _ours(evidence, before) if pod.part in {DISCOVERY, INGRESS}]
        if not mine:
            seen.unknown.append(f"{one.cluster}: no pod of discovery or of the ingress was found")
        seen.asked += len(mine)
        seen.wrong += [f"{one.cluster}: {line}" for line in changed(mine, after)]

    return in_every_cluster(blank, evidence, look, "{seen.asked} pods kept their lives")


def changed(pods: list[Pod], after: tuple[Pod, ...]) -> Iterator[str]:
    """What became of these pods that should have become of none."""
    now = {pod.key: pod for pod in after}
    for pod in pods:
        later = now.get(pod.key)
        if later is None:
            yield f"{pod.key} is gone"
        elif later.uid != pod.uid:
            yield f"{pod.key} is another pod: uid {pod.uid} became {later.uid}"
        elif later.restarts > pod.restarts:
            yield f"{pod.key} was restarted: {pod.restarts} restarts became {later.restarts}"
        elif pod.ready and not later.ready:
            yield f"{pod.key} is no longer ready"
