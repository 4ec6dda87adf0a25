"""One place that can say how the whole ingress does: readiness, documents and metrics read from its parts.

Owns nothing and changes nothing; every answer is read at one moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from discovery.kit.clock import Clock, rfc3339
from global_ingress.proxy.admin import metrics, status
from global_ingress.proxy.admin.decisions import DecisionRing
from global_ingress.proxy.admin.history import History
from global_ingress.proxy.admin.metrics import Loop, Snapshot
from global_ingress.proxy.settings import file as settings
from global_ingress.proxy.shared.decided import Decisions
from global_ingress.proxy.supervising.config_file import ConfigFile
from global_ingress.proxy.supervising.knowledge import Knowledge
from global_ingress.proxy.supervising.labels import Labels
from global_ingress.proxy.supervising.schedules import Schedules
from global_ingress.proxy.supervising.sources import Sources
from global_ingress.proxy.supervising.steering import Steering
from global_ingress.proxy.supervising.supervisor import Supervisor

SHOWN_DECISIONS = 25
AWAY = 60.0  # seconds after which a silent directory is a warning


@dataclass(frozen=True, slots=True)
class Event:
    """Something an operator should see: `kind` is a constant word."""

    at: datetime
    kind: str
    subject: str
    detail: str


@dataclass(slots=True)
class Pulse:
    """How the supervisor's own loop does."""

    lag: float = 0.0
    tick: float = 0.0


