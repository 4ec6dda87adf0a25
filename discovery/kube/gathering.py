"""The list in the making: nothing of it counts before it is whole. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from discovery.errors import DiscoveryError
from discovery.kube.answers import identity_of
from discovery.kube.events import Cause, RefusedItem, Replaced

T = TypeVar("T")


class Gathering(Generic[T]):
    def __init__(self, decode: Callable[[object], T]) -> None:
        self._decode = decode
        self._found: dict[tuple[str, str], T | RefusedItem] = {}
        self.token = ""
        self.version = ""

    def __repr__(self) -> str:
        return f"<Gathering {len(self._found)} version={self.version or '-'}>"

    def decoded(self, obj: dict[str, Any]) -> T | RefusedItem:
        try:
            return self._decode(obj)
        except DiscoveryError as error:
            namespace, name, _ = identity_of(obj)
            return RefusedItem(namespace, name, str(error))

    def add(self, obj: dict[str, Any]) -> None:
        self._found[identity_of(obj)[:2]] = self.decoded(obj)

    def remove(self, obj: dict[str, Any]) -> None:
        self._found.pop(identity_of(obj)[:2], None)

    def drop(self) -> None:
        self._found = {}
        self.token = self.version = ""

    def whole(self, cause: Cause, version: str, after: str) -> Replaced[T]:
        """All of it, and a new one begins."""
        items = [one for one in self._found.values() if not isinstance(one, RefusedItem)]
        refused = [one for one in self._found.values() if isinstance(one, RefusedItem)]
        self.drop()
        return Replaced(items, refused, cause, version, after)
