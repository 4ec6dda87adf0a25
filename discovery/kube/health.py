"""How it goes with one list/watch: failures in a row, when to try again, since when nothing has gone right. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from discovery.kube.events import Kind, Policy, Trouble


class Health:
    def __init__(self, policy: Policy, chance: Callable[[], float], now: float) -> None:
        self._policy = policy
        self._chance = chance
        self._failures = 0
        self._well_since: float | None = None
        self.not_before = now
        self.failing_since: float | None = None
        self.trouble: Trouble | None = None
        self.right_at: float | None = None
        """When we last knew that what was told is right: a whole list, an event, a bookmark."""
        self.troubles: Counter[Kind] = Counter()

    def __repr__(self) -> str:
        return f"<Health failures={self._failures} {self.trouble or 'well'}>"

    @property
    def is_calm(self) -> bool:
        """Whether nothing has failed lately."""
        return self._failures == 0

    def well(self, now: float) -> None:
        """Something has gone as it should."""
        self.failing_since = None
        self.trouble = None
        if self._well_since is None:
            self._well_since = now
        elif now - self._well_since > self._policy.healthy_after:
            self._failures = 0

    def right(self, now: float) -> None:
        self.well(now)
        self.right_at = now

    def fail(self, kind: Kind, reason: str, now: float, *, wait: bool, retry_after: float) -> None:
        if self._well_since is not None and now - self._well_since > self._policy.healthy_after:
            self._failures = 0
        self._well_since = None
        self._failures += 1
        self.trouble = Trouble(kind, reason)
        self.troubles[kind] += 1
        if self.failing_since is None:
            self.failing_since = now
        pause = self._policy.delay(self._failures, self._chance()) if wait else 0.0
        self.not_before = now + max(pause, retry_after)
