"""The JSON Schema and the page of the settings, made from their declarations.

`python -m global_ingress.proxy.settings_docs` prints `docs/settings.md`. A test keeps page and published schema fresh.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic.fields import ComputedFieldInfo, FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from global_ingress.proxy import settings_values as values
from global_ingress.proxy.not_yet import NOT_YET
from global_ingress.proxy.settings_sections import Settings

_INTRO = """# The settings of global-ingress

Made from the declarations by `python -m global_ingress.proxy.settings_docs`; do not edit.

The file is YAML 1.2 (or JSON); `examples/ingress.yaml` is one with every key. Only `discovery` is required. Unknown
keys are faults, as are keys given twice, aliases, anchors, tags and a second document. `global-ingress check FILE`
tells all faults of a file at once; `global-ingress schema` prints its JSON Schema, for editors.

- A *duration* is `500ms`, `5s`, `2m`, `1h` or a number of seconds, from 1 ms to 720 h; 0 only where it says so.
- A *size* is `32KiB`, `32MiB`, `1GiB`, with `kB`, `MB`, `GB` for powers of 1000, or a number of bytes.
- An *address* is `HOST:PORT`, with IPv6 in brackets.
- A relative *path* starts at the directory of the file.
- `off` is a word; `false` is taken for it where `off` is allowed.

`--listen`, `--admin` and `--workers` beat `GLOBAL_INGRESS_LISTEN`, `_ADMIN` and `_WORKERS`, which beat the file.
"""


class _Generator(GenerateJsonSchema):
    """Kinds of value keep the titles they were declared with; fields get none made from their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_schema_from_definitions(self, json_ref: Any) -> Any:
        return super().get_schema_from_definitions(json_ref)


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (2020-12) of the file, defaults spelled as in the file."""
    schema = Settings.model_json_schema(schema_generator=_Generator)
    _spell_defaults(schema)
    discovery = schema["$defs"]["Discovery"]
    discovery["oneOf"] = [{"required": ["urls"]}, {"required": ["pools"]}]
    schema["$defs"]["Selector"]["minProperties"] = 1
    for path in NOT_YET:
        _mark_unavailable(schema, path.split("."))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
