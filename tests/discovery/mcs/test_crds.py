"""The CustomResourceDefinitions: structural, the same in both versions, and what we write is valid under them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs import names
from discovery.mcs.controller import imports
from discovery.mcs.controller.conditions import Said, conditions
from discovery.mcs.model import Conflict
from discovery.testing.cluster.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS
from tests.discovery.mcs import crds
from tests.discovery.mcs.worlds import import_values

KINDS = {"ServiceExport": SERVICE_EXPORTS, "ServiceImport": SERVICE_IMPORTS}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_kind_that_the_api_names(kind: str) -> None:
    found = crds.definitions()[kind]
    spec = found["spec"]
    assert found["metadata"]["name"] == f"{spec['names']['plural']}.{names.GROUP}"
    assert (spec["group"], spec["scope"], spec["conversion"]) == (names.GROUP, "Namespaced", {"strategy": "None"})
    assert [(one["name"], one["served"], one["storage"]) for one in spec["versions"]] == [
        ("v1beta1", True, True),
        ("v1alpha1", True, False),
    ]
    assert tuple(one["name"] for one in spec["versions"]) == names.VERSIONS == KINDS[kind].versions
    assert all(one["subresources"] == {"status": {}} for one in spec["versions"])
    assert all(one["additionalPrinterColumns"] for one in spec["versions"])


@pytest.mark.parametrize("kind", KINDS)
def test_both_versions_say_the_same(kind: str) -> None:
    """There is no conversion: what one version has and the other has not would be lost on the way."""
    first, second = crds.definitions()[kind]["spec"]["versions"]
    assert first["schema"] == second["schema"]


def _parts(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, part
    for name, below in part.get("properties", {}).items():
        yield from _parts(below, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(part.get(name), dict):
            yield from _parts(part[name], f"{path}.{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(kind: str) -> None:
    found = crds.definitions()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, part in _parts(found):
        assert "type" in part, path
        assert not ("properties" in part and "additionalProperties" in part), path
        if part["type"] == "array":
            assert part["x-kubernetes-list-type"] in {"map", "atomic"}, path
        for key in part.get("x-kubernetes-list-map-keys", ()):
            assert key in part["items"]["required"], path


@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_merged_as_the_fake_cluster_merges_them(kind: str) -> None:
    found = crds.definitions()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    keyed = {
        path.removeprefix("."): tuple(part["x-kubernetes-list-map-keys"])
        for path, part in _parts(found)
        if part.get("x-kubernetes-list-type") == "map"
    }
    assert keyed == KINDS[kind].lists


@given(import_values(), st.booleans(), st.sampled_from(names.VERSIONS))
def test_every_import_is_valid(value: Any, has_derived: bool, version: str) -> None:
    derived = {"spec": {"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}} if has_derived else None
    body = imports.service_import(value, version, frozenset(value.clusters), derived)
    said = conditions([Said("Ready", "True", "Ready", "")], {}, 1, "2026-01-01T00:00:00Z")
    status = {"clusters": [{"cluster": one} for one in value.clusters], "conditions": said}
    crds.validate(body | {"status": status})


@given(st.lists(st.sampled_from(Conflict), unique=True, min_size=1))
def test_every_conflict_is_valid(found: list[Conflict]) -> None:
    _validate_conflict(",".join(found))


@pytest.mark.parametrize("reason", ["", "PortConflict, TypeConflict", ",PortConflict"])
def test_other_reasons_are_not(reason: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _validate_conflict(reason)


def test_unknown_fields_would_be_found() -> None:
    with pytest.raises(jsonschema.ValidationError):
        crds.validate({"apiVersion": f"{names.GROUP}/v1beta1", "kind": "ServiceExport", "spec": {"other": 1}})


def _validate_conflict(reason: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = conditions([Said("Conflict", "True", reason, "why")], {}, 1, now)
    crds.validate(
        {
            "apiVersion": f"{names.GROUP}/v1beta1",
            "kind": "ServiceExport",
            "metadata": {},
            "status": {"conditions": said},
        }
    )
