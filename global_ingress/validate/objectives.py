"""The objectives file: what a fleet is to keep. Pure.

    first_byte: {p50: 300ms, p99: 2s}
    error_share: 0.001        # of all requests; while a region is cut too
    recovery: 5s              # from a region's cut to the last request that fails

Refuses unknown keys and values that cannot be, all at once.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from global_ingress.validate.evidence import Objectives

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_ALLOWED = ("first_byte.p50", "first_byte.p99", "error_share", "recovery")


class BadObjectives(ValueError):
    """The file cannot be used; the message says where and what is allowed."""


def read_objectives(text: str) -> Objectives:
    """Raises BadObjectives."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:  # of values, too
        raise BadObjectives(" ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise BadObjectives(f"it is no mapping; {', '.join(_ALLOWED)} are known")
    faults: list[str] = []
    flat = dict(_flattened(found, ""))
    faults += [f"{key}: unknown; {', '.join(_ALLOWED)} are known" for key in flat if key not in _ALLOWED]
    durations = {key: _duration(flat.get(key), key, faults) for key in _ALLOWED if key != "error_share"}
    share = _share(flat.get("error_share"), faults)
    if faults:
        raise BadObjectives("; ".join(faults))
    return Objectives(durations["first_byte.p50"], durations["first_byte.p99"], share, durations["recovery"])


def _flattened(found: dict[Any, Any], under: str) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in found.items():
        name = f"{under}{key}"
        flat += _flattened(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return flat


def _duration(value: Any, key: str, faults: list[str]) -> float | None:
    if value is None:
        return None
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        faults.append(f"{key}: {value!r} is no duration such as 300ms, 2s or 1m")
        return None
    return float(match[1]) * _SECONDS[match[2]]


def _share(value: Any, faults: list[str]) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        faults.append(f"error_share: {value!r} is not between 0 and 1")
        return None
    return float(value)
