"""Regions that cannot serve, and say so in Dynamo's own ways: the request is answered elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import openai
import pytest

from tests.e2e.children import wait_until
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import Ingress
from tests.e2e.traffic import HELLO, Answer, ask, open_stream, sdk, spread, take, whole_text

pytestmark = pytest.mark.e2e


def _direct(region: Region) -> httpx.Response:
    body = {"model": MODEL, "messages": HELLO, "max_tokens": 1}
    return httpx.post(f"{region.url}/v1/chat/completions", json=body, timeout=10)


def _eight(ingress: Ingress) -> list[Answer]:
    """Two turns of each of four pools."""
    with sdk(ingress.url) as client:
        return [ask(client) for _ in range(8)]


def _served_elsewhere(answers: list[Answer], victim: Region, regions: list[Region]) -> None:
    counts = spread(answers, regions)
    assert victim.tag not in counts
    assert sum(counts.values()) == len(answers)
    assert max(answer.attempts for answer in answers) == 2, "no request has met the region that cannot serve"


def test_a_region_without_workers(patient: Ingress, regions: list[Region]) -> None:
    """Such a frontend answers 404 without a body, which is no word about the model."""
    victim = regions[2]
    victim.signal_worker(signal.SIGTERM)
    wait_until(lambda: (_direct(victim).status_code, _direct(victim).content) == (404, b""), "the empty 404", 10)
    _served_elsewhere(_eight(patient), victim, regions)


@contextmanager
def _overloaded(region: Region) -> Iterator[None]:
    """While a stream runs in the region, its frontend refuses every other request with 529."""

    def set_limits(blocks: float, tokens: int) -> None:
        limits = {"active_decode_blocks_threshold": blocks, "active_prefill_tokens_threshold": tokens}
        httpx.post(f"{region.url}/busy_threshold", json={"model": MODEL, **limits}).raise_for_status()

    with sdk(region.url) as direct, open_stream(direct) as busy:
        take(busy, 1)
        set_limits(0.0, 0)
        try:
            wait_until(lambda: _direct(region).status_code == 529, "the region overloaded", 10)
            yield
            assert _direct(region).status_code == 529, "the overload ended before the test did"
        finally:
            set_limits(1.0, 1_000_000)


def test_an_overloaded_region(patient: Ingress, regions: list[Region]) -> None:
    victim = regions[1]
    with _overloaded(victim):
        _served_elsewhere(_eight(patient), victim, regions)
    wait_until(lambda: _direct(victim).status_code == 200, "the overload over", 10)


def test_a_frontend_that_drains(ingress: Ingress, regions: list[Region]) -> None:
    """While its last stream runs it refuses new requests with 503, then closes its listener; the stream ends whole."""
    victim = regions[0]
    with sdk(ingress.url) as client, sdk(victim.url) as direct, open_stream(direct, 500) as running:
        begun = take(running, 3)
        victim.signal_frontend(signal.SIGTERM)
        wait_until(lambda: _refuses(victim), "the frontend draining", 5, 0.01)
        counts = spread([ask(client) for _ in range(24)], regions)
        whole_text([*begun, *running], 500)
    assert sum(counts.values()) == 24
    assert victim.tag not in counts


def _refuses(region: Region) -> bool:
    try:
        return _direct(region).status_code == 503
    except httpx.ConnectError:
        return True


def test_when_no_region_is_left_the_answer_says_so(patient: Ingress, regions: list[Region]) -> None:
    for region in regions:
        region.signal_frontend()
    # a killed process is not gone at once, and until then its socket still takes connections
    wait_until(lambda: not any(each.frontend and each.frontend.alive() for each in regions), "all ended", 5)
    with sdk(patient.url) as client, pytest.raises(openai.InternalServerError) as caught:
        ask(client)
    assert caught.value.status_code in (502, 503)
    assert caught.value.code in ("upstream_unreachable", "no_ready_pool")
