"""The tokens file, read at the start and again whenever its content differs.

Owns the file. A file that is broken, or gone, after it was good changes nothing but its fault: who could register
still can, and nobody else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.tokens import BadTokens, Tokens, parse_tokens

_log = logger(__name__)

_LOOK_SECONDS = 1.0
_MOST_BYTES = 4 * 1024 * 1024


class TokensFile:
    """`tokens` is the last good content. A small file is simply read again every second: whatever way it is replaced,
    a mounted Secret's too, is seen, and no file system has to tell."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.tokens = Tokens(())
        self.fault: str | None = None
        self._clock = clock
        self._data: bytes | None = None

    def __repr__(self) -> str:
        return f"<TokensFile {self.path} tokens={len(self.tokens.grants)} fault={self.fault!r}>"

    async def load(self) -> None:
        """Read it now. Raises BadTokens, with the path, when it cannot be used: for the start."""
        self._data = await asyncio.to_thread(self._read)
        self.tokens = self._parsed(self._data)

    async def run(self) -> None:
        """Keep up with the file for ever."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take over what differs."""
        try:
            data = await asyncio.to_thread(self._read)
            if data == self._data and self.fault is None:
                return
            tokens = self._parsed(data)
        except BadTokens as error:
            if self.fault != str(error):
                _log.error("tokens file is broken, its last good tokens stay", reason=str(error))
            self.fault = str(error)
            return
        self._data, self.tokens, self.fault = data, tokens, None
        _log.info("tokens read", path=str(self.path), tokens=len(tokens.grants))

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise BadTokens(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if len(data) > _MOST_BYTES:
            raise BadTokens(f"{self.path}: has more than {_MOST_BYTES} bytes")
        return data

    def _parsed(self, data: bytes) -> Tokens:
        try:
            return parse_tokens(data)
        except BadTokens as error:
            raise BadTokens(f"{self.path}: {error}") from None
