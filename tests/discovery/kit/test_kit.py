"""Clock, backoff, tasks, log and metrics."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discovery.kit.backoff import Backoff
from discovery.kit.clock import SystemClock, rfc3339
from discovery.kit.log import configure, logger
from discovery.kit.metrics import Metrics
from discovery.kit.page import page
from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle


async def test_virtual_sleepers_wake_in_order_and_only_when_time_passes() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("b", 2), ("a", 1), ("c", 5))]
    await settle()
    assert len(woken) == 0
    assert clock.sleepers == 3
    await clock.advance(2)
    assert woken == [("a", 1), ("b", 2)]
    await clock.advance(10)
    assert [name for name, _ in woken] == ["a", "b", "c"]
    assert clock.monotonic() == 12
    await asyncio.gather(*tasks)


def test_dates_are_utc() -> None:
    assert rfc3339(VirtualClock().now()) == "2026-01-01T00:00:00.000Z"
    assert rfc3339(SystemClock().now()).endswith("Z")


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_is_bounded_and_never_nothing(failures: int, chance: float) -> None:
    delay = Backoff(first=0.5, limit=30).delay(failures, chance)
    assert 0.25 <= delay <= 30
    assert Backoff(0.5, 30).delay(failures + 1, chance) >= delay


async def test_a_failing_task_is_logged_and_ends_what_depends_on_it(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[Exception] = []
    ended = asyncio.Event()

    async def work() -> None:
        raise RuntimeError("broken")

    def fail(error: Exception) -> None:
        failures.append(error)
        ended.set()

    async with background(work(), name="worker", on_failure=fail):
        await ended.wait()
    assert str(failures[0]) == "broken"
    assert "background task failed" in caplog.text


async def test_a_task_that_never_began_is_no_forgotten_coroutine() -> None:
    """As where a listener cannot be opened right after it. Python would warn, which is an error here."""

    async def work() -> None:
        raise AssertionError("it had no turn")

    coroutine = work()
    with pytest.raises(RuntimeError, match="no listener"):
        async with background(coroutine, name="worker", on_failure=lambda _: None):
            raise RuntimeError("no listener")
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_leaving_ends_the_task_without_a_failure() -> None:
    failures: list[Exception] = []
    closed: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async with background(work(), name="worker", on_failure=failures.append) as task:
        await settle()
    assert task.cancelled()
    assert closed == [True]
    assert failures == []


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


@pytest.mark.usefixtures("root_logger")
@example("\x7f\x9b31m\u2028", "\r\n\x1b")
@given(st.text(), st.text(min_size=1))
def test_nothing_from_outside_makes_a_second_line(value: str, raw: str) -> None:
    for form in ("json", "text"):
        stream = io.StringIO()
        configure("json" if form == "json" else "text", "info", stream)
        logger("test").warning("happened", value=value)
        logging.getLogger("foreign").warning("said %s", raw)
        written = stream.getvalue()
        assert len(written.splitlines()) == 2
        assert all(c.isprintable() or c == "\n" for c in written)


@pytest.mark.usefixtures("root_logger")
def test_json_lines_keep_values_and_pairs_never_replace_the_line_s_own_fields() -> None:
    stream = io.StringIO()
    configure("auto", "info", stream)
    logger("a.b").info("happened", file="x y", line=3, level="forged")
    logger("a.b").debug("unseen")
    line = json.loads(stream.getvalue())
    assert (line["message"], line["file"], line["line"], line["level"]) == ("happened", "x y", 3, "info")
    assert line["level_"] == "forged"


@pytest.mark.usefixtures("root_logger")
def test_text_quotes_what_could_be_mistaken() -> None:
    stream = io.StringIO()
    configure("text", "info", stream)
    logger("a").info("happened", plain="x", spaced="a b=c", escape="\x1b[31m", nothing=None)
    assert stream.getvalue().endswith('a: happened plain=x spaced="a b=c" escape="\\u001b[31m" nothing=null\n')


@pytest.mark.usefixtures("root_logger")
def test_a_trace_is_indented_under_its_line() -> None:
    stream = io.StringIO()
    configure("text", "info", stream)
    try:
        raise ValueError("first\nforged line")
    except ValueError as error:
        logger("a").exception("failed", error)
    lines = stream.getvalue().splitlines()
    assert all(line.startswith("    ") for line in lines[1:])
    assert any("ValueError: first" in line for line in lines)


def test_metrics_read_when_asked() -> None:
    metrics = Metrics()
    counted = metrics.counter("things", "Things", ("kind",))
    plain = metrics.counter("events", "Events")
    number = [1.0]
    metrics.gauge("level", "Level", lambda: number[0])
    counted.add("a")
    counted.add("a", by=2)
    number[0] = 7
    text = metrics.exposition().decode()
    assert 'things_total{kind="a"} 3.0' in text
    assert "events_total 0.0" in text
    assert "level 7.0" in text
    assert counted.value("a") == 3
    assert plain.value() == 0


def test_pages_escape() -> None:
    assert "&lt;b&gt;" in page("t", "{{ x }}", {"x": "<b>"})
