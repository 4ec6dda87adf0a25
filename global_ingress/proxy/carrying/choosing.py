"""Which frontend gets a request: the routes of a model as objects of this worker, and how a choice is made (section 5).

The order of turns is shared by all workers (turns); what may not be used now is skipped by drawing again. A repeat
takes the next pool after the one that failed and does not move the cursor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from global_ingress.proxy.carrying.headers import Answer
from global_ingress.proxy.carrying.lateness import Lateness
from global_ingress.proxy.carrying.tally import Tally, Track
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import FrontendRoute, Member, ModelRoute, PoolRoute
from global_ingress.proxy.shared.turns import Turn

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.upstream import Connection

CHOICES = 8  # pools beyond which least_requests compares two, not all

Draw = Callable[[], int]


class Frontend:
    """One frontend as this worker knows it: its address and its kept connections. Lives as long as it is listed, and
    as long as a request still holds it."""

    __slots__ = ("authority", "gone", "host", "idle", "port", "slot", "tls", "url")

    def __init__(self, route: FrontendRoute) -> None:
        self.url = route.url
        self.host = route.host
        self.port = route.port
        self.slot = route.slot
        self.tls = route.tls
        host = f"[{route.host}]" if ":" in route.host else route.host
        default = 443 if route.tls else 80
        self.authority = (host if route.port == default else f"{host}:{route.port}").encode()
        self.idle: list[Connection] = []
        self.gone = False


class Pool:
    """One pool: its names, ready for headers and counters, and its frontends."""

    __slots__ = ("cluster", "exposed", "frontends", "id", "name", "ready", "region", "route")

    def __init__(self, route: PoolRoute, frontends: dict[str, Frontend]) -> None:
        self.route = route
        self.id = route.id
        self.name = route.name
        self.cluster = route.cluster
        self.region = route.region
        self.frontends = tuple(frontends[frontend.url] for frontend in route.frontends)
        self.ready = tuple(frontend.ready for frontend in route.frontends)
        self.exposed = (
            f"\r\nx-dynamo-pool-id: {route.id}\r\nx-dynamo-pool: {route.name}\r\nx-dynamo-target-region: {route.region}"
        ).encode("utf-8", "replace")


class Place:
    """A member of a model: one pool, in turn with others. `track` counts the model's requests there."""

    __slots__ = ("draw", "index", "lateness", "pool", "sequence", "single", "starts", "track", "weight")

    def __init__(self, index: int, member: Member, pool: Pool, draw: Draw, track: Track) -> None:
        self.index = index
        self.pool = pool
        self.weight = member.weight
        self.sequence = member.sequence
        self.draw = draw
        self.track = track
        # Most pools have one frontend: then there is nothing to choose in them.
        self.single = pool.frontends[0] if len(pool.frontends) == 1 and pool.ready[0] else None
        self.lateness = Lateness()
        self.starts: dict[Answer, bytes] = {}  # how answers of this place begin towards the client (exchange)


