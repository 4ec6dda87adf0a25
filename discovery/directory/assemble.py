"""From all slices to pools and routers, with a verdict for every slice.

Owns the union: any number of slices, sources and address families make one pool per key. Refuses nothing; what cannot
be used is said in its verdict. The rule it keeps: the order of slices is nothing, and what did not change is the same
object as before, so that a change costs what changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from discovery.directory.members import Member, Reach, reach, unite
from discovery.directory.naming import (
    Attributed,
    Ignored,
    NamingRules,
    Reason,
    Role,
    attribute,
    default_region,
    region_of,
)
from discovery.errors import MalformedSlice
from discovery.identity import PoolKey
from discovery.kube import labels as names
from discovery.pool import Pool, Relay, Router
from discovery.slices import Slice

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class State(StrEnum):
    """What became of a slice: it gives endpoints; it rightly gives none; somebody should mend it."""

    USED = "used"
    IGNORED = "ignored"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one slice and why; `reason` is None when it is used, `key` None when it is nobody's."""

    source: str
    namespace: str
    name: str
    state: State
    reason: Reason | None = None
    detail: str = ""
    key: PoolKey | None = None
    role: Role | None = None


class WarningKind(StrEnum):
    """What is used, but not as it should be."""

    REGION_CONFLICT = "region_conflict"
    NO_MANAGED_BY = "no_managed_by"
    BAD_STALE_MARK = "bad_stale_mark"
    ENDPOINTS_SKIPPED = "endpoints_skipped"


@dataclass(frozen=True, slots=True)
class Warned:
    """One thing to mend; `subject` is a pool key, or namespace/name of a slice; `count` is of endpoints, if of any."""

    kind: WarningKind
    subject: str
    detail: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class _Told:
    """A slice of ours and who told of it."""

    source: str
    slice: Slice
    role: Role


