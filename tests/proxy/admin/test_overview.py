"""When the ingress calls itself ready, and what it warns of (I50, I52)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from discovery.kit.testing import VirtualClock
from global_ingress.proxy.admin.overview import AWAY, Overview
from global_ingress.proxy.supervising.labels import Labels
from global_ingress.proxy.supervising.routable import Evidence, judge
from global_ingress.proxy.supervising.routing import Picture
from tests.proxy.making import frontend, model, pool, table

A = pool("a", frontend(1))


@dataclass
class Parts:
    """The parts an overview reads, as a test says they are."""

    draining: bool = False
    listening: int = 1
    complete: bool = True
    seats: list[int] = field(default_factory=lambda: [0])
    table: Any = field(default_factory=lambda: table(A))
    selector: str = "a"
    held: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def look(self) -> Picture:
        one = model("m", pools=[{"cluster": self.selector}])
        return Picture(True, (A,), ((one, judge(one, [A], Evidence())),), {})

    def age(self) -> float:
        return self.seconds


def overview(parts: Parts) -> Overview:
    clock = VirtualClock()
    some = cast(Any, parts)
    return Overview(
        "1", "pure", clock, some, some, some, some, some, some, Labels(), clock.now(), events=deque(maxlen=3)
    )


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (Parts(), None),
        (Parts(draining=True), "draining"),
        (Parts(table=None), "no pool table yet"),
        (Parts(listening=0), "no worker is listening"),
        (Parts(complete=False, seats=[0, 1]), "1 of 2 workers are listening"),
        (Parts(selector="x"), "no model has a routable pool"),
    ],
)
def test_why_it_is_not_ready(parts: Parts, reason: str | None) -> None:
    assert overview(parts).not_ready() == reason


def test_a_silent_directory_is_a_warning_and_no_failure() -> None:
    assert overview(Parts(seconds=AWAY)).warnings() == []
    away = overview(Parts(seconds=AWAY + 5))
    assert away.warnings() == ["the directory has said nothing for 65 s; the last table is used"]
    assert away.not_ready() is None


def test_held_pools_and_missing_workers_are_warnings() -> None:
    assert overview(Parts(held={"m": 3.0}, seats=[0, 1])).warnings() == [
        "the last good pools are held for m",
        "1 of 2 workers are listening",
    ]


def test_events_are_the_newest_few() -> None:
    one = overview(Parts())
    for n in range(5):
        one.notice("ejected", f"f{n}", "")
    assert [event.subject for event in one.events] == ["f2", "f3", "f4"]
