"""What features cost on the way of a request: one worker's plane in this process, bytes in, bytes out, no sockets.

    python -m tests.bench.features [--rounds 15] [--requests 3000] [--only off]

All features take turns in each round, so that a busy machine slows them alike; the median over rounds of each one's
ratio to `off` is told. CPU of the whole process, threads included. The kernel's share of a request is not in it, so
the ratios are larger than those of a request on the network.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from global_ingress.proxy.carrying.accesslog import AccessLog, json_lines
from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.ledger import create_ledger
from global_ingress.proxy.shared.routes import Auth, KeyRoute, Routes
from tests.proxy.wirekit import Rig, Wire, rigged, routes

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
DOCUMENT = b'{"usage":{"prompt_tokens":3,"completion_tokens":5}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(DOCUMENT),
    DOCUMENT,
)
CALLER = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-%016x-%02x\r\n"


class Driver:
    """One client and one frontend of a plane."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.client, self.wire = rig.client()
        self.frontend = rig.stock()
        self.sink: Wire = self.frontend.transport

    def one(self, headers: bytes) -> None:
        rig = self.rig
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key\r\n%b" % headers
        self.client.data_received(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(BODY), BODY))
        self.frontend.data_received(ANSWER)
        rig.loop.settle()
        self.wire.written.clear()
        self.sink.written.clear()

    def run(self, requests: int, feature: str) -> float:
        """CPU seconds per request."""
        callers = feature.startswith("caller")
        flag = feature.endswith("sampled") and not feature.endswith("unsampled")
        plane = self.rig.plane
        before = time.process_time()
        for n in range(requests):
            self.one(CALLER % (n + 1, flag) if callers else b"")
            if n % 100 == 0:
                self.rig.now += 0.05
                plane._tick(self.rig.now)
        if plane.log is not None:
            plane.log.pass_on()
            while plane.log._written < plane.log._passed:
                time.sleep(0.001)
        return (time.process_time() - before) / requests


def _routes(feature: str) -> Routes:
    given = routes()
    if feature == "auth":
        key = KeyRoute("k", hashlib.sha256(b"key").digest(), 0, rate=(1_000_000_000, 1.0), concurrent=20)
        return msgspec.structs.replace(given, auth=Auth((key,), False))
    if "sampled" in feature:
        from global_ingress.proxy.shared.routes import Sampling

        ratio = 0.0 if feature == "trace unsampled" else 0.01 if "1 %" in feature else 1.0
        return msgspec.structs.replace(given, trace=Sampling(ratio, True))
    return given


FEATURES = (
    "off", "off again", "access log", "auth", "trace unsampled", "trace sampled 1 %", "trace sampled",
    "caller off", "caller unsampled", "caller sampled",
)  # fmt: skip


@contextmanager
def driver(feature: str) -> Iterator[Driver]:
    with ExitStack() as stack:
        rig = stack.enter_context(rigged())
        fd = create_ledger(1)
        stack.callback(os.close, fd)
        rig.plane.allowance = Allowance(fd, 1, 0)
        stack.callback(rig.plane.allowance.close)
        if hasattr(rig.plane, "send_spans"):
            rig.plane.send_spans = lambda payload: True
        if feature == "access log":
            file = stack.enter_context(tempfile.TemporaryFile())
            rig.plane.log = AccessLog(file.fileno(), json_lines)
            stack.callback(rig.plane.log.close, 5.0)
        rig.plane.apply(_routes(feature))
        yield Driver(rig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--only", nargs="*", default=FEATURES)
    given = parser.parse_args()
    with ExitStack() as stack:
        drivers = {name: stack.enter_context(driver(name)) for name in given.only}
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        found: dict[str, list[float]] = {name: [] for name in drivers}
        for one_round in range(-1, given.rounds):
            for name, one in drivers.items():
                seconds = one.run(given.requests, name)
                if one_round >= 0:
                    found[name].append(seconds)
        for name, times in found.items():
            base = found["caller off" if name.startswith("caller") and "caller off" in found else next(iter(found))]
            ratios = [mine / theirs for mine, theirs in zip(times, base, strict=True)]
            middle = f"{statistics.median(times) * 1e6:7.2f} us  {statistics.median(ratios):5.3f}"
            print(f"{name:20} {middle}  ({min(ratios):.3f}-{max(ratios):.3f})")


if __name__ == "__main__":
    main()
