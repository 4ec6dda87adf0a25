"""Streams that end before their time: the client leaves, a worker dies, a frontend dies. Nobody is told a lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.e2e import model_folder
from tests.e2e.children import wait_until
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import Ingress, pool_of
from tests.e2e.traffic import (
    ENDLESS,
    HELLO,
    ask,
    ask_many,
    evenly,
    open_stream,
    sdk,
    served_by,
    settles,
    spread,
    take,
    text_of,
    whole_text,
)

pytestmark = pytest.mark.e2e

LEAVING_WITHIN_S = 5.0
TOKENS = 500  # some 3 s: long enough to be under way when the neighbour is killed


def test_a_client_that_leaves_a_stream_is_reported_by_the_mocker(ingress: Ingress, regions: list[Region]) -> None:
    logs = {region.tag: len(region.worker_log()) for region in regions}
    counts = {region.tag: region.cancellations() for region in regions}
    with sdk(ingress.url) as client, open_stream(client) as stream:
        region = served_by(stream, regions)
        assert set(model_folder.tags(text_of(take(stream, 3)))) == {region.tag}
    ingress.wait_idle(LEAVING_WITHIN_S)
    expected = counts | {region.tag: counts[region.tag] + 1}
    wait_until(
        lambda: {each.tag: each.cancellations() for each in regions} == expected,
        f"one cancellation, at {region!r}",
        LEAVING_WITHIN_S,
    )
    log = logs[region.tag]
    wait_until(lambda: "cancel" in region.worker_log()[log:], "the mocker's log of it", LEAVING_WITHIN_S)
    wait_until(lambda: region.in_flight() == 0, "nothing in flight in the region", LEAVING_WITHIN_S)


def test_a_client_that_gives_up_a_unary_request_cancels_it(ingress: Ingress, regions: list[Region]) -> None:
    before = sum(region.cancellations() for region in regions)
    with sdk(ingress.url, timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=ENDLESS)
    ingress.wait_idle(LEAVING_WITHIN_S)
    wait_until(
        lambda: sum(region.cancellations() for region in regions) == before + 1, "one cancellation", LEAVING_WITHIN_S
    )


@contextmanager
def one_stream_in_each_region(
    ingress: Ingress, regions: list[Region]
) -> Iterator[dict[str, openai.Stream[ChatCompletionChunk]]]:
    """Streams under way, by region tag: four turns are one in each."""
    with ExitStack() as stack:
        client = stack.enter_context(sdk(ingress.url))
        streams = [stack.enter_context(open_stream(client, TOKENS)) for _ in regions]
        by_tag = {served_by(stream, regions).tag: stream for stream in streams}
        assert len(by_tag) == len(regions)
        yield by_tag


def _rest_is_whole(streams: dict[str, openai.Stream[ChatCompletionChunk]]) -> None:
    for tag, stream in streams.items():
        assert set(model_folder.tags(whole_text(list(stream), TOKENS))) == {tag}


def test_a_worker_killed_under_a_stream_is_an_error_there_and_nothing_elsewhere(
    ingress: Ingress, regions: list[Region]
) -> None:
    victim = regions[1]
    with one_stream_in_each_region(ingress, regions) as streams:
        broken = streams.pop(victim.tag)
        take(broken, 5)
        victim.signal_worker()
        with pytest.raises(openai.APIError) as caught:
            list(broken)
        assert not isinstance(caught.value, openai.APIConnectionError), "the frontend's own error event was lost"
        _rest_is_whole(streams)


def test_a_frontend_killed_under_a_stream_is_our_error_and_then_nobodys(
    ingress: Ingress, regions: list[Region]
) -> None:
    victim = regions[2]
    others = [region for region in regions if region is not victim]
    with one_stream_in_each_region(ingress, regions) as streams:
        broken = streams.pop(victim.tag)
        take(broken, 5)
        victim.signal_frontend()
        with pytest.raises(openai.APIError) as caught:
            list(broken)
        assert not isinstance(caught.value, openai.APIConnectionError), f"no error frame before the end: {caught.value}"
        assert caught.value.code in ("upstream_reset", "upstream_truncated")
        assert caught.value.message
        with sdk(ingress.url) as client:
            assert victim.tag not in spread([ask(client) for _ in range(12)], regions)
            ingress.wait_routable(others)
            settles(client, regions, evenly(others, 10))
        _rest_is_whole(streams)


async def test_a_frontend_killed_while_idle_fails_no_request(ingress: Ingress, regions: list[Region]) -> None:
    await ask_many(ingress.url, 40)  # connections to every frontend are kept
    victim = regions[3]
    victim.signal_frontend()
    answers = await ask_many(ingress.url, 40)
    assert sum(spread(answers, regions).values()) == 40
    assert victim.tag not in spread(answers, regions)


def test_a_frontend_that_comes_back_gets_its_turns_again(
    ingress: Ingress, client: openai.OpenAI, regions: list[Region]
) -> None:
    victim, *others = regions
    victim.signal_frontend()
    wanted = {pool_of(region) for region in others}
    wait_until(lambda: ask(client).text and ingress.routable() == wanted, "the dead one no longer routable", 20)
    victim.restart()
    ingress.wait_routable(regions)
    settles(client, regions, evenly(regions, 5))
    assert spread([ask(client) for _ in range(20)], regions) == evenly(regions, 5)
