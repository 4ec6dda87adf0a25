"""`python -m tests.bench.silence PORT`: how long `/livez` goes without an answer, asked from a process of its own.

The longest answer is at least the longest block of the asked program's loop, and it is not much more, since this
process does nothing else. Each line on standard input is answered with the worst of the seconds since the last one.
"""

from __future__ import annotations

import http.client
import select
import sys
import time

PAUSE = 0.01


def answer(port: int) -> None:
    """Until standard input ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    worst = 0.0
    while True:
        began = time.monotonic()
        connection.request("GET", "/livez")
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"/livez: {response.status}")
        worst = max(worst, time.monotonic() - began)
        if select.select([sys.stdin], [], [], PAUSE)[0]:
            if not sys.stdin.readline():
                return
            print(worst, flush=True)
            worst = 0.0


if __name__ == "__main__":
    answer(int(sys.argv[1]))
