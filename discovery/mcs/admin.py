"""What the operator's command says about a store, and what it decides: plain values in, plain values out.

Pure. Owns the documents of `describe`, `list-*`, `explain` and `verify`, whether a cluster may be deleted, and the
lines of a dump. A lease is judged by its own record here: nobody has watched it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import msgspec

from discovery.mcs.digest import digest
from discovery.mcs.leases import GRACE_MS
from discovery.mcs.merge import by_precedence, merged, renaming, statuses
from discovery.mcs.model import EndpointSet, Export, ServiceKey
from discovery.mcs.store import ClusterRecord, Item, ItemKey, Mark, Partition, Value

Document = dict[str, Any]


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    REFUSED = 2
    NOT_FOUND = 3
    AWAY = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a store holds at about one moment."""

    now_ms: int
    records: Mapping[str, ClusterRecord]
    partitions: Mapping[str, Partition]
    unreadable: frozenset[str] = field(default_factory=frozenset)

    @property
    def standing(self) -> list[ClusterRecord]:
        return [record for _, record in sorted(self.records.items()) if record.removed is None]

    @property
    def live(self) -> frozenset[str]:
        return frozenset(record.id for record in self.standing if is_live(record, self.now_ms))

    def values(self, record: ClusterRecord) -> list[Value]:
        items = self.partitions[record.id].items
        return [item.value for item in items if item.value is not None and item.mark >= record.floor]

    def exports(self, service: ServiceKey | None = None) -> dict[ServiceKey, list[Export]]:
        found: dict[ServiceKey, list[Export]] = {}
        for record in self.standing:
            for value in self.values(record):
                if isinstance(value, Export) and service in (None, value.service):
                    found.setdefault(value.service, []).append(value)
        return found


def is_live(record: ClusterRecord, now_ms: int) -> bool:
    return record.removed is None and now_ms - record.renewed_ms <= record.ttl_ms + GRACE_MS


def cluster_document(record: ClusterRecord, now_ms: int) -> Document:
    state = str(record.removed) if record.removed else "live" if is_live(record, now_ms) else "silent"
    return {
        "cluster": record.id,
        "region": record.region,
        "state": state,
        "lease_age_s": round((now_ms - record.renewed_ms) / 1000, 1),
        "sync": record.sync.value,
        "rev": record.rev,
        "digest": record.digest,
    }


def described(seen: Seen) -> list[Document]:
    documents = []
    for _, record in sorted(seen.records.items()):
        values = seen.values(record) if record.removed is None else []
        documents.append(
            cluster_document(record, seen.now_ms)
            | {
                "digest_ok": record.removed is not None or digest(values) == record.digest,
                "exports": sum(isinstance(value, Export) for value in values),
                "endpoints": sum(len(value.endpoints) for value in values if isinstance(value, EndpointSet)),
                "unreadable": sorted(map(place, seen.partitions[record.id].unreadable)),
            }
        )
    return documents + [{"cluster": name, "state": "unreadable"} for name in sorted(seen.unreadable)]


def place(key: ItemKey) -> str:
    return f"{key.service}/{key.slice}" if key.slice else str(key.service)


def imports(seen: Seen) -> list[Document]:
    documents = []
    for service, exports in sorted(seen.exports().items()):
        value = merged(exports, seen.live)
        reasons = sorted({conflict.value for status in statuses(exports, value) for conflict in status.conflicts})
        documents.append(
            {
                "service": str(service),
                "type": value.type.value,
                "ports": [f"{port.name}/{port.protocol}/{port.number}" for port in value.ports],
                "clusters": list(value.clusters),
                "conflicts": reasons,
            }
        )
    return documents


