"""The keys file: who may come in, and how much (I60). Text in, entries or all faults out. Pure.

Owns the declarations and their text; holds digests, never keys. Refuses a file with anything in it that it does not
understand, and a digest or name given twice.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from global_ingress.proxy.settings import values
from global_ingress.proxy.settings.faults import Fault, Finding, SettingsFault
from global_ingress.proxy.settings.reading import declared
from global_ingress.proxy.settings.sections import Section
from global_ingress.proxy.settings.types import Count, Name, OneOrMore, Optional, Several
from global_ingress.proxy.shared.rate import KEYS
from global_ingress.proxy.shared.routes import KeyRoute

Rate = Annotated[tuple[int, float], PlainValidator(values.rate)]
Digest = Annotated[str, PlainValidator(values.digest)]
Moment = Annotated[float, PlainValidator(values.moment)]


class Key(Section):
    """One key. What is left out is not limited."""

    name: Name = Field(description="Whose key it is; for people.")
    sha256: Digest = Field(description="The SHA-256 of the key.")
    models: OneOrMore[Name] = Field(
        default=("*",), description="Ids of models it may use, with `*` and `?`; all other characters are themselves."
    )
    rate: Optional[Rate] = Field(default=None, description="Requests in a time, such as `100/1m`.")
    concurrent: Optional[Count] = Field(default=None, description="Requests at once.")
    expires: Optional[Moment] = Field(default=None, description="When it ends, such as `2027-01-31`.")


class KeyFile(Section):
    """The whole file."""

    keys: Several[Key] = ()

    @model_validator(mode="before")
    @classmethod
    def _no_keys(cls, data: Any) -> Any:
        return {"keys": []} if isinstance(data, dict) and data.get("keys", 0) is None else data


def load(text: str, *, name: str) -> tuple[Key, ...]:
    """The keys that `text` declares. Raises SettingsFault with all faults; no fault shows what may be a key."""
    try:
        return declared(KeyFile, text, name=name, needs="write `keys: []` for none", context={}, cross=_cross).keys
    except SettingsFault as error:
        raise SettingsFault(map(_without_secrets, error.faults)) from None


def _cross(data: dict[str, Any]) -> Iterator[Finding]:
    keys = data.get("keys")
    entries = [entry if isinstance(entry, dict) else {} for entry in keys] if isinstance(keys, list) else []
    if len(entries) > KEYS - 1:
        yield Finding(("keys",), f"must hold at most {KEYS - 1}")
    for field, what in (("name", "the name"), ("sha256", "the digest")):
        first: dict[str, int] = {}
        for index, entry in enumerate(entries):
            value = entry.get(field)
            if isinstance(value, str) and first.setdefault(value, index) != index:
                yield Finding(("keys", index, field), f"{what} is given twice, first at keys[{first[value]}]")


def routes_of(keys: Iterable[Key], slots: dict[str, int]) -> tuple[KeyRoute, ...]:
    """What the workers are told of them; `slots` are rows by digest."""
    return tuple(
        KeyRoute(
            key.name, bytes.fromhex(key.sha256), slots[key.sha256], key.models, key.rate, key.concurrent, key.expires
        )
        for key in keys
    )


def written(entries: Iterable[dict[str, Any]], before: str) -> str:
    """The text of a file with these entries, one a line; the comments at the beginning of the text before stay."""
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), before.splitlines(keepends=True)))
    lines = [f"  - {json.dumps(entry, ensure_ascii=False)}\n" for entry in entries]
    return head + ("keys:\n" + "".join(lines) if lines else "keys: []\n")


_OUR_PATHS = re.compile(rf"(keys(?:\[\d+\](?:\.(?:{'|'.join(Key.model_fields)})(?:\[\d+\])?)?)?)?")


def _without_secrets(fault: Fault) -> Fault:
    """The fault without what was found there, which may be a key that stands in the wrong place."""
    message = fault.message.partition(", got ")[0]
    if message.startswith("is no key of"):
        message = f"holds a key that is not known; allowed: {', '.join(Key.model_fields)}"
    elif message.startswith(("the anchor", "the alias", "the tag")):
        message = "anchors, aliases and tags are not allowed"
    elif not fault.path and not message.startswith(("is empty", "must be", "is no UTF-8")):
        message = "is no YAML that can be read"
    ours = _OUR_PATHS.match(fault.path)
    return Fault(fault.file, fault.line, fault.column, ours[0] if ours else "", message)
