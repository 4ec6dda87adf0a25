"""One line per request, written by a thread that never holds the loop up; counters that add up (I70)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.carrying.accesslog import HELD, AccessLog, Entry, json_lines, refused_entry, text_lines
from global_ingress.proxy.carrying.tally import Tally, bump
from global_ingress.proxy.shared.counts import OUTCOMES

TEXT = st.text(max_size=12)
COUNT = st.integers(0, 1 << 53)
ENTRIES = st.lists(
    st.builds(
        Entry,
        at=st.floats(0, 2e9),
        request_id=TEXT,
        method=TEXT,
        path=TEXT.filter(lambda path: "\n" not in path),
        model=st.none() | TEXT,
        pool=st.none() | TEXT,
        region=st.none() | TEXT,
        frontend=st.none() | TEXT,
        status=st.integers(100, 599),
        outcome=st.sampled_from(OUTCOMES),
        code=st.none() | TEXT,
        attempts=st.integers(0, 9),
        bytes_in=COUNT,
        bytes_out=COUNT,
        first_byte_ms=st.none() | st.floats(0, 1e6),
        total_ms=st.floats(0, 1e6),
        stream=st.booleans(),
        tokens_in=st.none() | COUNT,
        tokens_out=st.none() | COUNT,
        client=TEXT,
    ),
    max_size=5,
)


@given(ENTRIES)
def test_json_lines_are_one_object_each_and_hold_everything(entries: list[Entry]) -> None:
    lines = json_lines(entries).split(b"\n")[:-1]
    assert len(lines) == len(entries)
    for line, entry in zip(lines, entries, strict=True):
        assert orjson.loads(line) == {name: getattr(entry, name) for name in Entry.__struct_fields__}


def one(**more: Any) -> Entry:
    made = refused_entry(1e9, "id-1", "POST", "/v1/x", 404, "refused", "unknown_url", "192.0.2.7")
    return Entry(**{name: more.get(name, getattr(made, name)) for name in Entry.__struct_fields__})


def test_text_lines_are_for_people() -> None:
    whole = one(model="m", pool="c/n/p", first_byte_ms=12.4, total_ms=99.6, attempts=2, bytes_out=7, code=None)
    first, second = text_lines([one(), whole]).decode().splitlines()
    assert first == (
        "01:46:40.000 404 refused unknown_url POST /v1/x - → - first - total 0ms in 0 out 0 attempts 0 id-1"
    )
    assert second.endswith(" 404 refused POST /v1/x m → c/n/p first 12ms total 100ms in 0 out 7 attempts 2 id-1")


def test_all_that_was_added_is_written_in_order(tmp_path: Path) -> None:
    file = tmp_path / "log"
    fd = os.open(file, os.O_CREAT | os.O_WRONLY)
    log = AccessLog(fd, json_lines)
    for n in range(1000):
        log.add(one(attempts=n))
        if n % 7 == 0:
            log.pass_on()
    log.close(10)
    os.close(fd)
    assert [orjson.loads(line)["attempts"] for line in file.read_bytes().splitlines()] == list(range(1000))
    assert log.dropped == 0


def test_what_the_writer_cannot_take_is_dropped_and_counted() -> None:
    reader, writer = os.pipe()
    log = AccessLog(writer, json_lines)
    for _ in range(HELD + 500):
        log.add(one())
    log.pass_on()  # more at once than is ever held
    assert log.dropped == 500
    for _ in range(10):
        log.add(one())
    log.pass_on()
    kept = HELD + 510 - log.dropped
    got = 0
    while got < kept:
        got += os.read(reader, 1 << 20).count(b"\n")
    log.close(10)
    os.close(reader)
    os.close(writer)
    assert got == kept


def test_a_closed_pipe_loses_lines_and_says_so() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = AccessLog(writer, text_lines)
    log.add(one())
    log.add(one())
    log.close(10)
    os.close(writer)
    assert log.dropped == 2


# Counters.

TIMES = st.lists(st.floats(0, 1000), max_size=30)


@given(TIMES, TIMES, TIMES)
def test_every_request_is_in_one_bucket(durations: list[float], firsts: list[float], chunks: list[float]) -> None:
    tally = Tally()
    track = tally.track("m", "p")
    for n, seconds in enumerate(durations):
        track.request(200 + n % 2, "ok", n % 3 == 0, seconds)
    for seconds in firsts:
        track.first(seconds)
    for seconds in chunks:
        track.chunk(seconds)
    series = track.series()
    assert sum(series.requests.values()) == sum(series.duration.buckets) == len(durations)
    assert (sum(series.first_byte.buckets), sum(series.inter_chunk.buckets)) == (len(firsts), len(chunks))
    assert series.duration.total == pytest.approx(sum(durations))
    assert series.inter_chunk.total == pytest.approx(sum(chunks))
    counts = tally.counts(buffered=1, log_dropped=2, loop_lag=0.5, last_tick=9.0)
    assert len(counts.series) == (1 if durations else 0), "only what was asked is reported"


def test_tracks_are_found_again_and_words_are_counted() -> None:
    tally = Tally()
    assert tally.track("m", "p") is tally.track("m", "p")
    assert tally.track("m", "q") is not tally.track("m", "p")
    for word in ("a", "b", "a"):
        bump(tally.refusals, word)
    assert tally.refusals == {"a": 2, "b": 1}
