"""The JSON Schema and the page of the settings, made from their declarations.

`python -m global_ingress.proxy.settings.docs` prints `docs/settings.md`. A test keeps page and published schema fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from global_ingress.proxy.settings import values
from global_ingress.proxy.settings.not_yet import NOT_YET
from global_ingress.proxy.settings.sections import Settings

_INTRO = """# The settings of global-ingress

Made from the declarations by `python -m global_ingress.proxy.settings.docs`; do not edit.

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


class SchemaMaker(GenerateJsonSchema):
    """Kinds of value keep the titles they were declared with; fields get none made from their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (2020-12) of the file, defaults spelled as in the file."""
    schema = Settings.model_json_schema(schema_generator=SchemaMaker)
    _spell_defaults(schema)
    discovery = schema["$defs"]["Discovery"]
    discovery["oneOf"] = [{"required": ["urls"]}, {"required": ["pools"]}]
    schema["$defs"]["Selector"]["minProperties"] = 1
    for path in NOT_YET:
        _mark_unavailable(schema, path.split("."))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _choices(field: dict[str, Any]) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = field.get("anyOf", [field])
    return choices


def _section(schema: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any] | None:
    """The declaration of a section that `choice` refers to, itself or as a list of them."""
    reference = choice.get("$ref") or choice.get("items", {}).get("$ref")
    section: dict[str, Any] | None = schema["$defs"][reference.rpartition("/")[2]] if reference else None
    return section


def _spell_defaults(schema: dict[str, Any]) -> None:
    for section in (schema, *schema["$defs"].values()):
        for field in section["properties"].values():
            if "default" in field:
                _spell_default(field)
            if "patternProperties" in field:
                field["additionalProperties"] = False


def _spell_default(field: dict[str, Any]) -> None:
    kinds = {choice.get("title") or choice.get("type") for choice in _choices(field)}
    value = field["default"]
    if value is None and "off" in kinds:
        field["default"] = "off"
    elif value is None and "null" not in kinds:
        del field["default"]
    elif value == "":
        del field["default"]  # made from another key
    elif "address" in kinds:
        field["default"] = str(values.Address(**value))
    elif isinstance(value, dict):
        field["default"] = {}  # a section's own keys say their defaults
    elif "duration" in kinds:
        field["default"] = values.show_duration(value)
    elif "size" in kinds:
        field["default"] = values.show_size(value)
    elif "on or off" in kinds:
        field["default"] = "on" if value else "off"


def _mark_unavailable(schema: dict[str, Any], path: list[str]) -> None:
    section = schema
    for key in path[:-1]:
        section = _section(schema, section["properties"][key]) or section
    field = section["properties"][path[-1]]
    field["description"] = f"{_meaning(schema, field)} Not available in this version."


def _meaning(schema: dict[str, Any], field: dict[str, Any]) -> str:
    """A section is described where it is declared, not again at its key."""
    sections = (_section(schema, choice) for choice in _choices(field))
    text: str = field.get("description") or next(section for section in sections if section)["description"]
    return text


def page() -> str:
    """`docs/settings.md`."""
    schema = json_schema()
    return "\n".join([_INTRO, *_tables(schema, schema, "")]) + "\n"


def _tables(schema: dict[str, Any], section: dict[str, Any], prefix: str) -> Iterator[str]:
    title = f"`{prefix.rstrip('.')}`" if prefix else "All keys"
    yield f"## {title}\n"
    if prefix:
        yield f"{section['description']}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    inner = []
    for key, field in section["properties"].items():
        default = _default(field, required=key in section.get("required", ()))
        yield f"| `{prefix}{key}` | {_kind(field)} | {default} | {_meaning(schema, field)} |"
        for choice in _choices(field):
            if below := _section(schema, choice):
                inner.append((below, f"{prefix}{key}{'[]' if 'items' in choice else ''}."))
    yield ""
    for below, path in inner:
        yield from _tables(schema, below, path)


def _default(field: dict[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    value = field.get("default", "")
    if value == "" or (value == {} and any("$ref" in choice for choice in _choices(field))):
        return "see below" if value == {} else ""
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    return f"`{shown or ('null' if value is None else value)}`"


def _kind(field: dict[str, Any]) -> str:
    return " or ".join(dict.fromkeys(filter(None, map(_kind_of, _choices(field)))))


def _kind_of(choice: dict[str, Any]) -> str:
    if choice.get("title") == "off":
        return "off"
    if "$ref" in choice:
        return "section"
    if "enum" in choice and "title" not in choice:
        return ", ".join(choice["enum"])
    if choice.get("type") == "array":
        return f"list of {_kind_of(choice['items'])}"
    if choice.get("type") == "null":
        return ""
    if choice.get("type") == "boolean":
        return "true or false"
    if choice.get("type") == "object":
        return f"mapping to {_kind_of(next(iter(choice['patternProperties'].values())))}"
    return _number(choice) if choice.get("type") in ("integer", "number") else choice.get("title", "text")


def _number(choice: dict[str, Any]) -> str:
    word = "whole number" if choice["type"] == "integer" else "number"
    low, high = choice.get("minimum"), choice.get("maximum")
    return f"{word} {low} to {high}" if low is not None and high is not None else word


if __name__ == "__main__":
    print(page(), end="")
