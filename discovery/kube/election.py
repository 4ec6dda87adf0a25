"""Who leads: one Lease, judged by what changes in it while we look.

Pure: time is an argument (seconds of a clock that never goes back), and so is the date that is written. The times in
the Lease are other machines' and are never compared with ours. A leader that could not renew for `renew_deadline` has
stopped before anybody else may begin: `renew_deadline` is shorter than `duration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """Seconds. `retry` is stretched by up to a fifth, by chance."""

    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0


class Held(NamedTuple):
    """A leadership: of two, the greater is the newer."""

    transitions: int
    acquired_ms: int


class Create(NamedTuple):
    body: Object


class Replace(NamedTuple):
    body: Object


class Wait(NamedTuple):
    """Somebody else leads; `holder` says who."""

    holder: str


class Election:
    """One candidate. `seen` what was read, `wish` what to do about it, `won` when that was done."""

    def __init__(self, namespace: str, name: str, identity: str, policy: LeasePolicy) -> None:
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._policy = policy
        self._record: Object | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None
        self._asked_at = 0.0
        self._transitions = -1
        self.held: Held | None = None

    def __repr__(self) -> str:
        return f"<Election {self._identity} {'leads' if self.held else 'follows'}>"

    @property
    def holder(self) -> str:
        return str(_spec(self._record).get("holderIdentity") or "") if self._record else ""

    def lost(self, now: float) -> bool:
        """Whether a leader must not write any more: nothing has been renewed for too long."""
        return self._renewed_at is not None and now - self._renewed_at >= self._policy.renew_deadline

    def left(self, now: float) -> float:
        """Seconds until `lost`; what one request may take."""
        since = self._renewed_at if self._renewed_at is not None else now
        return max(0.0, since + self._policy.renew_deadline - now)

    def seen(self, record: Object | None, now: float) -> None:
        """The Lease as read, None when there is none."""
        if record is None or self._record is None or _spec(record) != _spec(self._record):
            self._changed_at = now
        self._record = record
        self._transitions = max(self._transitions, _count(_spec(record).get("leaseTransitions")) if record else -1)

    def wish(self, now: float, date: datetime) -> Create | Replace | Wait:
        """What to ask of the server. The answer goes to `won`."""
        self._asked_at = now
        if self._record is None:
            # Somebody deleted it: leaderships go on being counted, for those that compare them.
            return Create(self._body({}, self._transitions + 1, date, date, ""))
        spec = _spec(self._record)
        holder = spec.get("holderIdentity") or ""
        if holder == self._identity and self.held is not None:
            acquired = _moment(spec.get("acquireTime")) or date
            transitions = _count(spec.get("leaseTransitions"))
            return Replace(self._body(self._record, transitions, acquired, date, self._identity))
        if holder and now < self._changed_at + (_count(spec.get("leaseDurationSeconds")) or self._policy.duration):
            return Wait(str(holder))
        transitions = _count(spec.get("leaseTransitions")) + 1
        return Replace(self._body(self._record, transitions, date, date, self._identity))

    def won(self, record: Object, now: float) -> None:
        """The server has written our wish."""
        self.seen(record, now)
        spec = _spec(record)
        acquired = _moment(spec.get("acquireTime"))
        assert acquired is not None, "we wrote it"
        # Counted from the asking: the write may have been done long before we heard of it.
        self._renewed_at = self._asked_at
        self.held = Held(_count(spec.get("leaseTransitions")), int(acquired.timestamp() * 1000))

    @property
    def is_ours(self) -> bool:
        return self.held is not None and self.holder == self._identity

    def release(self, date: datetime) -> Object | None:
        """What a leader that stops writes, so that the next need not wait; None when we do not lead."""
        if not self.is_ours or self._record is None:
            return None
        spec = _spec(self._record)
        body = self._body(self._record, _count(spec.get("leaseTransitions")), date, date, "")
        body["spec"]["leaseDurationSeconds"] = 1
        self.held = None
        return body

    def _body(self, before: Object, transitions: int, acquired: datetime, renewed: datetime, holder: str) -> Object:
        metadata: Object = {"name": self._name, "namespace": self._namespace}
        if before:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder if before else self._identity,
                "leaseDurationSeconds": self._policy.duration,
                "acquireTime": micro_time(acquired),
                "renewTime": micro_time(renewed),
                "leaseTransitions": transitions,
            },
        }


def micro_time(moment: datetime) -> str:
    """As Kubernetes' MicroTime wants it: UTC, always six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(record: Object) -> Object:
    spec = record.get("spec")
    return spec if isinstance(spec, dict) else {}


def _count(value: object) -> int:
    return value if type(value) is int else 0


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None
