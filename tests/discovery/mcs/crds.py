"""The CustomResourceDefinitions, as validators of what we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import yaml

FOLDER = Path(__file__).parents[3] / "k8s" / "crds"


def definitions() -> dict[str, dict[str, Any]]:
    """By kind."""
    found = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    return {one["spec"]["names"]["kind"]: one for one in found}


def schema(kind: str, version: str) -> dict[str, Any]:
    """Strict: a field that is not named would be pruned by the server, and our comparison would never be content."""
    versions = {one["name"]: one for one in definitions()[kind]["spec"]["versions"]}
    found: dict[str, Any] = _closed(versions[version]["schema"]["openAPIV3Schema"])
    found["properties"]["metadata"] = {"type": "object"}
    return found


def _closed(part: Any) -> Any:
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _closed(value) for key, value in part.items()}
    if "properties" in part and isinstance(part["properties"], dict) and part.get("type") == "object":
        found["additionalProperties"] = False
    return found


def validate(thing: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError."""
    version = thing["apiVersion"].rpartition("/")[2]
    jsonschema.validate(thing, schema(thing["kind"], version), jsonschema.Draft202012Validator)
