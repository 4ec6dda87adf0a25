"""Bytes of an API server: any bytes are an answer or NotAnAnswer, and lines do not depend on how they are cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.kube import paths
from discovery.kube.answers import page_of, status_of, watch_line_of
from discovery.kube.errors import NotAnAnswer
from discovery.kube.lines import Lines

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "object", "kind", "metadata", "items", "code", "details", "causes", "reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_answer_or_not_an_answer(data: bytes) -> None:
    for read in (page_of, watch_line_of):
        try:
            read(data)
        except NotAnAnswer as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said
    assert isinstance(status_of(data, 500).code, int)


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=8), st.integers(1, 40))
def test_however_bytes_are_cut_the_lines_are_the_same(data: bytes, cuts: list[int], limit: int) -> None:
    def lines(*pieces: bytes) -> list[bytes | str]:
        splitter = Lines(limit)
        found: list[bytes | str] = []
        try:
            for piece in pieces:
                splitter.feed(piece)
                while (one := splitter.pop()) is not None:
                    found.append(one)
        except NotAnAnswer:
            return [*found, "too long"]
        return found

    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(at)]
    assert lines(data) == lines(*pieces) == lines(*(data[i : i + 1] for i in range(len(data))))


@pytest.mark.parametrize("depth", [10_000])
def test_absurd_depth_is_not_an_answer(depth: int) -> None:
    for read in (page_of, watch_line_of):
        with pytest.raises(NotAnAnswer):
            read(b'{"metadata":' + b"[" * depth + b"]" * depth + b"}")


def test_selectors_and_paths() -> None:
    assert paths.slices() == "/apis/discovery.k8s.io/v1/endpointslices"
    assert paths.slices("a") == "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices"
    assert paths.MCS_SELECTOR == ("multicluster.kubernetes.io/service-name,multicluster.kubernetes.io/source-cluster")
    assert paths.KARMADA_SELECTOR == (
        "endpointslice.kubernetes.io/managed-by in "
        "(endpointslice-controller.karmada.io,endpointslice-dispatch-controller.karmada.io)"
    )
