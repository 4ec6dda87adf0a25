"""Requests through the real SDK, and who answered them: by the generated text, and by the pool header."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk, ChatCompletionUserMessageParam

from tests.e2e import model_folder
from tests.e2e.children import wait_until
from tests.e2e.regions import MODEL, Region
from tests.e2e.stack import pool_of

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hello"}]
# At the mocker's own pace (some 6 ms a token) this takes half a minute: whatever ends such a stream within a few
# seconds did not wait for its end.
ENDLESS = 5000


@contextmanager
def sdk(url: str, timeout: float = 25.0) -> Iterator[openai.OpenAI]:
    """The SDK as users have it, but without its retries, which would hide what we let through."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=timeout) as client:
        yield client


def async_sdk(url: str, timeout: float = 25.0) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=timeout)


@dataclass(frozen=True)
class Answer:
    """One whole answer: its text, the pool header, and how many tries it took."""

    text: str
    pool: str
    attempts: int

    @property
    def tag(self) -> str:
        """The region that wrote the text; more than one would be two answers in one."""
        (tag,) = set(model_folder.tags(self.text))
        return tag


def ask(client: openai.OpenAI, tokens: int = 4) -> Answer:
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=tokens)
    return _answer(raw.parse().choices[0].message.content, raw.headers)


async def ask_async(client: openai.AsyncOpenAI, tokens: int = 4) -> Answer:
    raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=tokens)
    return _answer(raw.parse().choices[0].message.content, raw.headers)


async def ask_many(url: str, count: int, tokens: int = 4) -> list[Answer]:
    """`count` requests at once; the first failure is raised."""
    async with async_sdk(url) as client:
        return await asyncio.gather(*(ask_async(client, tokens) for _ in range(count)))


async def stream_many(url: str, count: int, tokens: int) -> list[Answer]:
    """`count` streams at once, each read to its end and checked to be whole."""

    async def one(client: openai.AsyncOpenAI) -> Answer:
        stream = await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=tokens, stream=True)
        async with stream:
            chunks = [chunk async for chunk in stream]
        return _answer(whole_text(chunks, tokens), stream.response.headers)

    async with async_sdk(url) as client:
        return await asyncio.gather(*(one(client) for _ in range(count)))


def open_stream(client: openai.OpenAI, tokens: int = ENDLESS) -> openai.Stream[ChatCompletionChunk]:
    return client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=tokens, stream=True)


def take(stream: openai.Stream[ChatCompletionChunk], chunks: int) -> list[ChatCompletionChunk]:
    return [next(stream) for _ in range(chunks)]


def text_of(chunks: Iterable[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def whole_text(chunks: Sequence[ChatCompletionChunk], tokens: int) -> str:
    """The text of a stream that ended as it should: every token there, one finish reason, and that one last."""
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == ["length"], f"finish reasons {reasons} after {len(chunks)} chunks"
    text = text_of(chunks)
    assert len(model_folder.tags(text)) == tokens, f"{len(model_folder.tags(text))} tokens of {tokens}"
    return text


def served_by(stream: openai.Stream[Any], regions: Sequence[Region]) -> Region:
    """The region whose pool the head of a stream names."""
    named = stream.response.headers["x-dynamo-pool"]
    return next(region for region in regions if pool_of(region) == named)


def spread(answers: Iterable[Answer], regions: Sequence[Region]) -> dict[str, int]:
    """Answers per region tag as the texts name it; every pool header must name the same region."""
    pools = {region.tag: pool_of(region) for region in regions}
    seen: Counter[str] = Counter()
    for answer in answers:
        assert answer.pool == pools[answer.tag], f"the header says {answer.pool}, the text {answer.text!r}"
        seen[answer.tag] += 1
    return dict(seen)


def evenly(regions: Sequence[Region], each: int) -> dict[str, int]:
    return {region.tag: each for region in regions}


def settles(client: openai.OpenAI, regions: Sequence[Region], wanted: dict[str, int], within_s: float = 15.0) -> None:
    """Wait until a window of requests is spread exactly as wanted. No request may fail meanwhile, and none may be
    answered by a region that is not wanted: a change of members may only shift a turn or two while it is made."""

    def window() -> bool:
        counts = spread([ask(client) for _ in range(sum(wanted.values()))], regions)
        assert set(counts) <= set(wanted), f"{counts}, wanted {wanted}"
        return counts == wanted

    wait_until(window, f"turns as {wanted}", within_s)


def _answer(text: str | None, headers: Any) -> Answer:
    assert text, "an answer without text"
    return Answer(text, headers["x-dynamo-pool"], int(headers["x-dynamo-attempts"]))
