"""A second try beside the first, when the first event is late (I36): who answers well first wins, the other is closed.

Bounded by the shared budget of repeats and by `max_share`; only for small bodies, only towards another region. How late
is late is told by the place's own recent first events (`lateness`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from global_ingress.proxy.carrying.choosing import Frontend, Place
from global_ingress.proxy.carrying.gate import Gate
from global_ingress.proxy.carrying.headers import Answer, Head
from global_ingress.proxy.carrying.request import Buffer
from global_ingress.proxy.carrying.tracing import Trace, Unsampled
from global_ingress.proxy.carrying.trying import Trying
from global_ingress.proxy.shared.attempt import Trouble

if TYPE_CHECKING:
    from global_ingress.proxy.carrying.plane import Plane


class Owner(Protocol):
    """The exchange that is hedged."""

    def hedge_won(self, hedge: Hedge, raw: bytes, pieces: list[bytes], now: float) -> None:
        """The second try has a good answer first."""

    def hedge_ended(self) -> None:
        """The answer of the second try, which has won, is whole."""

    def hedge_failed(self, hedge: Hedge, trouble: Trouble, gate: Gate | None) -> None:
        """The second try went wrong."""


class Hedge(Trying):
    """The second try of one exchange."""

    def __init__(self, owner: Owner, plane: Plane, head: Head, body: Buffer, request_id: bytes, started: float) -> None:
        Trying.__init__(self, plane, head, body, request_id, started)
        self._owner = owner
        self._won = False
        self.began = plane.clock()

    def begin(self, place: Place, frontend: Frontend, trace: Trace | Unsampled | None) -> None:
        self._trace = trace
        self._try(place, frontend)

    @property
    def frontend(self) -> Frontend | None:
        return self._frontend

    @property
    def reached(self) -> int:
        """Tries of this one that reached a frontend."""
        return self._reached

    def hand_over(self, to: Trying) -> None:
        """Everything this try has becomes the other's; this one is nothing more."""
        to._place, to._frontend = self._place, self._frontend
        to._answer, to._observer, to._gate = self._answer, self._observer, self._gate
        to._sent_at, to._reached = self._sent_at, to._reached + self._reached
        to._holding, self._holding = self._holding, -1
        to._connection, self._connection = self._connection, None
        if to._connection is not None:
            to._connection.reader = to

    def give_up(self) -> None:
        """The first try has won, or the client has left."""
        self._leave()

    def _accepted(self, answer: Answer, place: Place, raw: bytes, pieces: list[bytes], now: float) -> None:
        self._won = True
        self._owner.hedge_won(self, raw, pieces, now)

    def _failed(self, trouble: Trouble) -> None:
        self._release()
        gate, self._gate = self._gate, None
        self._owner.hedge_failed(self, trouble, gate)

    def _may_repeat(self, answer: Answer | None) -> bool:
        return True  # the first try is still under way

    def answer_end(self) -> None:
        Trying.answer_end(self)
        if self._won:
            self._owner.hedge_ended()
