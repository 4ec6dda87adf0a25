"""Who this cluster is: what the flags say, else the cluster itself (About API, `kube-system`).

Owns these few reads. An id is for ever: one that is missing, and one that is none, keep the controller from starting.
"""

from __future__ import annotations

from dataclasses import dataclass

from discovery.kube.errors import Refusal, Refused
from discovery.kube.writes import KubeWriter
from discovery.mcs import names
from discovery.mcs.controller import paths
from discovery.mcs.controller.objects import spec_of, uid_of
from discovery.mcs.controller.settings import is_cluster_id

_VERSIONS = ("v1", "v1beta1", "v1alpha1")


class NoIdentity(Exception):
    """Nothing says which cluster this is. One line for people."""


@dataclass(frozen=True, slots=True)
class Identity:
    cluster: str
    clusterset: str
    uid: str


async def served_version(client: KubeWriter) -> str | None:
    """The version of the multi-cluster API that is served here, None when there is none yet. Raises KubeError."""
    try:
        return paths.served_version(await client.read(paths.MCS_HOME))
    except Refused as error:
        if error.refusal is Refusal.NOT_FOUND:
            return None
        raise


async def property_of(client: KubeWriter, name: str) -> str | None:
    """The value of a ClusterProperty, None when nothing says it. Raises KubeError."""
    for version in _VERSIONS:
        try:
            found = await client.read(f"{paths.ABOUT_HOME}/{version}/clusterproperties/{name}")
        except Refused as error:
            if error.refusal is not Refusal.NOT_FOUND:
                raise
        else:
            return str(spec_of(found).get("value") or "") or None
    return None


async def identity(client: KubeWriter, cluster: str | None, clusterset: str | None) -> Identity:
    """Raises NoIdentity, KubeError."""
    if cluster is None:
        cluster = await property_of(client, names.CLUSTER_PROPERTY)
        if cluster is None:
            raise NoIdentity(f"which cluster is this? Give --cluster-id, or a ClusterProperty {names.CLUSTER_PROPERTY}")
        if not is_cluster_id(cluster):
            raise NoIdentity(f"ClusterProperty {names.CLUSTER_PROPERTY} is {cluster!r}: not the id of a cluster")
    if clusterset is None:
        clusterset = await property_of(client, names.CLUSTERSET_PROPERTY)
    system = await client.read("/api/v1/namespaces/kube-system")
    return Identity(cluster, clusterset or "", uid_of(system))
