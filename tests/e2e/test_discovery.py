"""The pool table changes under the ingress: slices come, go and move, and the discovery service itself dies."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.children import wait_until
from tests.e2e.regions import Region, free_ports
from tests.e2e.stack import Directory, Ingress, SliceFolder, pool_of
from tests.e2e.traffic import ask, evenly, sdk, settles, spread

pytestmark = pytest.mark.e2e


@pytest.fixture
def table(slices: SliceFolder, regions: list[Region], directory: Directory) -> Iterator[SliceFolder]:
    """The slice folder; every region's slice is in it again after the test."""
    yield slices
    for region in regions:
        slices.put(region)
    wait_until(lambda: len(directory.pools()) == len(regions), "all pools listed again", 10)


def test_the_directory_lists_every_region(directory: Directory, regions: list[Region]) -> None:
    pools = directory.pools()
    assert {key: [frontend["url"].rstrip("/") for frontend in pool["frontends"]] for key, pool in pools.items()} == {
        pool_of(region): [region.url] for region in regions
    }
    assert {pool["region"] for pool in pools.values()} == {region.name for region in regions}


def test_a_withdrawn_region_gets_nothing_and_a_returned_one_its_turns(
    ingress: Ingress, table: SliceFolder, regions: list[Region], client: openai.OpenAI
) -> None:
    gone, *others = regions
    table.remove(gone)
    ingress.wait_routable(others)
    settles(client, regions, evenly(others, 5))
    assert spread([ask(client) for _ in range(15)], regions) == evenly(others, 5)
    table.put(gone)
    ingress.wait_routable(regions)
    settles(client, regions, evenly(regions, 5))
    assert spread([ask(client) for _ in range(20)], regions) == evenly(regions, 5)


@pytest.fixture
def moved(table: SliceFolder, regions: list[Region]) -> Iterator[Region]:
    """A region whose frontend has moved to another port, and its slice with it; it goes home after the test."""
    region, home = regions[3], regions[3].port
    region.move(free_ports(1)[0])
    table.put(region)
    yield region
    region.move(home)


def test_a_frontend_that_moves_to_another_port_is_followed(
    directory: Directory, started_ingress: Ingress, moved: Region, regions: list[Region]
) -> None:
    (frontend,) = wait_until(
        lambda: [each for each in directory.pools()[pool_of(moved)]["frontends"] if each["url"].startswith(moved.url)],
        "the new port listed, the old one not",
        10,
    )
    assert frontend["ready"]
    started_ingress.wait_routable(regions)
    with sdk(started_ingress.url) as client:
        wait_until(lambda: moved.tag in spread([ask(client) for _ in range(4)], regions), "turns at the new port", 10)
        assert spread([ask(client) for _ in range(20)], regions) == evenly(regions, 5)


def test_the_discovery_service_dies_and_comes_back(
    ingress: Ingress, directory: Directory, regions: list[Region], client: openai.OpenAI
) -> None:
    assert directory.child is not None
    directory.child.signal(signal.SIGKILL)
    directory.child.wait(5)
    assert spread([ask(client) for _ in range(20)], regions) == evenly(regions, 5)
    directory.start()
    assert spread([ask(client) for _ in range(20)], regions) == evenly(regions, 5)
