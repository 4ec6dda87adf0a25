"""Bytes of an API server as values: a page of a list, a line of a watch, a Status.

Pure. Refuses with NotAnAnswer whatever does not follow the API; what stands inside the objects is not judged here.
A page is taken apart without decoding its items, so that a big one can be decoded bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from discovery.kube.errors import NotAnAnswer
from discovery.kube.events import Kind

_END_OF_INITIAL: Final = "k8s.io/initial-events-end"
_KINDS: Final = {401: Kind.UNAUTHORIZED, 403: Kind.FORBIDDEN, 429: Kind.THROTTLED}


@dataclass(frozen=True, slots=True)
class Status:
    """A refusal of the API server. Any part but `code` may be missing in what it sends."""

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.code), self.reason, self.message[:200]) if part)

    @property
    def kind(self) -> Kind:
        if self.is_expired:
            return Kind.EXPIRED
        return _KINDS.get(self.code) or (Kind.SERVER if self.code >= 500 else Kind.REFUSED)

    @property
    def is_expired(self) -> bool:
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_from_the_future(self) -> bool:
        """We asked for a version that this server has not reached: it was restored, or it lags behind another."""
        return "ResourceVersionTooLarge" in self.causes or "too large resource version" in self.message.lower()


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: the version of the whole list, the undecoded items, and "" or the token of what follows."""

    version: str
    items: list[msgspec.Raw]
    following: str


@dataclass(frozen=True, slots=True)
class WatchLine:
    """One event of a watch; `status` is set for type ERROR, `object` for all others."""

    type: str
    object: dict[str, Any]
    status: Status | None = None

    @property
    def version(self) -> str:
        """The resourceVersion that the object carries, "" when it carries none."""
        metadata = self.object.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        return version if isinstance(version, str) else ""

    @property
    def ends_initial(self) -> bool:
        metadata = self.object.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        return isinstance(annotations, dict) and annotations.get(_END_OF_INITIAL) == "true"


class _Meta(msgspec.Struct):
    resourceVersion: str = ""
    following: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _Meta
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_list_decoder = msgspec.json.Decoder(_List)


def page_of(body: bytes) -> Page:
    """The page in this body. Raises NotAnAnswer."""
    try:
        found = _list_decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise NotAnAnswer(f"a list was asked for: {error}; got {_shown(body)}") from error
    if not found.kind.endswith("List") or not found.metadata.resourceVersion:
        raise NotAnAnswer(f"a list with a version was asked for, got {_shown(body)}")
    return Page(found.metadata.resourceVersion, found.items or [], found.metadata.following or "")


def object_of(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    """One JSON object. Raises NotAnAnswer."""
    data = bytes(raw)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotAnAnswer(f"not JSON: {_shown(data)}") from error
    if not isinstance(value, dict):
        raise NotAnAnswer(f"not an object: {_shown(data)}")
    return value


def watch_line_of(line: bytes) -> WatchLine:
    """The event on one line. Raises NotAnAnswer."""
    value = object_of(line)
    kind, body = value.get("type"), value.get("object")
    if kind is None and value.get("kind") == "Status":
        # Some gateways write the bare Status where an event should stand.
        return WatchLine("ERROR", {}, _status(value, 500))
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise NotAnAnswer(f"not an event: {_shown(line)}")
    return WatchLine(kind, body, _status(body, 500) if kind == "ERROR" else None)


def status_of(body: bytes, code: int) -> Status:
    """What an answer with HTTP status `code` says; a body that is no Status leaves the code alone to speak."""
    try:
        value = object_of(body)
    except NotAnAnswer:
        return Status(code)
    return _status(value, code) if value.get("kind") == "Status" else Status(code)


def identity_of(obj: dict[str, Any]) -> tuple[str, str, str]:
    """Namespace, name and uid of an object, "" for what it does not say."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return "", "", ""
    namespace, name, uid = (metadata.get(key) for key in ("namespace", "name", "uid"))
    return _text(namespace), _text(name), _text(uid)


def _status(value: dict[str, Any], code: int) -> Status:
    said = value.get("code")
    details = value.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return Status(
        said if type(said) is int else code,
        _text(value.get("reason")),
        _text(value.get("message")),
        tuple(_text(one.get("reason")) for one in causes if isinstance(one, dict)) if isinstance(causes, list) else (),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shown(data: bytes) -> str:
    return ascii(data[:80].decode(errors="replace"))
