"""The keys file as it is changed by the command: read, checked, replaced whole.

A key is shown once, when it is made; the file holds its digest. The new content is checked, written beside the file
with its owner and mode (a new one: for its owner only), and put in the file's place in one step; a lock beside it keeps
two commands apart. A file that is faulty is not touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from global_ingress.proxy.settings import keys, yaml_places
from global_ingress.proxy.settings.files import read_file
from global_ingress.proxy.settings.reading import decoded

PREFIX = "gi-"
BYTES = 32


class CannotChange(Exception):
    """The message says why, in one line, and shows no key."""


def new_key(chance: bytes) -> str:
    """A key of that much chance."""
    return PREFIX + chance.hex()


@contextlib.contextmanager
def changing(path: Path, before: Callable[[], None] = lambda: None) -> Iterator[list[dict[str, Any]]]:
    """The entries of the file as it spells them; what the block leaves in the list is checked, then `before` is called,
    then it is written. Raises OSError, SettingsFault, CannotChange."""
    path = Path(os.path.realpath(path))  # where a link points to: the link stays one
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = read_text(path) if path.exists() else "keys: []\n"
        entries = entries_of(text, path)
        yield entries
        new = keys.written(entries, text)
        keys.load(new, name=str(path))  # what is given on the command line may be no rate, no day
        before()
        _replace(path, new)
    finally:
        os.close(lock)


def read_text(path: Path) -> str:
    """Raises OSError, SettingsFault."""
    return decoded(read_file(path), name=str(path))


def entries_of(text: str, path: Path) -> list[dict[str, Any]]:
    """Raises SettingsFault when the file could not be served."""
    keys.load(text, name=str(path))
    return list(yaml_places.read(text).data["keys"] or [])


def add(entries: list[dict[str, Any]], secret: str, given: dict[str, Any]) -> None:
    """Put an entry for this key at the end. Raises CannotChange."""
    if any(entry["name"] == given["name"] for entry in entries):
        raise CannotChange(f"there is a key of the name {given['name']!r} already")
    digest = hashlib.sha256(secret.encode()).hexdigest()
    named = {"name": given["name"], "sha256": digest}
    entries.append(named | {key: value for key, value in given.items() if value is not None})


def revoke(entries: list[dict[str, Any]], name: str) -> None:
    """Take the entry out. Raises CannotChange."""
    left = [entry for entry in entries if entry["name"] != name]
    if len(left) == len(entries):
        raise CannotChange(f"there is no key of the name {name!r}")
    entries[:] = left


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            _take_after(file.fileno(), path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _take_after(fd: int, path: Path) -> None:
    """Owner and mode of the file whose place it takes: whoever could read that can read this, and nobody else."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    try:
        os.fchown(fd, old.st_uid, old.st_gid)
    except PermissionError:
        raise CannotChange("its owner cannot be kept; do it as its owner or as root") from None
    os.fchmod(fd, stat.S_IMODE(old.st_mode))
