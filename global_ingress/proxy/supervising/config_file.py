"""The operator's file on disk: read, watched, read again; a faulty one is refused and the old settings stay (I51).

Owns the path, what flags and variables say instead of it, and the outcome of the last readings. It watches the
directory and compares content, since a mounted ConfigMap changes by swapping a symlink beside the file, which no watch
of the file itself sees.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import watchfiles

from discovery.kit.clock import Clock
from discovery.kit.log import logger
from global_ingress.proxy.settings import file as settings_module
from global_ingress.proxy.settings.file import Settings, SettingsFault
from global_ingress.proxy.settings.files import read_file

LOOK = 5.0  # seconds between two looks where the system cannot watch
RESTART = ("listen", "admin", "workers", "log")  # what a running process cannot change

_log = logger("global_ingress.config")


@dataclass(frozen=True, slots=True)
class Overrides:
    """What flags or variables say instead of the file; `origins` names the variable a value came from."""

    listen: str | None = None
    admin: str | None = None
    workers: str | int | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading after the start. `needs_restart`: keys whose new value waits for a restart."""

    at: datetime
    result: str
    faults: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class ConfigFile:
    """`read` at the start; `watch` and `reload` afterwards call `apply` with settings that differ."""

    def __init__(
        self, path: Path, overrides: Overrides, clock: Clock, check: Callable[[Settings], object] = bool
    ) -> None:
        """`check` raises SettingsFault when what the settings name beside them cannot be used."""
        self.path = path
        self._overrides = overrides
        self._clock = clock
        self._check = check
        self._digest = b""
        self._busy = asyncio.Lock()
        self._lacking: tuple[str, ...] = ()
        self.settings: Settings | None = None
        self.counted: dict[str, int] = {}
        self.readings: deque[Reading] = deque(maxlen=20)

    def read(self) -> Settings:
        """The settings at the start. Raises OSError, SettingsFault."""
        self.settings = self._made(self._content())
        self._check(self.settings)
        return self.settings

    async def watch(self, apply: Callable[[Settings], None]) -> None:
        """Read the file again whenever its content changes; until cancelled."""
        directory = self.path.parent
        try:
            async for _ in watchfiles.awatch(
                directory, watch_filter=self.concerned, recursive=False, debounce=50, step=20
            ):
                await self.reload(apply, asked=False)
        except (OSError, RuntimeError) as error:
            _log.warning("settings cannot be watched, so they are looked at now and then", reason=str(error))
        while True:
            await self._clock.sleep(LOOK)
            await self.reload(apply, asked=False)

    def concerned(self, _change: watchfiles.Change, path: str) -> bool:
        """Whether a change in the directory may be one of the settings: Kubernetes moves a link under another name. A
        log that grows beside them is none."""
        return os.path.basename(path) == self.path.name or os.path.islink(path)

    async def reload(self, apply: Callable[[Settings], None], *, asked: bool) -> None:
        """Read the file now. `asked`: somebody wants an answer, so the same content is read again too."""
        async with self._busy:
            try:
                content = await asyncio.to_thread(self._content, note=False)
            except OSError as error:
                if asked or self._digest:
                    self._refuse((f"{self.path}: cannot be read: {error.strerror}",))
                self._digest = b""
                return
            digest = hashlib.sha256(content).digest()
            same = digest == self._digest
            if same and not asked:
                return
            self._digest = digest
            await self._use(content, apply)

    async def again(self, apply: Callable[[Settings], None]) -> None:
        """Try settings again that were refused only for what they name beside them: that may have come by now."""
        if self._lacking:
            async with self._busy:
                try:
                    content = await asyncio.to_thread(self._content, note=False)
                except OSError:
                    return  # whoever watches says so
                if hashlib.sha256(content).digest() == self._digest:
                    await self._use(content, apply, told=self._lacking)

    async def _use(self, content: bytes, apply: Callable[[Settings], None], told: tuple[str, ...] = ()) -> None:
        """`told`: faults that need not be told again."""
        self._lacking = ()
        try:
            made = await asyncio.to_thread(self._made, content)
            try:
                await asyncio.to_thread(self._check, made)
            except SettingsFault as error:
                self._lacking = tuple(map(str, error.faults))
                raise
        except SettingsFault as error:
            faults = tuple(map(str, error.faults))
            if faults != told:
                self._refuse(faults)
            return
        self._take(made, apply)

    def _content(self, *, note: bool = True) -> bytes:
        content = read_file(self.path)
        if note:
            self._digest = hashlib.sha256(content).digest()
        return content

    def _made(self, content: bytes) -> Settings:
        name = str(self.path)
        text = settings_module.decoded(content, name=name)
        made = settings_module.load(text, name=name, directory=str(self.path.absolute().parent))
        over = self._overrides
        return settings_module.with_overrides(
            made, listen=over.listen, admin=over.admin, workers=over.workers, origins=over.origins
        )

    def _take(self, made: Settings, apply: Callable[[Settings], None]) -> None:
        assert self.settings is not None, "read at the start"
        old = self.settings
        waiting = tuple(key for key in RESTART if getattr(made, key) != getattr(old, key))
        made = made.model_copy(update={key: getattr(old, key) for key in RESTART})
        if waiting:
            _log.warning("changed settings need a restart", file=str(self.path), keys=list(waiting))
        if made == old:
            _log.info("settings read again, nothing to change", file=str(self.path))
            self._note(Reading(self._clock.now(), "unchanged", (), waiting))
            return
        self.settings = made
        apply(made)
        changed = [key for key in type(made).model_fields if getattr(made, key) != getattr(old, key)]
        _log.info("settings reloaded", file=str(self.path), changed=changed)
        self._note(Reading(self._clock.now(), "ok", (), waiting))

    def _refuse(self, faults: tuple[str, ...]) -> None:
        _log.error("settings refused, the old ones stay", file=str(self.path), faults=list(faults))
        self._note(Reading(self._clock.now(), "refused", faults))

    def _note(self, reading: Reading) -> None:
        self.readings.append(reading)
        self.counted[reading.result] = self.counted.get(reading.result, 0) + 1
