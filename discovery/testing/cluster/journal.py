"""What has been asked: one entry for each request, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Entry:
    """One request. `resource` is "" for a path that is none (/version); `code` 0 until it is answered."""

    verb: str
    resource: str
    version: str
    namespace: str | None
    name: str
    subresource: str
    token: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0
    code: int = 0
