"""What is known of a directory of slice files, from what was read of it.

Pure. Owns the rule that trouble never makes fewer slices: a broken file keeps its last good slices until it is fixed
or removed, a refused slice keeps its last good form, and all other files go on. A file that was broken from the
beginning makes the list incomplete, since nobody knows what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from blake3 import blake3

from discovery.documents import BrokenFile, objects_in
from discovery.errors import MalformedSlice
from discovery.slices import Slice, parse_slice

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a file; `line` None when no line is to blame."""

    reason: str
    line: int | None


@dataclass(frozen=True, slots=True)
class RefusedSlice:
    """An object of a good file that is no good slice."""

    name: str
    reason: str
    line: int | None


@dataclass(frozen=True, slots=True)
class FileState:
    """One file: its last good slices, what was refused beside them, and what is wrong with it now. `ignored` counts
    objects of other kinds. `known` is false while it has never been read."""

    name: str
    digest: bytes = b""
    slices: tuple[Slice, ...] = ()
    refused: tuple[RefusedSlice, ...] = ()
    ignored: int = 0
    fault: Fault | None = None
    known: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    """All files by name; `fault` says why the directory itself cannot be read now."""

    files: Mapping[str, FileState] = field(default_factory=dict)
    fault: str | None = None
    listed: bool = False

    @property
    def complete(self) -> bool:
        return self.listed and self.fault is None and all(state.known for state in self.files.values())

    def slices(self) -> Iterator[Slice]:
        """In the order of the files' names: of two slices with one identity the assembling judges."""
        for name in sorted(self.files):
            yield from self.files[name].slices


class Same(Enum):
    """The file is as it was when it was last read: nobody looked inside again."""

    AS_BEFORE = "as_before"


Content = bytes | Fault | Same
"""What reading a file gave: its bytes, or why not, or that it need not be read."""


def after_reading(before: Directory, contents: Mapping[str, Content]) -> Directory:
    """The directory after it was listed and every file in it was tried; `before` itself when nothing differs."""
    files = {name: _after(before.files.get(name), name, content) for name, content in contents.items()}
    same = files.keys() == before.files.keys() and all(files[name] is before.files[name] for name in files)
    if same and before.listed and before.fault is None:
        return before
    return Directory(files, None, listed=True)


def after_failure(before: Directory, reason: str) -> Directory:
    """The directory when it could not be listed: everything stays, and is no longer complete."""
    return before if before.fault == reason else replace(before, fault=reason)


def _after(before: FileState | None, name: str, content: Content) -> FileState:
    if isinstance(content, Same):
        return before or FileState(name)
    if isinstance(content, Fault):
        old = before or FileState(name)
        # Another digest, so that the same content is looked at again when it can be read again.
        return old if old.fault == content else replace(old, fault=content, digest=b"")
    digest = blake3(content).digest()
    if before is not None and before.digest == digest:
        return before
    return _parsed(before or FileState(name), digest, content)


def _parsed(before: FileState, digest: bytes, content: bytes) -> FileState:
    name = before.name
    try:
        objects = objects_in(content, is_json=name.endswith(".json"))
    except BrokenFile as error:
        return replace(before, digest=digest, fault=Fault(error.reason, error.line))
    last_good = {(one.namespace, one.name): one for one in before.slices}
    slices: list[Slice] = []
    refused: list[RefusedSlice] = []
    ignored = 0
    for found in objects:
        value = found.value
        if isinstance(value, dict) and value.get("kind", "EndpointSlice") != "EndpointSlice":
            ignored += 1
            continue
        try:
            slices.append(parse_slice(value))
        except MalformedSlice as error:
            refused.append(RefusedSlice(error.name, error.reason, found.line))
            if kept := last_good.get(_identity(value)):
                slices.append(kept)
    return FileState(name, digest, tuple(slices), tuple(refused), ignored, None, known=True)


def _identity(value: object) -> tuple[str, str]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return "", ""
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else ("", "")
