"""Facts of lists and pages, each measured on a real API server: B1, B2, B4, B5, B8 and the JSON habits of A20."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.discovery.cluster.api import FUTURE_WAIT, REAL, Api, needs_fake, slice_of

SERVICES = "v1", "services"
EXPORTS = "multicluster.x-k8s.io/v1beta1", "serviceexports"


async def made(api: Api, count: int) -> int:
    """`count` slices; the version after them."""
    for number in range(count):
        await api.create(slice_of(f"s{number:02}", parity="even" if number % 2 == 0 else "odd"))
    return int((await api.list()).json()["metadata"]["resourceVersion"])


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json()["items"]]


async def test_a20_empty_endpoints_and_ports_are_null_and_conditions_an_empty_object(api: Api) -> None:
    empty = slice_of("empty") | {"endpoints": [], "ports": []}
    await api.create(empty)
    await api.create(slice_of("full"))
    answer = (await api.list()).json()
    assert answer["items"][0]["endpoints"] is None
    assert answer["items"][0]["ports"] is None
    assert answer["items"][1]["endpoints"][0]["conditions"] == {}


async def test_a20_list_items_have_no_kind_and_watch_objects_have(api: Api) -> None:
    await api.create(slice_of("a"))
    item = (await api.list()).json()["items"][0]
    assert "kind" not in item
    assert "apiVersion" not in item
    async with api.watch() as watch:
        thing = (await watch.next())["object"]
    assert (thing["kind"], thing["apiVersion"]) == ("EndpointSlice", "discovery.k8s.io/v1")


async def test_b1_versions_a_list_may_name(api: Api) -> None:
    version = await made(api, 2)
    await api.delete("s01")
    assert names(await api.list()) == ["s00"]
    assert names(await api.list(resourceVersion=version, resourceVersionMatch="Exact")) == ["s00", "s01"]
    assert names(await api.list(resourceVersion=version + 1, resourceVersionMatch="NotOlderThan")) == ["s00"]
    exact = await api.list(resourceVersion=version, resourceVersionMatch="Exact")
    assert exact.json()["metadata"]["resourceVersion"] == str(version)


async def test_b1_version_0_may_be_old(api: Api) -> None:
    await made(api, 1)
    needs_fake(api, "its watch cache cannot be made to lag").hold_cache()
    await api.create(slice_of("s01"))
    assert names(await api.list(resourceVersion=0)) == ["s00"]
    assert names(await api.list()) == ["s00", "s01"]


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "5", "resourceVersionMatch": "Nonsense"},
    ],
)
async def test_b1_matches_that_go_with_nothing_are_refused(api: Api, query: dict[str, str]) -> None:
    answer = await api.list(**query)
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "Invalid"


async def test_b1_a_match_with_continue_is_refused(api: Api) -> None:
    await made(api, 3)
    token = (await api.list(limit=1)).json()["metadata"]["continue"]
    both = {"continue": token, "resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"}
    assert (await api.list(**both)).status_code == 422
    assert (await api.list(**{"continue": token, "resourceVersion": "5"})).status_code == 400


async def test_b2_a_version_of_the_future_is_waited_for_and_then_refused(api: Api) -> None:
    version = await made(api, 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await api.list(resourceVersion=version + 1_000_000)
    assert loop.time() - began >= FUTURE_WAIT * 0.9
    assert answer.status_code == 504
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["reason"] == "Timeout"
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_b2_a_version_that_comes_while_it_is_waited_for_is_served(api: Api) -> None:
    version = await made(api, 1)
    waiting = asyncio.create_task(api.list(resourceVersion=version + 1))
    await api.create(slice_of("s01"))
    assert names(await waiting) == ["s00", "s01"]


async def test_b4_a_page_of_a_compacted_version_is_410_and_b5_has_a_token_for_the_rest(api: Api) -> None:
    await made(api, 4)
    fake = needs_fake(api, "it cannot be told to compact")
    token = (await api.list(limit=2)).json()["metadata"]["continue"]
    await api.delete("s00")
    fake.compact()
    answer = await api.list(limit=2, **{"continue": token})
    assert answer.status_code == 410
    assert answer.json()["reason"] == "Expired"
    inconsistent = answer.json()["metadata"]["continue"]
    rest = await api.list(limit=2, **{"continue": inconsistent})
    assert names(rest) == ["s02", "s03"]


async def test_b4_an_exact_version_that_is_compacted_is_410(api: Api) -> None:
    version = await made(api, 2)
    await api.delete("s00")
    needs_fake(api, "it cannot be told to compact").compact()
    answer = await api.list(resourceVersion=version, resourceVersionMatch="Exact")
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


@pytest.mark.parametrize("token", ["nonsense!", "bm9uc2Vuc2U", "e30"])
async def test_b4_a_bad_token_is_400(api: Api, token: str) -> None:
    answer = await api.list(limit=1, **{"continue": token})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_b8_all_pages_are_of_one_version_and_say_what_remains(api: Api) -> None:
    version = await made(api, 5)
    first = await api.list(limit=2)
    await api.delete("s04")
    await api.create(slice_of("s99"))
    second = await api.list(limit=2, **{"continue": first.json()["metadata"]["continue"]})
    third = await api.list(limit=2, **{"continue": second.json()["metadata"]["continue"]})
    assert names(first) + names(second) + names(third) == [f"s{number:02}" for number in range(5)]
    assert {page.json()["metadata"]["resourceVersion"] for page in (first, second, third)} == {str(version)}
    assert [page.json()["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]
    assert "continue" not in third.json()["metadata"]


async def test_b8_with_a_selector_nothing_is_said_of_what_remains(api: Api) -> None:
    await made(api, 6)
    page = (await api.list(limit=1, labelSelector="parity=odd")).json()
    assert page["items"][0]["metadata"]["name"] == "s01"
    assert "continue" in page["metadata"]
    assert "remainingItemCount" not in page["metadata"]


async def test_b8_version_0_ignores_the_limit(api: Api) -> None:
    version = await made(api, 3)
    # The cache of a real server may be behind: wait until it has seen the last write.
    await api.list(resourceVersion=version, resourceVersionMatch="NotOlderThan")
    page = await api.list(limit=1, resourceVersion=0)
    assert names(page) == ["s00", "s01", "s02"]
    assert "continue" not in page.json()["metadata"]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("parity", ["s00", "s01", "s02"]),
        ("!parity", []),
        ("parity=odd", ["s01"]),
        ("parity!=odd,parity", ["s00", "s02"]),
        ("parity in (odd, even)", ["s00", "s01", "s02"]),
        ("parity notin (odd)", ["s00", "s02"]),
        ("other!=x", ["s00", "s01", "s02"]),
    ],
)
async def test_label_selectors(api: Api, selector: str, wanted: list[str]) -> None:
    await made(api, 3)
    assert names(await api.list(labelSelector=selector)) == wanted


async def test_field_selectors_and_selectors_that_are_none(api: Api) -> None:
    await made(api, 3)
    assert names(await api.list(fieldSelector="metadata.name=s01")) == ["s01"]
    assert names(await api.list(fieldSelector="metadata.name!=s01")) == ["s00", "s02"]
    for bad in ({"fieldSelector": "spec.colour=red"}, {"labelSelector": "a in b"}, {"labelSelector": "=x"}):
        assert (await api.list(**bad)).status_code == 400, bad


async def test_items_of_custom_resources_carry_their_kind(api: Api) -> None:
    if REAL and (await api.list(EXPORTS)).status_code == 404:
        pytest.skip("NOT CHECKED on the real API server: the MCS CRDs are not installed")
    await api.create({"apiVersion": EXPORTS[0], "kind": "ServiceExport", "metadata": {"name": "a"}}, EXPORTS)
    item = (await api.list(EXPORTS)).json()["items"][0]
    assert (item["kind"], item["apiVersion"]) == ("ServiceExport", EXPORTS[0])
    async with api.watch(EXPORTS) as watch:
        assert (await watch.next())["object"]["kind"] == "ServiceExport"


async def test_a_list_over_all_namespaces_has_those_of_this_one(api: Api) -> None:
    await made(api, 2)
    answer = await api.http.get(api.path(namespace=None))
    mine = [i["metadata"]["name"] for i in answer.json()["items"] if i["metadata"]["namespace"] == api.namespace]
    assert mine == ["s00", "s01"]
