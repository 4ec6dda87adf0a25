"""How a fake cluster behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, as a real server has them unless said otherwise.

    `history` events are kept at least. `future_wait`: how long a list waits for a version of the future.
    `streaming_lists`: "off" refuses sendInitialEvents (422), "broken" answers 200 and then an ERROR 500, as on an
    etcd that is too old. `gone_as_http`: an expired watch is HTTP 410 instead of an ERROR line. `gc_delay`: how long
    the garbage collector takes. `loopback`: endpoints may be at 127.0.0.1, where tests have them (a real server
    refuses it). `first_revision`: no cluster begins at 1.
    """

    history: int = 10_000
    first_revision: int = 1000
    bookmark_every: float = 60.0
    future_wait: float = 3.0
    streaming_lists: Literal["on", "off", "broken"] = "on"
    gone_as_http: bool = False
    gc_delay: float = 0.05
    loopback: bool = True
    ip_families: tuple[str, ...] = ("IPv4",)
