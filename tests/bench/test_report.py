"""Medians, ratios, tables and their place in a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import report
from tests.bench.report import BEGIN, END, PeerReport

ABOUT = {"cores": "2"}
OPTIONS = {"rounds": 3}


def peers() -> dict[str, PeerReport]:
    return {
        "ingress": PeerReport("1.0", samples=[{"unary_cpu_32": value} for value in (18.0, 30.0, 17.0)]),
        "nginx": PeerReport("1.22", samples=[{"unary_cpu_32": value} for value in (12.0, 11.0, 90.0)]),
        "envoy": PeerReport("", trouble="no wheel for this platform"),
    }


def test_the_table_shows_median_range_and_ratio_of_medians() -> None:
    table = report.rows(peers(), "ingress")
    assert table == [
        ["figure", "ingress", "nginx", "ingress / nginx"],
        [report.FIGURES[0].title, "18.0 (17.0 to 30.0)", "12.0 (11.0 to 90.0)", "1.50"],
    ]


def test_the_compiled_form_has_ratios_of_its_own() -> None:
    compiled = {"ingress-compiled": PeerReport("1.0", samples=[{"unary_cpu_32": 15.0}])}
    header, row = report.rows(peers() | compiled, "ingress")
    assert header[-2:] == ["ingress / nginx", "ingress-compiled / nginx"]
    assert row[-2:] == ["1.50", "1.25"]


def test_the_section_names_what_was_not_measured() -> None:
    text = report.section(peers(), "ingress", ABOUT, OPTIONS, "2026-01-02")
    assert text.startswith("2026-01-02; cores 2; rounds 3. ingress 1.0, nginx 1.22.")
    assert "**envoy was not measured:** no wheel for this platform" in text


@pytest.mark.parametrize(("others", "told"), [(3.0, False), (41.0, True)])
def test_a_busy_machine_is_told(others: float, told: bool) -> None:
    measured = {"nginx": PeerReport("1.22", samples=[{"unary_cpu_32": 12.0, "others_32": others}])}
    assert ("up to 41 %" in report.section(measured, "ingress", ABOUT, OPTIONS, "2026-01-02")) is told


def test_without_the_subject_there_are_no_ratios() -> None:
    only = {name: peer for name, peer in peers().items() if name != "ingress"}
    assert report.rows(only, "ingress")[0] == ["figure", "nginx"]
    assert report.ratio(only, "unary_cpu_32", "ingress", "nginx") is None


def test_added_latency_is_against_no_proxy_of_the_same_round() -> None:
    both = {
        "nginx": PeerReport("", samples=[{"latency_p50": 200.0}, {"latency_p50": 300.0}]),
        "direct": PeerReport("", samples=[{"latency_p50": 90.0}, {"latency_p50": 110.0}]),
    }
    report.add_differences(both)
    assert [sample["added_p50"] for sample in both["nginx"].samples] == [110.0, 190.0]
    assert "added_p50" not in both["direct"].samples[0]
    assert "added_p99" not in both["nginx"].samples[0]


def test_json_keeps_every_sample() -> None:
    told = report.as_json(peers(), "ingress", ABOUT, OPTIONS, "2026-01-02")
    assert told["ratios"] == {
        name: {
            figure.key: 1.5 if (name, figure.key) == ("nginx", "unary_cpu_32") else None for figure in report.FIGURES
        }
        for name in ("nginx", "envoy")
    }
    assert told["peers"]["nginx"]["samples"][2] == {"unary_cpu_32": 90.0}  # type: ignore[index]


TEXT = st.text().filter(lambda text: BEGIN not in text and END not in text)


@given(before=TEXT, old=TEXT, new=TEXT, after=TEXT)
def test_a_section_is_replaced_and_nothing_else(before: str, old: str, new: str, after: str) -> None:
    once = report.replace_section(f"{before}{BEGIN}{old}{END}{after}", new)
    assert once == f"{before}{BEGIN}\n\n{new}\n\n{END}{after}"
    assert report.replace_section(once, new) == once


@pytest.mark.parametrize("document", ["", BEGIN, END, END + BEGIN, BEGIN + BEGIN + END, BEGIN + END + END])
def test_a_document_without_both_markers_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        report.replace_section(document, "text")


@given(st.lists(st.floats(0.001, 1e6), min_size=1))
def test_a_summary_lies_within_its_runs(values: list[float]) -> None:
    found = PeerReport("", samples=[{"x": value} for value in values]).summary("x")
    assert found is not None
    assert min(values) == found.low <= found.median <= found.high == max(values)
    assert report.ratio({"a": PeerReport("", samples=[{"x": 1.0}])}, "x", "a", "a") == 1.0
