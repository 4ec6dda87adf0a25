"""Where everything that routing depends on comes together, and from where the workers' routes go out.

Owns the current settings, table, holds, slots and schedules; decides nothing itself: `routable` judges, `routing`
writes down. Level, not edge: whatever happened, `recompute` looks at the whole state and sends routes only if they
differ (rules I50, I51). No await between reading state and replacing it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from discovery.identity import PoolKey
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.pool import Pool, PoolTable
from global_ingress.proxy.settings.sections import Probe, Settings
from global_ingress.proxy.shared.ledger import Ledger
from global_ingress.proxy.shared.routes import Routes, Sampling
from global_ingress.proxy.supervising import hold, listing, routable, routing
from global_ingress.proxy.supervising.knowledge import Subject
from global_ingress.proxy.supervising.labels import Labels, PoolLabel
from global_ingress.proxy.supervising.ramp import Ramps
from global_ingress.proxy.supervising.routable import POOL_WORDS, Evidence, ModelVerdict, PoolWhy
from global_ingress.proxy.supervising.routing import Picture
from global_ingress.proxy.supervising.said import Entry
from global_ingress.proxy.supervising.schedules import Schedules
from global_ingress.proxy.supervising.slots import Slots

LEFT_OUT = 32  # pools that are named as left out of a choice
ALL = "*"  # the group of all pools when no model is configured

_log = logger("global_ingress.routing")


class Witness(Protocol):
    """What was learned of frontends."""

    def models(self) -> Mapping[PoolKey, tuple[Entry, ...]]: ...

    def failing(self) -> Mapping[str, str]: ...

    def follow(self, subjects: Sequence[Subject], probe: Probe | None) -> None: ...


class Steering:
    """`send(routes, counters)` tells the workers; `notice(kind, subject, detail)` the operator."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        schedules: Schedules,
        witness: Witness,
        *,
        slots: Slots,
        labels: Labels,
        clock: Clock,
        send: Callable[[Routes, Sequence[tuple[int, int]]], None],
        notice: Callable[[str, str, str], None],
    ) -> None:
        self.settings = settings
        self.table: PoolTable | None = None
        self.routes: Routes | None = None
        self.guards = routing.Guards()
        self.sampling: Sampling | None = None  # of traces, if there are any
        self.slots = slots
        self.pool_of_url: dict[str, str] = {}
        self._obey = False  # the table is the operator's own word
        self._ledger = ledger
        self._schedules = schedules
        self._witness = witness
        self._labels = labels
        self._clock = clock
        self._send = send
        self._notice = notice
        self._last_good = hold.LastGood()
        self._ramps = Ramps()
        self._held: dict[str, float] = {}
        self._sentences: dict[str, int] = {}
        self.left_out: dict[str, tuple[tuple[str, str], ...]] = {}  # by model: pools that are no candidates, and why

    def __repr__(self) -> str:
        generation = self.routes.generation if self.routes else 0
        return f"<Steering generation {generation}, {self.slots!r}>"

    def change(self, settings: Settings | None = None, table: PoolTable | None = None, *, obey: bool = False) -> None:
        """New settings, or a new table, or both in one swap. `obey`: nothing is held against this table."""
        if settings is not None:
            self.settings = settings
        if table is not None:
            self.table = table
            self._obey = obey
        self.recompute()

    def forget_table(self) -> None:
        """The place where tables come from is another one now; until its first table what is known stays."""
        self._last_good.forget()

    def recompute(self) -> None:
        picture = self._look(self._evidence(frozenset()))
        self._tell_held(picture.held)
        self._give_slots(picture.pools)
        self._witness.follow(self._subjects(picture), self.settings.probe)
        self.left_out = {model.id: _left_out(verdict) for model, verdict in picture.models}
        said = self._witness.models()
        known = picture.known
        models = [(model.id, [one.pool.key for one in verdict.routable]) for model, verdict in picture.models]
        document, described = listing.make_listing(models, said)
        view = routing.View(
            self.settings,
            known,
            picture.pools,
            picture.models,
            document if known else None,
            described if known else {},
            self.guards,
            self.sampling,
        )
        generation = self.routes.generation + 1 if self.routes else 1
        self._schedules.begin()
        self._ramps.begin()
        now, duration = self._clock.monotonic(), self.settings.slow_start
        routes = routing.make_routes(
            view,
            generation=generation,
            slot_of=self.slots.of,
            schedule=self._schedules.schedule,
            ramp=lambda model, weights: self._ramps.weights(model, weights, now, duration),
        )
        self._schedules.end()
        self._labels.learn(
            {pool.id: PoolLabel(str(pool.key), pool.region) for pool in picture.pools},
            (model.id for model, _ in picture.models),
        )
        if self.routes is None or not routing.same(routes, self.routes):
            self.routes = routes
            self._send(routes, list(self._schedules.counters()))

    def look(self) -> Picture:
        """How things stand now, ejections included."""
        return self._look(self._evidence(frozenset(self.ejected())), peek=True)

    def evidence(self) -> Evidence:
        return self._evidence(frozenset(self.ejected()))

    def ejected(self) -> dict[str, float]:
        """Frontends that are ejected now, with the monotonic second until when."""
        now = int(self._clock.monotonic() * 1e9)
        found = {url: self._ledger.ejected_until(slot) for url, slot in self.slots}
        return {url: until / 1e9 for url, until in found.items() if until > now}

    def in_flight(self, url: str) -> int:
        slot = self.slots.of(url)
        return self._ledger.in_flight(slot) if slot is not None else 0

    def recovered(self, url: str) -> None:
        """A probe has succeeded: an ejection that the probe before this one saw too ends, so that one request may try
        it (I33). One probe alone may have been asked before the failures came."""
        slot = self.slots.of(url)
        until = self._ledger.ejected_until(slot) if slot is not None else 0
        now = int(self._clock.monotonic() * 1e9)
        if slot is None or until <= now or self._ledger.on_trial(slot):
            self._sentences.pop(url, None)
        elif self._sentences.get(url) == until:
            self._ledger.shorten(slot, now)
            del self._sentences[url]
        else:
            self._sentences[url] = until

    @property
    def held(self) -> Mapping[str, float]:
        """Models (or `*`) whose last good pools are held, with the seconds left at the last look."""
        return self._held

    @property
    def restless(self) -> bool:
        """Whether time alone may change something: pools are held or ramp up, or rows wait to be freed."""
        return bool(self._held) or self._ramps.ramping or self.slots.leaving > 0

    # ---- parts of a look

    def _evidence(self, ejected: frozenset[str]) -> Evidence:
        said = self._witness.models()
        ids = {key: frozenset(str(entry["id"]) for entry in entries) for key, entries in said.items()}
        return Evidence(ids, self._witness.failing(), ejected)

    def _look(self, evidence: Evidence, *, peek: bool = False) -> Picture:
        listed = self.table.pools if self.table else ()
        if self.settings.models is None:
            pools, left = self._with_held(ALL, listed, listed, evidence)
            models = routable.learned(pools, evidence)
            pairs = [(model, routable.judge(model, pools, evidence, must_list=True)) for model in models]
            known = self.table is not None and bool(models)
            return Picture(known, pools, tuple(pairs), {} if left is None else {ALL: left})
        held: dict[str, float] = {}
        seen = {pool.key: pool for pool in listed}
        pairs = []
        for model in self.settings.models:
            chosen = [pool for pool in listed if routable.selected(model, pool)]
            pools, left = self._with_held(model.id, chosen, listed, evidence)
            if left is not None:
                held[model.id] = left
            shared = tuple(self._shared(seen, pool) for pool in pools)
            pairs.append((model, routable.judge(model, shared, evidence)))
        if not peek:
            self._last_good.keep_only([model.id for model in self.settings.models])
        return Picture(self.table is not None, tuple(seen[key] for key in sorted(seen)), tuple(pairs), held)

    @staticmethod
    def _shared(seen: dict[PoolKey, Pool], pool: Pool) -> Pool:
        """One value per pool, so that indices mean the same for all models: one that is held replaces an empty one."""
        if pool.key not in seen or not seen[pool.key].frontends:
            seen[pool.key] = pool
        return seen[pool.key]

    def _with_held(
        self, group: str, chosen: Sequence[Pool], listed: Sequence[Pool], evidence: Evidence
    ) -> tuple[tuple[Pool, ...], float | None]:
        if self._obey or self.table is None:
            return tuple(listed), None
        result = self._last_good.apply(
            group,
            chosen,
            now=self._clock.monotonic(),
            hold=self.settings.discovery.hold_last_good,
            failing=evidence.failing,
        )
        if result.left is None:
            return tuple(listed), None
        taken = {pool.key for pool in result.pools}
        merged = (*result.pools, *(pool for pool in listed if pool.key not in taken))
        return tuple(sorted(merged, key=lambda pool: pool.key)), result.left

    def _subjects(self, picture: Picture) -> list[Subject]:
        asked: dict[PoolKey, list[str]] = {}
        for model in self.settings.models or ():
            for pool in picture.pools:
                if routable.selected(model, pool):
                    asked.setdefault(pool.key, []).append(model.id)
        if self.settings.models is None:
            told = self._witness.models()
            asked = {pool.key: [str(e["id"]) for e in told.get(pool.key, ())] for pool in picture.pools}
        return [Subject(pool, tuple(asked[pool.key])) for pool in picture.pools if pool.key in asked]

    def _give_slots(self, pools: Sequence[Pool]) -> None:
        urls = {frontend.url: str(pool.key) for pool in pools for frontend in pool.frontends}
        before = self.slots.crowded
        for slot in self.slots.update(urls, self._clock.monotonic(), self._ledger.in_flight):
            self._ledger.clear_slot(slot)
        if self.slots.crowded and not before:
            _log.error("more frontends than the ledger has rows; the others share one", sharing=self.slots.crowded)
        self.pool_of_url.update(urls)
        in_use = {url for url, _ in self.slots}
        for url in [url for url in self.pool_of_url if url not in in_use]:
            del self.pool_of_url[url]
            self._sentences.pop(url, None)

    def _tell_held(self, held: Mapping[str, float]) -> None:
        for group in held:
            if group not in self._held:
                _log.error("all pools of a model went in one update; the last good ones are held", model=group)
                self._notice("held", group, "all pools went in one update; the last good ones are held")
        for group in self._held:
            if group not in held:
                _log.warning("pools are held no longer", model=group)
                self._notice("hold_ended", group, "pools are listed again, or the time is over, or their probes fail")
        self._held = dict(held)


def _left_out(verdict: ModelVerdict) -> tuple[tuple[str, str], ...]:
    """The first few are enough to explain a request."""
    others = (each for each in verdict.pools if each.why is not PoolWhy.ROUTABLE)
    return tuple((str(each.pool.key), POOL_WORDS[each.why]) for each in itertools.islice(others, LEFT_OUT))
