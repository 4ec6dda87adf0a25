"""Every payload of the corpus is refused or taken as it says, for every cut of its bytes (I2)."""

from __future__ import annotations

import pytest

from tests.proxy.cuts import every_cut
from tests.proxy.reading import read, read_with_h11
from tests.proxy.smuggling import BAD_UPGRADES, REQUESTS, RequestCase


def outcome(pieces: list[bytes]) -> tuple[tuple[bytes, ...], str | None]:
    reading = read(pieces)
    return tuple(message.body for message in reading.messages), reading.refused


def named(cases: tuple[RequestCase, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named(REQUESTS)
def test_each_request_is_refused_or_taken_for_every_cut(case: RequestCase) -> None:
    wrong = [
        (pieces, found) for pieces in every_cut(case.raw) if (found := outcome(pieces)) != (case.taken, case.refused)
    ]
    assert not wrong, wrong[:2]


@named(BAD_UPGRADES)
def test_an_upgrade_excuses_no_fault_of_its_own_line(case: RequestCase) -> None:
    assert outcome([case.raw]) == (case.taken, case.refused)


H11_REFUSES = "blank lines"  # RFC 9112 wants them read over


@named(tuple(case for case in REQUESTS if case.refused is None and not case.name.startswith(H11_REFUSES)))
def test_what_is_taken_is_what_h11_reads(case: RequestCase) -> None:
    theirs, refused = read_with_h11(case.raw)
    assert (tuple(one.body for one in theirs), refused) == (case.taken, False)


def test_the_corpus_is_large_and_has_no_name_twice() -> None:
    assert len(REQUESTS) >= 60
    assert len({case.name for case in REQUESTS}) == len(REQUESTS)
