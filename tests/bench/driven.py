"""One worker's data plane driven without sockets, and the instructions it takes: a figure that no other program sways.

Run as a program it takes so many unary answers and so many events of one stream through a client's connection and a
frontend's. `instructions` runs that below callgrind with two numbers of each; what is between them is the price of one.
The kernel's part, the event loop's and the log's are not in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.proxy.wirekit import Rig, rigged

ROOT = Path(__file__).resolve().parents[2]
FEW, MANY = 100, 500
CHAT = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 180 + b'"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: ingress\r\nAuthorization: Bearer k\r\nAccept: application/json\r\n"
    b"Content-Type: application/json\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%b" % (len(CHAT), CHAT)
)
BODY = b'{"id":"c","choices":[{"text":"' + b"word " * 100 + b'"}],"usage":{"prompt_tokens":5,"completion_tokens":100}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"delta":{"content":"' + b"word " * 20 + b'"}}]}\n\n'
)
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


def unary(rig: Rig, count: int) -> None:
    frontend = rig.stock()
    client, wire = rig.client()
    for _ in range(count):
        client.data_received(REQUEST)
        frontend.data_received(ANSWER)
        if not wire.written.endswith(BODY):
            raise AssertionError(f"the answer was {bytes(wire.written[:200])!r}")
        wire.written.clear()


def stream(rig: Rig, count: int) -> None:
    frontend = rig.stock()
    client, wire = rig.client()
    client.data_received(REQUEST)
    frontend.data_received(STREAM + CHUNK)
    for _ in range(count):
        wire.written.clear()
        frontend.data_received(CHUNK)
        if wire.written != CHUNK:
            raise AssertionError(f"the chunk was {bytes(wire.written[:200])!r}")


def instructions(python: Path = Path(sys.executable)) -> dict[str, float] | None:
    """Instructions per unary request and per event; None where there is no valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    base, requests, events = (_counted(valgrind, python, *n) for n in ((FEW, FEW), (MANY, FEW), (FEW, MANY)))
    return {"unary": (requests - base) / (MANY - FEW), "chunk": (events - base) / (MANY - FEW)}


def _counted(valgrind: str, python: Path, requests: int, events: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(python)]
        command += ["-m", "tests.bench.driven", str(requests), str(events)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise AssertionError(f"callgrind ended with {done.returncode}: {done.stderr[-800:]}")
    return int(found[1])


if __name__ == "__main__":
    with rigged() as one:
        unary(one, int(sys.argv[1]))
    with rigged() as one:
        stream(one, int(sys.argv[2]))
