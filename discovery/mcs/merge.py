"""All exports of one service made into one import, and the word to those who disagree.

Pure. Rules C20 to C29: the oldest export wins, ties go to the smaller cluster id, ports are united; the result depends
on the set of exports alone, never on their order. Refuses nothing: what can be exported was checked at the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from discovery.mcs.model import (
    Conflict,
    EndpointSet,
    Export,
    ExportStatus,
    Import,
    ServicePort,
    Words,
)

_LONGEST_MESSAGE: Final = 32_768


def by_precedence(exports: Iterable[Export]) -> list[Export]:
    """Oldest first; of one second, by cluster id."""
    return sorted(exports, key=lambda export: (export.exported_ms, export.cluster.encode()))


def merged(exports: Sequence[Export], live: Collection[str]) -> Import:
    """The import of these exports (one at least, all of one service, one a cluster)."""
    ordered = by_precedence(exports)
    first = ordered[0]
    return Import(
        service=first.service,
        type=first.type,
        ports=_united(ordered),
        session_affinity=first.session_affinity,
        affinity_seconds=first.affinity_seconds,
        ip_families=tuple(dict.fromkeys(family for export in ordered for family in export.ip_families)),
        internal_traffic_policy=first.internal_traffic_policy,
        traffic_distribution=first.traffic_distribution,
        labels=first.labels,
        annotations=first.annotations,
        clusters=tuple(sorted(export.cluster for export in ordered if export.cluster in live)),
    )


def _united(ordered: Sequence[Export]) -> tuple[ServicePort, ...]:
    ports: list[ServicePort] = []
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for export in ordered:
        for port in export.ports:
            number = (port.protocol, port.number)
            if port.name not in names and number not in numbers:
                ports.append(port)
                names.add(port.name)
                numbers.add(number)
    return tuple(ports)


def renaming(value: Import, export: Export) -> Mapping[tuple[str, str], str]:
    """Which of the import's ports a cluster serves: (name, protocol) of its own ports to the import's names (C26)."""
    names = {(port.protocol, port.number): port.name for port in value.ports}
    return {
        (port.name, port.protocol): names[port.protocol, port.number]
        for port in export.ports
        if (port.protocol, port.number) in names
    }


def as_imported(given: EndpointSet, names: Mapping[tuple[str, str], str]) -> EndpointSet | None:
    """The set with the import's port names; None when it had ports and the import has none of them."""
    ports = tuple(
        port._replace(name=names[port.name, port.protocol])
        for port in given.ports
        if (port.name, port.protocol) in names
    )
    if given.ports and not ports:
        return None
    return given if ports == given.ports else replace(given, ports=ports)


class _Field(NamedTuple):
    conflict: Conflict
    word: str
    compared: Callable[[Export], object]
    shown: Callable[[Import], str]


def statuses(exports: Sequence[Export], value: Import) -> tuple[ExportStatus, ...]:
    """What each exporting cluster is told: the same for all of them, the oldest included (C23)."""
    ordered = by_precedence(exports)
    conflicts: list[Conflict] = []
    sentences: list[str] = []
    for field in _FIELDS:
        differing = sum(not _agree(field, ordered[0], export) for export in ordered[1:])
        if differing:
            conflicts.append(field.conflict)
            sentences.append(
                f'Conflicting {field.word}. Using "{field.shown(value)}" from oldest service export in '
                f'"{ordered[0].cluster}". {differing}/{len(ordered)} clusters disagree.'
            )
    message = " ".join(sentences)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE - 1]}…"
    return tuple(
        ExportStatus(export.cluster, export.service, tuple(conflicts), message)
        for export in sorted(ordered, key=lambda export: export.cluster)
    )


def _agree(field: _Field, first: Export, other: Export) -> bool:
    # Where only one of two has an affinity, its configuration is no second disagreement.
    if field.conflict is Conflict.SESSION_AFFINITY_CONFIG and first.session_affinity != other.session_affinity:
        return True
    return field.compared(first) == field.compared(other)


def _ports(ports: Iterable[ServicePort]) -> str:
    return ", ".join(
        f"{port.name}/{port.protocol}/{port.number}" + (f"/{port.app_protocol}" if port.app_protocol else "")
        for port in ports
    )


def _words(words: Words) -> str:
    return ", ".join(f"{key}={value}" for key, value in words)


_FIELDS: Final = (  # in the order in which reasons are joined (C24)
    _Field(Conflict.PORT, "ports", lambda one: frozenset(one.ports), lambda one: _ports(one.ports)),
    _Field(Conflict.TYPE, "type", lambda one: one.type, lambda one: one.type.value),
    _Field(
        Conflict.SESSION_AFFINITY,
        "session affinity",
        lambda one: one.session_affinity,
        lambda one: one.session_affinity,
    ),
    _Field(
        Conflict.SESSION_AFFINITY_CONFIG,
        "session affinity configuration",
        lambda one: one.affinity_seconds,
        lambda one: f"{one.affinity_seconds} s",
    ),
    _Field(
        Conflict.INTERNAL_TRAFFIC_POLICY,
        "internal traffic policy",
        lambda one: one.internal_traffic_policy,
        lambda one: one.internal_traffic_policy,
    ),
    _Field(
        Conflict.TRAFFIC_DISTRIBUTION,
        "traffic distribution",
        lambda one: one.traffic_distribution,
        lambda one: one.traffic_distribution,
    ),
    _Field(
        Conflict.IP_FAMILY,
        "IP families",
        lambda one: frozenset(one.ip_families),
        lambda one: ", ".join(one.ip_families),
    ),
    _Field(Conflict.ANNOTATIONS, "annotations", lambda one: one.annotations, lambda one: _words(one.annotations)),
    _Field(Conflict.LABELS, "labels", lambda one: one.labels, lambda one: _words(one.labels)),
)
