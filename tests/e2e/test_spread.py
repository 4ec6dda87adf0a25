"""Exact turns over real regions, judged by the texts that the regions wrote."""

from __future__ import annotations

import openai
import pytest

from tests.e2e.regions import Region
from tests.e2e.stack import Ingress
from tests.e2e.traffic import Answer, ask, ask_many, evenly, sdk, spread, stream_many

pytestmark = pytest.mark.e2e


def test_forty_in_a_row(client: openai.OpenAI, regions: list[Region]) -> None:
    answers = [ask(client) for _ in range(40)]
    assert spread(answers, regions) == evenly(regions, 10)
    assert {answer.attempts for answer in answers} == {1}


def test_forty_in_a_row_each_on_a_new_connection(ingress: Ingress, regions: list[Region]) -> None:
    """New connections fall to either worker; the turns are common to both."""

    def one() -> Answer:
        with sdk(ingress.url) as fresh:
            return ask(fresh)

    answers = [one() for _ in range(40)]
    assert spread(answers, regions) == evenly(regions, 10)


async def test_forty_at_once(ingress: Ingress, regions: list[Region]) -> None:
    answers = await ask_many(ingress.url, 40)
    assert spread(answers, regions) == evenly(regions, 10)
    assert {answer.attempts for answer in answers} == {1}


async def test_thirty_two_streams_at_once(ingress: Ingress, regions: list[Region]) -> None:
    assert spread(await stream_many(ingress.url, 32, tokens=60), regions) == evenly(regions, 8)
