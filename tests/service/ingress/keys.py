"""A keys file for tests, and how a key is shown."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

KEY, LESS = "gi-test-of-the-first", "gi-test-of-the-second"


def entry(secret: str, name: str, **limits: Any) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(secret.encode()).hexdigest(), **limits}


class Keys:
    """A keys file, replaced in one step as mounted Secrets are."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.yaml"
        self.write([entry(KEY, "first")])

    def write(self, entries: list[dict[str, Any]] | str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(entries if isinstance(entries, str) else json.dumps({"keys": entries}))
        new.replace(self.path)

    @property
    def auth(self) -> dict[str, Any]:
        return {"keys_file": str(self.path)}


def bearer(secret: str = KEY) -> list[str]:
    return [f"Authorization: Bearer {secret}"]