@dataclass(slots=True)
class Overview:
    version: str
    build: str
    clock: Clock
    config: ConfigFile
    sources: Sources
    steering: Steering
    knowledge: Knowledge
    schedules: Schedules
    supervisor: Supervisor
    labels: Labels
    started: datetime
    pulse: Pulse = field(default_factory=Pulse)
    history: History = field(default_factory=History)
    decisions: DecisionRing = field(default_factory=DecisionRing)
    spans: Mapping[str, int] = field(default_factory=dict)  # of traces, by what became of them
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=200))

    def notice(self, kind: str, subject: str, detail: str) -> None:
        self.events.append(Event(self.clock.now(), kind, subject, detail))

    def look_back(self) -> None:
        """Called once a second, after the workers have told their counts."""
        now = self.clock.monotonic()
        if self.history.due(now):
            self.history.look(self.supervisor.totals(), now)

    def take_decisions(self, decisions: Decisions) -> None:
        """Records of a worker."""
        self.decisions.add(decisions, self.steering.left_out if decisions.records else {})

    # ---- readiness

    def not_ready(self) -> str | None:
        """Why requests should not come here; None when they should."""
        if self.supervisor.draining:
            return "draining"
        if self.steering.table is None:
            return "no pool table yet"
        if self.supervisor.listening == 0:
            return "no worker is listening"
        if not self.supervisor.complete:
            return f"{self.supervisor.listening} of {len(self.supervisor.seats)} workers are listening"
        picture = self.steering.look()
        if not any(verdict.routable for _, verdict in picture.models):
            return "no model has a routable pool"
        return None

    def warnings(self) -> list[str]:
        found = []
        age = self.sources.age()
        if self.steering.table is not None and age > AWAY:
            found.append(f"the directory has said nothing for {age:.0f} s; the last table is used")
        held = self.steering.held
        if held:
            found.append(f"the last good pools are held for {', '.join(sorted(held)[:5])}")
        if self.supervisor.listening < len(self.supervisor.seats):
            found.append(f"{self.supervisor.listening} of {len(self.supervisor.seats)} workers are listening")
        return found

    # ---- documents

    def moment(self) -> status.Moment:
        ejected = self.steering.ejected()
        monotonic, now = self.clock.monotonic(), self.clock.now()
        return status.Moment(
            picture=self.steering.look(),
            table=self.steering.table,
            evidence=self.steering.evidence(),
            said=self.knowledge.said(),
            probed=self.knowledge.probed(),
            ejected=ejected,
            in_flight=self.steering.in_flight,
            now=rfc3339(now),
            date=lambda second: rfc3339(now + timedelta(seconds=second - monotonic)),
        )

    def pools(self) -> dict[str, Any]:
        return status.pools_document(self.moment())

    def settings_document(self) -> dict[str, Any]:
        return settings.as_written(self.steering.settings, masked=True)

    def status_document(self) -> dict[str, Any]:
        moment = self.moment()
        reason = self.not_ready()
        table = self.steering.table
        totals = self.supervisor.totals()
        return {
            "version": self.version,
            "build": self.build,
            "started_at": rfc3339(self.started),
            "now": moment.now,
            "ready": reason is None,
            "reason": reason,
            "warnings": self.warnings(),
            "region": self.steering.settings.region,
            "config": {"file": str(self.config.path), "reloads": dict(self.config.counted)},
            "reloads": self._reloads_document(),
            "discovery": self.sources.document()
            | {
                "epoch": table.epoch if table else None,
                "revision": table.revision if table else None,
                "complete": table.complete if table else None,
            },
            "routes_generation": self.steering.routes.generation if self.steering.routes else 0,
            "workers": self.workers(),
            "models": status.model_objects(moment),
            "pools": [
                status.pool_object(moment, pool) | {"recent": self.history.of(pool.id)} for pool in moment.picture.pools
            ],
            "in_flight": sum(self._in_flight().values()),
            "recent": self.history.overall(),
            "decisions": self._decisions_document(),
            "requests": sum(sum(series.requests.values()) for series in totals.series),
            "events": self._events_document(),
        }

    def _reloads_document(self) -> list[dict[str, Any]]:
        return [
            {
                "at": rfc3339(reading.at),
                "result": reading.result,
                "faults": list(reading.faults),
                "needs_restart": list(reading.needs_restart),
            }
            for reading in reversed(self.config.readings)
        ]

    def _events_document(self) -> list[dict[str, Any]]:
        return [
            {"at": rfc3339(event.at), "kind": event.kind, "subject": event.subject, "detail": event.detail}
            for event in reversed(self.events)
        ]

    def _decisions_document(self) -> dict[str, Any]:
        newest = self.decisions.newest(SHOWN_DECISIONS)
        return {
            "kept": len(self.decisions),
            "dropped": self.decisions.dropped,
            "newest": [one | {"at": rfc3339(datetime.fromtimestamp(one["at"], UTC))} for one in newest],
        }

    def workers(self) -> list[dict[str, Any]]:
        return [
            {
                "index": seat.index,
                "pid": seat.process.pid if seat.process else None,
                "listening": seat.process is not None and seat.process.listening,
                "starts": seat.starts,
            }
            for seat in self.supervisor.seats
        ]

    # ---- metrics

    def exposition(self) -> bytes:
        moment = self.moment()
        loops = [Loop("supervisor", self.pulse.lag, self.pulse.tick)]
        loops += [Loop(f"worker-{n}", one.loop_lag, one.last_tick) for n, one in self.supervisor.reports()]
        snapshot = Snapshot(
            totals=self.supervisor.totals(),
            version=self.version,
            build=self.build,
            loops=loops,
            in_flight=self._in_flight(),
            routable=self._routable(moment),
            frontends=status.frontend_states(moment),
            reloads=self.config.counted,
            discovery_age=self.sources.age() if self.steering.table else None,
            discovery_complete=self.steering.table.complete if self.steering.table else False,
            workers_listening=self.supervisor.listening,
            workers_replaced=self.supervisor.replaced,
            held_models=len(self.steering.held),
            starved_schedules=self.schedules.starved,
            draining=self.supervisor.draining,
            spans=self.spans,
        )
        return metrics.exposition(snapshot, self.labels)

    def _in_flight(self) -> dict[str, int]:
        """By pool, those that left but still hold requests included."""
        out: dict[str, int] = {}
        for url, name in self.steering.pool_of_url.items():
            out[name] = out.get(name, 0) + self.steering.in_flight(url)
        return out

    def _routable(self, moment: status.Moment) -> dict[str, bool]:
        usable = {verdict.pool.key for _, model in moment.picture.models for verdict in model.routable}
        return {str(pool.key): pool.key in usable for pool in moment.picture.pools}
