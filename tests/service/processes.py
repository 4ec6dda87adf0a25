"""Processes as /proc tells: who descends from whom, and who is still there."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """All living descendants of a process: id → its start time, so that a reused id is another process."""
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            fields = _fields(int(folder.name))
            if fields is not None:
                parents[int(folder.name)] = int(fields[1])
                started[int(folder.name)] = fields[19]
    found: dict[int, str] = {}
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh and child not in found}
        found |= {child: started[child] for child in fresh}
    return found


def still_there(processes: dict[int, str]) -> set[int]:
    """Which of these processes live (a zombie does not)."""
    alive = set()
    for pid, start in processes.items():
        fields = _fields(pid)
        if fields is not None and fields[19] == start and fields[0] != "Z":
            alive.add(pid)
    return alive


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
