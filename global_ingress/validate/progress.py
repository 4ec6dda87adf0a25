"""What is going on, on a terminal: a bar for each region and run, lines above them. Elsewhere lines alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bars:
    """`say` prints a line; `sent` counts one more of `of` requests from a region in a run."""

    def __init__(self, console: Console, progress: Progress | None) -> None:
        self._console = console
        self._progress = progress
        self._bars: dict[tuple[str, int], TaskID] = {}

    def say(self, line: str) -> None:
        self._console.out(line, highlight=False)

    def sent(self, ingress: str, run: int, of: int) -> None:
        if self._progress is None:
            return
        if (ingress, run) not in self._bars:
            self._bars[ingress, run] = self._progress.add_task(f"{ingress}, run {run}", total=of)
        self._progress.advance(self._bars[ingress, run])


@contextmanager
def bars(console: Console) -> Iterator[Bars]:
    """Bars while the block runs, when this is a terminal."""
    if not console.is_terminal:
        yield Bars(console, None)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield Bars(console, progress)
