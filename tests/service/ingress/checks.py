"""What a client must see when something breaks inside an answer (rule R1), and small measures of processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.service.ingress.client import Answer


def frame_of(answer: Answer, sent: bytes) -> dict[str, Any]:
    """The error that was told inside a cut stream: what the frontend had sent, exactly one frame, no [DONE], no end."""
    assert answer.status == 200, answer
    assert not answer.whole, f"a cut stream ended as if it were whole: {answer}"
    assert answer.body.startswith(sent), (answer, sent)
    rest = answer.body[len(sent) :]
    assert rest.startswith(b"data: "), answer
    assert rest.endswith(b"\n\n"), answer
    assert rest.count(b"data:") == 1, answer
    found = json.loads(rest[6:])
    assert set(found) == {"error"}, found
    assert set(found["error"]) == {"message", "type", "code", "param"}, found
    error: dict[str, Any] = found["error"]
    assert error["param"] is None, error
    return error


def only_cut(answer: Answer, sent: bytes) -> None:
    """Cut without a word: what was sent and nothing else, and no proper end."""
    assert answer.status == 200, answer
    assert not answer.whole, f"a cut body ended as if it were whole: {answer}"
    assert answer.body == sent, (answer, sent)


def memory(pid: int) -> int:
    """Anonymous resident bytes of a process and all that descend from it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for one in family:
        try:
            text = Path(f"/proc/{one}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("RssAnon:"))
    return total
