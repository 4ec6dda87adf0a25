"""Pages for people: a Jinja template and values, everything escaped, no JavaScript needed."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

_environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)

_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 72rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
</style></head><body><h1>{{ title }}</h1>
{{ body }}
</body></html>
"""


def page(title: str, template: str, values: dict[str, Any]) -> str:
    """A whole HTML document whose body is `template` with `values`; a value that is missing is an error."""
    body = Markup(_environment.from_string(template).render(values))
    return _environment.from_string(_FRAME).render(title=title, body=body)