@dataclass(frozen=True, slots=True)
class _Group:
    """What the slices of one pool, or of the routers of one cluster's Service, came to."""

    told: tuple[_Told, ...]
    pool: Pool | None
    routers: tuple[Router, ...]
    verdicts: tuple[Verdict, ...]
    warnings: tuple[Warned, ...]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What was found of which objects; the slices in it keep their `id` from being given to others."""

    rules: NamingRules
    attributions: dict[int, tuple[Slice, Attributed | Ignored]]
    groups: dict[tuple[bool, PoolKey], _Group]


@dataclass(frozen=True)
class Assembled:
    """All pools sorted by key, all routers by id, and what became of every slice."""

    pools: tuple[Pool, ...]
    routers: tuple[Router, ...]
    verdicts: tuple[Verdict, ...]
    warnings: tuple[Warned, ...]
    memory: _Memory = field(repr=False, compare=False)

    @functools.cached_property
    def address_conflicts(self) -> int:
        """How many address:port are claimed by pools of more than one cluster: one of them cannot be reached. Counted
        when first asked, since it looks at every endpoint."""
        clusters: dict[str, str] = {}
        conflicts = set()
        for pool in self.pools:
            urls = [url for frontend in pool.frontends for url in (frontend.url, *frontend.also)]
            if pool.relay is not None:
                urls.append(pool.relay.url)
            for url in urls:
                address = url.partition("://")[2]
                if clusters.setdefault(address, pool.key.cluster) != pool.key.cluster:
                    conflicts.add(address)
        return len(conflicts)


def assemble(slices: Iterable[tuple[str, Slice]], rules: NamingRules, previous: Assembled | None = None) -> Assembled:
    """The pools and routers of these slices, each with the source that told of it (mcs, karmada, file).

    With `previous`, what hangs on the very same slice objects under the very same rules is taken from there.
    """
    before = previous.memory if previous is not None and previous.memory.rules is rules else _Memory(rules, {}, {})
    memory = _Memory(rules, {}, {})
    told: dict[tuple[bool, PoolKey], list[_Told]] = {}
    verdicts: list[Verdict] = []
    for source, slice_ in slices:
        known = before.attributions.get(id(slice_)) or (slice_, attribute(slice_, rules))
        memory.attributions[id(slice_)] = known
        found = known[1]
        if isinstance(found, Ignored):
            verdicts.append(_verdict(source, slice_, found))
        else:
            told.setdefault((found.role is Role.ROUTER, found.key), []).append(_Told(source, slice_, found.role))
    for place, members in told.items():
        group = before.groups.get(place)
        if group is None or not _same(group.told, members):
            group = _group(place, members, rules)
        memory.groups[place] = group
    groups = memory.groups.values()
    for group in groups:
        verdicts += group.verdicts
    pools = (group.pool for group in groups if group.pool is not None)
    return Assembled(
        pools=tuple(sorted(pools, key=lambda pool: pool.key)),
        routers=_routers(router for group in groups for router in group.routers),
        verdicts=tuple(sorted(verdicts, key=_verdict_order)),
        warnings=tuple(sorted((w for group in groups for w in group.warnings), key=_warning_order)),
        memory=memory,
    )


def refused(source: str, namespace: str, fault: MalformedSlice) -> Verdict:
    """The verdict on an object that is no slice at all, for those who explain."""
    return Verdict(source, namespace, fault.name, State.INVALID, Reason.MALFORMED, fault.reason)


def _verdict_order(verdict: Verdict) -> tuple[str, ...]:
    said = (verdict.reason or "", verdict.detail, verdict.role or "", str(verdict.key))
    return (verdict.source, verdict.namespace, verdict.name, *said)


def _warning_order(warned: Warned) -> tuple[str, str, str, int]:
    return (warned.kind, warned.subject, warned.detail, warned.count)


def _verdict(
    source: str, slice_: Slice, found: Ignored, key: PoolKey | None = None, role: Role | None = None
) -> Verdict:
    state = State.INVALID if found.reason.is_fault else State.IGNORED
    return Verdict(source, slice_.namespace, slice_.name, state, found.reason, found.detail, key, role)


def _same(before: tuple[_Told, ...], now: list[_Told]) -> bool:
    return len(before) == len(now) and all(
        a.slice is b.slice and a.source == b.source for a, b in zip(before, now, strict=True)
    )


def _group(place: tuple[bool, PoolKey], told: list[_Told], rules: NamingRules) -> _Group:
    key = place[1]
    ways: list[tuple[_Told, Reach]] = []
    verdicts: list[Verdict] = []
    for one in told:
        found = reach(one.slice, one.role, rules) if one.slice.endpoints else _emptiness(one.slice)
        if isinstance(found, Ignored):
            verdicts.append(_verdict(one.source, one.slice, found, key, one.role))
        else:
            ways.append((one, found))
    listed = {role: _listed(role, ways, rules) for role in Role}
    reached = {(role, address) for role, members in listed.items() for m in members for address in m.addresses}
    sources = set()
    for one, way in ways:
        if any((one.role, (end.address, way.port)) in reached for end in one.slice.endpoints):
            sources.add(one.source)
            verdicts.append(_used(one, key))
        else:
            nothing = Ignored(Reason.NOTHING_LISTED, f"none of {len(one.slice.endpoints)} endpoints is ready")
            verdicts.append(_verdict(one.source, one.slice, nothing, key, one.role))
    region, stale_since, warnings = _marks(key, told, rules)
    pool = _pool(key, listed, region, sources, stale_since)
    routers = tuple(
        Router(_router_id(member), member.frontend.url, key.cluster, region) for member in listed[Role.ROUTER]
    )
    return _Group(tuple(told), pool, routers, tuple(verdicts), warnings)


def _listed(role: Role, ways: list[tuple[_Told, Reach]], rules: NamingRules) -> list[Member]:
    members = unite(((one.slice, way) for one, way in ways if one.role is role), rules)
    if role is Role.ROUTER:
        # A router has no mark for "ending": it is listed while it is ready.
        return [member for member in members if member.frontend.ready]
    return [member for member in members if member.listed]


def _used(one: _Told, key: PoolKey) -> Verdict:
    return Verdict(one.source, one.slice.namespace, one.slice.name, State.USED, key=key, role=one.role)


def _emptiness(slice_: Slice) -> Ignored:
    if not slice_.skipped:
        return Ignored(Reason.NO_ENDPOINTS, "it has no endpoints")
    detail = f"all {len(slice_.skipped)} endpoints were left out: {slice_.skipped[0].detail}"
    return Ignored(Reason.NO_ENDPOINTS, detail)


def _pool(
    key: PoolKey, listed: dict[Role, list[Member]], region: str, sources: set[str], stale_since: str | None
) -> Pool | None:
    frontends = tuple(member.frontend for member in listed[Role.FRONTEND])
    relays = sorted(listed[Role.RELAY], key=lambda m: (not m.frontend.ready, m.frontend.terminating, m.frontend.url))
    if not frontends and not relays:
        return None
    relay = Relay(f"ip:{relays[0].address}", relays[0].frontend.url) if relays else None
    return Pool(key, region, frontends, relay, tuple(sorted(sources)), stale_since)


def _router_id(member: Member) -> str:
    pod = member.frontend.pod
    return (pod.name if pod else "") or member.hostname or member.address


def _routers(found: Iterable[Router]) -> tuple[Router, ...]:
    """Sorted; an id that two clusters use is told apart by the cluster, since readers go by id."""
    routers = tuple(found)
    clusters: dict[str, set[str]] = {}
    for router in routers:
        clusters.setdefault(router.id, set()).add(router.cluster)
    told_apart = (
        replace(router, id=f"{router.cluster}/{router.id}") if len(clusters[router.id]) > 1 else router
        for router in routers
    )
    return tuple(sorted(told_apart, key=lambda router: (router.id, router.cluster, router.url, router.region)))


def _marks(key: PoolKey, told: list[_Told], rules: NamingRules) -> tuple[str, str | None, tuple[Warned, ...]]:
    """Region, stale-since and warnings of a pool. Every slice of it has a say, ready endpoints or not: a pod that
    comes and goes must not move the pool to another region and back."""
    warnings = set()
    newest: tuple[tuple[object, ...], str] | None = None
    regions = set()
    stale: list[datetime] = []
    for one in told:
        slice_ = one.slice
        subject = f"{slice_.namespace}/{slice_.name}"
        if (region := region_of(slice_)) is not None:
            regions.add(region)
            vote = ((_moment(slice_.created) or _LONG_AGO, slice_.generation, slice_.name, slice_.uid, region), region)
            newest = vote if newest is None else max(newest, vote)
        if (mark := slice_.annotations.get(names.STALE_SINCE) or slice_.labels.get(names.STALE_SINCE)) is not None:
            if (moment := _moment(mark)) is not None:
                stale.append(moment)
            else:
                warnings.add(Warned(WarningKind.BAD_STALE_MARK, subject, f"{names.STALE_SINCE} is no time: {mark!a}"))
        if slice_.managed_by is None:
            warnings.add(Warned(WarningKind.NO_MANAGED_BY, subject, f"label {names.MANAGED_BY} is missing"))
        if slice_.skipped:
            first = slice_.skipped[0]
            detail = f"endpoints[{first.index}]: {first.detail}"
            warnings.add(Warned(WarningKind.ENDPOINTS_SKIPPED, subject, detail, len(slice_.skipped)))
    region = newest[1] if newest is not None else default_region(key.cluster, rules)
    if len(regions) > 1:
        detail = f"slices say {', '.join(sorted(regions))}; the newest, {region}, holds"
        warnings.add(Warned(WarningKind.REGION_CONFLICT, str(key), detail))
    return region, _rfc3339(min(stale)) if stale else None, tuple(warnings)


def _moment(text: str) -> datetime | None:
    """A time with its zone, in UTC; a label cannot hold colons, so the basic form 20260131T120000Z counts too."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
