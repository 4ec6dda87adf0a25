"""What a user of the SDK calls, through the ingress, answered by real frontends."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from itertools import pairwise
from typing import Any

import httpx
import openai
import pytest
from openai.types import Model
from openai.types.responses import ResponseTextDeltaEvent

from tests.e2e import model_folder
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import Ingress
from tests.e2e.traffic import HELLO, open_stream, whole_text

pytestmark = pytest.mark.e2e


def _fields(model: Model) -> dict[str, Any]:
    """Without `created`, which a frontend sets to the time of each call."""
    return {name: value for name, value in model.model_dump().items() if name != "created"}


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=6)
    assert answer.object == "chat.completion"
    assert answer.choices[0].finish_reason == "length"
    assert len(set(model_folder.tags(answer.choices[0].message.content or ""))) == 1
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6


def test_chat_streamed_with_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=20, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert len(set(model_folder.tags(whole_text(chunks, 20)))) == 1
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    *_, last = chunks
    assert last.usage is not None
    assert (last.choices, last.usage.completion_tokens) == ([], 20)


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="hello", max_tokens=6)
    assert answer.object == "text_completion"
    assert len(model_folder.tags(answer.choices[0].text)) == 6


def test_completions_streamed(client: openai.OpenAI) -> None:
    with client.completions.create(model=MODEL, prompt="hello", max_tokens=12, stream=True) as stream:
        chunks = list(stream)
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert len(model_folder.tags(text)) == 12
    assert chunks[-1].choices[0].finish_reason == "length"


def test_responses(client: openai.OpenAI) -> None:
    answer = client.responses.create(model=MODEL, input="hello", max_output_tokens=6)
    assert len(model_folder.tags(answer.output_text)) == 6


def test_responses_streamed(client: openai.OpenAI) -> None:
    with client.responses.create(model=MODEL, input="hello", max_output_tokens=12, stream=True) as stream:
        events = list(stream)
    text = "".join(event.delta for event in events if isinstance(event, ResponseTextDeltaEvent))
    assert len(model_folder.tags(text)) == 12
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.incomplete", "response.completed")
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(events)))


def test_models_are_listed_with_the_frontends_own_fields(client: openai.OpenAI, regions: list[Region]) -> None:
    own = httpx.get(f"{regions[0].url}/v1/models").json()["data"]
    listed = client.models.list().data
    assert [_fields(model) for model in listed] == [_fields(Model.model_validate(model)) for model in own]
    assert listed[0].model_dump()["context_window"] == model_folder.CONTEXT_LENGTH


def test_one_model_is_retrieved_with_the_frontends_own_fields(client: openai.OpenAI, regions: list[Region]) -> None:
    own = httpx.get(f"{regions[0].url}/v1/models/{MODEL}").json()
    assert _fields(client.models.retrieve(MODEL)) == _fields(Model.model_validate(own))


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=HELLO, max_tokens=1)
    assert caught.value.code == "model_not_found"
    assert "no-such-model" in caught.value.message
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("no-such-model")
    assert caught.value.code == "model_not_found"


def test_a_clients_fault_is_the_frontends_answer_and_is_not_repeated(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="Temperature") as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1, temperature=9)
    assert caught.value.response.headers["x-dynamo-attempts"] == "1"


def test_a_fault_inside_an_early_stream_is_a_plain_error(client: openai.OpenAI) -> None:
    """Without max_tokens the mocker fails in band, behind a head that says 200; the gate holds that head."""
    with pytest.raises(openai.BadRequestError, match="required by the mocker"):
        client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)


def test_a_request_id_is_kept_or_made(client: openai.OpenAI) -> None:
    def ids(**headers: str) -> list[str]:
        answer = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=HELLO, max_tokens=1, extra_headers=headers
        )
        return answer.headers.get_list("x-request-id")

    assert ids(**{"x-request-id": "mine-1"}) == ["mine-1"]
    (first,), (second,) = ids(), ids()
    assert first
    assert second
    assert first != second


def _came_one_by_one(arrivals: list[float]) -> None:
    """300 tokens take the mocker 1.7 s; what gathers them on the way shows as one long silence."""
    whole = arrivals[-1] - arrivals[0]
    assert whole > 0.5
    assert max(after - before for before, after in pairwise(arrivals)) < 0.6 * whole


def test_the_sdk_sees_tokens_as_they_come(client: openai.OpenAI) -> None:
    with open_stream(client, 300) as stream:
        arrivals = [time.monotonic() for _ in stream]
    assert len(arrivals) >= 300
    _came_one_by_one(arrivals)


def test_curl_sees_tokens_as_they_come(ingress: Ingress) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    body = json.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 300, "stream": True})
    argv = [curl, "-sSNi", "--max-time", "60", "-H", "content-type: application/json", "-d", body]
    with subprocess.Popen([*argv, f"{ingress.url}/v1/chat/completions"], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = [(time.monotonic(), line.rstrip("\n")) for line in run.stdout]
    assert run.returncode == 0
    assert lines[0][1].split()[1] == "200"
    data = [(at, line) for at, line in lines if line.startswith("data: ")]
    assert data[-1][1] == "data: [DONE]"
    _came_one_by_one([at for at, _ in data])
    text = "".join(
        choice["delta"].get("content") or "" for _, line in data[:-1] for choice in json.loads(line[6:])["choices"]
    )
    assert len(model_folder.tags(text)) == 300
