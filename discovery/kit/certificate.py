"""The certificate that a listener shows, read again whenever it differs: new connections see it, open ones keep theirs.

Owns the two files and the context made of them. A pair that is broken, or gone, after it was good changes nothing but
the log: it is said once, and the last good one stays.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.kit.pem import BadPair, load_pair

_log = logger(__name__)

_LOOK_SECONDS = 1.0
_MOST_BYTES = 1024 * 1024


class BadCertificate(Exception):
    """The pair cannot be used; the message names the files and why, in one line, and holds nothing of the key."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a listener's certificate, its chain included, and of its key, PEM both."""

    cert: Path
    key: Path


class Certificate:
    """`pair` is the last good (chain, key); `context` shows it, TLS 1.2 at least. Raises BadCertificate: for the start,
    where there is no good one yet."""

    def __init__(self, tls: Tls, clock: Clock) -> None:
        self._tls = tls
        self._clock = clock
        self._fault = ""
        self.pair = self._read()
        self.context = _context()
        self._load(self.context, self.pair)

    def __repr__(self) -> str:
        return f"<Certificate {self._tls.cert} fault={self._fault!r}>"

    async def run(self) -> None:
        """Keep up with the files for ever."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take over what differs."""
        try:
            pair = await asyncio.to_thread(self._read)
            if pair == self.pair and not self._fault:
                return
            self._load(_context(), pair)
        except BadCertificate as error:
            if self._fault != str(error):
                _log.error("certificate is broken, the last good one stays", reason=str(error))
            self._fault = str(error)
            return
        self._load(self.context, pair)
        self.pair, self._fault = pair, ""
        _log.info("certificate read", path=str(self._tls.cert))

    def _read(self) -> tuple[bytes, bytes]:
        return _content(self._tls.cert), _content(self._tls.key)

    def _load(self, context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
        try:
            load_pair(context, *pair)
        except BadPair as error:
            raise BadCertificate(f"cannot use {self._tls.cert} and {self._tls.key}: {error}") from None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    return context


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadCertificate(f"cannot use {path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise BadCertificate(f"cannot use {path}: it has more than {_MOST_BYTES} bytes")
    return data
