"""Deliberately broken rules: each must be noticed by the simulation, else it proves nothing about that rule.

Owns the breaking and the mending. A mutant names the kind of world in which its rule matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from discovery.kube import election
from discovery.mcs import board, knowledge, leases, sessions, store_memory
from discovery.mcs.controller import importing, mirror
from discovery.mcs.model import SnapshotBegin, SnapshotEnd
from discovery.mcs.store import ClusterRecord, Item, Outcome
from discovery.testing import regions
from tests.sim.mcs.world import Kind


@dataclass(frozen=True)
class Mutant:
    name: str
    kind: Kind
    place: Any
    attribute: str
    broken: Callable[[Any], Any]
    """Makes the broken one of the right one."""

    @contextmanager
    def alive(self) -> Iterator[None]:
        right = self.place.__dict__[self.attribute]
        setattr(self.place, self.attribute, self.broken(right))
        try:
            yield
        finally:
            setattr(self.place, self.attribute, right)


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda right: lambda *args, **kwargs: value


def _lacks_it(right: Any) -> Any:
    return lambda self, service, sources, now: service not in self.imports


def _forgets_tombstones(right: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def outcome(there: Item | None, new: Item) -> Outcome:
        return right(None if there is not None and there.value is None else there, new)

    return outcome


def _checks_no_term(right: Any) -> Any:
    return lambda record, stamp: record if record is not None and record.removed is None else right(record, stamp)


def _retains_nothing(right: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, epoch: str, leases: Any, *, retention_ms: int, history: int = 10_000) -> None:
        right(self, epoch, leases, retention_ms=0, history=history)

    return init


def _arrives_in_any_order(right: Any) -> Any:
    def arrive(self: Any, place: Any, stamp: Any, held: Any) -> None:
        self._copy[place] = (stamp, held)

    return arrive


def _by_the_wall_clock(right: Any) -> Any:
    def see(self: Any, record: ClusterRecord, now_ms: int, mono_ms: int) -> None:
        right(self, record, now_ms, mono_ms)
        one, age = self._watched[record.id], now_ms - record.renewed_ms
        one.ends_ms = mono_ms - age + record.ttl_ms + self._grace_ms

    return see


def _keeps_the_floor(right: Any) -> Any:
    return lambda record, stamp, found: replace(right(record, stamp, found), floor=record.floor)


def _stays_in_the_first_epoch(right: Any) -> Any:
    def swap(self: Any, end: SnapshotEnd, now: float, date_ms: int) -> Any:
        if self._begun is not None and self.epoch:
            self._begun = SnapshotBegin(self.epoch, True)
            self._vouched |= self._view.clusters.keys()
        return right(self, end, now, date_ms)

    return swap


def _shows_what_does_not_add_up(right: Any) -> Any:
    def digest(self: Any, floor: Any) -> str:
        return str(self.told.digest)

    return digest


def _takes_any_lease(right: Any) -> Any:
    def wish(self: Any, now: float, date: Any) -> Any:
        self._changed_at = -1e9
        return right(self, now, date)

    return wish


MUTANTS: tuple[Mutant, ...] = (
    Mutant("what is not told is gone", "memory", mirror.Mirror, "import_is_gone", _lacks_it),
    Mutant("another registry's word counts at once", "regions", mirror.Mirror, "_is_vouched", _always(True)),
    Mutant("a new epoch is taken for the old one", "memory", mirror.Mirror, "_swap", _stays_in_the_first_epoch),
    Mutant("a sync drops nothing", "shared", sessions, "completed", _keeps_the_floor),
    Mutant("deletions are forgotten", "shared", store_memory, "outcome", _forgets_tombstones),
    Mutant("the fence does not look at the session", "shared", sessions, "checked", _checks_no_term),
    Mutant("the end of a lease ends the exports", "shared", board.Board, "__init__", _retains_nothing),
    Mutant("leases are judged by the wall clock", "shared", leases.Leases, "_see", _by_the_wall_clock),
    Mutant("replication is applied in any order", "regions", regions.Region, "arrive", _arrives_in_any_order),
    Mutant("what does not add up is shown", "regions", knowledge.Known, "digest", _shows_what_does_not_add_up),
    Mutant("what is there is written again", "shared", importing, "fits", _always(False)),
    Mutant("a lease is taken while it stands", "shared", election.Election, "wish", _takes_any_lease),
)
