"""What the demo says: addresses, and commands that work when they are pasted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from global_ingress.demo.regions import Place
from global_ingress.validate.evidence import Kind
from global_ingress.validate.plan import body_of


def addresses(places: Sequence[Place]) -> list[str]:
    """A table of URLs."""
    head = ("cluster", "region", "ingress", "status", "discovery", "frontend")
    rows = [
        head,
        *((p.cluster, p.region, p.ingress, f"{p.admin}/status", f"{p.discovery}/pools", p.frontend) for p in places),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def curls(place: Place, model: str) -> list[str]:
    """Commands to talk to the ingress of a region: unary, streamed, the models, the pools."""
    return [
        _post(place, Kind("chat", stream=False), model, "-si"),
        _post(place, Kind("chat", stream=True), model, "-sN"),
        f"curl -s {place.ingress}/v1/models",
        f"curl -s {place.discovery}/pools",
    ]


def _post(place: Place, kind: Kind, model: str, flags: str) -> str:
    body = shlex.quote(body_of(kind, model).decode())
    return f"curl {flags} {place.ingress}{kind.path} -H 'content-type: application/json' -d {body}"


def kept(places: Sequence[Place], model: str, files: Path) -> str:
    """What is printed when the demo stays."""
    return "\n".join(
        (
            "",
            *addresses(places),
            "",
            *curls(places[0], model),
            "",
            f"The EndpointSlices each discovery reads: {files}/CLUSTER/endpointslices.yaml; edit one and watch /pools.",
            "Running until Ctrl-C.",
        )
    )
