"""Sends one large body after the other, as a process of its own, and says when each began and ended.

    python -m tests.soak.sender                {"do": "send", "port": N, "mib": N, "kind": "end"} on standard input

Kinds: `start` and `end` say where `model` stands; `escapes` has escapes throughout, among them letters of "model".
"""

from __future__ import annotations

import json
import socket
import sys
import time

from tests.soak.wire import mark

MODEL = "soak-big"
KINDS = ("start", "end", "escapes")
LIMIT = 60.0


def body(mib: int, kind: str) -> bytes:
    """A chat completion whose message holds a picture of that size in base64."""
    size = mib << 20
    if kind == "escapes":
        filler = rb"iVBORw0KGgo\/AAAA\n\u006dodel\"model\":" * (size // 38)
    else:
        filler = b"iVBORw0KGgo/+A==" * (size // 16)
    ask = json.dumps({"role": "user", "content": mark("big")}).encode()
    picture = (
        b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}]}' % filler
    )
    model = b'"model":"%b"' % MODEL.encode()
    messages = b'"messages":[%b,%b,%b]' % (ask, picture, ask)
    first, second = (messages, model) if kind == "end" else (model, messages)
    return b"{%b,%b}" % (first, second)


def send(port: int, content: bytes) -> dict[str, object]:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as one:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak.test\r\ncontent-type: application/json\r\n"
        began = time.monotonic()
        one.sendall(b"%bcontent-length: %d\r\n\r\n" % (head, len(content)))
        one.sendall(content)
        answer = b""
        while not answer.endswith(b"}"):  # ours and the frontend's answers are one JSON object each
            piece = one.recv(65536)
            if not piece:
                break
            answer += piece
        return {"began": began, "ended": time.monotonic(), "answer": answer.split(b"\r\n", 1)[0].decode()}


def main() -> None:
    made: dict[tuple[int, str], bytes] = {}
    for line in sys.stdin:
        order = json.loads(line)
        which = order["mib"], order["kind"]
        if which not in made:
            made = {which: body(*which)}
        print(json.dumps(send(order["port"], made[which])), flush=True)


if __name__ == "__main__":
    main()
