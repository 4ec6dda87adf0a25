"""The keys of a JSON object's top level, found without reading the rest: where `model` stands, and how often.

For bodies that a decoder has passed already, so only quotes, braces and brackets matter. It works in steps of bounded
length, since a body may be tens of megabytes and everybody else waits meanwhile.
"""

from __future__ import annotations

import re

import orjson

WINDOW = 64 * 1024  # bytes looked at in one go outside of strings

_STRUCTURE = re.compile(rb'["{}\[\]]')
# More white space than this around a colon is nobody's way to write: such a key is not recognised.
_COLON = re.compile(rb"[ \t\r\n]{0,1024}:[ \t\r\n]{0,1024}")


class TopLevel:
    """A reader of one body. `spans` are the places of the values of the top-level keys `name` that are strings,
    `count` is how many such keys there are, whatever their value."""

    __slots__ = ("_at", "_body", "_depth", "_is_value", "_name", "_opened", "count", "spans")

    def __init__(self, body: bytes | bytearray, name: str) -> None:
        self._body = body
        self._name = name
        self._at = 0
        self._depth = 0
        self._opened = -1  # where the string begins that is being read, -1 outside of strings
        self._is_value = False  # that string is the value of a key that counts
        self.count = 0
        self.spans: list[tuple[int, int]] = []

    def step(self, looks: int) -> bool:
        """Read on by so many quotes, braces and brackets; True when the end is reached."""
        body, size = self._body, len(self._body)
        for _ in range(looks):
            if self._at >= size:
                return True
            if self._opened >= 0:
                self._read_string()
                continue
            found = _STRUCTURE.search(body, self._at, self._at + WINDOW)
            if found is None:
                self._at += WINDOW
                continue
            if found[0] == b'"':
                self._opened = found.start()
            else:
                self._depth += 1 if found[0] in b"{[" else -1
            self._at = found.end()
        return self._at >= size

    def finish(self) -> TopLevel:
        """Read to the end at once."""
        while not self.step(1000):
            pass
        return self

    def _read_string(self) -> None:
        """To the next quote, which ends the string unless an odd number of backslashes stands before it."""
        body = self._body
        quote = body.find(b'"', self._at)
        if quote < 0:
            self._at = len(body)
            return
        self._at = quote + 1
        if _slashes_before(body, quote) % 2 == 0:
            start, self._opened = self._opened, -1
            self._read(start, quote + 1)

    def _read(self, start: int, end: int) -> None:
        """A whole string: perhaps the key, or the value of the key that came before."""
        if self._is_value:
            self._is_value = False
            self.spans.append((start, end))
            return
        if self._depth != 1 or end - start > 6 * len(self._name) + 2:
            return  # too deep, or too long for the name even if every letter is escaped
        body = self._body
        if _text(body[start:end]) != self._name:
            return
        colon = _COLON.match(body, end)
        if colon is None:
            return
        self.count += 1
        self._at = colon.end()
        self._is_value = body[self._at : self._at + 1] == b'"'


def _slashes_before(body: bytes | bytearray, end: int) -> int:
    """How many backslashes stand directly before `end`."""
    reach = 64
    while True:
        part = body[max(0, end - reach) : end]
        count = len(part) - len(part.rstrip(b"\\"))
        if count < len(part) or reach >= end:
            return count
        reach *= 16


def _text(string: bytes | bytearray) -> str | None:
    """What a string says; None when it is not UTF-8, as decoders let pass where they do not look."""
    try:
        return str(orjson.loads(string))
    except orjson.JSONDecodeError:
        return None
