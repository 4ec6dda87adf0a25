"""The regions of the demo: their names and their ports.

Owns the layout P… ingresses, P+100… discovery, P+200… frontends, P+250… those that replace them, P+300… admin.
Refuses a layout that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HOST = "127.0.0.1"
DEFAULT_PORT = 18000
MODEL = "meta-llama/Llama-3.1-8B-Instruct"

_NAMES = (
    ("ohio", "us-east-2"),
    ("oregon", "us-west-2"),
    ("ireland", "eu-west-1"),
    ("tokyo", "ap-northeast-1"),
    ("frankfurt", "eu-central-1"),
    ("sydney", "ap-southeast-2"),
    ("saopaulo", "sa-east-1"),
    ("mumbai", "ap-south-1"),
)
MOST = len(_NAMES)
_INGRESS, _DISCOVERY, _FRONTEND, _REPLACEMENT, _ADMIN = 0, 100, 200, 250, 300


class BadLayout(ValueError):
    """Regions or ports that cannot be; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Place:
    """One simulated region: its cluster, its cloud region, the word in its frontend's text, its ports."""

    cluster: str
    region: str
    mark: str
    ingress_port: int
    discovery_port: int
    frontend_port: int
    replacement_port: int
    admin_port: int

    @property
    def pool(self) -> str:
        return f"{self.cluster}/dynamo/llama"

    @property
    def ingress(self) -> str:
        return f"http://{HOST}:{self.ingress_port}"

    @property
    def discovery(self) -> str:
        return f"http://{HOST}:{self.discovery_port}"

    @property
    def frontend(self) -> str:
        return f"http://{HOST}:{self.frontend_port}"

    @property
    def admin(self) -> str:
        return f"http://{HOST}:{self.admin_port}"

    def ports(self) -> tuple[tuple[int, str], ...]:
        """Each port with what it is for."""
        return (
            (self.ingress_port, f"ingress of {self.cluster}"),
            (self.discovery_port, f"discovery of {self.cluster}"),
            (self.frontend_port, f"frontend of {self.cluster}"),
            (self.replacement_port, f"replacing frontend of {self.cluster}"),
            (self.admin_port, f"admin of {self.cluster}"),
        )


def layout(count: int, port: int = DEFAULT_PORT) -> tuple[Place, ...]:
    """The first `count` regions with ports from `port` on. Raises BadLayout."""
    if not 1 <= count <= MOST:
        raise BadLayout(f"{count} regions; 1 to {MOST} can be simulated")
    highest = 65535 - _ADMIN - count + 1
    if not 1024 <= port <= highest:
        raise BadLayout(f"port {port}; 1024 to {highest} leaves room for all listeners")
    return tuple(
        Place(
            cluster,
            region,
            f"r{index}",
            port + _INGRESS + index,
            port + _DISCOVERY + index,
            port + _FRONTEND + index,
            port + _REPLACEMENT + index,
            port + _ADMIN + index,
        )
        for index, (cluster, region) in enumerate(_NAMES[:count])
    )


def taken_words(places: Sequence[Place], taken: Iterable[int]) -> str | None:
    """What to say about ports that are in use, all at once; None when none of ours is."""
    used = set(taken)
    found = [f"{port} ({what})" for place in places for port, what in place.ports() if port in used]
    if not found:
        return None
    return f"port{'s' if len(found) > 1 else ''} in use: {', '.join(found)}; --port P moves them all"
