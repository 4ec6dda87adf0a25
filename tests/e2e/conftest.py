"""Four regions, one discovery service and one ingress for the whole run; a test that breaks one puts it back.

When a test fails, its report ends with the state and the last log lines of every process.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import openai
import pytest
import uvloop

from tests.e2e import dynamo
from tests.e2e.children import Children
from tests.e2e.regions import Region, start_regions
from tests.e2e.stack import SETTINGS, Directory, Ingress, SliceFolder, static_pools
from tests.e2e.traffic import sdk

REGIONS = 4
_RUN = pytest.StashKey[Children]()


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop here is the client's, not ours: once is enough."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the venv before the first test, whose time limit a download must not eat."""
    wanted = any(item.get_closest_marker("e2e") for item in session.items)
    if wanted and not session.config.option.collectonly:
        try:
            dynamo.setup()
        except (subprocess.CalledProcessError, FileNotFoundError) as fault:
            pytest.exit(f"{dynamo.VENV.name} cannot be made: {fault}", returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed and _RUN in item.config.stash:
        for state, tail in item.config.stash[_RUN].tails().items():
            report.sections.append((f"log of {state}", tail))
    return report


@pytest.fixture(scope="session")
def children(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Children]:
    with Children(tmp_path_factory.mktemp("logs")) as children:
        pytestconfig.stash[_RUN] = children
        yield children


@pytest.fixture(scope="session")
def all_regions(children: Children, tmp_path_factory: pytest.TempPathFactory) -> list[Region]:
    return start_regions(REGIONS, tmp_path_factory.mktemp("regions"), children)


@pytest.fixture(scope="session")
def slices(all_regions: list[Region], tmp_path_factory: pytest.TempPathFactory) -> SliceFolder:
    folder = SliceFolder(tmp_path_factory.mktemp("slices"))
    for region in all_regions:
        folder.put(region)
    return folder


@pytest.fixture(scope="session")
def directory(slices: SliceFolder, children: Children) -> Directory:
    directory = Directory(slices, children)
    directory.start()
    return directory


@pytest.fixture(scope="session")
def started_ingress(directory: Directory, children: Children) -> Ingress:
    """Two workers: what is said of order and counts must hold over both."""
    ingress = Ingress("ingress", {"urls": [directory.url]}, children)
    ingress.start(pools=REGIONS, workers=2)
    return ingress


@pytest.fixture(scope="session")
def started_patient(all_regions: list[Region], children: Children) -> Ingress:
    """Told its pools, and without probes: what a region answers is all it can learn of it."""
    ingress = Ingress("patient", static_pools(all_regions), children, **{**SETTINGS, "probe": "off"})
    ingress.start(pools=REGIONS)
    return ingress


@pytest.fixture
def regions(all_regions: list[Region]) -> Iterator[list[Region]]:
    """The four regions, whole before the test and made whole again after it."""
    yield all_regions
    for region in all_regions:
        region.restore()


@pytest.fixture
def ingress(started_ingress: Ingress, regions: list[Region]) -> Iterator[Ingress]:
    """The ingress with all pools routable and nothing in flight, before the test; nothing in flight after it."""
    started_ingress.wait_routable(regions)
    started_ingress.wait_idle()
    yield started_ingress
    started_ingress.wait_idle()


@pytest.fixture
def patient(started_patient: Ingress, regions: list[Region]) -> Iterator[Ingress]:
    started_patient.wait_routable(regions, within_s=45)  # it looks at a frontend's models every 30 s
    yield started_patient
    started_patient.wait_idle()


@pytest.fixture
def client(ingress: Ingress) -> Iterator[openai.OpenAI]:
    with sdk(ingress.url) as client:
        yield client
