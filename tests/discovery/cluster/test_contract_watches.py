"""Facts of watches, each measured on a real API server: B3, B4, B6, B7, B9, B10 and the edge cases 10 and 11."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from discovery.testing.cluster import Settings
from tests.discovery.cluster.api import BOOKMARK_EVERY, FAST, REAL, Api, connected, needs_fake, slice_of

INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
END = "k8s.io/initial-events-end"


def said(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


def version(thing: dict[str, Any]) -> int:
    return int(thing["metadata"]["resourceVersion"])


async def current(api: Api) -> int:
    return version((await api.list()).json())


async def test_every_write_after_the_version_is_an_event_under_its_own_version(api: Api) -> None:
    start = await current(api)
    made = await api.create(slice_of("a"))
    made["metadata"]["labels"] = {"x": "1"}
    changed = (await api.put(made)).json()
    await api.delete("a")
    async with api.watch(resourceVersion=start) as watch:
        events = [await watch.next() for _ in range(3)]
    assert [said(event) for event in events] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [version(event["object"]) for event in events]
    assert versions[0] == version(made) < versions[1] == version(changed) < versions[2]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_there_is(api: Api, query: dict[str, str]) -> None:
    await api.create(slice_of("a"))
    await api.list(resourceVersion=await current(api), resourceVersionMatch="NotOlderThan")
    async with api.watch(**query) as watch:
        assert said(await watch.next()) == ("ADDED", "a")
        await api.create(slice_of("b"))
        assert said(await watch.next()) == ("ADDED", "b")


async def test_b3_a_watch_of_the_future_is_200_and_silence_until_its_time_is_over(api: Api) -> None:
    future = await current(api) + 1_000_000
    async with api.watch(resourceVersion=future, timeoutSeconds=2, allowWatchBookmarks="true") as watch:
        assert watch.status == 200
        await api.create(slice_of("a"))
        assert await watch.rest() == []


async def test_b4_a_watch_of_an_expired_version_is_an_error_line_of_410(api: Api) -> None:
    await api.create(slice_of("a"))
    async with api.watch(resourceVersion=1) as watch:
        assert watch.status == 200
        (event,) = await watch.rest()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


async def test_b4_or_http_410_as_older_servers_and_proxies_have_it() -> None:
    if REAL:
        pytest.skip("NOT CHECKED on the real API server: it answers in its own way")
    async with connected(Settings(gone_as_http=True)) as api:
        answer = await api.http.get(api.path(), params={"watch": "1", "resourceVersion": "1"})
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


async def test_b4_a_watch_that_falls_behind_the_kept_past_is_told_410(api: Api) -> None:
    fake = needs_fake(api, "it cannot be told to compact")
    async with api.watch(resourceVersion=await current(api)) as watch:
        await fake.watched()
        fake.silence_watches()
        fake.put(slice_of("a") | {"metadata": {"name": "a", "namespace": api.namespace}})
        fake.compact()
        fake.resume_watches()
        (event,) = await watch.rest()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_b6_bookmarks_come_regularly_and_say_how_far_the_watch_is(api: Api) -> None:
    start = await current(api)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with api.watch(resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=300) as watch:
        made = await api.create(slice_of("a"))
        assert (await watch.next())["type"] == "ADDED"
        event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "EndpointSlice"
    assert version(event["object"]) >= version(made)
    assert BOOKMARK_EVERY * 0.7 < loop.time() - began < BOOKMARK_EVERY + 10


async def test_b6_no_bookmarks_without_asking_and_none_in_a_short_watch(api: Api) -> None:
    if REAL:
        pytest.skip("NOT CHECKED on the real API server: it would take 100 s of silence")
    start = await current(api)
    async with api.watch(resourceVersion=start, timeoutSeconds=1) as watch:
        assert await watch.rest() == []
    async with connected(Settings(bookmark_every=60)) as slow:
        query: dict[str, str | int] = {
            "resourceVersion": await current(slow),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": 1,
        }
        async with slow.watch(**query) as watch:
            assert await watch.rest() == []


async def test_b6_bookmarks_just_before_the_end(api: Api) -> None:
    if REAL:
        pytest.skip("NOT CHECKED on the real API server: it takes a watch of several minutes")
    async with connected(Settings(bookmark_every=2.4)) as quick:
        loop = asyncio.get_running_loop()
        query: dict[str, str | int] = {
            "resourceVersion": await current(quick),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": 3,
        }
        began = loop.time()
        async with quick.watch(**query) as watch:
            events = await watch.rest()
        assert [event["type"] for event in events] == ["BOOKMARK"] * 3
        assert loop.time() - began > 2.5


async def test_b7_timeout_seconds_ends_a_watch_in_order(api: Api) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with api.watch(resourceVersion=await current(api), timeoutSeconds=1) as watch:
        assert await watch.rest() == []
    assert 0.9 < loop.time() - began < 20


async def test_b7_a_graceful_shutdown_ends_all_watches_at_once(api: Api) -> None:
    fake = needs_fake(api, "it is not ours to shut down")
    async with api.watch() as one, api.watch() as other:
        await fake.watched(2)
        await fake.stop()
        assert [await one.rest(), await other.rest()] == [[], []]


async def test_b9_a_streaming_list_is_what_there_is_then_a_marked_bookmark_then_live(api: Api) -> None:
    await api.create(slice_of("a"))
    made = await api.create(slice_of("b"))
    async with api.watch(**INITIAL) as watch:
        assert {said(await watch.next()) for _ in range(2)} == {("ADDED", "a"), ("ADDED", "b")}
        mark = await watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {END: "true"}
        assert mark["object"]["endpoints"] is None
        assert version(mark["object"]) >= version(made)
        await api.create(slice_of("c"))
        assert said(await watch.until(lambda event: event["type"] != "BOOKMARK")) == ("ADDED", "c")


async def test_b9_an_empty_streaming_list_is_a_marked_bookmark_alone(api: Api) -> None:
    async with api.watch(**INITIAL) as watch:
        assert (await watch.next())["object"]["metadata"]["annotations"] == {END: "true"}


async def test_b9_without_the_match_it_is_422(api: Api) -> None:
    answer = await api.http.get(api.path(), params={"watch": "1", "sendInitialEvents": "true"})
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    match_alone = {"watch": "1", "resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}
    assert (await api.http.get(api.path(), params=match_alone)).status_code == 422
    assert (await api.list(sendInitialEvents="true")).status_code == 422


async def test_b9_an_older_server_refuses_it_and_a_too_old_etcd_fails_within_the_stream() -> None:
    if REAL:
        pytest.skip("NOT CHECKED on the real API server: it is one of three kinds")
    async with connected(Settings(streaming_lists="off")) as api:
        answer = await api.http.get(api.path(), params={"watch": "1", **INITIAL})
        assert answer.status_code == 422
        assert answer.json()["details"]["causes"][0]["reason"] == "FieldValueForbidden"
    async with connected(Settings(streaming_lists="broken")) as api, api.watch(**INITIAL) as watch:
        assert watch.status == 200
        (event,) = await watch.rest()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        assert "RequestWatchProgress is disabled" in event["object"]["message"]


async def test_a_streaming_list_of_the_future_waits_and_fails_within_the_stream() -> None:
    if REAL:
        pytest.skip("NOT CHECKED on the real API server: not measured there")
    async with connected(FAST) as api:
        async with api.watch(**INITIAL, resourceVersion=10**9) as watch:
            (event,) = await watch.rest()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 504)


async def test_b10_cases_10_and_11_labels_taken_off_and_put_back(api: Api) -> None:
    made = await api.create(slice_of("a", service="x"))
    query: dict[str, str | int] = {"resourceVersion": version(made), "labelSelector": "service"}
    async with api.watch(**query) as watch:
        bare = (await api.patch("a", {"metadata": {"labels": {"service": None, "other": "y"}}})).json()
        deleted = await watch.next()
        # The last state that matched, under the version of the write that ended it.
        assert deleted["type"] == "DELETED"
        assert deleted["object"]["metadata"]["labels"] == {"service": "x"}
        assert version(deleted["object"]) == version(bare)
        await api.patch("a", {"metadata": {"labels": {"other": "z"}}})
        back = (await api.patch("a", {"metadata": {"labels": {"service": "x"}}})).json()
        added = await watch.next()
        assert added["type"] == "ADDED"
        assert version(added["object"]) == version(back)
        await api.patch("a", {"metadata": {"labels": {"service": "y"}}})
        assert said(await watch.next()) == ("MODIFIED", "a")
        await api.delete("a")
        assert said(await watch.next()) == ("DELETED", "a")


async def test_b10_a_watch_of_one_name(api: Api) -> None:
    async with api.watch(fieldSelector="metadata.name=b", resourceVersion=await current(api)) as watch:
        await api.create(slice_of("a"))
        await api.create(slice_of("b"))
        assert said(await watch.next()) == ("ADDED", "b")


async def test_a_watch_of_one_namespace_hears_nothing_of_others(api: Api) -> None:
    fake = needs_fake(api, "one namespace at a time")
    fake.put(slice_of("elsewhere") | {"metadata": {"name": "elsewhere", "namespace": "other"}})
    async with api.watch() as watch:
        await api.create(slice_of("here"))
        assert said(await watch.next()) == ("ADDED", "here")


async def test_a_silent_watch_hears_what_it_missed_once_it_is_resumed(api: Api) -> None:
    fake = needs_fake(api, "it cannot be silenced")
    async with api.watch(resourceVersion=await current(api)) as watch:
        await fake.watched()
        fake.silence_watches()
        await api.create(slice_of("a"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await fake.watched()
        fake.resume_watches()
        assert said(await watch.next()) == ("ADDED", "a")


async def test_two_watches_that_see_the_same_are_ended_one_by_one(api: Api) -> None:
    fake = needs_fake(api, "it does not tell its watches")
    async with api.watch() as stays:
        async with api.watch():
            await fake.watched(2)
        await fake.watched(1)
        await api.create(slice_of("a"))
        assert said(await stays.next()) == ("ADDED", "a")
