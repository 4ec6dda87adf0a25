"""The plot draws what was measured, to scale."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.plots import svg
from tests.bench.report import PeerReport

NS = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=6))
def test_bars_are_to_scale_and_inside(values: list[float]) -> None:
    names = ["ingress", *(f"peer-{n}" for n in range(len(values) - 1))]
    peers = {name: PeerReport("1", samples=[{"unary_cpu_32": v}]) for name, v in zip(names, values, strict=True)}
    root = ET.fromstring(svg(peers, "ingress"))
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{NS}rect")]
    assert len(bars) == len(values)
    assert max(bars) <= float(root.attrib["width"])
    for bar, value in zip(bars, values, strict=True):
        assert bar / max(bars) == pytest.approx(value / max(values), abs=0.01)
    assert [bar.attrib["class"] for bar in root.iter(f"{NS}rect")] == ["ours"] + ["peer"] * (len(values) - 1)


def test_what_was_not_measured_is_not_drawn_and_names_are_escaped() -> None:
    drawn = svg({"a<b": PeerReport("1", samples=[{"delay_p99": 5.0}]), "off": PeerReport("", trouble="x")}, "ingress")
    texts = [text.text or "" for text in ET.fromstring(drawn).iter(f"{NS}text")]
    assert any("a<b" in text for text in texts)
    assert not any("off" in text for text in texts)
    assert len(texts) == 3, "a title, a name and a value"
