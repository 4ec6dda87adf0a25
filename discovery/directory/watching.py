"""The Kubernetes side, put together: sources of slices, their metrics, and what is said of them.

Owns the wiring of everything about watching, so that a directory without it needs no Kubernetes library, and the
collector's rest while the first list fills the memory.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from discovery.directory.naming import NamingRules
from discovery.directory.settings import Settings
from discovery.directory.watched import KUBERNETES_MODES, targets
from discovery.kit.clock import Clock
from discovery.kit.metrics import Metrics, Samples
from discovery.kit.tasks import background
from discovery.slices import Slice

if TYPE_CHECKING:
    from discovery.directory.watcher import SlicesWatch, WatchedSource

_SHOWN = 100
_LONGEST_REST = 120.0


class CannotWatch(Exception):
    """There is nothing to watch with; the message says what is missing, in one line."""


def watching(
    settings: Settings, rules: NamingRules, clock: Clock, metrics: Metrics, on_change: Callable[[], None]
) -> Watching | None:
    """The watched sources that the settings ask for, None when they ask for none. Raises CannotWatch."""
    modes = [mode for mode in KUBERNETES_MODES if mode in settings.pool_discovery]
    if not modes:
        return None
    try:
        from discovery.directory.watcher import WatchedSource
        from discovery.kube.client import Access
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("aiohttp", "kubernetes_asyncio"):
            raise
        raise CannotWatch("mcs and karmada need the extra: pip install 'global-ingress[kubernetes]'") from error
    access = Access(settings.kubeconfig, settings.context)
    router = (settings.router_namespace, settings.router_service)
    found = [
        WatchedSource(
            mode,
            targets(mode, settings.namespace, router if router[0] and router[1] else None),  # type: ignore[arg-type]
            access,
            rules,
            clock,
            on_change,
            brake=settings.confirm_mass_removal,
        )
        for mode in modes
    ]
    return Watching(found, clock, metrics)


class Watching:
    def __init__(self, sources: list[WatchedSource], clock: Clock, metrics: Metrics) -> None:
        self.sources = sources
        self._clock = clock
        self._rests = False
        self._declare_metrics(metrics)

    def __repr__(self) -> str:
        return f"<Watching {self.sources}>"

    @property
    def complete(self) -> bool:
        return all(one.complete for one in self.sources)

    @property
    def not_listed(self) -> list[str]:
        """The sources that have not been listed in full yet."""
        return [one.name for one in self.sources if not one.listed]

    @property
    def malformed(self) -> int:
        """Slices that are there and cannot be read."""
        return sum(len(watch.refused) for _, watch in self._watches())

    def told(self) -> Iterator[tuple[str, Slice]]:
        for source in self.sources:
            yield from source.told()

    async def check(self) -> None:
        """Raises BadKubeConfig when there are no usable credentials."""
        for source in self.sources:
            await source.check()

    @asynccontextmanager
    async def running(self, on_failure: Callable[[Exception], None]) -> AsyncIterator[None]:
        """List and watch while the block runs."""
        # A million new objects, none of them garbage: looking through them again and again would stop the loop.
        gc.disable()
        self._rests = True
        async with AsyncExitStack() as stack:
            stack.callback(self.settled)
            await stack.enter_async_context(background(self._wake(), name="collector", on_failure=on_failure))
            for source in self.sources:
                await stack.enter_async_context(background(source.run(), name=source.name, on_failure=on_failure))
            yield

    def settled(self) -> None:
        """The first table stands: what is there now is there to stay, and need not be looked through."""
        if self._rests:
            self._rests = False
            gc.freeze()
            gc.enable()

    async def _wake(self) -> None:
        await self._clock.sleep(_LONGEST_REST)
        self.settled()

    def document(self) -> list[dict[str, Any]]:
        """What `/status.json` says of watches."""
        return [
            {
                "source": source.name,
                "watch": watch.target.name,
                "selector": watch.target.selector,
                "namespace": watch.target.namespace,
                "slices": len(watch.records),
                "listed": watch.listed,
                "complete": watch.complete,
                "held": watch.confirming,
                "age_s": round(watch.age, 3),
                "trouble": str(watch.machine.health.trouble.detail) if watch.machine.health.trouble else None,
                "streaming_lists": not watch.machine.streams_refused,
                "refused": [
                    {"namespace": one.namespace, "name": one.name, "reason": one.reason}
                    for one in list(watch.refused.values())[:_SHOWN]
                ],
            }
            for source, watch in self._watches()
        ]

    def _watches(self) -> Iterator[tuple[WatchedSource, SlicesWatch]]:
        return ((source, watch) for source in self.sources for watch in source.watches)

    def _per_watch(self, number: Callable[[SlicesWatch], float]) -> Callable[[], Samples]:
        return lambda: [((source.name, watch.target.name), number(watch)) for source, watch in self._watches()]

    def _counted(self, counts: Callable[[SlicesWatch], Iterable[tuple[str, int]]]) -> Callable[[], Samples]:
        return lambda: [
            ((source.name, watch.target.name, str(key)), number)
            for source, watch in self._watches()
            for key, number in counts(watch)
        ]

    def _declare_metrics(self, metrics: Metrics) -> None:
        gauges: list[tuple[str, str, Callable[[SlicesWatch], float]]] = [
            ("watch_age_seconds", "Since a watch last told something right", lambda w: w.age),
            ("watch_complete", "1 while what a watch has told is complete", lambda w: w.complete),
            ("watched_slices", "Slices that fit a watch's selector", lambda w: len(w.records)),
            ("malformed_slices", "Slices of a watch that cannot be read", lambda w: len(w.refused)),
            ("held_lists", "1 while a list that would remove most pools is held", lambda w: w.confirming),
        ]
        for name, meaning, number in gauges:
            metrics.read("gauge", f"global_discovery_{name}", meaning, ("source", "watch"), self._per_watch(number))
        counters: list[tuple[str, str, str, Callable[[SlicesWatch], Iterable[tuple[str, int]]]]] = [
            ("relists", "Whole lists taken over, by cause", "cause", lambda w: w.relists.items()),
            ("watch_events", "Events of watches, by type", "type", lambda w: w.events.items()),
            ("watch_requests", "Requests to the API server, by kind", "kind", lambda w: w.machine.requests.items()),
            (
                "watch_failures",
                "Requests that went wrong, by kind",
                "kind",
                lambda w: w.machine.health.troubles.items(),
            ),
            (
                "missed_events",
                "What a safety list knew and the watch had not told",
                "change",
                lambda w: w.missed.items(),
            ),
        ]
        for name, meaning, label, counts in counters:
            metrics.read(
                "counter", f"global_discovery_{name}", meaning, ("source", "watch", label), self._counted(counts)
            )
