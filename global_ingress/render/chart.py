"""What of the Helm chart is made from the fleet's declarations: its values, their schema, the controller's rules.

`python -m global_ingress.render.chart FOLDER` writes them. The templates beside them are written by hand; a test holds
that they render what `global-ingress render` does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from global_ingress.proxy.settings.docs import SchemaMaker
from global_ingress.render.fleet import Fleet
from global_ingress.render.rbac import CONTROLLER

_HEAD = """\
# The values are the fleet file's keys (docs/deployment.md), with two differences: `cluster` says which of `clusters`
# this release is for, and `ingress.config` is the text of the settings file (--set-file ingress.config=ingress.yaml).
# Made from the declarations by `make render`; do not edit.
"""
_NOT_GIVEN = {"name": "", "image": "", "cluster": "", "clusters": []}


def values_of(fleet: Fleet, cluster: str, config: str) -> dict[str, Any]:
    """The chart's values for one cluster of a fleet, every key given."""
    written: dict[str, Any] = _without_nulls(fleet.model_dump(mode="json"))
    return {**written, "cluster": cluster, "ingress": {**written["ingress"], "config": config}}


def default_values() -> dict[str, Any]:
    least = {"name": "x", "image": "xx", "clusters": ({"id": "x", "region": "x"},)}
    return {**values_of(Fleet.model_validate(least), "", ""), **_NOT_GIVEN}


def values_text() -> str:
    return _HEAD + yaml.safe_dump(default_values(), sort_keys=False, width=4096)


def schema_text() -> str:
    schema = Fleet.model_json_schema(schema_generator=SchemaMaker, mode="validation")
    schema["properties"]["cluster"] = {"type": "string", "minLength": 1, "description": "Which cluster this is."}
    schema["properties"]["global"] = {"type": "object"}
    schema["required"] = [*schema["required"], "cluster"]
    config = schema["$defs"]["Ingress"]["properties"]["config"]
    config["description"] = "The text of the settings file."
    for name in ("default", "title"):
        config.pop(name, None)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def rules_text() -> str:
    return yaml.safe_dump(CONTROLLER, sort_keys=False)


FILES = {"values.yaml": values_text, "values.schema.json": schema_text, "files/controller-rules.yaml": rules_text}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    for name, text in FILES.items():
        target = Path(sys.argv[1], name)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text())
