"""The registry's words as JSON, both ways: bodies, answers and the lines of a watch.

Pure. Owns names on the wire (lowerCamelCase), moments (RFC 3339, milliseconds) and what may be left out: a field with
its default is. Refuses, with the path of the field, what is missing, of another type or, where `strict`, unknown; a
client is not strict, so that a newer registry may say more. Limits are for `discovery.mcs.checks`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from discovery.mcs.model import (
    Bookmark,
    ClusterChanged,
    ClusterGone,
    EndpointsChanged,
    EndpointsGone,
    Event,
    ImportChanged,
    ImportGone,
    Registration,
    Session,
    SnapshotBegin,
    SnapshotEnd,
    Stamp,
    StatusChanged,
    Term,
    Words,
)
from discovery.mcs.registry import Reason, Refused

T = TypeVar("T")
Json = dict[str, Any]

EVENTS: Final[Mapping[str, type[Any]]] = {
    "SNAPSHOT_BEGIN": SnapshotBegin,
    "SNAPSHOT_END": SnapshotEnd,
    "CLUSTER": ClusterChanged,
    "DELETE_CLUSTER": ClusterGone,
    "UPSERT_IMPORT": ImportChanged,
    "DELETE_IMPORT": ImportGone,
    "UPSERT_ENDPOINTS": EndpointsChanged,
    "DELETE_ENDPOINTS": EndpointsGone,
    "EXPORT_STATUS": StatusChanged,
    "BOOKMARK": Bookmark,
}
_WORD_OF: Final = {kind: word for word, kind in EVENTS.items()}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z", re.ASCII)
_SESSION: Final = re.compile(r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})", re.ASCII)
_KEY: Final = re.compile(r"(?=\[['\"])")
_NAME: Final = re.compile(r"[a-z_]+", re.ASCII)
_SEQ: Final = re.compile(r"\d{1,18}", re.ASCII)
MOMENTS: Final = {
    "exported_ms": "exportedAt",
    "stale_since_ms": "staleSince",
    "renewed_ms": "renewedAt",
    "acquired_ms": "acquiredAt",
    "now_ms": "now",
}
"""Fields that are moments, and their names on the wire; whatever else ends in `_ms` is a duration."""

encode: Final = msgspec.json.Encoder().encode


class _Codec(NamedTuple):
    write: Callable[[Any], Any]
    read: Callable[[Any, str, bool], Any]


class _Field(NamedTuple):
    name: str
    word: str
    default: object
    codec: _Codec


def _refuse(field: str, message: str) -> Refused:
    return Refused(Reason.INVALID, message, field=field)


def _at(path: str, word: str) -> str:
    return f"{path}.{word}" if path else word


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def place(path: str) -> str:
    """The path of a field as the wire has it, from one of the model's; the keys of labels stay as they are."""
    names, *keys = _KEY.split(path, maxsplit=1)
    return "".join([_NAME.sub(lambda found: MOMENTS.get(found[0], camel(found[0])), names), *keys])


