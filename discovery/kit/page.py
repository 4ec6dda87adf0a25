"""Pages for people: one document, one request, nothing from elsewhere, no JavaScript.

Owns the frame, the look (light and dark, narrow and wide) and the small parts pages are made of: marks, figures,
sparklines. Keeps the rules that every value is escaped, that no state is told by colour alone (each has its own shape
and word), and that the headers allow what the page holds and nothing else.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

_STYLE = (files("discovery.kit") / "page.css").read_text("utf-8")
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

GOOD, WARN, BAD, IDLE = "good", "warn", "bad", "idle"
_SHAPES = {  # told apart by form, not only by colour
    GOOD: '<circle cx="6" cy="6" r="5"/>',
    WARN: '<path d="M6 .6 11.8 11H.2Z"/>',
    BAD: '<path d="M1 1 11 11M11 1 1 11" class="line"/>',
    IDLE: '<circle cx="6" cy="6" r="4.2" class="line"/>',
}

_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><link rel="icon" href="data:,">
{% if refresh %}<meta http-equiv="refresh" content="{{ refresh }}">{% endif %}
<style>{{ style }}</style></head><body><a class="skip" href="#main">Skip to the content</a>
{{ body }}
</body></html>
"""


def mark(kind: str, words: object) -> Markup:
    """A state: a shape of its own, and in words."""
    shape = Markup(_SHAPES[kind])
    return Markup(
        '<span class="mark {}"><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">{}</svg> {}</span>'
    ).format(kind, shape, words)


def spark(values: Sequence[float | None], label: str, unit: str = "") -> Markup:
    """A line of the values, oldest first; None leaves a gap. The label says in words what the line shows."""
    known = [value for value in values if value is not None]
    if not known:
        return Markup('<span class="spark none">no data yet</span>')
    top = max(known) or 1.0
    step = 120 / max(len(values) - 1, 1)
    runs: list[list[str]] = [[]]
    for n, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{n * step:.1f},{27 - 24 * value / top:.1f}")
    lines = Markup("").join(
        Markup('<polyline points="{}"/>').format(" ".join(run if len(run) > 1 else run * 2)) for run in runs if run
    )
    now, low, high = (f"{number(value)}{unit}" for value in (known[-1], min(known), max(known)))
    text = f"{label}: now {now}, lowest {low}, highest {high}"
    return Markup(
        '<svg class="spark" viewBox="-2 0 124 30" role="img" aria-label="{0}" preserveAspectRatio="none">'
        '<title>{0}</title><path class="base" d="M0 28.5H120"/>{1}</svg>'
    ).format(text, lines)


def number(value: float | None, digits: int = 3) -> str:
    """As many digits as mean something; a dash for nothing."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def share(value: float | None) -> str:
    """A share as per cent; a small one is not rounded to none."""
    if value is None:
        return "–"
    if value == 0:
        return "0 %"
    return "< 0.1 %" if value < 0.001 else f"{value * 100:.3g} %"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{number(value)} ms" if value < 1000 else f"{number(value / 1000)} s"


def seconds(value: float | None) -> str:
    """A span of time in two units."""
    if value is None:
        return "–"
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    whole = int(value)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def moment(text: str | None) -> Markup:
    """An RFC 3339 time: the time of day, the whole of it for machines and on hovering."""
    if not text:
        return Markup("–")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(text, text[11:19])


_environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_environment.globals.update(
    mark=mark, spark=spark, number=number, share=share, ms=milliseconds, seconds=seconds, moment=moment
)


@functools.lru_cache(maxsize=32)
def _template(text: str) -> Template:
    return _environment.from_string(text)


def page(title: str, template: str, values: dict[str, Any], refresh: int | None = None) -> str:
    """A whole HTML document whose body is `template` with `values`; a value that is missing is an error. `refresh`:
    load it again after so many seconds."""
    body = Markup(_template(template).render(values))
    return _template(_FRAME).render(title=title, body=body, style=Markup(_STYLE), refresh=refresh)


def plain(value: object) -> str:
    """Escaped text, for tests of what a page must hold."""
    return str(escape(value))
