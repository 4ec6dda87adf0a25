"""Which patch a request carries, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discovery.testing.cluster.failures import ApiFailure, Cause, bad_request, conflict, invalid, unsupported_media
from discovery.testing.cluster.kinds import Object
from discovery.testing.cluster.ownership import Application, apply
from discovery.testing.cluster.patches import METADATA_MERGED, json_patch, merge_patch, strategic_patch
from discovery.testing.cluster.shapes import check_shape
from discovery.testing.cluster.text import NotText, read_json, read_yaml
from discovery.testing.cluster.writes import Target, Writer, Writes

_MERGE = "application/merge-patch+json"
_JSON = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"


def patch(
    writes: Writes, target: Target, content_type: str, body: bytes, query: Mapping[str, str], writer: Writer
) -> tuple[Object, bool]:
    """The object, and whether it is new (only apply makes one). Raises ApiFailure."""
    media = content_type.partition(";")[0].strip()
    merged = {**METADATA_MERGED, **target.kind.merged}
    if media == _APPLY:
        return _apply(writes, target, _decoded(body, media), query, writer)
    if media == _JSON:
        return writes.modify(target, lambda thing: json_patch(thing, _decoded(body, media)), writer), False
    if media == _MERGE:
        return writes.modify(target, lambda thing: _an_object(merge_patch(thing, _decoded(body, media))), writer), False
    if media == _STRATEGIC and not target.kind.custom:
        change = _decoded(body, media)
        return writes.modify(target, lambda thing: _an_object(strategic_patch(thing, change, merged)), writer), False
    allowed = [_JSON, _MERGE, _APPLY] if target.kind.custom else [_JSON, _MERGE, _STRATEGIC, _APPLY]
    raise unsupported_media(media, allowed)


def _decoded(body: bytes, media: str) -> Any:
    try:
        return read_yaml(body) if media == _APPLY else read_json(body)
    except NotText as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _an_object(thing: Any) -> Object:
    if not isinstance(thing, dict):
        raise bad_request("error decoding patch: it is no object")
    return thing


def _apply(writes: Writes, target: Target, body: Any, query: Mapping[str, str], writer: Writer) -> tuple[Object, bool]:
    kind = target.kind
    body = _wish(target, body, query)
    wish = Application(
        kind=kind,
        version=target.version,
        manager=writer.manager,
        subresource=target.subresource,
        body=body,
        force=query.get("force") == "true",
        stamp=writes.stamp(),
    )
    before = writes.store.get(kind.resource, target.where)
    if before is not None:
        new = apply(before, wish)
        # A version in the body makes the write conditional.
        new["metadata"]["resourceVersion"] = body["metadata"].get("resourceVersion", new["metadata"]["resourceVersion"])
        new["metadata"]["uid"] = body["metadata"].get("uid", new["metadata"]["uid"])
        return writes.replace(target, before, new, writer, owned=True), False
    if target.subresource:
        writes.existing(target)
    if body["metadata"].get("resourceVersion") or body["metadata"].get("uid"):
        raise conflict(kind, target.name, "the object does not exist, but a version or uid of it is given")
    writes.namespace_takes(target.namespace, kind, target.name)
    home = {"namespace": target.namespace} if kind.namespaced else {}
    blank: Object = {"metadata": {"name": target.name, **home}}
    return writes.make(kind, target.where, apply(blank, wish), writer, record=None), True


def _wish(target: Target, body: Any, query: Mapping[str, str]) -> Object:
    kind = target.kind
    check_shape(kind, body)
    expected = kind.kind, kind.api_version(target.version)
    if (body.get("kind"), body.get("apiVersion")) != expected:
        raise bad_request(f"an apply needs the kind and apiVersion of its path: {expected[0]}, {expected[1]}")
    if not query.get("fieldManager"):
        cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
    metadata = body.get("metadata") or {}
    if metadata.get("managedFields"):
        raise ApiFailure(400, "BadRequest", "metadata.managedFields must be nil")
    if metadata.get("name", target.name) != target.name:
        raise bad_request("the name of the object does not match the name on the URL")
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise bad_request("the namespace of the object does not match the namespace on the URL")
    return {**body, "metadata": metadata}
