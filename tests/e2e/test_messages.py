"""The Anthropic SDK on /v1/messages: whole answers, and an error it understands when the frontend dies."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.e2e import model_folder
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import Ingress, pool_of
from tests.e2e.traffic import ENDLESS

pytestmark = pytest.mark.e2e

HELLO: list[MessageParam] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def claude(ingress: Ingress) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=ingress.url, api_key="unused", max_retries=0, timeout=25.0) as client:
        yield client


def test_a_message(claude: anthropic.Anthropic) -> None:
    message = claude.messages.create(model=MODEL, messages=HELLO, max_tokens=6)
    (block,) = message.content
    assert block.type == "text"
    assert len(model_folder.tags(block.text)) == 6


def test_a_streamed_message(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model=MODEL, messages=HELLO, max_tokens=20) as stream:
        assert len(model_folder.tags(stream.get_final_text())) == 20
        assert stream.get_final_message().stop_reason == "max_tokens"


def test_an_unknown_model_is_not_found(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no-such-model") as caught:
        claude.messages.create(model="no-such-model", messages=HELLO, max_tokens=1)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"


def test_a_frontend_killed_under_a_message_is_our_error(claude: anthropic.Anthropic, regions: list[Region]) -> None:
    stream = claude.messages.create(model=MODEL, messages=HELLO, max_tokens=ENDLESS, stream=True)
    with stream:
        events = iter(stream)
        for _ in range(6):
            next(events)
        named = stream.response.headers["x-dynamo-pool"]
        next(region for region in regions if pool_of(region) == named).signal_frontend()
        with pytest.raises(anthropic.APIStatusError) as caught:
            list(events)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["message"]
