"""Which settings this version refuses because what they ask for is not built: a key that did nothing would lie."""

from __future__ import annotations

NOT_YET: tuple[str, ...] = ()
