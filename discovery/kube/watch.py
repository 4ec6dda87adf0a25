"""List and watch of one resource as a state machine: answers, bytes and cuts in; events and the next request out.

Pure: time is an argument, chance is given. Owns what to ask next and what an answer means (the rules of client-go's
reflector, and some of our own for servers that fall silent). Refuses to believe half a list. The rule it keeps:
whatever happens on the way, once a list and a watch of it get through, what was told is what a fresh list would say.

Whoever drives it asks `next`, sends the `Ask`, calls `head`, then `body` for each piece and `end`, or `cut` or
`overdue` (when `deadline` has passed) at any time, and after each of them `next_event` until it gives None. While
`reading` is true the answer goes on; else it is closed, and `next` is asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from discovery.kube import asking
from discovery.kube.answers import (
    Page,
    Status,
    WatchLine,
    identity_of,
    object_of,
    page_of,
    status_of,
    watch_line_of,
)
from discovery.kube.errors import NotAnAnswer
from discovery.kube.events import (
    Ask,
    Bookmarked,
    Cause,
    Deleted,
    Event,
    Gathered,
    Kind,
    Policy,
    RefusedItem,
    Replaced,
    Unknown,
    Upserted,
    Wait,
    What,
)
from discovery.kube.gathering import Gathering
from discovery.kube.health import Health
from discovery.kube.lines import Lines

T = TypeVar("T")

_MAX_STATUS = 64 * 1024
_PATIENCE = 2
"""So many silent watches, bad streams or lines in a row, and another way is taken."""


class ListWatch(Generic[T]):
    """`decode` makes a value of an object or raises a DiscoveryError: such an object is refused alone."""

    def __init__(
        self, decode: Callable[[object], T], *, selector: str, policy: Policy, chance: Callable[[], float], now: float
    ) -> None:
        self._selector = selector
        self._policy = policy
        self._chance = chance
        self.version = ""
        self.health = Health(policy, chance, now)
        self.requests: Counter[What] = Counter()
        # Why everything is to be listed, if it is; how new the list must be; when it is due anyway.
        self._need: Cause | None = Cause.FIRST
        self._at_least = ""
        self._relist_at = now + policy.relist_every
        self._list = Gathering(decode)
        # The request in the air.
        self.asked: What | None = None
        self._status = 0
        self._asked_at = self._heard_at = self._ends_at = now
        self._listing = False
        self._heard = self._told = False
        self._retry_after = 0.0
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._lines = Lines(policy.max_line)
        self._pending: Iterator[Event[T]] | None = None
        # What this server does not do well.
        self.streams_refused = False
        self._bad_streams = self._endless_streams = self._silent = self._garbage = 0

    def __repr__(self) -> str:
        return f"<ListWatch {self.asked or 'idle'} version={self.version or '-'} need={self._need or '-'}>"

    # What to do next

    @property
    def reading(self) -> bool:
        """Whether the answer in the air is still wanted."""
        return self.asked is not None

    @property
    def deadline(self) -> float:
        """When `overdue` is to be called, unless something is heard before."""
        policy = self._policy
        if self._status == 0:
            return self._asked_at + (policy.page if self.asked is What.PAGE else policy.head)
        if self.asked is What.PAGE or self._status != 200:
            return min(self._heard_at + policy.quiet_stream, self._asked_at + policy.page)
        quiet = policy.quiet_stream if self._listing else policy.quiet_watch
        return min(self._heard_at + quiet, self._ends_at)

    def next(self, now: float) -> Ask | Wait:
        assert self.asked is None, "one request at a time"
        if now < self.health.not_before:
            return Wait(self.health.not_before - now)
        if self._need is None and now >= self._relist_at:
            self._want(Cause.SAFETY, self.version)
        ask = self._ask_watch(now) if self._need is None else self._ask_list(now)
        self.requests[ask.what] += 1
        self.asked = ask.what
        self._status = 0
        self._asked_at = self._heard_at = now
        self._heard = self._told = False
        self._listing = ask.what is What.STREAM
        self._retry_after = 0.0
        self._lines.clear()
        self._buffer.clear()
        self._buffered = 0
        return ask

    def list_again(self) -> None:
        """Believe nothing of before: list everything anew, from the server's newest state."""
        self._want(Cause.CONFIRM, "")
        self._close()

    def failing_for(self, now: float) -> float:
        """Seconds since nothing has gone right; 0 while things go well."""
        since = self.health.failing_since
        return 0.0 if since is None or self._is_open(now) else now - since

    def _is_open(self, now: float) -> bool:
        """A watch that was answered and has not ended at once works, also while nothing happens."""
        live = self.asked is not None and self._status == 200 and self.asked is not What.PAGE and not self._listing
        return live and self._silent == 0 and now - self._asked_at >= self._policy.short

    def _ask_list(self, now: float) -> Ask:
        if not self._list.token:
            self._list.drop()
        if not self._list.token and not self.streams_refused and self._bad_streams < _PATIENCE:
            self._ends_at = now + self._policy.whole_stream
            seconds = asking.watch_seconds(self._policy, self._chance, self._policy.longest_watch)
            return Ask(What.STREAM, asking.streaming_list(self._selector, self._at_least, seconds))
        return Ask(What.PAGE, asking.page(self._selector, self._at_least, self._list.token, self._policy.page_size))

    def _ask_watch(self, now: float) -> Ask:
        seconds = asking.watch_seconds(self._policy, self._chance, self._relist_at - now)
        self._ends_at = now + seconds + self._policy.grace
        return Ask(What.WATCH, asking.watch(self._selector, self.version, seconds))

    # What comes back

    def head(self, status: int, retry_after: str | None, now: float) -> None:
        """The answer's status. Its body follows, whatever the status."""
        self._status = status
        self._heard_at = now
        if retry_after and retry_after.strip().isdecimal():
            self._retry_after = min(float(retry_after), self._policy.longest_wait)

    def body(self, data: bytes, now: float) -> None:
        if not data:
            return
        self._heard_at = now
        if self._status == 200 and self.asked is not What.PAGE:
            self._heard = True
            self._silent = 0
            self._lines.feed(data)
            return
        self._buffered += len(data)
        if self._status == 200 and self._buffered > self._policy.max_page:
            self._fail(Kind.GARBAGE, f"a page is longer than {self._policy.max_page} bytes", now)
        elif self._status == 200 or self._buffered <= _MAX_STATUS:
            self._buffer.append(data)

    def end(self, now: float) -> None:
        """The body has ended in order."""
        if self._status != 200:
            self._no(status_of(b"".join(self._buffer), self._status), now)
        elif self.asked is What.PAGE:
            self._page(b"".join(self._buffer), now)
        elif self._listing:
            self._no_end_of_list(Kind.SERVER, "a streaming list stopped before its end", now)
        elif now - self._asked_at < self._policy.short and not self._told:
            self._fail(Kind.SHORT, "a watch ended at once and brought nothing", now)
        else:
            self.health.well(now)
            self._close()

    def cut(self, reason: str, now: float) -> None:
        """The connection broke, or never came to be."""
        self._broken(Kind.CONNECTION, reason, now)

    def overdue(self, now: float) -> None:
        """`deadline` has passed."""
        if self._status != 200 or self.asked is What.PAGE or self._listing:
            self._broken(Kind.OVERDUE, "no whole answer in time", now)
        elif now >= self._ends_at:
            # The server forgot the end that we had asked for.
            self._close()
        else:
            self._silence(now)

    def _broken(self, kind: Kind, reason: str, now: float) -> None:
        if self._status not in (0, 200):
            # Its status says more than what became of its body.
            self._no(status_of(b"".join(self._buffer), self._status), now)
        elif self._listing and self._status == 200:
            self._no_end_of_list(kind, reason, now)
        else:
            self._fail(kind, reason, now)

    def next_event(self, now: float) -> Event[T] | None:
        """What the bytes so far tell, one at a time; None when there is no more until the next call from outside."""
        if self._pending is not None:
            if (event := next(self._pending, None)) is not None:
                return event
            self._pending = None
        try:
            while self.asked is not None and (data := self._lines.pop()) is not None:
                if (event := self._line(watch_line_of(data), now)) is not None:
                    return event
        except NotAnAnswer as error:
            self._not_an_event(str(error), now)
        return None

    # Lines

    def _line(self, line: WatchLine, now: float) -> Event[T] | None:
        if line.status is not None:
            self._error(line.status, now)
            return None
        self._garbage = 0
        self._told = True
        if self._listing:
            return self._listed(line, now)
        self.health.right(now)
        version = line.version
        if version:
            self.version = version
        match line.type:
            case "BOOKMARK":
                return Bookmarked(version)
            case "DELETED":
                return Deleted(*identity_of(line.object))
            case "ADDED" | "MODIFIED":
                found = self._list.decoded(line.object)
                return found if isinstance(found, RefusedItem) else Upserted(found)
        return Unknown(line.type)

    def _listed(self, line: WatchLine, now: float) -> Event[T]:
        """A line before the end of a streaming list. What changes meanwhile may stand in it, too."""
        match line.type:
            case "BOOKMARK" if line.ends_initial and line.version:
                self._listing = False
                replaced = self._replaced(line.version, now)
                self._ends_at = min(now + self._policy.longest_watch + self._policy.grace, self._relist_at)
                return replaced
            case "ADDED" | "MODIFIED":
                self._list.add(line.object)
            case "DELETED":
                self._list.remove(line.object)
            case "BOOKMARK":
                pass
            case _:
                return Unknown(line.type)
        return Gathered()

    def _error(self, status: Status, now: float) -> None:
        """An ERROR event; nothing follows it."""
        if status.is_expired or status.is_from_the_future:
            self._expired(status, now)
        elif status.code == 429:
            self._fail(Kind.THROTTLED, str(status), now)
        elif self._listing:
            self.streams_refused = True
            self._fail(Kind.REFUSED, str(status), now, wait=False)
        else:
            if status.code < 500:
                self._want(Cause.ERROR, self.version)
            self._fail(status.kind, str(status), now)

    def _not_an_event(self, reason: str, now: float) -> None:
        self._garbage += 1
        if self._listing:
            self._bad_streams += 1
        elif self._garbage >= _PATIENCE:
            # The same bytes would come again from the same version; pages know no lines.
            self._garbage = 0
            self._bad_streams = _PATIENCE
            self._want(Cause.ERROR, "")
        self._fail(Kind.GARBAGE, reason, now)

    # Lists

    def _page(self, body: bytes, now: float) -> None:
        try:
            page = page_of(body)
        except NotAnAnswer as error:
            self._fail(Kind.GARBAGE, str(error), now)
            return
        if self._list.token and (page.version != self._list.version or page.following == self._list.token):
            self._fail(Kind.GARBAGE, "a page of another list", now)
            return
        self._close()
        self._list.version = page.version
        self._pending = self._items_of(page, now)

    def _items_of(self, page: Page, now: float) -> Iterator[Event[T]]:
        for raw in page.items:
            try:
                obj = object_of(raw)
            except NotAnAnswer as error:
                self._fail(Kind.GARBAGE, str(error), now)
                return
            self._list.add(obj)
            yield Gathered()
        self._list.token = page.following
        if not page.following:
            yield self._replaced(page.version, now)

    def _replaced(self, version: str, now: float) -> Replaced[T]:
        event = self._list.whole(self._need or Cause.FIRST, version, self.version)
        self._need = None
        self._at_least = ""
        self._bad_streams = 0
        self.version = version
        self._relist_at = now + self._policy.relist_every * (0.9 + 0.2 * self._chance())
        self.health.right(now)
        return event

    def _want(self, cause: Cause, at_least: str) -> None:
        # The first list stays the first, however often it is begun.
        self._need = Cause.FIRST if self._need is Cause.FIRST else cause
        self._at_least = at_least
        self._list.drop()

    # Trouble

    def _no(self, status: Status, now: float) -> None:
        """An answer with another status than 200."""
        if self.asked is What.STREAM and status.code in (400, 422):
            # It does not know streaming lists: no fault, and never asked again.
            self.streams_refused = True
            self._close()
            return
        if status.is_expired or status.is_from_the_future:
            self._expired(status, now)
            return
        if self.asked is What.STREAM and status.code >= 500:
            self._bad_streams += 1
        if status.code == 400:
            # Something in our version or token displeases it: begin anew, without either.
            self._want(self._need or Cause.ERROR, "")
        self._fail(status.kind, str(status), now)

    def _expired(self, status: Status, now: float) -> None:
        """Our version is no use to this server: anew at once, and if that goes on, after the usual waits."""
        self._want(Cause.EXPIRED, "")
        self._fail(Kind.EXPIRED, str(status), now, wait=not self.health.is_calm)

    def _no_end_of_list(self, kind: Kind, reason: str, now: float) -> None:
        self._bad_streams += 1
        if kind is Kind.OVERDUE:
            # Pages at once; and a server that does it twice does not know how to end such a list.
            self._bad_streams = _PATIENCE
            self._endless_streams += 1
            self.streams_refused = self._endless_streams >= _PATIENCE
        self._fail(kind, reason, now, wait=kind is not Kind.OVERDUE)

    def _silence(self, now: float) -> None:
        if not self._heard:
            self._silent += 1
        enough = self._silent >= _PATIENCE
        if enough:
            # What a server says to a version that it has not reached: nothing, for as long as we like.
            self._want(Cause.SILENCE, "")
        self._fail(Kind.SILENCE, f"nothing was heard for {self._policy.quiet_watch:g} s", now, wait=False)
        if enough:
            self._silent = 0

    def _fail(self, kind: Kind, reason: str, now: float, *, wait: bool = True) -> None:
        if self._is_open(now):
            # It had worked until now.
            self.health.failing_since = now
        if self.asked is not What.WATCH:
            self._list.drop()
        self.health.fail(kind, reason, now, wait=wait, retry_after=self._retry_after)
        self._close()

    def _close(self) -> None:
        self.asked = None
        self._pending = None
        self._lines.clear()
