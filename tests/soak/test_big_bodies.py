"""Large request bodies beside a hundred running streams: how long the streams' chunks wait for them.

Everything is measured in one run, in turns: nothing large, the large body sent past the ingress (what the machine's
cores alone make of it), and through it. A delay is the time from the frontend's write to the client's read, of the
chunks that arrived while the body was under way. Figures are medians over the rounds; what is judged is the best round,
since whatever else the machine does only adds to it.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import uvloop

from tests.e2e.children import Children, wait_until
from tests.soak.sender import KINDS
from tests.soak.sender import MODEL as BIG
from tests.soak.stack import Fleet, Ingress, Talker, settle, static_pools
from tests.soak.wire import MODEL, mark, request

STREAMS = 100
EVERY_MS = 20
SIZES = (1, 5, 10, 20, 32)  # MiB
ROUNDS = 5
MOST_MS = 20.0
_AT = re.compile(rb'"at":(\d+)')

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


class Stream(asyncio.Protocol):
    """Reads one stream for ever and notes when chunks arrive and how late."""

    def __init__(self, notes: list[tuple[float, float]], n: int) -> None:
        self._notes = notes
        self._n = n

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(request(mark(f"s{self._n}", events=10_000_000, every=EVERY_MS)))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        self._notes.extend((now / 1e9, (now - int(at)) / 1e6) for at in _AT.findall(data))


def _given(stream: Stream) -> Stream:
    return stream


class Watch(threading.Thread):
    """A hundred streams in a thread of their own. `notes` are (second of arrival, milliseconds late)."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self.notes: list[tuple[float, float]] = []

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        uvloop.run(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        made = []
        for n in range(STREAMS):
            stream = Stream(self.notes, n)
            made.append(await loop.create_connection(partial(_given, stream), "127.0.0.1", self._port))
            await asyncio.sleep(EVERY_MS / 1000 / STREAMS)  # so that the streams do not beat in step
        while not self._over.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.05)
        for transport, _ in made:
            transport.abort()

    def between(self, began: float, ended: float) -> list[float]:
        """How late the chunks were that arrived then, sorted."""
        return sorted(late for at, late in list(self.notes) if began <= at <= ended)


def p99(values: list[float]) -> float:
    return values[min(len(values) - 1, len(values) * 99 // 100)]


@pytest.fixture
def big() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


def test_large_bodies_do_not_hold_up_the_streams(
    children: Children, fleet: Fleet, big: Fleet, say: Callable[[str], None]
) -> None:
    settings = static_pools(fleet, [fleet.open()])
    (address,) = big.open()
    pool = {"cluster": "big", "namespace": "soak", "name": "llama", "region": "big", "frontends": [big.url(address)]}
    settings["discovery"]["pools"].append(pool)
    settings["models"] = [
        {"id": MODEL, "pools": [{"cluster": "cluster-0"}]},
        {"id": BIG, "pools": [{"cluster": "big"}]},
    ]
    settings["limits"] = {"body": "33MiB"}
    ingress = Ingress("ingress", settings, children).start()
    added: dict[tuple[int, str], float] = {}
    with Watch(ingress.port) as watch, Talker("tests.soak.sender") as sender, Past(big, address) as past:
        wait_until(lambda: fleet.total("active") == STREAMS, "all streams run", 10)
        settle(1.0)
        for mib in SIZES:
            for kind in KINDS:
                figures = [_round(watch, sender, mib, kind, ingress.port, past.port) for _ in range(ROUNDS)]
                still, beside, through, block, took = (statistics.median(row) for row in zip(*figures, strict=True))
                added[mib, kind] = min(row[2] - row[0] for row in figures)
                say(
                    f"{mib:>2} MiB, {kind:<7}: p99 {still:.1f} ms still, {beside:.1f} past the ingress, {through:.1f} "
                    f"through it (best round: {added[mib, kind]:+.1f}); latest chunk {block:.1f} ms; "
                    f"the body took {took:.0f} ms"
                )
    assert ingress.child is not None
    assert "Traceback" not in ingress.child.log_text()
    ingress.stop()
    too_slow = {which: round(ms, 1) for which, ms in added.items() if which[0] <= 20 and ms > MOST_MS}
    assert too_slow == {}


class Past:
    """The way past the ingress: a port of 127.0.0.1 that is the frontend itself."""

    def __init__(self, fleet: Fleet, address: str) -> None:
        self.port = fleet.port
        self._fleet = fleet
        self._address = address

    def __enter__(self) -> Past:
        self._fleet.tell("open", addresses=["127.0.0.1"], port=self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.tell("drain", address="127.0.0.1")


def _round(
    watch: Watch, sender: Talker, mib: int, kind: str, port: int, past: int
) -> tuple[float, float, float, float, float]:
    """p99 still, past the ingress and through it; the latest chunk; how long the body took; all in ms."""
    began = time.monotonic()
    settle(0.3)
    still = watch.between(began, time.monotonic())
    beside = _sent(watch, sender.tell("send", port=past, mib=mib, kind=kind))
    settle(0.1)
    told = sender.tell("send", port=port, mib=mib, kind=kind)
    through = _sent(watch, told)
    assert still, "the streams have ended"
    return p99(still), p99(beside), p99(through), through[-1], 1000 * (told["ended"] - told["began"])


def _sent(watch: Watch, told: dict[str, Any]) -> list[float]:
    """The delays of the chunks while the body was under way (and just after, for those that waited for its end)."""
    assert told["answer"] == "HTTP/1.1 200 OK", told
    settle(0.1)
    found = watch.between(told["began"], told["ended"] + 0.02)
    assert found, "no chunk arrived meanwhile"
    return found