def explained(seen: Seen, service: ServiceKey) -> Document | None:
    """Who is asked first, what came of it, and who serves which port; None when nobody exports it."""
    exports = by_precedence(seen.exports(service).get(service, ()))
    if not exports:
        return None
    value = merged(exports, seen.live)
    served = {export.cluster: set(renaming(value, export).values()) for export in exports}
    status = statuses(exports, value)[0]
    oldest = ("type", "session_affinity", "internal_traffic_policy", "traffic_distribution", "labels", "annotations")
    return {
        "service": str(service),
        "order": [
            {"cluster": one.cluster, "exported_ms": one.exported_ms, "live": one.cluster in seen.live}
            for one in exports
        ],
        "fields": {name: {"value": getattr(value, name), "from": exports[0].cluster} for name in oldest},
        "ip_families": list(value.ip_families),
        "ports": [
            {
                "port": f"{port.name}/{port.protocol}/{port.number}",
                "from": next(one.cluster for one in exports if port in one.ports),
                "served_by": [one.cluster for one in exports if port.name in served[one.cluster]],
            }
            for port in value.ports
        ],
        "clusters": list(value.clusters),
        "conflicts": [conflict.value for conflict in status.conflicts],
        "message": status.message,
    }


def verified(seen: Seen) -> list[Document]:
    """What is not as it must be; nothing when all is well."""
    faults: list[Document] = [
        {"cluster": name, "fault": "its record cannot be read"} for name in sorted(seen.unreadable)
    ]
    for record in seen.standing:
        partition = seen.partitions[record.id]
        faults += [
            {"cluster": record.id, "fault": f"{place(key)} cannot be read"} for key in sorted(partition.unreadable)
        ]
        values = seen.values(record)
        if not partition.unreadable and (found := digest(values)) != record.digest:
            faults.append(
                {"cluster": record.id, "fault": f"its items add up to {found}, its record says {record.digest}"}
            )
        exported = {value.service for value in values if isinstance(value, Export)}
        faults += [
            {"cluster": record.id, "fault": f"{value.service}/{value.slice} is a slice without its export"}
            for value in values
            if isinstance(value, EndpointSet) and value.service not in exported
        ]
    return faults


def undeletable(record: ClusterRecord, now_ms: int, *, force: bool) -> str | None:
    """Why a cluster may not be deleted now."""
    if force or not is_live(record, now_ms):
        return None
    age = (now_ms - record.renewed_ms) / 1000
    return f"cluster {record.id} is live, renewed {age:.0f} s ago; --force deletes it all the same"


def everything_of(record: ClusterRecord) -> Mark:
    """Above every item that this record's sessions have written."""
    return Mark(record.incarnation + 1, 0)


class DumpedItem(msgspec.Struct, tag="item", forbid_unknown_fields=True):
    cluster: str
    key: ItemKey
    mark: Mark
    export: Export | None = None
    endpoints: EndpointSet | None = None

    def item(self) -> Item:
        return Item(self.cluster, self.key, self.mark, self.export or self.endpoints)


class DumpedRecord(msgspec.Struct, tag="cluster", forbid_unknown_fields=True):
    record: ClusterRecord


_line: Final = msgspec.json.Decoder(DumpedItem | DumpedRecord)


def dumped(seen: Seen) -> Iterator[str]:
    """One JSON document a line: the items of a cluster, then its record."""
    for _, record in sorted(seen.records.items()):
        for item in sorted(seen.partitions[record.id].items, key=lambda one: one.key):
            export = item.value if isinstance(item.value, Export) else None
            endpoints = item.value if isinstance(item.value, EndpointSet) else None
            line = DumpedItem(item.cluster, item.key, item.mark, export, endpoints)
            yield msgspec.json.encode(line).decode()
        yield msgspec.json.encode(DumpedRecord(record)).decode()


def loaded(lines: Iterable[str]) -> tuple[list[Item], list[ClusterRecord]]:
    """Raises ValueError, which names the line."""
    items, records = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = _line.decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number}: {error}") from error
        except RecursionError:
            raise ValueError(f"line {number}: it is nested too deeply") from None
        if isinstance(said, DumpedItem):
            items.append(said.item())
        else:
            records.append(said.record)
    known = {record.id for record in records}
    if strangers := sorted({item.cluster for item in items} - known):
        raise ValueError(f"items of {strangers[0]}, but not its record: the dump is cut off")
    return items, records


def as_table(rows: list[Document]) -> str:
    """Columns for people; the keys of the rows are its head."""
    if not rows:
        return "nothing"
    head = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[key.upper() for key in head], *([_cell(row.get(key, "")) for key in head] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    text = str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text) or "-"
