"""The figures that count as bars, one SVG for docs/. Pure: same samples, same bytes.

Refuses: to draw what was not measured. Colours are the page's own where it has light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from tests.bench.report import FIGURES, PeerReport

DRAWN = ("unary_cpu_32", "chunk_cpu_paced", "added_p50", "delay_p99")
WIDTH, BAR, GAP, LEFT, RIGHT = 720, 18, 6, 150, 90
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.ours{fill:#0b6bcb}.peer{fill:#9aa4b0}.range{stroke:#1f2328}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ours{fill:#58a6ff}.peer{fill:#6e7681}.range{stroke:#e6edf3}}"
)


def svg(peers: Mapping[str, PeerReport], subject: str) -> str:
    """Groups of bars, a line over each from the lowest run to the highest."""
    parts: list[str] = []
    y = 0
    for key in DRAWN:
        figure = next(one for one in FIGURES if one.key == key)
        found = {name: summary for name, peer in peers.items() if (summary := peer.summary(key)) is not None}
        if not found:
            continue
        scale = (WIDTH - LEFT - RIGHT) / max(1e-9, *(one.high for one in found.values()))
        y += 24
        parts.append(f'<text x="0" y="{y}" font-weight="600">{escape(figure.title)}, median and range</text>')
        y += GAP + 2
        for name, summary in found.items():
            kind = "ours" if name.startswith(subject) else "peer"
            low, end, high = (LEFT + max(0.0, value) * scale for value in (summary.low, summary.median, summary.high))
            middle = y + BAR / 2
            parts += [
                f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>',
                f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}"/>',
                f'<line class="range" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>',
                f'<text x="{max(end, high) + 6:.1f}" y="{y + 13}">{summary.median:,.{figure.digits}f}</text>',
            ]
            y += BAR + GAP
        y += GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img">'
    return "\n".join(
        (head, f"<title>Benchmarks of {escape(subject)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>\n")
    )
