"""The files source: a directory of EndpointSlices, read whole and watched.

Owns the file system. Kubernetes swaps a mounted directory by its `..data` link, editors rename over files, and some
file systems report nothing: so every event, and every few seconds nothing at all, only means "look again"; contents
are compared, and what they mean is decided in `filestate`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import awatch

from discovery.directory.filestate import (
    SUFFIXES,
    Content,
    Directory,
    Fault,
    FileState,
    Same,
    after_failure,
    after_reading,
)
from discovery.kit.clock import Clock
from discovery.kit.log import logger
from discovery.slices import Slice

_log = logger(__name__)

_LOOK_AGAIN_MS = 5_000
_RETRY_SECONDS = 1.0
LARGEST = 64 << 20
"""Bytes of a file: what is larger holds no EndpointSlices, and would only fill the memory."""
_FRESH_SECONDS = 2.0
"""A file written this recently is read again though it looks the same: the file system's own clock is coarse."""

Signature = tuple[int, int, int, int, int]


class CannotRead(Exception):
    """The directory cannot be listed; the message names it and the reason, in one line."""


class FilesSource:
    """`on_change` is called, on the loop, after `slices` or `complete` may have changed."""

    name = "files"

    def __init__(self, path: Path, clock: Clock, on_change: Callable[[], None]) -> None:
        self._path = path
        self._clock = clock
        self._on_change = on_change
        self._state = Directory()
        self._signatures: dict[str, Signature] = {}
        self._read_at = clock.monotonic()

    def __repr__(self) -> str:
        return f"<FilesSource {self._path} files={len(self._state.files)} complete={self.complete}>"

    @property
    def slices(self) -> Iterable[Slice]:
        return self._state.slices()

    @property
    def directory(self) -> Directory:
        return self._state

    @property
    def complete(self) -> bool:
        return self._state.complete

    @property
    def listed(self) -> bool:
        """Whether the whole directory has been read once."""
        return self._state.listed

    @property
    def age(self) -> float:
        """Seconds since the directory was last read in full."""
        return self._clock.monotonic() - self._read_at

    async def check(self) -> None:
        """Raises CannotRead when the directory cannot be listed: for the start, where that is a wrong flag."""
        try:
            await asyncio.to_thread(os.listdir, self._path)
        except OSError as error:
            raise CannotRead(f"cannot read the directory {self._path}: {error.strerror or error}") from error

    async def run(self) -> None:
        """Read and watch for ever."""
        while True:
            await self.look()
            if self._state.fault is None:
                await self._watch()
            else:
                await self._clock.sleep(_RETRY_SECONDS)

    async def look(self) -> None:
        """Read everything once and take over what differs."""
        before = self._state
        self._state = await asyncio.to_thread(self._read, self._clock.now().timestamp())
        if self._state.fault is None:
            self._read_at = self._clock.monotonic()
        if self._state is not before:
            _tell(self._path, before, self._state)
            self._on_change()

    def _read(self, now: float) -> Directory:
        """List and read, in a thread. A mounted volume is read through one resolved `..data`, so that a swap in
        between never shows half of the old and half of the new."""
        data = self._path / "..data"
        for last_try in (False, False, True):
            try:
                root = data.resolve(strict=True) if data.is_symlink() else self._path
                names = sorted(entry.name for entry in os.scandir(root) if _is_ours(entry.name))
            except OSError as error:
                if data.is_symlink() and not last_try:
                    continue
                return after_failure(self._state, f"{error.strerror or error}")
            signatures: dict[str, Signature] = {}
            contents: dict[str, Content] = {}
            for name in names:
                content = _content(root / name, self._signatures.get(name), now, signatures)
                if content is not None:
                    contents[name] = content
            if last_try or not data.is_symlink() or _resolved(data) == root:
                break
        self._signatures = signatures
        return after_reading(self._state, contents)

    async def _watch(self) -> None:
        """Look again at every event, until the directory is another one than the one that is watched."""
        watched = await asyncio.to_thread(_identity, self._path)
        if watched is None:
            return
        try:
            # The filter and the recursion are off: what counts is that something happened in this one directory.
            async for _ in awatch(
                self._path,
                watch_filter=None,
                recursive=False,
                debounce=50,
                step=20,
                rust_timeout=_LOOK_AGAIN_MS,
                yield_on_timeout=True,
            ):
                await self.look()
                if await asyncio.to_thread(_identity, self._path) != watched:
                    return
        except OSError as error:
            # The directory went between the look and the watch, or the system has no more watches to give.
            _log.warning("directory cannot be watched, reading it again", path=str(self._path), reason=str(error))
            await self._clock.sleep(_RETRY_SECONDS)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _resolved(link: Path) -> Path | None:
    try:
        return link.resolve(strict=True)
    except OSError:
        return None


def _is_ours(name: str) -> bool:
    return not name.startswith(".") and name.endswith(SUFFIXES)


def _content(path: Path, known: Signature | None, now: float, signatures: dict[str, Signature]) -> Content | None:
    """The bytes of a file, unless it looks as when it was last read, and then its new signature; None when it is gone
    since it was listed, or is no file at all."""
    try:
        status = path.stat()
        signature = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if signature == known and now - max(status.st_mtime, status.st_ctime) > _FRESH_SECONDS:
            signatures[path.name] = signature
            return Same.AS_BEFORE
        if stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            return Fault("is no regular file", None)  # a pipe or a device would be read for ever
        if status.st_size > LARGEST:
            return Fault(f"is larger than {LARGEST >> 20} MiB", None)
        data = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        return Fault(f"cannot be read: {error.strerror or error}", None)
    signatures[path.name] = signature
    return data


def _tell(path: Path, before: Directory, now: Directory) -> None:
    if now.fault != before.fault:
        if now.fault is not None:
            _log.error("directory cannot be read, its last slices stay", path=str(path), reason=now.fault)
            return
        _log.info("directory can be read again", path=str(path))
    for name in sorted(now.files.keys() | before.files.keys()):
        old, new = before.files.get(name), now.files.get(name)
        if old is new:
            continue
        if new is None:
            _log.info("file removed", file=name, slices=len(old.slices) if old else 0)
        else:
            _tell_file(new)


def _tell_file(state: FileState) -> None:
    if state.fault is not None:
        _log.error(
            "file is broken, its last good slices stay",
            file=state.name,
            line=state.fault.line,
            reason=state.fault.reason,
            slices=len(state.slices),
        )
        return
    _log.info("file read", file=state.name, slices=len(state.slices), ignored=state.ignored)
    for refused in state.refused:
        _log.warning("slice refused", file=state.name, line=refused.line, slice=refused.name, reason=refused.reason)
