"""How a worker keeps records of its choices: what is worth one, made only then, and handed on with the counts.

Keeps the rule that a plain request (one try, answered well) pays for a look at two attributes and nothing else; and
that a flood of failures cannot make explaining dear: so many a second, the rest is counted.
"""

from __future__ import annotations

from collections.abc import Collection

from global_ingress.proxy.carrying.choosing import Chooser, Frontend, Place
from global_ingress.proxy.shared.decided import MOST_CANDIDATES, MOST_TRIES, Candidate, Decision, Decisions, Try

PER_SECOND = 100  # records a worker makes in a second
HELD = 500  # records kept until the supervisor asks


class Explained:
    """The records of one worker. `sampling`: the next plain request is kept as well, one in a second."""

    __slots__ = ("_room", "dropped", "records", "sampling")

    def __init__(self) -> None:
        self.records: list[Decision] = []
        self.dropped = 0
        self.sampling = True
        self._room = PER_SECOND

    def second(self) -> None:
        """A second has passed."""
        self._room = PER_SECOND
        self.sampling = True

    def room(self) -> bool:
        """Whether one more may be made; if not, that is counted."""
        if self._room <= 0 or len(self.records) >= HELD:
            self.dropped += 1
            return False
        self._room -= 1
        return True

    def add(self, record: Decision) -> None:
        self.records.append(record)

    def take(self) -> Decisions:
        """What there is, handed over."""
        out = Decisions(self.records, self.dropped)
        self.records, self.dropped = [], 0
        return out


def candidates(chooser: Chooser, first: Frontend | None, tried: Collection[Frontend]) -> tuple[Candidate, ...]:
    """The first MOST_CANDIDATES pools of the model as they stand now; `first` is the frontend that was chosen first."""
    return tuple(
        Candidate(place.pool.name, place.pool.region, _standing(chooser, place, first, tried))
        for place in chooser.places[:MOST_CANDIDATES]
    )


def _standing(chooser: Chooser, place: Place, first: Frontend | None, tried: Collection[Frontend]) -> str:
    if first is not None and first in place.pool.frontends:
        return "chosen"
    if any(frontend in tried for frontend in place.pool.frontends):
        return "tried"
    return chooser.standing(place)


class Story:
    """The tries of one request that are over, in order; made when the first of them goes wrong."""

    __slots__ = ("candidates", "tries")

    def __init__(self, chooser: Chooser, first: Frontend) -> None:
        self.candidates = candidates(chooser, first, ())
        self.tries: list[Try] = []

    def add(self, one: Try) -> None:
        if len(self.tries) < MOST_TRIES:
            self.tries.append(one)


def place_of(chooser: Chooser, frontend: Frontend) -> Place | None:
    """Where this frontend belongs, if it still does."""
    return next((place for place in chooser.places if frontend in place.pool.frontends), None)
