"""The status page shows the whole document, escapes all of it, and says every state in words."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from discovery.kit.page import HEADERS, milliseconds, number, seconds, share, spark
from global_ingress.proxy.admin import status
from global_ingress.proxy.admin.history import History
from global_ingress.proxy.admin.page import MOST_POOLS, columns, status_page
from tests.proxy.admin.test_status import moment
from tests.proxy.making import frontend, pool

EVIL = "<script>alert(1)</script>"


def document(**more: Any) -> dict[str, Any]:
    now = moment({frontend(3).url: 9.0}, {frontend(1).url: EVIL})
    recent = {"recent": History().overall()}
    return {
        "version": "1",
        "started_at": "2026-01-01T00:00:00Z",
        "now": "2026-01-01T00:01:00Z",
        "ready": False,
        "reason": EVIL,
        "warnings": [EVIL],
        "region": EVIL,
        "config": {"file": EVIL, "reloads": {}},
        "reloads": [{"at": "2026-01-01T00:00:30Z", "result": "refused", "faults": [EVIL], "needs_restart": ["listen"]}],
        "discovery": {"age_s": 3.0, "revision": 7, "complete": False},
        "workers": [{"index": 0, "pid": None, "listening": False, "starts": 1}],
        "models": status.model_objects(now),
        "pools": [
            status.pool_object(now, one) | recent | {"name": EVIL, "region": EVIL, "lists_error": EVIL}
            for one in now.picture.pools
        ],
        "in_flight": 3,
        "requests": 12345,
        "decisions": {
            "kept": 1,
            "dropped": 2,
            "newest": [
                {
                    "at": "2026-01-01T00:00:30Z", "request_id": "abc", "model": EVIL, "why": "failed", "status": 502,
                    "outcome": "upstream_error", "code": EVIL, "total_ms": 3.0,
                    "tries": [{"pool": EVIL, "ended": "reset", "ms": 1.0}],
                }
            ],
        },
        "events": [
            {"at": "2026-01-01T00:00:30Z", "kind": kind, "subject": EVIL, "detail": EVIL}
            for kind in ("ejected", "held")
        ],
    } | recent | more  # fmt: skip


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_everything_is_escaped_and_nothing_comes_from_elsewhere() -> None:
    page = status_page(document())
    assert EVIL not in page
    assert page.count("&lt;script&gt;") > 15
    reader = read(page)
    assert "script" not in {tag for tag, _ in reader.tags}
    for tag, given in reader.tags:
        assert "style" not in given, tag
        assert not [name for name in given if name.startswith("on")]
        for name in ("src", "href"):
            assert "//" not in (given.get(name) or ""), (tag, given)


def test_tables_have_captions_and_heads_and_pictures_have_words() -> None:
    page = status_page(document())
    assert page.count("<table>") == page.count("<caption>") > 4
    assert all(given.get("scope") in ("col", "row") for tag, given in read(page).tags if tag == "th")
    for tag, given in read(page).tags:
        if tag == "svg":
            assert given.get("aria-hidden") == "true" or given.get("aria-label"), given
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_an_empty_ingress_has_a_page_too() -> None:
    decisions = {"kept": 0, "dropped": 0, "newest": []}
    empty = document(pools=[], models=[], decisions=decisions, events=[], reloads=[], warnings=[], region=None)
    page = status_page(empty)
    read(page)
    assert "No pool is listed." in page


def test_it_loads_itself_again_only_when_asked() -> None:
    assert 'http-equiv="refresh"' not in status_page(document())
    assert '<meta http-equiv="refresh" content="7">' in status_page(document(), 7)


def test_pools_in_trouble_come_first_and_what_is_cut_is_said() -> None:
    now = moment({frontend(3).url: 9.0}, {})
    shown = [status.pool_object(now, one) for one in now.picture.pools]
    other = status.pool_object(now, pool("z", frontend(9)))
    (column,) = columns([one | {"region": "r"} for one in [*shown, *[other] * MOST_POOLS]])
    assert [card["pool"]["cluster"] for card in column["pools"][:2]] == ["b", "a"]
    assert column["beyond"] == 2


def test_the_policy_lets_nothing_in() -> None:
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_a_sparkline_says_what_it_shows() -> None:
    assert 'aria-label="Rate: now 3/s, lowest 1/s, highest 5/s"' in spark([1.0, None, 5.0, 3.0], "Rate", "/s")
    assert spark([1.0, None, 5.0, 3.0], "x").count("<polyline") == 2
    assert "no data yet" in spark([None], "x")
    assert EVIL not in spark([0.0], EVIL)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (number(None), "–"), (number(0), "0"), (number(1234567), "1,234,567"), (number(0.01234), "0.0123"),
        (share(0.0004), "< 0.1 %"), (share(0.25), "25 %"), (share(None), "–"),
        (milliseconds(1500), "1.5 s"), (milliseconds(2), "2 ms"), (seconds(3.14), "3.1 s"),
        (seconds(3700), "1 h 1 min"),
    ],
)  # fmt: skip
def test_figures_for_people(made: str, text: str) -> None:
    assert made == text
