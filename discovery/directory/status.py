"""What the directory says of itself: `/status.json`, and the same document as a page.

Pure. Owns the document; the page adds nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discovery.directory.filestate import Directory, FileState
from discovery.pool import PoolTable


def files_document(path: str, directory: Directory) -> dict[str, Any]:
    return {
        "path": path,
        "error": directory.fault,
        "files": [_file(directory.files[name]) for name in sorted(directory.files)],
    }


def _file(state: FileState) -> dict[str, Any]:
    fault = state.fault
    return {
        "name": state.name,
        "slices": len(state.slices),
        "ignored": state.ignored,
        "error": {"line": fault.line, "reason": fault.reason} if fault else None,
        "refused": [{"slice": one.name, "line": one.line, "reason": one.reason} for one in state.refused],
    }


def table_document(table: PoolTable) -> dict[str, Any]:
    frontends = [frontend for pool in table.pools for frontend in pool.frontends]
    return {
        "epoch": table.epoch,
        "revision": table.revision,
        "complete": table.complete,
        "pools": len(table.pools),
        "routers": len(table.routers),
        "frontends": len(frontends),
        "usable_frontends": sum(frontend.ready for frontend in frontends),
        "regions": _regions(table),
    }


def _regions(table: PoolTable) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for pool in table.pools:
        found[pool.region] = found.get(pool.region, 0) + 1
    return dict(sorted(found.items()))
