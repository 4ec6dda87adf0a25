"""The files beside the settings that say who may come in and how we show who we are: keys and certificates (I60, I61).

Read at the start and again whenever their content differs. A file that is broken, or gone, after it was good changes
nothing but what is said of it, loudly: whoever could come in still can, and nobody else. Content, not paths, goes to
the workers, so that all of them have the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from discovery.kit.clock import Clock
from discovery.kit.log import logger
from global_ingress.proxy.settings import keys
from global_ingress.proxy.settings.faults import Fault, SettingsFault
from global_ingress.proxy.settings.files import read_file
from global_ingress.proxy.settings.keys import Key
from global_ingress.proxy.settings.reading import decoded
from global_ingress.proxy.settings.sections import Settings, Tls, UpstreamTls
from global_ingress.proxy.shared import tls
from global_ingress.proxy.shared.allowance import Allowance
from global_ingress.proxy.shared.rate import KEYS
from global_ingress.proxy.shared.routes import Auth, TlsFiles
from global_ingress.proxy.supervising.routing import Guards
from global_ingress.proxy.supervising.slots import Slots

_log = logger("global_ingress.guarding")


@dataclass(frozen=True, slots=True, repr=False)
class Read:
    """What the files hold."""

    keys: tuple[Key, ...] | None = None
    tls: TlsFiles | None = None
    upstream_tls: TlsFiles | None = None


def read_guards(settings: Settings) -> Read:
    """Everything that these settings name. Raises SettingsFault with all that cannot be used."""
    faults: list[Fault] = []
    held = []
    for read in (lambda: _keys(settings), lambda: _server(settings.tls), lambda: _client(settings.upstream.tls)):
        try:
            held.append(read())
        except SettingsFault as error:
            faults += error.faults
    if faults:
        raise SettingsFault(faults)
    return Read(*held)  # type: ignore[arg-type]


def _content(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise SettingsFault([Fault(path, 0, 0, "", f"cannot be read: {error.strerror or error}")]) from None


def _keys(settings: Settings) -> tuple[Key, ...] | None:
    if settings.auth is None:
        return None
    path = settings.auth.keys_file
    read = _meant(_content(path), path)
    if isinstance(read, SettingsFault):
        raise SettingsFault(read.faults)
    return read


@lru_cache(maxsize=2)
def _meant(content: bytes, name: str) -> tuple[Key, ...] | SettingsFault:
    """Looked at each second, but read only when it changes: thousands of keys take seconds."""
    try:
        return keys.load(decoded(content, name=name), name=name)
    except SettingsFault as error:
        return error


def _server(given: Tls | None) -> TlsFiles | None:
    if given is None:
        return None
    ca = None if given.client_ca is None else _content(given.client_ca)
    files = TlsFiles(_content(given.certificate), _content(given.key), ca)
    return _usable(files, given.certificate, lambda: tls.server_context(files))


def _client(given: UpstreamTls | None) -> TlsFiles | None:
    if given is None:
        return None
    paths = (given.certificate, given.key, given.ca)
    certificate, key, ca = (None if path is None else _content(path) for path in paths)
    files = TlsFiles(certificate, key, ca, given.server_name)
    return _usable(files, given.certificate or given.ca or "upstream.tls", lambda: tls.client_context(files))


def _usable(files: TlsFiles, name: str, make: Callable[[], object]) -> TlsFiles:
    try:
        make()
    except tls.CannotUse as error:
        raise SettingsFault([Fault(name, 0, 0, "", str(error))]) from None
    return files


class Guarding:
    """`guards` is what holds now; `fault` what is wrong with the files, "" when nothing is."""

    def __init__(self, fd: int, workers: int, clock: Clock, notice: Callable[[str, str, str], None]) -> None:
        self.guards = Guards()
        self.fault = ""
        self._allowance = Allowance(fd, workers)
        self._slots = Slots(KEYS)
        self._clock = clock
        self._notice = notice
        self._read = Read()
        self._settings: Settings | None = None

    def use(self, settings: Settings) -> None:
        """Other settings; their files were good a moment ago. Should they be so no longer, nothing opens: what was
        there stays, and where there was nothing, nobody comes in."""
        self._settings = settings
        try:
            read = read_guards(settings)
        except SettingsFault as error:
            self._refuse(error)
            before = self._read
            read = Read(
                (before.keys or ()) if settings.auth is not None else None,
                before.tls if settings.tls is not None else None,
                before.upstream_tls if settings.upstream.tls is not None else None,
            )
        self._take(settings, read)

    async def look(self, settings: Settings) -> bool:
        """Whether the files hold something else than before that can be used."""
        try:
            read = await asyncio.to_thread(read_guards, settings)
        except SettingsFault as error:
            if settings is self._settings:
                self._refuse(error)
            return False
        if settings is not self._settings:
            return False  # others came meanwhile
        if self.fault:
            _log.info("keys and certificates can be used again")
        self.fault = ""
        if read == self._read:
            self._free()
            return False
        self._take(settings, read)
        _log.info("keys or certificates taken over", keys=len(read.keys or ()), tls=read.tls is not None)
        return True

    def died(self, worker: int) -> None:
        """What a worker held when it died is held no more."""
        self._allowance.clear_worker(worker, [slot for _, slot in self._slots])

    def close(self) -> None:
        self._allowance.close()

    def _take(self, settings: Settings, read: Read) -> None:
        self._read = read
        self._free()
        auth = None
        if read.keys is not None and settings.auth is not None:
            rows = dict(self._slots)
            auth = Auth(keys.routes_of(read.keys, rows), settings.auth.forward_credentials)
        self.guards = Guards(auth, read.tls, read.upstream_tls)

    def _free(self) -> None:
        """Rows of keys that are gone are free after a while, and never while something is in flight there."""
        digests = [key.sha256 for key in self._read.keys or ()]
        for slot in self._slots.update(digests, self._clock.monotonic(), self._allowance.in_flight):
            self._allowance.clear_slot(slot)

    def _refuse(self, error: SettingsFault) -> None:
        if str(error) != self.fault:
            self.fault = str(error)
            _log.error("keys or certificates refused, the old ones stay", faults=[str(one) for one in error.faults])
            self._notice("guards_refused", error.faults[0].file, "cannot be used, the old one stays")
