"""The rendered fleet as bytes: every file, and bundle.json, which says what they are and what to know about them.

The same fleet, settings and version give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from global_ingress.proxy.settings.not_yet import NOT_YET
from global_ingress.proxy.settings.sections import Settings
from global_ingress.render import ingress_config, manifests
from global_ingress.render.fleet import Fleet, load
from global_ingress.render.network import split
from global_ingress.render.objects import Object

BUNDLE = "bundle.json"
HEAD = "# Rendered; see bundle.json. Do not edit: `global-ingress render` says where it came from.\n"


class _Dumper(yaml.SafeDumper):
    """Indents lists and writes texts of several lines as such; repeats instead of anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def rendered(
    fleet_text: str, config_text: str, *, name: str, config_name: str, version: str, not_yet: Iterable[str] = NOT_YET
) -> dict[str, bytes]:
    """The content of every file by its path. Raises SettingsFault with all faults of either file."""
    fleet = load(fleet_text, name=name)
    settings = ingress_config.checked(fleet, config_text, name=config_name, not_yet=not_yet)
    found: dict[str, bytes] = {}
    objects: list[Object] = []
    for cluster in fleet.clusters:
        files = manifests.files(fleet, cluster, config_text)
        for file, content in files.items():
            found[f"{cluster.id}/{file}"] = _documents(content)
            objects += content
        found[f"{cluster.id}/kustomization.yaml"] = _documents([_kustomization(files)])
    about = {
        "fleet": {"name": fleet.name, "sha256": _sha256(fleet_text.encode())},
        "ingress_config": {"sha256": _sha256(config_text.encode())},
        "rendered_by": f"global-ingress {version}",
        "images": {fleet.image: fleet.image.partition("@")[2] or None},
        "secrets": _secrets(fleet),
        "warnings": list(_warnings(fleet, settings)),
        "files": {path: _sha256(content) for path, content in sorted(found.items())},
    }
    found[BUNDLE] = (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode()
    return found


def _kustomization(files: Mapping[str, object]) -> Object:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(files)}


def _documents(objects: Iterable[Object]) -> bytes:
    how: dict[str, Any] = {"sort_keys": False, "default_flow_style": False, "width": 4096, "allow_unicode": True}
    return (HEAD + "---\n".join(yaml.dump(one, Dumper=_Dumper, **how) for one in objects)).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _secrets(fleet: Fleet) -> dict[str, str]:
    """Secrets that must be there, which nothing here holds: name and what needs it."""
    needed = {
        fleet.ingress.auth_secret: "ingress: keys file",
        fleet.ingress.tls_secret: "ingress: certificate and key",
        fleet.ingress.upstream_tls_secret: "ingress: TLS towards frontends",
        fleet.discovery.tokens_secret: "discovery: tokens.yaml",
    }
    if fleet.mcs is not None:
        needed[fleet.mcs.registry.tokens_secret] = f"mcs-registry in {fleet.mcs.registry.cluster}: tokens.yaml"
        needed[fleet.mcs.controller.token_secret] = "mcs-controller in each cluster: token"
    return {name: what for name, what in needed.items() if name is not None}


def _warnings(fleet: Fleet, settings: Settings) -> Iterator[str]:
    """What works and is more open, or less, than the operator may think."""
    if "@sha256:" not in fleet.image:
        yield f"image: {fleet.image} has no digest; what runs may change without a new rendering"
    for cluster in fleet.clusters:
        if not cluster.pod_cidrs:
            yield f"clusters: {cluster.id} has no pod_cidrs; any address may be reached at the frontends' ports"
        if cluster.api_server_cidr is None:
            yield f"clusters: {cluster.id} has no api_server_cidr; any address may be reached at 443 and 6443"
    if not fleet.ingress.allow_from:
        yield "ingress.allow_from: is empty; no pod may call the ingress"
    if ingress_config.DIRECTORY not in (settings.discovery.urls or ()):
        yield f"{fleet.ingress.config}: discovery.urls lacks {ingress_config.DIRECTORY}, the directory beside it"
    for url in [fleet.egress.otlp, None if fleet.mcs is None else fleet.mcs.registry.url]:
        if url is not None and any(c.isalpha() or c == ":" for c in split(url)[0]):
            yield f"{url}: is no IPv4 address; any address may be reached at its port"
