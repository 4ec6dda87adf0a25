"""The status page: `/status.json` for people.

Pure: it shows the status document and adds nothing to it. What is too much for eyes is cut, and said to be.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from discovery.kit.page import page

_STATUS = (files("discovery.directory") / "status.html").read_text("utf-8")
MOST = 100  # rows of a table


def status_page(document: dict[str, Any], refresh: int | None = None) -> str:
    return page("Global discovery", _STATUS, document | {"most": MOST, "refresh": refresh}, refresh)
