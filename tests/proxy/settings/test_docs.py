"""The JSON Schema and the examples: both agree with what `load` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from global_ingress.proxy.settings import docs as settings_docs
from global_ingress.proxy.settings import yaml_places
from global_ingress.proxy.settings.file import Settings, SettingsFault, load
from global_ingress.proxy.settings.not_yet import NOT_YET

ROOT = Path(__file__).parents[3]
EXAMPLES = [ROOT / "examples" / name for name in ("ingress.yaml", "ingress-minimal.yaml", "models.yaml")]
SCHEMA = settings_docs.json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
POOL = "{cluster: c, namespace: n, name: p, frontends: [http://f:1]}"


def loads(text: str) -> bool:
    try:
        load(text, name="x", directory="/etc", not_yet=())
    except SettingsFault:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_good(path: Path) -> None:
    text = path.read_text()
    load(text, name=path.name, directory=str(path.parent))
    VALIDATOR.validate(yaml_places.read(text).data)
    first = text.partition("\n")[0]
    assert first == "# yaml-language-server: $schema=ingress.schema.json"
    assert (path.parent / "ingress.schema.json").exists()


def declared(schema: dict[str, Any], part: dict[str, Any], path: str = "") -> set[str]:
    """The keys of all sections that are on by default."""
    keys = set()
    for key, field in part["properties"].items():
        keys.add(f"{path}{key}")
        for choice in field.get("anyOf", [field]):
            reference = choice.get("$ref")
            if reference and field.get("default") != "off":
                keys |= declared(schema, schema["$defs"][reference.rpartition("/")[2]], f"{path}{key}.")
    return keys


def written(data: Any, path: str = "") -> set[str]:
    keys = set()
    for key, value in data.items():
        keys |= {f"{path}{key}"} | (written(value, f"{path}{key}.") if isinstance(value, dict) else set())
    return keys


def test_the_full_example_has_every_key_with_its_default() -> None:
    full, minimal = (path.read_text() for path in EXAMPLES[:2])
    assert load(full, name="full", directory="") == load(minimal, name="minimal", directory="")
    data = yaml_places.read(full).data
    assert written(data) | {"discovery.pools"} == declared(SCHEMA, SCHEMA)
    assert set(data["models"][0]) | {"pools"} == set(SCHEMA["$defs"]["Model"]["properties"])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_mean_the_same_to_other_readers_of_yaml(path: Path) -> None:
    """Those that still take `off` for false are told the same."""
    text = path.read_text()
    assert load(json.dumps(yaml.safe_load(text)), name="x", directory="") == load(text, name="x", directory="")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("discovery: {urls: [http://d]}", True),
        (f"discovery: {{pools: [{POOL}]}}", True),
        ("discovery: {urls: [http://d]}\nadmin: off\nprobe: off\ntrace: on\nregion: null", True),
        ("discovery: {urls: [http://d]}\nadmin: false\nprobe: false\ntrace: true\nregion: r", True),
        ("discovery: {urls: [http://d], hold_last_good: 0}\ntimeouts: {idle: 1.5, total: 1h}", True),
        ("discovery: {urls: [http://d]}\nlimits: {body: 1kB, header: 64 KiB, in_flight_per_pool: 3}", True),
        ("discovery: {urls: [http://d]}\nmodels: [{id: a, weights: {r: 0}, affinity: {header: x}}]", True),
        ("discovery: {urls: [http://d]}\nprobe: {headers: {a: ''}}\ntrusted_proxies: ['::/0']", True),
        ("discovery: {urls: [http://d]}\ntls: {certificate: a, key: b}\ncors: {origins: ['*']}\nhedge: {}", True),
        ("discovery: {urls: [http://d]}\nlog: {access: ./x}\nslow_start: 60s\nupstream: {tls: {}}", True),
        ("{}", False),
        ("discovery: {}", False),
        (f"discovery: {{urls: [http://d], pools: [{POOL}]}}", False),
        ("discovery: {urls: []}", False),
        ("discovery: {urls: [ftp://d]}", False),
        ("discovery: {urls: [http://d/v1]}", False),
        ("discovery: {urls: [http://u@d]}", False),
        ("discovery: {pools: [{cluster: c}]}", False),
        ("discovery: {urls: [http://d]}\nadmin: null", False),
        ("discovery: {urls: [http://d]}\nlisten: 8000", False),
        ("discovery: {urls: [http://d]}\nlisten: off", False),
        ("discovery: {urls: [http://d]}\nmodles: []", False),
        ("discovery: {urls: [http://d]}\nmodels: []", False),
        ("discovery: {urls: [http://d]}\nmodels: null", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: ''}]", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: ' a'}]", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: a, policy: x}]", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: a, pools: [{}]}]", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: a, weights: {r: 1001}}]", False),
        ("discovery: {urls: [http://d]}\nmodels: [{id: a, weights: {'': 1}}]", False),
        ("discovery: {urls: [http://d]}\ntimeouts: {idle: soon}", False),
        ("discovery: {urls: [http://d]}\ntimeouts: {idle: off}", False),
        ("discovery: {urls: [http://d]}\ntimeouts: {idle: 0}", False),
        ("discovery: {urls: [http://d]}\ntimeouts: {idle: true}", False),
        ("discovery: {urls: [http://d]}\nlimits: {body: 32K}", False),
        ("discovery: {urls: [http://d]}\nlimits: {header: 1}", False),
        ("discovery: {urls: [http://d]}\nretries: {budget: -1}", False),
        ("discovery: {urls: [http://d]}\nretries: {statuses: [200]}", False),
        ("discovery: {urls: [http://d]}\nheaders: {expose_pool: on}", False),
        ("discovery: {urls: [http://d]}\nlog: {access: stderr}", False),
        ("discovery: {urls: [http://d]}\ntrace: yes", False),
        ("discovery: {urls: [http://d]}\nauth: {}", False),
        ("discovery: {urls: [http://d]}\nprobe: {headers: {'a b': c}}", False),
    ],
)
def test_the_schema_and_load_agree(text: str, good: bool) -> None:
    assert (loads(text), VALIDATOR.is_valid(yaml_places.read(text).data)) == (good, good)


def test_every_key_is_described_with_its_default() -> None:
    for name, part in (("", SCHEMA), *SCHEMA["$defs"].items()):
        for key, field in part["properties"].items():
            choices = field.get("anyOf", [field])
            assert "description" in field or any("$ref" in choice for choice in choices), f"{name}.{key}"
            if "default" in field and field["default"] != {} and "$ref" not in field:
                resolved = {**field, "$defs": SCHEMA["$defs"]}
                jsonschema.Draft202012Validator(resolved).validate(field["default"])


def test_unavailable_keys_are_marked_in_schema_and_page() -> None:
    marked = [line for line in settings_docs.page().splitlines() if "Not available in this version." in line]
    assert [line.split("`")[1] for line in marked] == sorted(NOT_YET, key=list(order()).index)


def order() -> dict[str, None]:
    """Keys in the order of the page: a section's own first."""
    return dict.fromkeys(line.split("`")[1] for line in settings_docs.page().splitlines() if line.startswith("| `"))


def test_the_page_names_every_declared_key() -> None:
    top = {key for key in order() if "." not in key}
    assert top == set(Settings.model_fields)
    assert {"models[].pools[].cluster", "upstream.tls.server_name", "discovery.pools[].frontends"} <= set(order())
