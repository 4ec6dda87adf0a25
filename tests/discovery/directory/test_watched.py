"""What is watched for a mode, what a watch has missed, and when a list is held."""

from __future__ import annotations

from discovery.directory.naming import NamingRules
from discovery.directory.watched import missed, targets, would_remove_most
from discovery.slices import Slice
from tests.discovery.making import make_slice

RULES = NamingRules()


def pools(*numbers: int) -> list[Slice]:
    return [make_slice(cluster=f"c{n}", name=f"s{n}") for n in numbers]


def test_one_watch_of_all_or_one_for_each_namespace() -> None:
    [everywhere] = targets("mcs", (), None)
    assert (everywhere.namespace, everywhere.path.count("namespaces")) == (None, 0)
    assert [one.namespace for one in targets("karmada", ("a", "b", "a"), None)] == ["a", "b"]


def test_routers_have_their_own_watch_and_one_more_where_no_other_sees_them() -> None:
    names = [(one.name, one.namespace) for one in targets("mcs", (), ("dynamo", "router"))]
    assert names == [("mcs/imports/*", None), ("mcs/routers/own", "dynamo")]
    assert len(targets("mcs", ("dynamo",), ("dynamo", "router"))) == 2
    extra = targets("karmada", ("a",), ("dynamo", "router"))[-1]
    assert (extra.name, extra.namespace) == ("karmada/routers/imported", "dynamo")
    assert extra.selector.endswith("kubernetes.io/service-name in (derived-router,router)")


def test_what_is_newer_than_the_watch_is_no_miss() -> None:
    before = {(one.namespace, one.name): one for one in pools(1, 2, 3)}
    same, changed, gone = before.values()
    newer = make_slice(cluster="c2", name="s2", resourceVersion="30", endpoints=[])
    older = make_slice(cluster="c2", name="s2", resourceVersion="9", endpoints=[])
    added = make_slice(cluster="c4", name="s4", resourceVersion="20")
    assert missed(before, [same, changed, gone], "20") == {}
    assert missed(before, [same, newer, gone], "20") == {}
    assert missed(before, [same, older, gone], "20") == {"changed": 1}
    assert missed(before, [same, changed, gone, added], "20") == {"added": 1}
    assert missed(before, [same, changed], "20") == {"removed": 1}
    assert missed(before, [same, older, gone], "opaque") == {}


def test_the_brake_is_for_more_than_half_of_more_than_ten() -> None:
    eleven, ten = pools(*range(11)), pools(*range(10))
    assert would_remove_most(eleven, [], RULES)
    assert would_remove_most(eleven, pools(*range(5)), RULES)
    assert not would_remove_most(eleven, pools(*range(6)), RULES)
    assert not would_remove_most(ten, [], RULES)
    assert not would_remove_most(eleven, eleven, RULES)


def test_the_brake_counts_pools_not_slices() -> None:
    many = [make_slice(cluster="c1", name=f"s{n}") for n in range(50)]
    assert not would_remove_most(many, many[:1], RULES)
    others = [make_slice("unrelated", cluster=f"c{n}", name=f"s{n}") for n in range(50)]
    assert not would_remove_most(others, [], RULES)