class Chooser:
    """The choice among the places of one model. `in_flight_limit` is that of each pool, None is none."""

    def __init__(
        self,
        route: ModelRoute,
        places: tuple[Place, ...],
        draw: Draw,
        spill: Draw,
        ledger: Ledger,
        clock_ns: Callable[[], int],
        *,
        region: str | None,
        in_flight_limit: int | None,
        tally: Tally,
    ) -> None:
        self.id = route.id
        self.why = route.why
        self.affinity = None if route.affinity is None else route.affinity.lower().encode()
        self.places = places
        self.sequence = route.sequence
        self._draw = draw
        self._ledger = ledger
        self._clock_ns = clock_ns
        self._limit = in_flight_limit
        self._tally = tally
        self._policy = route.policy
        self._plain = route.policy == "round_robin" and in_flight_limit is None and bool(route.sequence)
        local = frozenset(p.index for p in places if route.policy == "local_first" and p.pool.region == region)
        self._local = tuple(index for index in route.sequence if index in local)
        self._remote = tuple(index for index in route.sequence if index not in local)
        self._spilled = spill
        self.nowhere = tally.track(route.id, "")

    def first(self, key: bytes | None) -> tuple[Place, Frontend] | None:
        """The place whose turn it is; None when every pool is full (or there is none)."""
        if self._plain and key is None:
            sequence = self.sequence
            place = self.places[sequence[(self._draw() - 1) % len(sequence)]]
            single = place.single
            if single is not None and not self._ledger.ejected_until(single.slot):
                return place, single
            return self._turn_of(place, sequence, self._draw, ()) or self._panic(self._from(place), ())
        if not self.sequence:
            return None
        if key is not None:
            order = self._by_hash(key)
            return self._one_of(order, ()) or self._panic(order, ())
        return self._by_policy()

    def next(
        self, after: Place, key: bytes | None, tried: Collection[Frontend], *, again: bool
    ) -> tuple[Place, Frontend] | None:
        """Where a repeat goes: the next pool that was not tried, then an untried frontend of a tried one, and with
        `again` any usable one at all."""
        order = self._after(after) if key is None else self._by_hash(key)
        found = None
        if key is None and self._local and self._remote:
            # The neighbour of the own region would get all that the own region cannot take.
            found = self._turn_of(self._drawn(self._remote, self._spilled), self._remote, self._spilled, tried)
        fresh = [place for place in order if not _tried(place, tried)]
        found = found or self._one_of(fresh, tried) or self._one_of(order, tried) or self._panic(order, tried)
        if found is None and again:
            found = self._one_of(order, ()) or self._panic(order, ())
        return found

    def elsewhere(self, place: Place, tried: Collection[Frontend]) -> tuple[Place, Frontend] | None:
        """Where a second try goes beside a running one: the next place of another region."""
        return self._one_of([other for other in self._after(place) if other.pool.region != place.pool.region], tried)

    def _from(self, place: Place) -> list[Place]:
        """All places in the order of turns, from `place`; each once."""
        sequence = self.sequence
        start = sequence.index(place.index) if place.index in sequence else 0
        return [self.places[index] for index in dict.fromkeys(sequence[start:] + sequence[:start])]

    def _after(self, place: Place) -> list[Place]:
        """The same, but `place` is the last."""
        order = self._from(place)
        return order[1:] + order[:1] if order and order[0] is place else order

    def _by_hash(self, key: bytes) -> list[Place]:
        """Rendezvous hashing: only the sessions of a lost pool move (I22)."""
        live = [place for place in self.places if place.weight > 0]

        def rank(place: Place) -> bytes:
            return hashlib.blake2b(key, digest_size=8, key=place.pool.id.encode()[-64:]).digest()

        return sorted(live, key=rank, reverse=True)

    def _by_policy(self) -> tuple[Place, Frontend] | None:
        """Any policy, with a limit on what a pool may have in flight or without."""
        if self._policy == "least_requests":
            return self._least()
        local = self._policy == "local_first" and bool(self._local)
        sequence = self._local if local else self.sequence
        place = self._drawn(sequence, self._draw)
        found = self._turn_of(place, sequence, self._draw, ())
        if found is None and local and self._remote:
            place = self._drawn(self._remote, self._spilled)
            found = self._turn_of(place, self._remote, self._spilled, ())
        return found or self._panic(self._from(place), ())

    def _drawn(self, sequence: tuple[int, ...], draw: Draw) -> Place:
        return self.places[sequence[(draw() - 1) % len(sequence)]]

    def _turn_of(
        self, place: Place, sequence: tuple[int, ...], draw: Draw, tried: Collection[Frontend]
    ) -> tuple[Place, Frontend] | None:
        """The drawn place if it may be used, else whoever of the sequence may that is drawn next; None if nobody may,
        and then nothing more is drawn."""
        for _ in range(2 * len(sequence)):
            frontend = self._usable(place, tried)
            if frontend is not None:
                return place, frontend
            if not any(self._could(self.places[index], tried) for index in sequence):
                return None
            place = self._drawn(sequence, draw)
        return None

    def _could(self, place: Place, tried: Collection[Frontend]) -> bool:
        """Whether the pool has a frontend to use, without taking it."""
        if self._full(place.pool):
            return False
        now = self._clock_ns()
        return any(
            ready and frontend not in tried and self._ledger.ejected_until(frontend.slot) <= now
            for frontend, ready in zip(place.pool.frontends, place.pool.ready, strict=True)
        )

    def _least(self) -> tuple[Place, Frontend] | None:
        """Fewest in flight for their weight, of two choices above CHOICES pools; equals take turns."""
        order = self._from(self._drawn(self.sequence, self._draw))
        compared = order[:2] if len(order) > CHOICES else order
        compared = sorted(compared, key=lambda place: self._load(place.pool) / place.weight)
        return self._one_of(compared, ()) or self._one_of(order, ()) or self._panic(order, ())

    def _one_of(self, order: list[Place], tried: Collection[Frontend]) -> tuple[Place, Frontend] | None:
        for place in order:
            frontend = self._usable(place, tried)
            if frontend is not None:
                return place, frontend
        return None

    def _load(self, pool: Pool) -> int:
        """In flight over all workers; a streak of failures weighs as much as that many requests."""
        ledger = self._ledger
        return sum(ledger.in_flight(f.slot) + ledger.streak(f.slot) for f in pool.frontends)

    def _full(self, pool: Pool) -> bool:
        return self._limit is not None and sum(self._ledger.in_flight(f.slot) for f in pool.frontends) >= self._limit

    def _usable(self, place: Place, tried: Collection[Frontend]) -> Frontend | None:
        """The pool's next frontend that is ready, not ejected and not tried; None if there is none or the pool is
        full. One whose sentence is over is admitted for one trial request."""
        pool = place.pool
        if self._limit is not None and self._full(pool):
            return None
        if place.single is not None:
            return place.single if place.single not in tried and self._admitted(place.single) else None
        frontends, ready, size = pool.frontends, pool.ready, len(place.sequence)
        for _ in range(size):
            at = place.sequence[(place.draw() - 1) % size] if size > 1 else 0
            frontend = frontends[at]
            if ready[at] and frontend not in tried and self._admitted(frontend):
                return frontend
        return None

    def _admitted(self, frontend: Frontend) -> bool:
        until = self._ledger.ejected_until(frontend.slot)
        if until == 0:
            return True
        now = self._clock_ns()
        if until > now:
            return False
        self._ledger.begin_trial(frontend.slot, now)
        return True

    def _panic(self, order: list[Place], tried: Collection[Frontend]) -> tuple[Place, Frontend] | None:
        """Nothing is usable: those that serve while they terminate come next, then the ejected all the same (I23, I24);
        they too take turns."""
        for desperate in (False, True):
            for place in order:
                if self._full(place.pool):
                    continue
                pairs = list(zip(place.pool.frontends, place.pool.ready, strict=True))
                start = place.draw() % len(pairs) if len(pairs) > 1 else 0
                for frontend, ready in pairs[start:] + pairs[:start]:
                    if frontend not in tried and (desperate or (not ready and self._admitted(frontend))):
                        self._tally.panics += desperate
                        return place, frontend
        return None

    def standing(self, place: Place) -> str:
        """Whether the place could have a request now, and why not, as a word of `decided.STANDINGS`. Takes nothing."""
        if self._full(place.pool):
            return "full"
        if self._could(place, ()):
            return "other_turn"
        return "ejected" if any(place.pool.ready) else "not_ready"

    def full(self) -> bool:
        """Whether the reason that nothing could be chosen is the limit of the pools."""
        return self._limit is not None and any(self._full(place.pool) for place in self.places)


def _tried(place: Place, tried: Collection[Frontend]) -> bool:
    return any(frontend in tried for frontend in place.pool.frontends)


def turn_of(turns: dict[int, Turn], number: int) -> Draw:
    """The draw of a shared counter, or of a constant for a pool with one frontend (number -1)."""
    if number < 0:
        return _always_one
    return turns[number].draw


def _always_one() -> int:
    return 1
