"""The report as one page to look at: self-contained, no script, everything escaped. Pure.

Charts are SVG made here: good answers per pool for each region, times to the first byte, and the requests over time
while something was disturbed. Colour is never the only sign: each mark has its word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discovery.kit.page import BAD, GOOD, WARN, page
from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import Answered, Disturbance, Exchange
from global_ingress.validate.report.judged import Report, Row
from global_ingress.validate.report.junit import PHASES
from global_ingress.validate.report.text import cells, closing_line, headings, identity

_KINDS = {Verdict.PASSED: GOOD, Verdict.SKIPPED: WARN, Verdict.FAILED: BAD}
_WIDTH, _HEIGHT, _DOT = 1000.0, 120.0, 3.0
_LONGEST_BAR = 120.0

_PAGE = """
<header><div class="head"><h1>Validation of a global ingress</h1>{{ mark(verdict, closing) }}</div>
<p class="sub">{% for name, value in identity %}<span>{{ name }} <b>{{ value }}</b></span>{% endfor %}</p></header>
<main id="main">
{% if rows %}<h2>Good answers per region and pool</h2>
<div class="wide" tabindex="0" role="region" aria-label="Good answers"><table>
<caption>{{ per_pool }} expected in each run</caption>
<thead><tr>{% for name in headings %}<th scope="col"{% if loop.index > 3 %} class="n"{% endif %}>{{ name }}</th>
{% endfor %}<th scope="col">first byte, beside the others</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for word in row.cells %}<td{% if loop.index > 3 %} class="n"{% endif %}>{{ word }}</td>
{% endfor %}<td><svg role="img" aria-label="{{ row.words }}" width="{{ longest }}" height="12"
viewBox="0 0 {{ longest }} 12"><rect width="{{ row.bar }}" height="12" rx="2" fill="currentColor" opacity=".4"/></svg>
</td></tr>{% endfor %}</tbody></table></div>{% endif %}
{% for one in disturbances %}<h2>{{ one.title }}</h2>
<div class="card is-{{ one.kind }}"><p>{{ mark(one.kind, one.words) }}</p>
<svg role="img" aria-label="{{ one.words }}" width="100%" viewBox="-6 -14 {{ width + 12 }} {{ height + 36 }}">
{% for deed in one.deeds %}<path d="M{{ deed.x }} 0V{{ height }}" stroke="currentColor" stroke-dasharray="3 3"/>
<text x="{{ deed.x + 3 }}" y="-3" font-size="11" fill="currentColor">{{ deed.word }}</text>{% endfor %}
{% for dot in one.dots %}{% if dot.good %}<circle cx="{{ dot.x }}" cy="{{ dot.y }}" r="1.8" fill="currentColor"
opacity=".45"/>{% else %}<path class="bad" d="M{{ dot.x - 4 }} {{ dot.y - 4 }}l8 8m0-8l-8 8" stroke="currentColor"
stroke-width="2"/>{% endif %}{% endfor %}
<text x="0" y="{{ height + 16 }}" font-size="11" fill="currentColor">0 s</text>
<text x="{{ width }}" y="{{ height + 16 }}" font-size="11" fill="currentColor" text-anchor="end">{{ one.end }}</text>
</svg><p class="dim">Each dot is a request, higher is slower, to {{ one.slowest }}; a cross is one that failed.</p>
</div>
{% endfor %}
{% for phase in phases %}<h2>{{ phase.name | capitalize }}</h2>
{% for check in phase.checks %}<div class="card is-{{ check.kind }}">
<p>{{ mark(check.kind, check.verdict) }} <b>{{ check.id }}</b></p><p>{{ check.reason }}</p>
<details{% if check.kind == "bad" %} open{% endif %}><summary>what is shown by it</summary><p>{{ check.clause }}.
{% if check.asked %}{{ check.good }} of {{ check.asked }} good.{% endif %}
{% if check.took_s is not none %}It took {{ "%.1f" | format(check.took_s) }} s.{% endif %}
{% if check.owner %}Open risk of the {{ check.owner }}, since {{ check.date }}.{% endif %}</p>
{% if check.findings %}<ul>{% for finding in check.findings %}<li>{{ finding }}</li>{% endfor %}</ul>{% endif %}
</details></div>{% endfor %}{% endfor %}
</main>
"""


def to_html(report: Report) -> str:
    slowest = max((row.first_byte_s or 0.0 for row in report.rows), default=0.0)
    values: dict[str, Any] = {
        "verdict": _KINDS[report.verdict],
        "closing": closing_line(report),
        "identity": identity(report),
        "headings": headings(report),
        "per_pool": report.evidence.task.per_pool,
        "rows": [_row(row, slowest) for row in report.rows],
        "longest": _LONGEST_BAR,
        "width": _WIDTH,
        "height": _HEIGHT,
        "disturbances": [_disturbance(one) for one in report.evidence.disturbances if one.exchanges],
        "phases": [
            {"name": name, "checks": [_check(check) for check in report.checks if check.phase == phase]}
            for phase, name in PHASES.items()
        ],
    }
    return page("Validation of a global ingress", _PAGE, values)


def _row(row: Row, slowest: float) -> dict[str, Any]:
    share = (row.first_byte_s or 0.0) / slowest if slowest else 0.0
    words = "no answer" if row.first_byte_s is None else f"{row.first_byte_s * 1000:.1f} ms"
    return {"cells": cells(row), "bar": round(share * _LONGEST_BAR, 1), "words": words}


def _check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "verdict": check.verdict.value,
        "kind": _KINDS[check.verdict],
        "reason": check.reason,
        "clause": check.clause,
        "findings": check.findings,
        "asked": check.asked,
        "good": check.good,
        "took_s": check.took_s,
        "owner": check.owner,
        "date": check.date,
    }


def _disturbance(one: Disturbance) -> dict[str, Any]:
    began = min(exchange.at for exchange in one.exchanges)
    span = max(max(exchange.at for exchange in one.exchanges) - began, 0.001)
    slowest = max(exchange.total_s for exchange in one.exchanges) or 0.001
    bad = sum(not _is_200(exchange) for exchange in one.exchanges)
    return {
        "title": f"{one.kind.capitalize()}: {one.before.key}",
        "words": f"{len(one.exchanges)} requests in {span:.1f} s, {bad} not answered with 200",
        "kind": BAD if bad else GOOD,
        "deeds": [
            {"x": round(min(max((deed.at - began) / span, 0.0), 1.0) * _WIDTH, 1), "word": deed.action}
            for deed in one.deeds
        ],
        "dots": _dots(one.exchanges, began, span, slowest),
        "end": f"{span:.1f} s",
        "slowest": f"{slowest * 1000:.0f} ms",
    }


def _dots(exchanges: Sequence[Exchange], began: float, span: float, slowest: float) -> list[dict[str, Any]]:
    return [
        {
            "x": round((one.at - began) / span * _WIDTH, 1),
            "y": round(_HEIGHT - _DOT - one.total_s / slowest * (_HEIGHT - 2 * _DOT), 1),
            "good": _is_200(one),
        }
        for one in exchanges
    ]


def _is_200(one: Exchange) -> bool:
    return isinstance(one.seen, Answered) and one.seen.status == 200
