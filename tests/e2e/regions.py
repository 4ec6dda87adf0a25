"""Regions on loopback: each a real Dynamo frontend and one mocker, in a discovery folder of their own.

By hand: `python -m tests.e2e.regions start 4 --base-port 18800` runs until Ctrl-C and prints the URLs.
Nothing but 127.0.0.1 is served or called; there is no etcd, no NATS and no model hub.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.e2e import dynamo, model_folder
from tests.e2e.children import Child, Children, wait_until

MODEL = "tiny"
LISTED_WITHIN_S = 60.0
PLACES = (
    ("ohio", "us-east-2"),
    ("oregon", "us-west-2"),
    ("frankfurt", "eu-central-1"),
    ("tokyo", "ap-northeast-1"),
)
# Below the range from which the kernel picks the local ports of connections: there a port can be free when looked
# at and taken (even by a connection to itself) while its frontend is down.
_PORTS = range(20_000, 32_000)


def free_ports(count: int, first: int | None = None) -> list[int]:
    """`count` ports nobody listens on, from `first` exactly or from anywhere; a taken one of the former is named."""
    if first is not None:
        wanted = list(range(first, first + count))
        if taken := [port for port in wanted if not _free(port)]:
            raise OSError(f"taken on 127.0.0.1: {', '.join(map(str, taken))}")
        return wanted
    start = os.getpid() * 37 % len(_PORTS)  # runs side by side begin at different places
    found: list[int] = []
    for step in range(len(_PORTS)):
        port = _PORTS[(start + step) % len(_PORTS)]
        if port not in _GIVEN and _free(port):
            _GIVEN.add(port)
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports in {_PORTS}")


_GIVEN: set[int] = set()


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Region:
    """One region: what it is called, where it listens, and its two processes."""

    def __init__(self, index: int, port: int, folder: Path, children: Children) -> None:
        self.index = index
        self.port = port
        self.cluster, self.name = PLACES[index] if index < len(PLACES) else (f"cluster-{index}", f"region-{index}")
        self.tag = f"r{index}"
        self.url = f"http://127.0.0.1:{port}"
        self.mocker_args: tuple[str, ...] = ()
        self._folder = folder / self.tag
        self._children = children
        self.frontend: Child | None = None
        self.worker: Child | None = None

    def __repr__(self) -> str:
        return f"<region {self.tag} {self.cluster} {self.url} {self.frontend} {self.worker}>"

    # -- starting and ending

    def start(self) -> None:
        model_folder.write(self._folder / "model", self.tag)
        self._clear_registrations()
        self.start_frontend()
        self.start_worker()

    def start_frontend(self) -> None:
        if self.frontend is not None:
            self._children.forget(self.frontend)
        argv = ["dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(self.port), "--enable-anthropic-api"]
        self.frontend = self._run("frontend", argv)

    def start_worker(self) -> None:
        if self.worker is not None:
            self._children.forget(self.worker)
        argv = ["dynamo.mocker", "--model-path", str(self._folder / "model"), "--model-name", MODEL]
        argv += ["--max-model-len", str(model_folder.CONTEXT_LENGTH), *self.mocker_args]
        self.worker = self._run("worker", argv)

    def signal_worker(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.worker is None:
            raise RuntimeError(f"{self!r} was never started")
        self.worker.signal(number)

    def signal_frontend(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.frontend is None:
            raise RuntimeError(f"{self!r} was never started")
        self.frontend.signal(number)

    def restart(self) -> None:
        """Both processes anew, without the registration a killed worker leaves behind for some ten seconds."""
        for child in (self.frontend, self.worker):
            if child is not None:
                self._children.forget(child)
        self.frontend = self.worker = None
        self.start()
        self.wait_listed()

    def move(self, port: int) -> None:
        """Restart the region with its frontend on another port."""
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.restart()

    def replace_frontend(self, port: int) -> Child:
        """A second frontend for the same worker on another port, as a rolling update makes it; gives the first one,
        which still serves."""
        old, self.frontend = self.frontend, None
        if old is None:
            raise RuntimeError(f"{self!r} was never started")
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.start_frontend()
        self.wait_listed()
        return old

    def restore(self) -> None:
        """Restart the region unless it is whole: both processes running, exactly one worker ready."""
        children = (self.frontend, self.worker)
        if not (all(child is not None and child.alive() for child in children) and self.ready_workers() == 1):
            self.restart()

    # -- looking

    def wait_listed(self, within_s: float = LISTED_WITHIN_S) -> None:
        def listed() -> bool:
            for child in (self.frontend, self.worker):
                if child is None or not child.alive():
                    raise RuntimeError(f"{child!r} ended while it was to start:\n{child.tail() if child else ''}")
            return self.ready_workers() == 1

        wait_until(listed, f"{MODEL} served by one worker of {self!r}", within_s)

    def ready_workers(self) -> int:
        """Workers the frontend counts as ready to serve the model; 0 also when it does not answer."""
        try:
            answer = httpx.get(f"{self.url}/v1/models/{MODEL}/ready", timeout=2)
        except httpx.TransportError:
            return 0
        if answer.status_code != 200:
            return 0
        kinds: dict[str, Any] = answer.json()["namespaces"]["dynamo"]["worker_types"]
        return sum(int(kind["workers"]) for kind in kinds.values())

    def metric(self, name: str) -> float:
        """Sum of one metric's samples for our model, 0 while it has none."""
        text = httpx.get(f"{self.url}/metrics", timeout=5).text
        samples = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(f"{name}{{")]
        return sum(float(value) for labels, value in samples if f'model="{MODEL}"' in labels)

    def cancellations(self) -> float:
        return self.metric("dynamo_frontend_model_cancellation_total")

    def in_flight(self) -> float:
        return self.metric("dynamo_frontend_inflight_requests")

    def worker_log(self) -> str:
        return self.worker.log_text() if self.worker else ""

    # -- within

    def _run(self, kind: str, argv: Sequence[str]) -> Child:
        argv = [str(dynamo.PYTHON), "-m", *argv]
        return self._children.start(f"{self.tag}-{kind}", argv, self._environment(), self._folder)

    def _clear_registrations(self) -> None:
        shutil.rmtree(self._folder / "registrations", ignore_errors=True)
        (self._folder / "registrations").mkdir(parents=True)

    def _environment(self) -> dict[str, str]:
        home = self._folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
        return kept | {
            "HOME": str(home),  # the frontend caches model cards below it
            "DYN_DISCOVERY_BACKEND": "file",
            "DYN_FILE_KV": str(self._folder / "registrations"),  # what keeps the regions apart
            "DYN_REQUEST_PLANE": "tcp",
            "DYN_EVENT_PLANE": "zmq",
            "DYN_TCP_RPC_HOST": "127.0.0.1",
            "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1",
            "DYN_EVENT_PLANE_HOST": "127.0.0.1",
            "DYN_SELF_HOST_METADATA": "0",
            "DYN_SDK_DISABLE_ANSI_LOGGING": "1",
            "HF_HUB_OFFLINE": "1",
            "RUST_BACKTRACE": "0",  # symbol look-up would hold a broken stream's error back by 130 ms
        }


def start_regions(count: int, folder: Path, children: Children, base_port: int | None = None) -> list[Region]:
    """Start `count` regions side by side and return when every one lists the model."""
    dynamo.setup()
    regions = [Region(index, port, folder, children) for index, port in enumerate(free_ports(count, base_port))]
    for region in regions:
        region.start()
    for region in regions:
        region.wait_listed()
    return regions


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.regions", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["start"])
    parser.add_argument("count", type=int, nargs="?", default=4)
    parser.add_argument("--base-port", type=int, default=18800)
    asked = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="dynamo-regions-") as folder, Children(Path(folder) / "logs") as children:
        try:
            for region in start_regions(asked.count, Path(folder), children, asked.base_port):
                print(f"{region.url}  {region.cluster} ({region.name})", flush=True)
            print(f"logs in {children.folder}; Ctrl-C ends", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            return 0
        except OSError as fault:
            print(fault, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
