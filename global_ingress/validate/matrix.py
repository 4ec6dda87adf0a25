"""The declared matrix: which versions of what is around us are supported. Pure. docs/validation.md says the same."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+.].*)?")


@dataclass(frozen=True, slots=True)
class Range:
    """Minor versions from `oldest` to `newest`, both included."""

    name: str
    oldest: tuple[int, int]
    newest: tuple[int, int]

    def fault(self, version: str) -> str | None:
        """Why this version is not supported, None when it is."""
        match = _VERSION.fullmatch(version)
        if match is None:
            return f"{version!r} is no version"
        if not self.oldest <= (int(match[1]), int(match[2])) <= self.newest:
            return f"{version} is not supported; {self} is"
        return None

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.oldest))} to {'.'.join(map(str, self.newest))}"


KUBERNETES = Range("Kubernetes", (1, 30), (1, 37))
FRONTEND = Range("Dynamo", (1, 6), (1, 7))


def tag_of(image: str) -> str:
    """The version in an image's tag, "" when its tag is none."""
    name = image.partition("@")[0].rpartition("/")[2]
    tag = name.partition(":")[2]
    return tag if _VERSION.fullmatch(tag) else ""