def moment(ms: int) -> str:
    return (_EPOCH + ms * _MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_moment(value: Any, path: str, strict: bool) -> int:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise _refuse(path, "is not a moment, as 2026-11-30T12:00:00.000Z")
    try:
        return (datetime.fromisoformat(value) - _EPOCH) // _MS
    except ValueError as error:
        raise _refuse(path, f"{value} is no moment: {error}") from None


def _scalar(kind: type[Any], word: str) -> _Codec:
    def read(value: Any, path: str, strict: bool) -> Any:
        if type(value) is not kind:
            raise _refuse(path, f"is not {word}")
        return value

    return _Codec(lambda value: value, read)


def _enumeration(kind: type[Enum]) -> _Codec:
    allowed = {one.value: one for one in kind}

    def read(value: Any, path: str, strict: bool) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise _refuse(path, f"is not one of {', '.join(allowed)}")
        return allowed[value]

    return _Codec(lambda value: value.value, read)


def _read_words(value: Any, path: str, strict: bool) -> Words:
    if not isinstance(value, dict):
        raise _refuse(path, "is not an object of texts")
    for key, text in value.items():
        if not isinstance(text, str):
            raise _refuse(f"{path}[{key[:80]!r}]", "is not a text")
    return tuple(sorted(value.items()))


def _many(codec: _Codec) -> _Codec:
    def read(value: Any, path: str, strict: bool) -> Any:
        if not isinstance(value, list):
            raise _refuse(path, "is not a list")
        return tuple(codec.read(one, f"{path}[{index}]", strict) for index, one in enumerate(value))

    return _Codec(lambda value: [codec.write(one) for one in value], read)


def _optional(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: None if value is None else codec.write(value),
        lambda value, path, strict: None if value is None else codec.read(value, path, strict),
    )


def _object(kind: type[Any]) -> _Codec:
    told = _fields_of(kind)
    words = {field.word for field in told}

    def write(value: Any) -> Json:
        return {
            field.word: field.codec.write(content)
            for field in told
            if (content := getattr(value, field.name)) != field.default or field.default is MISSING
        }

    def read(value: Any, path: str, strict: bool) -> Any:
        if not isinstance(value, dict):
            raise _refuse(path, "is not an object")
        if strict and (unknown := sorted(value.keys() - words)):
            raise _refuse(_at(path, unknown[0][:80]), f"is unknown; known are {', '.join(sorted(words))}")
        found = {}
        for field in told:
            if field.word in value:
                found[field.name] = field.codec.read(value[field.word], _at(path, field.word), strict)
            elif field.default is MISSING:
                raise _refuse(_at(path, field.word), "is missing")
        return kind(**found)

    return _Codec(write, read)


def _fields_of(kind: type[Any]) -> list[_Field]:
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        defaults = {field.name: field.default for field in fields(kind)}
    else:
        defaults = {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
    return [
        _Field(name, MOMENTS.get(name, camel(name)), default, _codec(hints[name], name in MOMENTS))
        for name, default in defaults.items()
    ]


_CODECS: dict[Any, _Codec] = {
    str: _scalar(str, "a text"),
    int: _scalar(int, "a whole number"),
    bool: _scalar(bool, "true or false"),
    Words: _Codec(dict, _read_words),
}
_A_MOMENT: Final = _Codec(moment, _read_moment)


def _codec(hint: Any, is_moment: bool = False) -> _Codec:
    if get_origin(hint) in (Union, types.UnionType):
        (kind,) = (one for one in get_args(hint) if one is not type(None))
        return _optional(_codec(kind, is_moment))
    if is_moment:
        return _A_MOMENT
    if hint not in _CODECS:
        if get_origin(hint) is tuple:
            _CODECS[hint] = _many(_codec(get_args(hint)[0]))
        elif issubclass(hint, Enum):
            _CODECS[hint] = _enumeration(hint)
        else:
            _CODECS[hint] = _object(hint)
    return _CODECS[hint]


def write(value: Any, *, without: tuple[str, ...] = ()) -> Json:
    """A value of the model as JSON; `without` what the path of the request says already."""
    written: Json = _codec(type(value)).write(value)
    return {word: content for word, content in written.items() if word not in without}


def read(kind: type[T], value: Any, path: str = "", *, strict: bool = True, given: Mapping[str, Any] = {}) -> T:
    """A value of the model. `given`: fields that the request's path says (as they are written); the body may not."""
    if not isinstance(value, dict):
        raise _refuse(path or "body", "is not an object")
    if doubled := sorted(value.keys() & given.keys()):
        raise _refuse(_at(path, doubled[0]), "stands in the path already")
    found: T = _codec(kind).read({**value, **given}, path, strict)
    return found


def parse(data: bytes) -> Any:
    """JSON of a body or a line."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse("body", f"is not JSON: {error}") from None


def write_event(event: Event) -> Json:
    return {"type": _WORD_OF[type(event)], **write(event)}


def read_event(value: Any, *, strict: bool = False) -> Event:
    """Refused INVALID also for a type that is not known: what it means cannot be guessed."""
    if not isinstance(value, dict):
        raise _refuse("line", "is not an object")
    kind = EVENTS.get(value.get("type", "")) if isinstance(value.get("type"), str) else None
    if kind is None:
        raise _refuse("type", f"is not one of {', '.join(EVENTS)}")
    found: Event = read(kind, {word: content for word, content in value.items() if word != "type"}, strict=strict)
    return found


# The session: opaque to clients of other makes, and in two headers of every write.


def write_session(session: Session) -> str:
    return f"{session.incarnation}.{session.term.transitions}.{session.term.acquired_ms}"


def read_session(cluster: str, text: str, path: str = "mcs-session") -> Session:
    found = _SESSION.fullmatch(text)
    if found is None:
        raise _refuse(path, "is not a session as a registration has given it")
    return Session(cluster, int(found[1]), Term(int(found[2]), int(found[3])))


def read_stamp(cluster: str, session: str, seq: str) -> Stamp:
    if not _SEQ.fullmatch(seq):
        raise _refuse("mcs-seq", "is not a whole number of at most 18 digits")
    return Stamp(read_session(cluster, session), int(seq))


def write_registration(value: Registration) -> Json:
    return {
        "cluster": value.session.cluster,
        "session": write_session(value.session),
        "epoch": value.epoch,
        "now": moment(value.now_ms),
        "ttlMs": value.ttl_ms,
        "renewMs": value.renew_ms,
    }


def read_registration(value: Any) -> Registration:
    told = read(Registered, value, strict=False)
    session = read_session(told.cluster, told.session, "session")
    return Registration(session, told.epoch, told.now_ms, told.ttl_ms, told.renew_ms)


class Registered(NamedTuple):
    """The answer to a registration, as it is sent."""

    cluster: str
    session: str
    epoch: str
    now_ms: int
    ttl_ms: int
    renew_ms: int = 0
