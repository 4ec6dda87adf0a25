"""The registry's words as protobuf messages, both ways, driven by the shapes of the model as its JSON is.

Pure. Owns which message a value is, which field of a message holds which of the model, and what unset means: the
default, or a field that is missing. Refuses, with the path that the JSON of a message has, what is missing, no moment
and no word of an enumeration. Limits are for `discovery.mcs.checks`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.timestamp_pb2 import Timestamp

from discovery.mcs import wire
from discovery.mcs.model import Announcement, Event, Registration, Stamp, Words
from discovery.mcs.proto import registry_pb2 as pb
from discovery.mcs.registry import Reason, Refused

T = TypeVar("T")
Message = Any
"""A protobuf message: the library has no types worth the name."""

_EARLIEST_S, _LATEST_S = -62_135_596_800, 253_402_300_799
"""What a Timestamp may be: the years 1 to 9999."""
_MESSAGE_OF: Final[Mapping[type[Any], Any]] = {Announcement: pb.RegisterRequest}
_FIELD_OF_EVENT: Final = {kind: word.lower() for word, kind in wire.EVENTS.items()}


class _Codec(NamedTuple):
    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    is_message: bool = False


class _Field(NamedTuple):
    name: str
    place: str
    """Of the field in its message."""
    word: str
    """Of the field in a path."""
    default: object
    codec: _Codec
    has_presence: bool


def _refuse(field: str, message: str) -> Refused:
    return Refused(Reason.INVALID, message, field=field)


def _same(value: Any) -> Any:
    return value


def _write_moment(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def _read_moment(value: Message, path: str) -> int:
    if not _EARLIEST_S <= value.seconds <= _LATEST_S or not 0 <= value.nanos < 1_000_000_000:
        raise _refuse(path, "is not a moment of the years 1 to 9999")
    return int(value.seconds) * 1000 + int(value.nanos) // 1_000_000


def _enumeration(kind: type[Enum]) -> _Codec:
    allowed = {one.value: one for one in kind}

    def read(value: str, path: str) -> Any:
        if value not in allowed:
            raise _refuse(path, f"is not one of {', '.join(allowed)}")
        return allowed[value]

    return _Codec(lambda value: value.value, read)


def _many(codec: _Codec) -> _Codec:
    return _Codec(
        lambda values: [codec.write(one) for one in values],
        lambda values, path: tuple(codec.read(one, f"{path}[{index}]") for index, one in enumerate(values)),
    )


def _object(kind: type[Any]) -> _Codec:
    message = _MESSAGE_OF.get(kind) or getattr(pb, kind.__name__)
    told = _fields_of(kind, message.DESCRIPTOR)

    def write(value: Any) -> Message:
        found = ((field, getattr(value, field.name)) for field in told)
        return message(**{field.place: field.codec.write(one) for field, one in found if one is not None})

    def read(value: Message, path: str) -> Any:
        return kind(**{field.name: _read_field(value, field, path) for field in told})

    return _Codec(write, read, is_message=True)


def _read_field(message: Message, field: _Field, path: str) -> Any:
    at = f"{path}.{field.word}" if path else field.word
    if field.has_presence and not message.HasField(field.place):
        if field.default is MISSING:
            raise _refuse(at, "is missing")
        return field.default
    value = getattr(message, field.place)
    if value == "" and field.default is not MISSING:
        return field.default
    return field.codec.read(value, at)


def _fields_of(kind: type[Any], descriptor: Any) -> list[_Field]:
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        defaults = {field.name: field.default for field in fields(kind)}
    else:
        defaults = {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
    found = []
    for name, default in defaults.items():
        place = wire.MOMENTS.get(name, "")
        place = _snake(place) if place else name
        codec = _codec(hints[name], name in wire.MOMENTS)
        # A None that has no default is unset, too.
        optional = type(None) in get_args(hints[name])
        found.append(
            _Field(
                name,
                place,
                wire.MOMENTS.get(name, wire.camel(name)),
                None if optional and default is MISSING else default,
                codec,
                descriptor.fields_by_name[place].has_presence,
            )
        )
    return found


def _snake(word: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word)


_CODECS: dict[Any, _Codec] = {
    **{kind: _Codec(_same, lambda value, path: value) for kind in (str, int, bool)},
    Words: _Codec(dict, lambda value, path: tuple(sorted(value.items()))),
}
_A_MOMENT: Final = _Codec(_write_moment, _read_moment, is_message=True)


def _codec(hint: Any, is_moment: bool = False) -> _Codec:
    if get_origin(hint) in (Union, types.UnionType):
        (kind,) = (one for one in get_args(hint) if one is not type(None))
        return _codec(kind, is_moment)
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


def write(value: Any) -> Message:
    """A value of the model as the message of its name; an Announcement as a RegisterRequest."""
    return _codec(type(value)).write(value)


def read(kind: type[T], message: Message, path: str = "") -> T:
    found: T = _codec(kind).read(message, path)
    return found


def part(kind: type[T], request: Message, name: str) -> T:
    """A value that a request holds; refused when it is not there. Paths within it begin in it, as over REST."""
    if not request.HasField(name):
        raise _refuse(name, "is missing")
    return read(kind, getattr(request, name))


def read_stamp(request: Message) -> Stamp:
    if not request.HasField("stamp"):
        raise _refuse("stamp", "is missing")
    stamp = request.stamp
    if not 0 <= stamp.seq < 10**18:
        raise _refuse("stamp.seq", "is not a whole number of at most 18 digits")
    return Stamp(wire.read_session(stamp.cluster, stamp.session, "stamp.session"), stamp.seq)


def write_registration(value: Registration) -> Mapping[str, Any]:
    """The fields of a RegisterResponse, or of a RenewResponse."""
    return {
        "cluster": value.session.cluster,
        "session": wire.write_session(value.session),
        "epoch": value.epoch,
        "now": _write_moment(value.now_ms),
        "ttl_ms": value.ttl_ms,
        "renew_ms": value.renew_ms,
    }


def write_event(event: Event) -> Message:
    return pb.WatchResponse(**{_FIELD_OF_EVENT[type(event)]: write(event)})


def read_event(message: Message) -> Event:
    """Refused INVALID for an event of a newer registry, that nobody here knows."""
    kind = message.WhichOneof("event")
    if kind is None:
        raise _refuse("event", "is unknown")
    found: Event = read(wire.EVENTS[kind.upper()], getattr(message, kind), kind)
    return found
