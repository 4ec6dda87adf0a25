"""The name made is the name read, and what is no import is refused."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from discovery.directory.naming import Attributed, Ignored, NamingRules, Reason, Role, attribute
from discovery.identity import PoolKey
from tests.discovery.making import DISPATCH, KARMADA, LOCAL, karmada, make_slice, slice_json
from tests.discovery.test_slices_properties import anything, places, read, replaced

# Few letters, many dashes, and the words of the patterns themselves: infixes repeat.
words = st.sampled_from(["a", "b", "relay", "frontend", "pool", "imported", "derived", "x1"])
names = st.lists(words, min_size=1, max_size=4).map("-".join)
clusters = st.lists(words, min_size=1, max_size=5).map("-".join).filter(lambda name: len(name) <= 48)
dotted = st.tuples(clusters, clusters).map(".".join).filter(lambda name: len(name) <= 63)
patterns = st.sampled_from(
    [
        NamingRules(),
        NamingRules(relay_service="relay-{name}"),
        NamingRules("relay-{name}", "{name}-relay"),
        NamingRules("pool-{name}-relay", "frontend-{name}"),
    ]
)
roles = st.sampled_from([Role.RELAY, Role.FRONTEND])
shown = st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)
suffixes = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=5, max_size=5)


@given(patterns, roles, names, clusters | dotted)
def test_the_name_made_is_the_name_read(rules: NamingRules, role: Role, name: str, cluster: str) -> None:
    service = rules.service_name(role, name)
    assume(len(service) <= 63)
    found = attribute(make_slice(service, cluster), rules)
    if isinstance(found, Ignored):
        # Two patterns may fit one name: then it is refused, never guessed.
        assert found.reason is Reason.AMBIGUOUS_NAME
    else:
        assert found == Attributed(PoolKey(cluster, "dynamo", name), role, service)


@given(roles, names, clusters)
def test_with_suffixes_as_they_are_by_default_nothing_is_ambiguous(role: Role, name: str, cluster: str) -> None:
    rules = NamingRules()
    service = rules.service_name(role, name)
    assume(len(service) <= 63)
    assert attribute(make_slice(service, cluster), rules) == Attributed(PoolKey(cluster, "dynamo", name), role, service)


@given(roles, names, clusters, suffixes, st.booleans(), st.booleans())
def test_karmadas_generated_names_are_read_back(
    role: Role, name: str, cluster: str, suffix: str, known: bool, noted: bool
) -> None:
    """By the grammar alone, with the cluster in the list, and with the annotation of the control plane."""
    rules = NamingRules(karmada_clusters=(cluster,) if known else ())
    service = rules.service_name(role, name)
    assume(len(service) <= 55)
    slice_ = karmada(
        f"imported-{cluster}-{service}-{suffix}", f"derived-{service}", f"karmada-es-{cluster}" if noted else None
    )
    assert attribute(slice_, rules) == Attributed(PoolKey(cluster, "dynamo", name), role, service)


@given(names, clusters, clusters, suffixes)
def test_the_importing_clusters_annotation_is_never_the_source(
    name: str, cluster: str, importer: str, suffix: str
) -> None:
    service = f"{name}-frontend"
    assume(len(service) <= 55)
    slice_ = karmada(f"imported-{cluster}-{service}-{suffix}", f"derived-{service}", f"karmada-es-{importer}")
    found = attribute(slice_, NamingRules())
    if isinstance(found, Ignored):
        # The importer's name and the service begin the source's own name: nobody can tell, so nobody does.
        assert found.reason is Reason.KARMADA_CLUSTER
        assert f"{cluster}-{service}-".startswith(f"{importer}-{service}-")
        assert importer != cluster
        known = attribute(slice_, NamingRules(karmada_clusters=(cluster, importer)))
        assert isinstance(known, Attributed), "the operator's list settles it"
        found = known
    assert found.key.cluster == cluster


@given(shown, shown, st.text(max_size=20), st.sampled_from([KARMADA, DISPATCH, None]))
def test_any_names_are_attributed_or_ignored(service: str, cluster: str, noted: str, managed_by: str | None) -> None:
    annotations = {"work.karmada.io/namespace": noted, "endpointslice.karmada.io/provision-cluster": noted}
    for labels in ({}, {LOCAL: service}):
        made = make_slice(
            None if labels else service,
            None if labels else cluster,
            managed_by=managed_by,
            labels=labels,
            annotations=annotations,
        )
        found = attribute(made, NamingRules(karmada_clusters=(cluster,)))
        if isinstance(found, Attributed):
            assert found.service.isascii()
            assert found.key.cluster.isascii()


@given(st.data())
def test_a_spoilt_slice_is_attributed_or_ignored(data: st.DataObject) -> None:
    whole = slice_json()
    found = read(replaced(whole, data.draw(st.sampled_from(places(whole))), data.draw(anything)))
    if found is not None:
        assert isinstance(attribute(found, NamingRules()), Attributed | Ignored)
