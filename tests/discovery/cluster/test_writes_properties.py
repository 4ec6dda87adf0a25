"""Whatever a body is, it becomes an object or is refused as the client's fault."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.kinds import KINDS, NAMESPACES, Kind, Object
from discovery.testing.cluster.patching import patch
from discovery.testing.cluster.rules import RULES, Surroundings
from discovery.testing.cluster.store import Store
from discovery.testing.cluster.writes import Target, Writer, Writes

METADATA = ["metadata", "name", "generateName", "labels", "annotations", "finalizers", "ownerReferences", "uid"]
SLICE = ["addressType", "endpoints", "ports", "addresses", "conditions", "port", "protocol", "resourceVersion"]
SERVICE = ["spec", "status", "type", "clusterIP", "ipFamilies", "ipFamilyPolicy", "sessionAffinity", "clientIP"]
OTHERS = ["sessionAffinityConfig", "externalName", "renewTime", "leaseDurationSeconds", "ips", "clusters", "value"]
WORDS = [*METADATA, *SLICE, *SERVICE, *OTHERS]
PLAIN = ["a", "", "IPv4", "IPv6", "10.0.0.1", "ClientIP", "None", "Headless", "TCP", "ExternalName", "RequireDualStack"]
scalars = st.none() | st.booleans() | st.integers(-1, 70000) | st.floats(allow_nan=False) | st.sampled_from(PLAIN)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)
# What comes near to an object: the right types in the first place, anything below.
near = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {}, optional={"name": st.just("a"), "labels": anything, "finalizers": anything}
        )
    },
    optional={
        "addressType": st.sampled_from(["IPv4", "FQDN", 4]),
        "endpoints": anything,
        "ports": anything,
        "spec": anything,
        "status": anything,
    },
)
kinds = st.sampled_from(KINDS)


def fresh() -> Writes:
    numbers = itertools.count(1)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    writes = Writes(Store(), RULES, Surroundings(), lambda: now, lambda: str(UUID(int=next(numbers))))
    writes.create(Target(NAMESPACES, "v1", "", "home"), {"metadata": {"name": "home"}}, Writer())
    return writes


def target(kind: Kind) -> Target:
    return Target(kind, kind.versions[0], "home" if kind.namespaced else "", "a")


@given(kinds, anything | near)
@settings(max_examples=500)
def test_any_body_makes_an_object_or_is_refused(kind: Kind, body: Any) -> None:
    writes = fresh()
    before = writes.store.revision
    try:
        made = writes.create(target(kind), body, Writer())
    except ApiFailure as failure:
        refused = failure.code
    else:
        assert writes.store.get(kind.resource, (target(kind).namespace, made["metadata"]["name"])) is made
        return
    assert 400 <= refused < 500
    assert writes.store.revision == before


@given(kinds, near)
@settings(max_examples=500)
def test_any_application_makes_an_object_or_is_refused_and_twice_is_once(kind: Kind, body: Object) -> None:
    writes = fresh()
    said = body | {"kind": kind.kind, "apiVersion": kind.api_version(kind.versions[0])}
    raw, query = orjson.dumps(said), {"fieldManager": "me"}
    media = "application/apply-patch+yaml"
    try:
        made, new = patch(writes, target(kind), media, raw, query, Writer("me"))
    except ApiFailure as failure:
        refused = failure.code
    else:
        assert new
        again, new = patch(writes, target(kind), media, raw, query, Writer("me"))
        assert not new
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        return
    # Two list items of one name are the server's failure, so measured.
    assert 400 <= refused <= 500


@given(kinds, near, anything)
@settings(max_examples=500)
def test_any_merge_patch_of_an_object_is_taken_or_refused(kind: Kind, body: Object, change: Any) -> None:
    writes = fresh()
    try:
        writes.create(target(kind), body | {"metadata": {"name": "a"}}, Writer())
    except ApiFailure:
        return
    before = orjson.dumps(writes.existing(target(kind)))
    try:
        patch(writes, target(kind), "application/merge-patch+json", orjson.dumps(change), {}, Writer())
    except ApiFailure as failure:
        refused = failure.code
    else:
        return
    assert 400 <= refused < 500
    assert orjson.dumps(writes.existing(target(kind))) == before


def test_a_body_of_a_wrong_type_is_named() -> None:
    slices = KINDS[0]
    with pytest.raises(ApiFailure, match=r"cannot unmarshal string into field endpoints\[0\].addresses of type array"):
        fresh().create(target(slices), {"metadata": {"name": "a"}, "endpoints": [{"addresses": "x"}]}, Writer())


@pytest.mark.parametrize("wrong", [1, "a", ["a"], [None]], ids=["number", "text", "texts", "null"])
@pytest.mark.parametrize(("kind", "dotted"), [(kind, dotted) for kind in KINDS for dotted in kind.lists])
def test_a_list_told_apart_by_keys_is_a_list_of_objects(kind: Kind, dotted: str, wrong: Any) -> None:
    body: Any = wrong
    for name in reversed(dotted.split(".")):
        body = {name: body}
    said = {"metadata": {"name": "a"}, "kind": kind.kind, "apiVersion": kind.api_version(kind.versions[0])} | body
    with pytest.raises(ApiFailure, match=dotted) as created:
        fresh().create(target(kind), said, Writer())
    raw, query = orjson.dumps(said), {"fieldManager": "me"}
    with pytest.raises(ApiFailure, match=dotted) as applied:
        patch(fresh(), target(kind), "application/apply-patch+yaml", raw, query, Writer("me"))
    assert (created.value.code, applied.value.code) == (400, 400)
