"""Errors of discovery: each says whose fault it is and what was found."""

from __future__ import annotations


class DiscoveryError(Exception):
    """The root of all errors raised by `discovery`."""


class MalformedSlice(DiscoveryError):
    """An object that claims to be an EndpointSlice and is none; `reason` is one line for people."""

    def __init__(self, reason: str, *, name: str = "") -> None:
        super().__init__(f"{name}: {reason}" if name else reason)
        self.reason = reason
        self.name = name


class MalformedKey(DiscoveryError):
    """A pool key whose part `field` is not acceptable."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class MalformedWire(DiscoveryError):
    """JSON of the directory's API that does not follow it; `path` says where."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class StoreUnavailable(DiscoveryError):
    """The store did not do what it was asked to, and may later. `kind` is throttled, unreachable,
    missing, contended or refused."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class CannotKeep(Exception):
    """The store cannot be used as it is; one line for whoever starts the program."""
