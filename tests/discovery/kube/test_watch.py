"""The rules of listing and watching one by one: what is asked next after what came."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from discovery.kube.events import (
    Ask,
    Bookmarked,
    Cause,
    Deleted,
    Event,
    Gathered,
    Kind,
    RefusedItem,
    Replaced,
    Unknown,
    Upserted,
    Wait,
    What,
)
from discovery.kube.watch import ListWatch
from tests.discovery.kube.scripted import EXPIRED, POLICY, TOO_NEW, decode, line, status

Machine = ListWatch[tuple[str, int]]


def thing(name: str, number: int = 1, version: str = "7") -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": name, "uid": "u", "resourceVersion": version}, "number": number}


def end_of_list(version: str = "20") -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": annotations}, "endpoints": None})


def make(**policy: Any) -> Machine:
    return ListWatch(decode, selector="a", policy=replace(POLICY, **policy), chance=lambda: 0.5, now=0.0)


def ask(machine: Machine, now: float) -> tuple[What, dict[str, str]]:
    step = machine.next(now)
    while isinstance(step, Wait):
        now += step.seconds
        step = machine.next(now)
    assert isinstance(step, Ask)
    return step.what, dict(step.query)


def drain(machine: Machine, now: float) -> list[Event[tuple[str, int]]]:
    found = []
    while (event := machine.next_event(now)) is not None:
        found.append(event)
    return found


def hear(machine: Machine, data: bytes, now: float) -> list[Event[tuple[str, int]]]:
    machine.body(data, now)
    return [event for event in drain(machine, now) if not isinstance(event, Gathered)]


def listed(now: float = 0.0, **policy: Any) -> Machine:
    """A machine whose streaming list is whole, at version 20."""
    machine = make(**policy)
    ask(machine, now)
    machine.head(200, None, now)
    [event] = hear(machine, line("ADDED", thing("a")) + end_of_list(), now)
    assert isinstance(event, Replaced)
    return machine


def answer(machine: Machine, code: int, body: Any = b"", now: float = 0.0, retry_after: str | None = None) -> None:
    machine.head(code, retry_after, now)
    machine.body(body if isinstance(body, bytes) else json.dumps(body).encode(), now)
    machine.end(now)


def test_the_first_list_streams_without_a_version() -> None:
    what, query = ask(make(), 0)
    assert what is What.STREAM
    assert query == {
        "labelSelector": "a",
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "450",
    }


def test_a_list_is_told_when_it_is_whole_and_goes_on_as_a_watch() -> None:
    machine = make()
    ask(machine, 0)
    machine.head(200, None, 0)
    assert hear(machine, line("ADDED", thing("a")) + line("ADDED", thing("b")), 0) == []
    assert not machine.health.right_at
    [event] = hear(machine, end_of_list(), 1)
    assert event == Replaced([("a", 1), ("b", 1)], [], Cause.FIRST, "20", "")
    assert hear(machine, line("MODIFIED", thing("a", 2, "21")), 2) == [Upserted(("a", 2))]
    assert hear(machine, line("DELETED", thing("b", 1, "22")), 3) == [Deleted("n", "b", "u")]
    bookmark = {"metadata": {"resourceVersion": "30"}, "endpoints": None}
    assert hear(machine, line("BOOKMARK", bookmark), 4) == [Bookmarked("30")]
    assert (machine.version, machine.health.right_at) == ("30", 4)
    machine.end(5)
    what, query = ask(machine, 5)
    assert (what, query["resourceVersion"], query["allowWatchBookmarks"]) == (What.WATCH, "30", "true")
    assert "sendInitialEvents" not in query


def test_unknown_types_are_skipped_and_told() -> None:
    machine = listed()
    assert hear(machine, line("SURPRISE", thing("x", 1, "25")), 1) == [Unknown("SURPRISE")]
    assert machine.reading
    assert machine.version == "25"


@pytest.mark.parametrize("code", [400, 422])
def test_a_refusal_of_streaming_lists_is_remembered_and_no_trouble(code: int) -> None:
    machine = make()
    ask(machine, 0)
    answer(machine, code, status(code))
    assert machine.health.trouble is None
    what, query = ask(machine, 0)
    assert (what, query) == (What.PAGE, {"labelSelector": "a", "limit": "2"})
    answer(machine, 200, {"kind": "XList", "metadata": {"resourceVersion": "9"}, "items": None})
    [event] = drain(machine, 0)
    assert event == Replaced([], [], Cause.FIRST, "9", "")
    assert machine.streams_refused


def test_an_error_500_within_a_streaming_list_falls_back_for_good() -> None:
    machine = make()
    ask(machine, 0)
    machine.head(200, None, 0)
    assert hear(machine, line("ERROR", status(500, "", "RequestWatchProgress is disabled")), 0) == []
    assert not machine.reading
    assert ask(machine, 0)[0] is What.PAGE
    assert machine.streams_refused


def test_a_streaming_list_without_an_end_falls_back_and_the_second_time_for_good() -> None:
    machine = make()
    for refused in (False, True):
        assert ask(machine, 0)[0] is What.STREAM
        machine.head(200, None, 0)
        hear(machine, line("ADDED", thing("a")), 0)
        assert machine.deadline == 30
        machine.overdue(30)
        assert ask(machine, 30)[0] is What.PAGE
        assert machine.streams_refused is refused
        answer(machine, 200, {"kind": "XList", "metadata": {"resourceVersion": "9"}, "items": []}, 30)
        drain(machine, 30)
        machine.list_again()


def test_pages_are_one_list_or_none() -> None:
    machine = make()
    machine.streams_refused = True
    ask(machine, 0)
    first = {"kind": "XList", "metadata": {"resourceVersion": "9", "continue": "t"}, "items": [thing("a"), thing("b")]}
    answer(machine, 200, first)
    assert drain(machine, 0) == [Gathered(), Gathered()]
    what, query = ask(machine, 0)
    assert (what, query) == (What.PAGE, {"labelSelector": "a", "limit": "2", "continue": "t"})
    answer(machine, 410, EXPIRED)
    assert drain(machine, 0) == []
    assert ask(machine, 0)[1] == {"labelSelector": "a", "limit": "2"}, "from the beginning, without its new token"
    answer(machine, 200, first)
    drain(machine, 0)
    ask(machine, 0)
    answer(machine, 200, {"kind": "XList", "metadata": {"resourceVersion": "9"}, "items": [thing("c")]})
    event = drain(machine, 0)[-1]
    assert event == Replaced([("a", 1), ("b", 1), ("c", 1)], [], Cause.FIRST, "9", "")


@pytest.mark.parametrize(
    "second",
    [
        {"resourceVersion": "10"},
        {"resourceVersion": "9", "continue": "t"},
        {},
    ],
    ids=["another version", "the same token", "no version"],
)
def test_a_page_of_another_list_spoils_it(second: Any) -> None:
    machine = make()
    machine.streams_refused = True
    ask(machine, 0)
    answer(machine, 200, {"kind": "XList", "metadata": {"resourceVersion": "9", "continue": "t"}, "items": []})
    drain(machine, 0)
    ask(machine, 0)
    answer(machine, 200, {"kind": "XList", "metadata": second, "items": [thing("c")]})
    assert drain(machine, 0) == []
    assert machine.health.trouble is not None
    assert machine.health.trouble.kind is Kind.GARBAGE
    assert "continue" not in ask(machine, 0)[1]


@pytest.mark.parametrize("code", [410, 504])
@pytest.mark.parametrize("as_event", [True, False])
def test_a_version_that_is_no_use_means_a_list_without_one_at_once(code: int, as_event: bool) -> None:
    machine = listed()
    machine.end(5)
    ask(machine, 5)
    said = EXPIRED if code == 410 else TOO_NEW
    if as_event:
        machine.head(200, None, 6)
        assert hear(machine, line("ERROR", said), 6) == []
    else:
        answer(machine, code, said, 6)
    step = machine.next(6)
    assert isinstance(step, Ask), "without a wait"
    assert step.what is What.STREAM
    assert "resourceVersion" not in dict(step.query)


def test_versions_that_expire_again_and_again_wait_longer_and_longer() -> None:
    machine = make()
    waits: list[float] = []
    now = 0.0
    for _ in range(8):
        ask(machine, now)
        answer(machine, 410, EXPIRED, now)
        step = machine.next(now) if len(waits) else Wait(0)
        assert isinstance(step, Wait)
        waits.append(step.seconds)
        now += step.seconds
    assert waits[0] == 0
    assert sorted(waits) == waits
    assert waits[-1] <= 30


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, Kind.UNAUTHORIZED),
        (403, Kind.FORBIDDEN),
        (404, Kind.REFUSED),
        (429, Kind.THROTTLED),
        (500, Kind.SERVER),
        (503, Kind.SERVER),
    ],
)
def test_a_refused_watch_waits_and_goes_on_from_the_last_version(code: int, kind: Kind) -> None:
    machine = listed()
    machine.end(5)
    ask(machine, 5)
    answer(machine, code, b"<html>", 6)
    assert machine.health.trouble is not None
    assert machine.health.trouble.kind is kind
    step = machine.next(6)
    assert isinstance(step, Wait)
    assert 0.4 <= step.seconds <= 0.8
    what, query = ask(machine, 6 + step.seconds)
    assert (what, query["resourceVersion"]) == (What.WATCH, "20")


def test_retry_after_is_kept_to() -> None:
    machine = listed()
    machine.end(5)
    ask(machine, 5)
    answer(machine, 429, status(429), 6, retry_after="17")
    step = machine.next(6)
    assert isinstance(step, Wait)
    assert step.seconds == 17


def test_two_silent_watches_mean_a_list_without_a_version() -> None:
    machine = listed()
    machine.end(5)
    now = 5.0
    for expected in (What.WATCH, What.WATCH, What.STREAM):
        what, query = ask(machine, now)
        assert what is expected
        machine.head(200, None, now)
        assert machine.deadline == now + (30 if what is What.STREAM else 70)
        if what is What.WATCH:
            now += 70
            machine.overdue(now)
    assert "resourceVersion" not in query
    assert machine.failing_for(now) == 70, "since the first silence was over"


def test_any_byte_breaks_the_silence() -> None:
    machine = listed()
    machine.end(5)
    now = 5.0
    for _ in range(5):
        assert ask(machine, now)[0] is What.WATCH
        machine.head(200, None, now)
        machine.body(b" ", now + 1)
        assert machine.deadline == now + 71
        now += 71
        machine.overdue(now)


def test_a_clean_end_goes_on_at_once_but_not_after_a_very_short_watch() -> None:
    machine = listed()
    machine.end(5)
    assert isinstance(machine.next(5), Ask)
    machine.head(200, None, 5)
    machine.end(5.5)
    assert machine.health.trouble is not None
    assert machine.health.trouble.kind is Kind.SHORT
    assert isinstance(machine.next(5.5), Wait)


def test_the_safety_list_asks_for_nothing_older_and_ends_the_watch_for_it() -> None:
    machine = listed(relist_every=100.0)
    assert machine.deadline == 70
    machine.end(50)
    what, query = ask(machine, 50)
    assert (what, query["timeoutSeconds"]) == (What.WATCH, "50")
    machine.head(200, None, 50)
    machine.body(b" ", 95)
    machine.end(100)
    what, query = ask(machine, 100)
    assert (what, query["resourceVersion"], query["resourceVersionMatch"]) == (What.STREAM, "20", "NotOlderThan")
    machine.head(200, None, 100)
    [event] = hear(machine, end_of_list("33"), 100)
    assert event == Replaced([], [], Cause.SAFETY, "33", "20")


def test_a_watch_that_the_server_does_not_end_is_ended_here() -> None:
    machine = listed()
    machine.end(5)
    ask(machine, 5)
    machine.head(200, None, 5)
    now = 5.0
    while machine.reading:
        now = min(now + 60, machine.deadline)
        if now == machine.deadline:
            machine.overdue(now)
        else:
            hear(machine, line("BOOKMARK", thing("-", 1, str(now))), now)
    assert now == 5 + 450 + 30
    assert machine.health.trouble is None


def test_html_is_no_event_and_comes_twice_at_most_before_a_list() -> None:
    machine = listed()
    machine.end(5)
    now = 5.0
    for expected in (What.WATCH, What.WATCH):
        what, _ = ask(machine, now)
        assert what is expected
        machine.head(200, None, now + 9)
        assert hear(machine, b"<html>\n<body>\n", now + 9) == []
        assert not machine.reading
        now += 20
    assert ask(machine, now)[0] is What.PAGE, "pages know no lines"


@pytest.mark.parametrize(
    "said", [b"5\n", b"[]\n", b"{}\n", b'"x"\n', b'{"type":"ADDED"}\n', b'{"type":1,"object":{}}\n']
)
def test_json_that_is_no_event_ends_the_stream(said: bytes) -> None:
    machine = listed()
    assert hear(machine, said, 1) == []
    assert not machine.reading


def test_a_bare_status_on_a_line_is_an_error_event() -> None:
    machine = listed()
    hear(machine, json.dumps(EXPIRED).encode() + b"\n", 1)
    assert ask(machine, 1)[0] is What.STREAM


def test_error_events_without_reason_or_message() -> None:
    for body, expected in (({"code": 500}, What.WATCH), ({}, What.WATCH), ({"code": 404}, What.STREAM)):
        machine = listed()
        hear(machine, line("ERROR", body), 1)
        assert ask(machine, 1)[0] is expected


def test_an_object_that_cannot_be_read_is_refused_alone() -> None:
    machine = make()
    ask(machine, 0)
    machine.head(200, None, 0)
    data = line("ADDED", thing("a", -1)) + line("ADDED", thing("b")) + end_of_list()
    [event] = hear(machine, data, 0)
    assert isinstance(event, Replaced)
    assert (event.items, event.refused) == ([("b", 1)], [RefusedItem("n", "a", "a: is negative")])
    assert hear(machine, line("MODIFIED", thing("b", -1, "21")), 1) == [RefusedItem("n", "b", "b: is negative")]
    assert machine.reading
    assert machine.version == "21"


def test_a_line_that_is_too_long_is_read_as_pages() -> None:
    machine = make(max_line=100)
    ask(machine, 0)
    machine.head(200, None, 0)
    machine.body(b"x" * 101, 0)
    drain(machine, 0)
    assert not machine.reading
    assert machine.health.trouble is not None
    assert "longer than 100 bytes" in machine.health.trouble.detail


def test_half_a_line_at_the_end_is_nothing() -> None:
    machine = listed()
    assert hear(machine, line("MODIFIED", thing("a", 2, "21"))[:-2], 1) == []
    machine.end(5)
    assert ask(machine, 5)[1]["resourceVersion"] == "20"


def test_failing_is_counted_from_its_beginning_and_ends_with_an_answer() -> None:
    machine = listed()
    assert machine.failing_for(60) == 0
    machine.cut("reset", 60)
    for now in (70, 80):
        ask(machine, now)
        machine.cut("refused", now)
    assert machine.failing_for(95) == 35
    ask(machine, 100)
    assert machine.failing_for(101) == 41
    machine.head(200, None, 101)
    assert machine.failing_for(102) == 0, "an open watch works, also while nothing happens"
    machine.cut("reset", 200)
    assert machine.failing_for(205) == 5, "it had worked until then"


def test_list_again_believes_nothing_of_before() -> None:
    machine = listed()
    machine.body(line("MODIFIED", thing("a", 2, "21")), 1)
    machine.list_again()
    assert drain(machine, 1) == []
    what, query = ask(machine, 1)
    assert what is What.STREAM
    assert "resourceVersion" not in query
