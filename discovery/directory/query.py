"""What a caller of `/pools` or `/routers` asks for: filters, and whether to watch.

Pure. Owns the query string. Refuses unknown parameters and values, so that a misspelt filter never means "everything".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from discovery.pool import Pool, PoolTable

POOL_FILTERS = ("namespace", "name", "cluster", "region", "ready")


class BadQuery(Exception):
    """`param` is not acceptable; `message` says why and what would be."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(f"{param}: {message}")
        self.param = param
        self.message = message


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a table that is asked for. An empty filter lets everything pass; several values mean any of them."""

    of: str = "pools"
    namespaces: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    clusters: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    ready: bool = False

    @property
    def is_whole(self) -> bool:
        return not (self.namespaces or self.names or self.clusters or self.regions or self.ready)

    def of_table(self, table: PoolTable) -> PoolTable:
        """The table with only what is selected; epoch, revision and completeness stay."""
        if self.of == "routers":
            return replace(table, pools=())
        pools = table.pools if self.is_whole else tuple(pool for pool in table.pools if self._takes(pool))
        return replace(table, pools=pools, routers=())

    def _takes(self, pool: Pool) -> bool:
        return (
            (not self.namespaces or pool.key.namespace in self.namespaces)
            and (not self.names or pool.key.name in self.names)
            and (not self.clusters or pool.key.cluster in self.clusters)
            and (not self.regions or pool.region in self.regions)
            and (not self.ready or any(frontend.ready for frontend in pool.frontends))
        )


@dataclass(frozen=True, slots=True)
class Query:
    """`since` is (epoch, revision): what the watcher has already."""

    selection: Selection
    watch: bool = False
    since: tuple[str, int] | None = None


def parse_query(of: str, parameters: Iterable[tuple[str, str]]) -> Query:
    """The query in these parameters. Raises BadQuery, naming the parameter."""
    allowed = (*(POOL_FILTERS if of == "pools" else ()), "watch", "since")
    found: dict[str, list[str]] = {}
    for key, value in parameters:
        if key not in allowed:
            raise BadQuery(key, f"is no parameter of /{of}; there are: {', '.join(allowed)}")
        if not value:
            raise BadQuery(key, "is empty")
        found.setdefault(key, []).append(value)
    selection = Selection(
        of,
        namespaces=frozenset(found.get("namespace", ())),
        names=frozenset(found.get("name", ())),
        clusters=frozenset(found.get("cluster", ())),
        regions=frozenset(found.get("region", ())),
        ready=_once(found, "ready", ("true",)) == "true",
    )
    watch = _once(found, "watch", ("true", "false")) == "true"
    return Query(selection, watch, _since(found, watch))


def parse_version(text: str) -> tuple[str, int] | None:
    """`EPOCH.REV` as a pair, None when it is not of that form."""
    epoch, dot, revision = text.rpartition(".")
    if not dot or not epoch or not (revision.isascii() and revision.isdigit()) or len(revision) > 18:
        return None
    return epoch, int(revision)


def version(table: PoolTable) -> str:
    return f"{table.epoch}.{table.revision}"


def _once(found: dict[str, list[str]], key: str, allowed: tuple[str, ...]) -> str | None:
    values = found.get(key, [])
    if len(values) > 1:
        raise BadQuery(key, "is given more than once")
    if values and values[0] not in allowed:
        raise BadQuery(key, f"is {values[0]!r}; allowed: {', '.join(allowed)}")
    return values[0] if values else None


def _since(found: dict[str, list[str]], watch: bool) -> tuple[str, int] | None:
    values = found.get("since", [])
    if not values:
        return None
    if not watch:
        raise BadQuery("since", "is for watch=true")
    since = parse_version(values[0]) if len(values) == 1 else None
    if since is None:
        raise BadQuery("since", "is not of the form EPOCH.REVISION")
    return since
