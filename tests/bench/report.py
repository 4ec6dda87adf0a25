"""From samples to what people read. Pure: same samples, same bytes.

Owns: the list of figures, medians and ranges, ratios of medians, the table and its place in a document.
Refuses: to invent a cell. What was not measured is a dash.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"
BUSY_PERCENT = 10
REFERENCES = ("nginx", "envoy")
COMPILED = "-compiled"  # the peer of this suffix is the subject in its other form


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    digits: int = 1
    ratio: bool = True  # whether dividing it by a peer's says something


FIGURES = (
    Figure("unary_cpu_32", "CPU per unary request, 32 connections (us)"),
    Figure("unary_cpu_1", "CPU per unary request, 1 connection (us)"),
    Figure("unary_cpu_256", "CPU per unary request, 256 connections (us)"),
    Figure("chunk_cpu_paced", "CPU per SSE chunk, 16,000 chunks/s (us)", digits=2),
    Figure("chunk_cpu_full", "CPU per SSE chunk, frontends at full speed (us)", digits=2),
    Figure("unary_rate_32", "requests/s, 32 connections", digits=0),
    Figure("chunk_rate_full", "chunks/s, frontends at full speed", digits=0),
    Figure("latency_p50", "latency at 300 requests/s, p50 (us)", digits=0),
    Figure("latency_p99", "latency at 300 requests/s, p99 (us)", digits=0),
    Figure("added_p50", "added latency at 300 requests/s, p50 (us)", digits=0),
    Figure("added_p99", "added latency at 300 requests/s, p99 (us)", digits=0),
    Figure("delay_p50", "chunk delay at 16,000 chunks/s, p50 (us)", digits=0),
    Figure("delay_p99", "chunk delay at 16,000 chunks/s, p99 (us)", digits=0),
    Figure("first_chunk_p50", "time to first chunk, p50 (us)", digits=0),
    Figure("pss_idle", "memory when idle, PSS (MiB)"),
    Figure("pss_stream", "memory per open idle stream, PSS (KiB)"),
    Figure("others_32", "other work on the proxy's core meanwhile (%)", ratio=False),
)


@dataclass(frozen=True)
class Summary:
    median: float
    low: float
    high: float
    runs: tuple[float, ...]


@dataclass
class PeerReport:
    """One peer: its samples in round order, or why there are none."""

    version: str = ""
    trouble: str = ""
    samples: list[Mapping[str, float]] = field(default_factory=list)

    def summary(self, key: str) -> Summary | None:
        runs = tuple(sample[key] for sample in self.samples if key in sample)
        return Summary(statistics.median(runs), min(runs), max(runs), runs) if runs else None


def add_differences(peers: Mapping[str, PeerReport]) -> None:
    """Latency against no proxy, round by round (both were taken within the same minute)."""
    direct = peers.get("direct")
    if direct is None:
        return
    for name, peer in peers.items():
        if name == "direct":
            continue
        for index, (sample, base) in enumerate(zip(peer.samples, direct.samples, strict=False)):
            extra = {
                f"added_{rank}": sample[f"latency_{rank}"] - base[f"latency_{rank}"]
                for rank in ("p50", "p99")
                if f"latency_{rank}" in sample and f"latency_{rank}" in base
            }
            peer.samples[index] = {**sample, **extra}


def ratio(peers: Mapping[str, PeerReport], key: str, name: str, reference: str) -> float | None:
    """Median over median; None when either is missing or there is nothing to divide by."""
    if name not in peers or reference not in peers:
        return None
    ours, theirs = peers[name].summary(key), peers[reference].summary(key)
    return ours.median / theirs.median if ours and theirs and theirs.median > 0 else None


def _cell(summary: Summary | None, digits: int) -> str:
    if summary is None:
        return "-"
    if len(summary.runs) == 1:
        return f"{summary.median:,.{digits}f}"
    return f"{summary.median:,.{digits}f} ({summary.low:,.{digits}f} to {summary.high:,.{digits}f})"


def rows(peers: Mapping[str, PeerReport], subject: str) -> list[list[str]]:
    """Header and one row per measured figure; ratios are the subject's, and those of its compiled form."""
    shown = [name for name, peer in peers.items() if peer.samples]
    subjects = [name for name in (subject, subject + COMPILED) if name in shown]
    pairs = [(one, name) for one in subjects for name in REFERENCES if name in shown and name != one]
    table = [["figure", *shown, *(f"{one} / {name}" for one, name in pairs)]]
    for figure in FIGURES:
        cells = [_cell(peers[name].summary(figure.key), figure.digits) for name in shown]
        if all(cell == "-" for cell in cells):
            continue
        ratios = [ratio(peers, figure.key, one, name) if figure.ratio else None for one, name in pairs]
        table.append([figure.title, *cells, *("-" if value is None else f"{value:.2f}" for value in ratios)])
    return table


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A table that reads well as text, too: columns of one width."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def busiest(peers: Mapping[str, PeerReport]) -> float:
    """The largest share of the proxy's core, in percent, that went to others during a unary load."""
    return max((sample.get("others_32", 0.0) for peer in peers.values() for sample in peer.samples), default=0.0)


def section(
    peers: Mapping[str, PeerReport], subject: str, machine: Mapping[str, str], options: Mapping[str, object], date: str
) -> str:
    """What stands between the markers of docs/benchmarks.md."""
    versions = ", ".join(f"{name} {peer.version}" for name, peer in peers.items() if peer.samples and name != "direct")
    about = ", ".join(f"{key} {value}" for key, value in machine.items())
    how = ", ".join(f"{key} {value}" for key, value in options.items())
    parts = [f"{date}; {about}; {how}. {versions}.", markdown(rows(peers, subject))]
    if (others := busiest(peers)) > BUSY_PERCENT:
        parts.append(
            f"**The machine was busy:** other programs took up to {others:.0f} % of the proxy's core. "
            "Rates and latencies are contaminated, and CPU figures somewhat, through shared caches."
        )
    parts += [f"**{name} was not measured:** {peer.trouble}" for name, peer in peers.items() if peer.trouble]
    return "\n\n".join(parts)


def replace_section(document: str, text: str) -> str:
    """The document with what is between the markers replaced; ValueError unless both stand there once, in order."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after or END in before:
        raise ValueError(f"the document needs {BEGIN} and, after it, {END}, once each")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def as_json(
    peers: Mapping[str, PeerReport], subject: str, machine: Mapping[str, str], options: Mapping[str, object], date: str
) -> dict[str, object]:
    """Every sample and what was made of them."""
    keys = [figure.key for figure in FIGURES]
    ratios = {name: {key: ratio(peers, key, subject, name) for key in keys} for name in REFERENCES if name in peers}
    return {
        "date": date,
        "machine": dict(machine),
        "options": dict(options),
        "subject": subject,
        "ratios": ratios,
        "peers": {
            name: {
                "version": peer.version,
                "trouble": peer.trouble,
                "medians": {key: found.median for key in keys if (found := peer.summary(key))},
                "samples": [dict(sample) for sample in peer.samples],
            }
            for name, peer in peers.items()
        },
    }
