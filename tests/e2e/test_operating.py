"""What an operator does to an ingress while it serves: a new configuration, and its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.children import Children, wait_until
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import Ingress, static_pools
from tests.e2e.traffic import ask, evenly, open_stream, sdk, spread, take, whole_text

pytestmark = pytest.mark.e2e


@pytest.fixture
def own(regions: list[Region], children: Children, request: pytest.FixtureRequest) -> Iterator[Ingress]:
    """An ingress of this test alone."""
    ingress = Ingress(f"own-{request.node.name[:24]}", static_pools(regions), children)
    ingress.start(pools=len(regions), workers=2)
    yield ingress
    if ingress.child is not None:
        ingress.child.stop()


def _reload(ingress: Ingress, **settings: object) -> None:
    """Write the file and wait until it has been read as a new one, taken or refused."""

    def readings() -> float:
        counts = ingress.metric("global_ingress_config_reloads_total")
        return sum(value for (result,), value in counts.items() if result != "unchanged")

    before = readings()
    ingress.configure(**settings)
    wait_until(lambda: readings() > before, "the new file read", 20)


def test_weights_are_taken_over_while_serving(own: Ingress, regions: list[Region]) -> None:
    double, *others = regions
    with sdk(own.url) as client:
        assert spread([ask(client) for _ in range(8)], regions) == evenly(regions, 2)
        _reload(own, models=[{"id": MODEL, "weights": {double.cluster: 2}}])
        wanted = evenly(others, 5) | {double.tag: 10}
        # each worker takes the new table over on its own, some moments after the file was read
        wait_until(lambda: spread([ask(client) for _ in range(25)], regions) == wanted, "the new weights", 20)
        assert spread([ask(client) for _ in range(25)], regions) == wanted


def test_a_faulty_configuration_changes_nothing(own: Ingress, regions: list[Region]) -> None:
    _reload(own, models=[{"id": MODEL, "weigths": {}}])
    with sdk(own.url) as client:
        assert spread([ask(client) for _ in range(8)], regions) == evenly(regions, 2)
    assert own.child is not None
    assert "weigths" in own.child.log_text()


def test_a_stream_outlives_the_order_to_stop(own: Ingress) -> None:
    assert own.child is not None
    with sdk(own.url) as client, open_stream(client, 300) as stream:
        begun = take(stream, 3)
        own.child.signal(signal.SIGTERM, group=False)
        wait_until(lambda: _closed(own), "the listener closed", 10)
        whole_text([*begun, *stream], 300)
    assert own.child.wait(10) == 0


def _closed(ingress: Ingress) -> bool:
    try:
        httpx.get(f"{ingress.url}/livez", timeout=2)
    except httpx.ConnectError:
        return True
    return False
