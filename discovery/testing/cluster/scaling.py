"""The scale subresource: how many there are to be, and nothing else of a workload."""

from __future__ import annotations

from discovery.testing.cluster.failures import ApiFailure, bad_request, unsupported_media
from discovery.testing.cluster.kinds import Object
from discovery.testing.cluster.patches import merge_patch
from discovery.testing.cluster.writes import Target, Writer, Writes

_MERGE = "application/merge-patch+json"


def scale_of(thing: Object) -> Object:
    """The Scale of a workload."""
    metadata = {key: thing["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    replicas, status = thing.get("spec", {}).get("replicas", 0), thing.get("status", {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas},
        "status": {"replicas": status.get("replicas", 0)},
    }


def rescale(writes: Writes, target: Target, content_type: str, patch: Object, writer: Writer) -> Object:
    """The new Scale. Raises ApiFailure 400 and 415."""
    if (media := content_type.partition(";")[0].strip()) != _MERGE:
        raise unsupported_media(media, [_MERGE])
    whole = Target(target.kind, target.version, target.namespace, target.name)
    wanted = merge_patch(scale_of(writes.existing(whole)), patch)["spec"].get("replicas", 0)
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise bad_request("json: cannot unmarshal into field spec.replicas of type integer")
    if wanted < 0:
        raise ApiFailure(422, "Invalid", "spec.replicas: Invalid value: must be greater than or equal to 0")

    def changed(thing: Object) -> Object:
        thing["spec"]["replicas"] = wanted
        return thing

    return scale_of(writes.modify(whole, changed, writer))
