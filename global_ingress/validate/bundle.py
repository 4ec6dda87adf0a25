"""A rendered folder: what `global-ingress render` made, as it was taken to the clusters. Pure.

Owns the reading of it and of what its bundle.json promises. Refuses a folder that has no bundle.json or no YAML in it;
files that are otherwise than promised are evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import yaml

from global_ingress.validate.platform import Bundle

BUNDLE = "bundle.json"
DISCOVERY, INGRESS = "global-discovery", "global-ingress"
_SETTINGS = "ingress.yaml"
Object = dict[str, Any]


class BadBundle(ValueError):
    """The folder cannot be used; the message says where and why."""


def read_bundle(folder: str, files: Mapping[str, bytes]) -> tuple[Bundle, dict[str, list[Object]]]:
    """The bundle, and the objects of each cluster in the order in which they are applied. Raises BadBundle."""
    if BUNDLE not in files:
        raise BadBundle(f"{folder}: there is no {BUNDLE}; it is no folder that `global-ingress render` made")
    about = _about(folder, files[BUNDLE])
    objects: dict[str, list[Object]] = {}
    for path in _in_order(files):
        objects.setdefault(path.partition("/")[0], []).extend(_objects(f"{folder}/{path}", files[path]))
    every = [(cluster, one) for cluster, found in objects.items() for one in found]
    bundle = Bundle(
        folder=folder,
        sha256=sha256(files[BUNDLE]),
        fleet=about["fleet"]["name"],
        fleet_sha256=about["fleet"]["sha256"],
        rendered_by=about["rendered_by"],
        namespace=next((one["metadata"]["name"] for _, one in every if one["kind"] == "Namespace"), ""),
        images=tuple(sorted((image, digest or "") for image, digest in about["images"].items())),
        configs=tuple(_configs(every)),
        kinds=tuple(sorted({(cluster, f"{one['apiVersion']} {one['kind']}") for cluster, one in every})),
        watched=tuple(sorted(_watched(every))),
        faults=tuple(_faults(about["files"], files)),
    )
    return bundle, objects


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def config_of(thing: Object) -> str | None:
    """The sha256 of the ingress's settings in a ConfigMap; None when there are none in it."""
    text = (thing.get("data") or {}).get(_SETTINGS)
    return sha256(text.encode()) if isinstance(text, str) else None


def _about(folder: str, body: bytes) -> Object:
    try:
        about = orjson.loads(body)
        words = (about["fleet"]["name"], about["fleet"]["sha256"], about["rendered_by"])
        whole = all(isinstance(word, str) for word in words) and _texts(about["files"]) and _texts(about["images"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadBundle(f"{folder}/{BUNDLE}: no such file as `global-ingress render` writes") from error
    if not whole:
        raise BadBundle(f"{folder}/{BUNDLE}: no such file as `global-ingress render` writes")
    return dict(about)


def _texts(thing: object) -> bool:
    """Names and what they stand for, which may be missing."""
    return isinstance(thing, dict) and all(value is None or isinstance(value, str) for value in thing.values())


def _in_order(files: Mapping[str, bytes]) -> list[str]:
    """Manifests only, namespaces first: what stands in one must wait for it."""
    paths = [
        path for path in files if path.endswith(".yaml") and "/" in path and not path.endswith("/kustomization.yaml")
    ]
    return sorted(paths, key=lambda path: (path.partition("/")[0], not path.endswith("/namespace.yaml"), path))


def _objects(name: str, body: bytes) -> list[Object]:
    try:
        found = [one for one in yaml.safe_load_all(body) if one is not None]
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:  # of values, too
        raise BadBundle(f"{name}: {' '.join(str(error).split())}") from error
    for one in found:
        known = isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("apiVersion", "kind"))
        metadata = one.get("metadata") if known else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise BadBundle(f"{name}: holds something that is no Kubernetes object")
    return found


def _configs(every: list[tuple[str, Object]]) -> Iterator[tuple[str, str, str]]:
    for cluster, one in every:
        if one["kind"] == "ConfigMap" and (found := config_of(one)) is not None:
            yield cluster, one["metadata"]["name"], found


def _watched(every: list[tuple[str, Object]]) -> Iterator[tuple[str, str]]:
    """Where discovery reads slices, by the roles that were rendered for it."""
    for cluster, one in every:
        part = (one["metadata"].get("labels") or {}).get("app.kubernetes.io/name")
        if part == DISCOVERY and one["kind"] in {"Role", "ClusterRole"}:
            yield cluster, one["metadata"].get("namespace", "")


def _faults(promised: Mapping[str, str], files: Mapping[str, bytes]) -> Iterator[str]:
    for path, digest in sorted(promised.items()):
        if path not in files:
            yield f"{path} is missing"
        elif sha256(files[path]) != digest:
            yield f"{path} is not what was rendered: sha256 {sha256(files[path])[:12]}…, {BUNDLE} says {digest[:12]}…"
    yield from (f"{path} is in no bundle" for path in sorted(files) if path not in promised and path != BUNDLE)
