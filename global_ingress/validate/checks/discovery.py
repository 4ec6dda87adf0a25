"""Checks of what the discoveries list, and of who reaches it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from global_ingress.validate.checks.verdicts import Check, open_check
from global_ingress.validate.evidence import (
    Evidence,
    ListedRouter,
    Listing,
    RouterListing,
    RouterReading,
    Unknown,
    View,
)
from global_ingress.validate.inventory import differences, latest, stable, unsettled


def check_inventory(evidence: Evidence) -> Check:
    """Every discovery lists all pools, and the list stands still."""
    task, readings = evidence.task, evidence.readings
    blank = open_check(
        "conformance.inventory",
        5,
        f"every discovery lists all pools, equal in {task.equal_readings} complete readings, none stale or empty",
        "no discovery was read",
    )
    if not readings:
        return blank
    found = replace(
        blank,
        asked=len(readings),
        good=sum(isinstance(reading.seen, Listing) and reading.seen.complete for reading in readings),
    ).during([(reading.at, reading.took_s) for reading in readings])
    if (why := unsettled(task, readings)) is not None:
        return found.failed(why, _disagreements(evidence))
    pools = stable(task, readings) or ()
    weak = [f"{pool.key} is stale since {pool.stale_since}" for pool in pools if pool.stale_since is not None]
    weak += [f"{pool.key} has no usable frontend" for pool in pools if not pool.frontends]
    if weak:
        return found.failed(f"{len(weak)} pools are not well", weak)
    return found.passed(f"{len(task.discoveries)} discoveries list the same {len(pools)} pools")


def _disagreements(evidence: Evidence) -> tuple[str, ...]:
    """What each discovery lists otherwise than the fullest list that anybody gave."""
    last = {name: latest(evidence.readings, name) for name, _ in evidence.task.discoveries}
    listings = {name: reading.seen for name, reading in last.items() if reading and isinstance(reading.seen, Listing)}
    if not listings:
        return ()
    counts = Counter(listings.values())
    fullest = max(sorted(listings), key=lambda name: (counts[listings[name]], len(listings[name].pools)))
    return tuple(
        f"{name}: {line}" for name in sorted(listings) for line in differences(listings[fullest], listings[name])
    )


def check_routers(evidence: Evidence) -> Check:
    """Every discovery lists the same routers, and as many as are expected."""
    task, readings = evidence.task, evidence.routers
    blank = open_check("conformance.routers", 5, "every discovery lists all routers", "the routers were not read")
    if not readings:
        return blank
    whole = [one for one in readings if isinstance(one.seen, RouterListing) and one.seen.complete]
    found = replace(blank, asked=len(readings), good=len(whole)).during([(one.at, one.took_s) for one in readings])
    if wrong := list(_unlike_routers(readings)):
        return found.failed("the discoveries do not list the same routers", wrong)
    count = len({router for one in whole for router in _routers(one)})
    if task.expect_routers is not None and count != task.expect_routers:
        return found.failed(f"{count} routers are listed, {task.expect_routers} expected")
    if count == 0:
        return replace(found, reason="no router is listed, and none is expected")
    return found.passed(f"{len(readings)} discoveries list the same {count} routers")


def _routers(reading: RouterReading) -> tuple[ListedRouter, ...]:
    return reading.seen.routers if isinstance(reading.seen, RouterListing) else ()


def _unlike_routers(readings: tuple[RouterReading, ...]) -> Iterator[str]:
    first = next((one for one in readings if isinstance(one.seen, RouterListing)), None)
    for one in readings:
        if isinstance(one.seen, Unknown):
            yield f"{one.discovery}: unknown ({one.seen.reason})"
        elif not one.seen.complete:
            yield f"{one.discovery}: its list is incomplete"
        elif first is not None and set(_routers(one)) != set(_routers(first)):
            odd = sorted(router.id for router in set(_routers(one)) ^ set(_routers(first)))
            yield f"{one.discovery} lists other routers than {first.discovery}: {', '.join(odd)}"


def check_reachability(evidence: Evidence) -> Check:
    """The ingress of every region has reached every frontend itself. Its own word is taken for it: this client stands
    in one place."""
    task = evidence.task
    blank = open_check(
        "conformance.reachability", 5, "every frontend is reached from every region", "no admin listener was given"
    )
    # What was replaced later is no longer where the stable inventory has it.
    began = min((one.at for seen in evidence.disturbances for one in seen.exchanges), default=float("inf"))
    last = {one.ingress: one for one in evidence.viewings if one.at < began}
    if not last:
        return blank
    pools = stable(task, evidence.readings)
    if pools is None:
        return replace(blank, reason="there was no stable inventory to compare with")
    wrong: list[str] = []
    seen = 0
    for name, _ in task.ingresses:
        if name not in last:
            continue
        view = last[name].seen
        if isinstance(view, Unknown):
            wrong.append(f"{name}: its admin listener: {view.reason}")
            continue
        seen += len(view.frontends)
        wrong += _unreached(name, view, {(pool.key, url) for pool in pools for url in pool.frontends})
    found = replace(blank, asked=seen, good=seen - len(wrong)).during([(one.at, one.took_s) for one in last.values()])
    if wrong:
        return found.failed(f"{len(wrong)} frontends are not reached", wrong)
    if lacking := [name for name, _ in task.ingresses if name not in last]:
        return replace(found, reason=f"no admin listener was given for {', '.join(lacking)}")
    return found.passed(f"{len(last)} ingresses have reached all {seen} frontends that they see")


def _unreached(ingress: str, view: View, wanted: set[tuple[str, str]]) -> Iterator[str]:
    known = {(one.pool, one.url): one for one in view.frontends}
    for pool, url in sorted(wanted - known.keys()):
        yield f"{ingress} does not know {url} of {pool}"
    for key in sorted(wanted & known.keys()):
        if known[key].state != "usable":
            yield f"{ingress} does not use {key[1]} of {key[0]}: {known[key].why}"
        elif known[key].pool_why:
            yield f"{ingress} does not use {key[0]}: {known[key].pool_why}"
        elif not known[key].probed:
            yield f"{ingress} has not asked {key[1]} of {key[0]} yet"
