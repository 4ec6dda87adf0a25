"""The kinds of value a setting can have, as types of fields: spelling, limits, JSON Schema, and how it is written back.

Owns what pydantic is told of `settings_values`, lists, the word `off`, and keys that may be left out but not be empty.
Each kind writes itself (`mode="json"`) as the file would spell it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    WrapSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError

from global_ingress.proxy.settings import values

T = TypeVar("T")


def _directory(info: ValidationInfo) -> str:
    return str((info.context or {}).get("directory", ""))


def _file_path(value: object, info: ValidationInfo) -> str:
    return values.file_path(value, _directory(info))


def _access_log(value: object, info: ValidationInfo) -> str:
    return values.access_log(value, _directory(info))


def _schema(kind: str, pattern: str | None = None, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"title": kind, "type": "string", **({"pattern": pattern} if pattern else {}), **more})


def _shown(show: Callable[[Any], Any]) -> PlainSerializer:
    return PlainSerializer(show, when_used="json")


_SPELLED = r"^[0-9]{1,12}(\.[0-9]{1,9})?(ms|s|m|h)$"
_SIZED = r"^[0-9]{1,15} ?(B|kB|MB|GB|KiB|MiB|GiB)$"
_URLS = r"^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\s]+/?$"
_NAMED = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$"

_TOKEN = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"


def _durations(least: float) -> WithJsonSchema:
    number = {"minimum": least, "maximum": values.MAX_DURATION}
    return WithJsonSchema({"title": "duration", "type": ["string", "number"], "pattern": _SPELLED, **number})


def _sizes(least: int, most: int) -> WithJsonSchema:
    number = {"minimum": least, "maximum": most}
    return WithJsonSchema({"title": "size", "type": ["string", "integer"], "pattern": _SIZED, **number})


Duration = Annotated[
    float, PlainValidator(values.duration), _shown(values.show_duration), _durations(values.MIN_DURATION)
]
DurationOrZero = Annotated[float, PlainValidator(values.duration_or_zero), _shown(values.show_duration), _durations(0)]
Size = Annotated[int, PlainValidator(values.size), _shown(values.show_size), _sizes(1, values.MAX_SIZE)]
HeaderSize = Annotated[int, PlainValidator(values.header_size), _shown(values.show_size), _sizes(1 << 10, 1 << 20)]
Listen = Annotated[values.Address, PlainValidator(values.address), _shown(str), _schema("address", r"^.+:[0-9]{1,5}$")]
Url = Annotated[str, PlainValidator(values.url), _schema("URL", _URLS)]
Origin = Annotated[str, PlainValidator(values.origin), _schema("origin", r"^(\*|[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\s]+)$")]
Network = Annotated[
    ipaddress.IPv4Network | ipaddress.IPv6Network,
    PlainValidator(values.network),
    _shown(str),
    _schema("CIDR", r"^[0-9A-Fa-f:.]+(/[0-9.]+)?$"),
]
Name = Annotated[str, PlainValidator(values.name), _schema("text", _NAMED)]
HeaderName = Annotated[str, PlainValidator(values.header_name), _schema("header name", _TOKEN)]
OwnHeaderName = Annotated[str, PlainValidator(values.own_header_name), _schema("header name", _TOKEN)]
HeaderValue = Annotated[
    str, PlainValidator(values.header_value), _schema("text", r"^([!-~\x80-\xff]([\t -~\x80-\xff]*[!-~\x80-\xff])?)?$")
]
FilePath = Annotated[str, PlainValidator(_file_path), _schema("path", r"^[^\x00]+$")]
AccessLog = Annotated[str, PlainValidator(_access_log), _schema("stdout or a path", r"^(stdout|[^\x00]*/[^\x00]*)$")]
HedgeAfter = Annotated[str, PlainValidator(values.hedge_after), _schema("percentile", r"^p[5-9][0-9]$")]
Switch = Annotated[
    bool,
    PlainValidator(values.switch),
    _shown(lambda value: "on" if value else "off"),
    WithJsonSchema({"title": "on or off", "enum": ["on", "off", True, False]}),
]
Weight = Annotated[int, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Status = Annotated[int, Field(ge=400, le=599)]
Share = Annotated[float, Field(ge=0, le=1)]


# Lists, off, and keys that may be left out


def _is_off(value: object) -> object:
    if value is None:
        raise values.NotAllowed("is empty; leave the key out for its default, or write off")
    return None if value == "off" or value is False else value


def _is_given(value: object) -> object:
    if value is None:
        raise values.NotAllowed("is empty; leave the key out instead")
    return value


def _write_off(value: object, write: SerializerFunctionWrapHandler) -> object:
    return "off" if value is None else write(value)


@dataclass(frozen=True, slots=True)
class InPlaceOfNull:
    """Marks a field whose None is written otherwise in the file: as `off`, or by leaving the key out."""

    off: bool

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        choices = [choice for choice in handler(core)["anyOf"] if choice != {"type": "null"}]
        if self.off:
            choices.append({"title": "off", "enum": ["off", False]})
        return choices[0] if len(choices) == 1 else {"anyOf": choices}


class WithMore:
    """Adds what JSON Schema can say of a check that pydantic does not know."""

    def __init__(self, **more: Any) -> None:
        self.more = more

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), **self.more}


OrOff = Annotated[
    T | None, BeforeValidator(_is_off), WrapSerializer(_write_off, when_used="json"), InPlaceOfNull(off=True)
]
Optional = Annotated[T | None, BeforeValidator(_is_given), InPlaceOfNull(off=False)]
Several = Annotated[tuple[T, ...], Strict(False)]


def _not_empty(value: object) -> object:
    if value in ([], ()):
        raise PydanticCustomError("too_short", "must hold at least one")
    return value


# Not `Field(min_length=1)`: that counts the items that are valid, and would call a list of bad ones empty
OneOrMore = Annotated[tuple[T, ...], Strict(False), BeforeValidator(_not_empty), WithMore(minItems=1)]
