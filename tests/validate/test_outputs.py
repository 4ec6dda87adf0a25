"""The report's files: each says the same, is well-formed, and takes nothing from the evidence for its own words."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.validate.checks.verdicts import Verdict
from global_ingress.validate.evidence import Evidence, Objectives, Unanswered
from global_ingress.validate.objectives import BadObjectives, read_objectives
from global_ingress.validate.report.compare import changes, worse
from global_ingress.validate.report.document import BadReport, document, read_report, report_schema, to_json
from global_ingress.validate.report.html import to_html
from global_ingress.validate.report.judged import report_on
from global_ingress.validate.report.junit import to_junit
from global_ingress.validate.report.text import to_markdown, to_text
from tests.validate.evidences import disturbed, good, task

SMALL = task(2, ingresses=2, per_pool=4)
WHOLE = disturbed(disturbed(good(SMALL, 2), "replacement"))
HOSTILE = '<script>alert("x")</script> | `**_[a](b) & \x00\x1b[31m'


def hostile() -> Evidence:
    """Evidence in which a server has had its say."""
    bad = replace(WHOLE.exchanges[0], seen=Unanswered(HOSTILE))
    return replace(WHOLE, task=replace(WHOLE.task, model=HOSTILE), exchanges=(bad, *WHOLE.exchanges[1:]))


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value or "" for name, value in attrs if name in ("src", "href", "action", "onclick")]


def parsed(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    return page


def test_the_page_names_every_check_and_asks_nobody() -> None:
    report = report_on(WHOLE)
    html = to_html(report)
    page = parsed(html)
    assert all(check.id in html for check in report.checks)
    assert "script" not in page.tags
    assert all(address.startswith(("data:,", "#")) for address in page.outside), page.outside
    marks = len(report.checks) + len(report.evidence.disturbances) + 1
    assert page.tags.count("svg") == len(report.rows) + len(report.evidence.disturbances) + marks
    assert "url(" not in html


def test_what_servers_say_is_only_text() -> None:
    report = report_on(hostile())
    assert report.verdict is Verdict.FAILED
    assert "script" not in parsed(to_html(report)).tags
    markdown = to_markdown(report)
    assert "<script>" not in markdown
    assert "\x1b" not in markdown + to_text(report) + to_junit(report).decode()
    tree = ElementTree.fromstring(to_junit(report))
    assert tree.tag == "testsuites"


def test_junit_counts_as_the_report_does() -> None:
    report = report_on(WHOLE)
    suites = ElementTree.fromstring(to_junit(report)).findall("testsuite")
    assert sum(int(suite.attrib["tests"]) for suite in suites) == len(report.checks)
    assert sum(int(suite.attrib["skipped"]) for suite in suites) == report.count(Verdict.SKIPPED)
    failed = ElementTree.fromstring(to_junit(report_on(hostile())))
    assert sum(int(suite.attrib["failures"]) for suite in failed) == len(failed.findall(".//failure")) > 0


def test_markdown_has_the_table_and_says_whose_the_open_risks_are() -> None:
    markdown = to_markdown(report_on(WHOLE))
    assert "| ohio | ohio/dynamo/llama | region-0 | 4 | 4 |" in markdown
    assert "Open risk of the operator of the fleet" in markdown


def test_a_report_is_read_back_as_it_was_and_fits_its_schema() -> None:
    report = report_on(WHOLE)
    assert read_report(to_json(report)) == document(report)
    schema = msgspec.json.decode(report_schema())
    assert set(schema["$defs"]["Document"]["properties"]) == set(msgspec.json.decode(to_json(report)))


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"schema":"x"}'])
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(BadReport):
        read_report(body)


def test_another_schema_is_refused() -> None:
    with pytest.raises(BadReport, match="its schema is 'x/9'"):
        read_report(msgspec.json.encode(replace(document(report_on(WHOLE)), schema="x/9")))


def test_the_same_twice_is_no_change_and_worse_comes_first() -> None:
    old, new = document(report_on(WHOLE)), document(report_on(hostile()))
    assert changes(old, old) == ()
    assert not worse(old, old)
    assert worse(old, new)
    assert not worse(new, old)
    assert changes(old, new)[0].startswith("traffic.steady-state-1: passed -> failed: ")


def test_a_check_that_is_no_longer_made_is_worse() -> None:
    old = document(report_on(WHOLE))
    new = replace(old, checks=old.checks[1:])
    assert worse(old, new)
    assert changes(old, new) == ("inventory.platform: no longer checked",)


def test_pools_that_come_and_go_are_named() -> None:
    old, new = document(report_on(good(task(4), 4))), document(report_on(good(task(3), 3)))
    assert "pool tokyo/dynamo/llama: no longer listed" in changes(old, new)
    assert "pool tokyo/dynamo/llama: new, region-3 http://10.0.0.3:8000" in changes(new, old)


def test_objectives_are_read_with_their_units() -> None:
    found = read_objectives("first_byte: {p50: 300ms, p99: 2s}\nerror_share: 0.001\nrecovery: 1m\n")
    assert found.first_byte_p50_s == pytest.approx(0.3)
    assert (found.first_byte_p99_s, found.error_share, found.recovery_s) == (2.0, 0.001, 60.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- a", "it is no mapping"),
        ("a: [", "while parsing"),
        ("first_byte: {p50: 3}", "first_byte.p50: 3 is no duration such as 300ms, 2s or 1m"),
        ("recovery: 0s", "recovery: '0s' is no duration"),
        ("error_share: 1.5", "error_share: 1.5 is not between 0 and 1"),
        ("error_share: true", "error_share: True is not between 0 and 1"),
        ("latency: 1s", "latency: unknown; first_byte.p50, first_byte.p99, error_share, recovery are known"),
        ("recovery: 2026-13-45", "month must be in 1..12"),
        ("latency: 1s\nerror_share: -1", "latency: unknown; first_byte.p50, first_byte.p99, error_share, recovery are"),
    ],
)
def test_bad_objectives_are_named(text: str, named: str) -> None:
    with pytest.raises(BadObjectives) as found:
        read_objectives(text)
    assert named in str(found.value)
    if "latency" in text and "-1" in text:
        assert "error_share: -1" in str(found.value)


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_objectives_or_refused(text: str) -> None:
    with contextlib.suppress(BadObjectives):
        assert isinstance(read_objectives(text), Objectives)
