"""Ways to cut bytes: what arrives in one read is chance, so a reader's result must not depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st


def every_cut(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and in two at every place."""
    yield [data]
    yield [data[n : n + 1] for n in range(len(data))]
    for n in range(1, len(data)):
        yield [data[:n], data[n:]]


def every_two_cuts(data: bytes) -> Iterator[list[bytes]]:
    """In three at every two places: for short data."""
    for first in range(1, len(data)):
        for second in range(first + 1, len(data)):
            yield [data[:first], data[first:second], data[second:]]


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    """The pieces between these places (taken modulo the length), none of them empty."""
    marks = sorted({place % len(data) for place in places} - {0}) if data else []
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True) if a != b]


PLACES = st.lists(st.integers(0, 1 << 16), max_size=12)
