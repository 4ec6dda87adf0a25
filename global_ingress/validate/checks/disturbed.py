"""Checks of what happens when something breaks: a frontend replaced, a region cut, a client that leaves. Pure.

Owns what counts as recovered. The rule: what could not be done proves nothing, and fails: it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from global_ingress.validate.checks.faults import faults
from global_ingress.validate.checks.verdicts import Check, open_check
from global_ingress.validate.evidence import (
    Answered,
    Deed,
    Disturbance,
    Evidence,
    Exchange,
    Listed,
    Listing,
    Reading,
    Unanswered,
    View,
)
from global_ingress.validate.inventory import stable

NOTICED_S = 2.0
"""Within this an ingress has noticed that a client left, and the frontend has been told."""
SETTLED = 8
"""So many good answers in a row, at every ingress, end a trouble."""
_FORBIDDEN = "not allowed to disturb"
_Judge = Callable[[Check, Evidence, Disturbance], Check]


def check_replacement(evidence: Evidence) -> Check:
    """A replaced frontend is learned everywhere, the old one dropped, and no request fails meanwhile."""
    blank = open_check(
        "traffic.replacement",
        6,
        "a replaced frontend is learned by every discovery, the old one dropped, and no request fails",
        _FORBIDDEN,
    )
    return _disturbed(blank, evidence, "replacement", _replaced)


def _replaced(blank: Check, evidence: Evidence, seen: Disturbance) -> Check:
    begun = seen.deeds[0].at
    bad = list(_bad(evidence, seen.exchanges))
    good = len(seen.exchanges) - len(bad)
    learned: list[float] = []
    for name, _ in evidence.task.discoveries:
        moment = next((one.at - begun for one in seen.readings if one.discovery == name and _learned(one, seen)), None)
        if moment is None:
            bad.append(f"{name} does not list a new frontend of {seen.before.key} instead of {_urls(seen.before)}")
        else:
            learned.append(moment)
    if not seen.exchanges:
        bad.append("no request was sent meanwhile")
    found = replace(blank, asked=len(seen.exchanges), good=good)
    if bad:
        return found.failed(f"{len(bad)} findings while a frontend of {seen.before.key} was replaced", bad)
    return found.passed(
        f"{len(learned)} discoveries learned it within {max(learned, default=0.0):.1f} s; "
        f"all {len(seen.exchanges)} requests meanwhile were answered"
    )


def _learned(reading: Reading, seen: Disturbance) -> bool:
    """Whether this reading, made after the deed, lists a new frontend for the pool and lacks an old one."""
    if not isinstance(reading.seen, Listing) or reading.at < seen.deeds[0].at:
        return False
    now = next((pool.frontends for pool in reading.seen.pools if pool.key == seen.before.key), ())
    return replaced(seen.before.frontends, now)


def replaced(before: Sequence[str], now: Sequence[str]) -> bool:
    """A new one has come and an old one is gone, and there are not more than before: none is kept beside its
    successor."""
    return bool(set(now) - set(before)) and bool(set(before) - set(now)) and len(now) <= len(before)


def _urls(pool: Listed) -> str:
    return ", ".join(pool.frontends) or "none"


def check_region_cut(evidence: Evidence) -> Check:
    """A region that is cut costs a bounded share of requests for a bounded time, and comes back."""
    blank = open_check(
        "traffic.region-cut",
        6,
        "a cut region costs a bounded share of errors for a bounded time, and is used again once it is back",
        _FORBIDDEN,
    )
    return _disturbed(blank, evidence, "region cut", _cut)


def _cut(blank: Check, evidence: Evidence, seen: Disturbance) -> Check:
    goals = evidence.task.objectives
    cut_at = seen.deeds[0].at
    back_at = next((deed.at + deed.took_s for deed in seen.deeds if deed.action == "restore"), None)
    during = [one for one in seen.exchanges if one.at >= cut_at and (back_at is None or one.at < back_at)]
    bad = [one for one in during if _faults(evidence, one)]
    share = len(bad) / len(during) if during else 0.0
    recovery = max((one.at + one.total_s - cut_at for one in bad), default=0.0)
    findings = []
    if not during:
        findings.append("no request was sent while the region was cut")
    if goals and goals.error_share is not None and share > goals.error_share:
        findings.append(f"{share:.2%} of the requests failed; {goals.error_share:.2%} are allowed")
    if goals and goals.recovery_s is not None and recovery > goals.recovery_s:
        findings.append(f"the last failure was {recovery:.1f} s after the cut; {goals.recovery_s:g} s are allowed")
    findings += _unsettled(evidence, during)
    if back_at is not None:
        findings += _not_back(evidence, seen, back_at)
    if findings:
        findings += [f"{one.asked}: {'; '.join(_faults(evidence, one))}" for one in bad]
    found = replace(blank, asked=len(during), good=len(during) - len(bad))
    if findings:
        return found.failed(f"{seen.before.key} was cut: {len(bad)} of {len(during)} requests failed", findings)
    words = f"{seen.before.key} was cut: {len(bad)} of {len(during)} requests failed ({share:.2%})"
    return found.passed(f"{words}, the last {recovery:.1f} s after the cut; it was used again once it was back")


def _unsettled(evidence: Evidence, during: Sequence[Exchange]) -> Iterator[str]:
    for name, _ in evidence.task.ingresses:
        last = [one for one in during if one.asked.ingress == name][-SETTLED:]
        if len(last) < SETTLED or any(_faults(evidence, one) for one in last):
            good = sum(not _faults(evidence, one) for one in last)
            yield f"{name} had not recovered: {good} of its last {len(last)} answers are good, {SETTLED} are wanted"


def _not_back(evidence: Evidence, seen: Disturbance, back_at: float) -> Iterator[str]:
    for name, _ in evidence.task.ingresses:
        after = [one.seen for one in seen.exchanges if one.asked.ingress == name and one.at >= back_at]
        if not any(isinstance(one, Answered) and one.pool == seen.before.key and one.status == 200 for one in after):
            yield f"{name} has not used {seen.before.key} again: {len(after)} answers since it is back"


def check_bounds(evidence: Evidence) -> Check:
    """While regions break, no request is tried more often than it may be, and each is answered."""
    task = evidence.task
    blank = open_check(
        "traffic.bounds",
        6,
        f"no request is tried more than {task.attempts} times, and every one is answered",
        _FORBIDDEN,
    )
    exchanges = [one for seen in evidence.disturbances for one in seen.exchanges]
    if not exchanges:
        return blank
    wrong = []
    for one in exchanges:
        if isinstance(one.seen, Unanswered):
            wrong.append(f"{one.asked}: no answer: {one.seen.reason}")
        elif (tries := _tries(one.seen)) is not None and tries > task.attempts:
            wrong.append(f"{one.asked}: {tries} attempts")
    found = replace(blank, asked=len(exchanges), good=len(exchanges) - len(wrong))
    found = found.during([(one.at, one.total_s) for one in exchanges])
    if wrong:
        return found.failed(f"{len(wrong)} of {len(exchanges)} requests broke their bounds", wrong)
    repeats = sum((_tries(one.seen) or 1) > 1 for one in exchanges if isinstance(one.seen, Answered))
    return found.passed(f"{len(exchanges)} requests were answered, {repeats} of them by a repeat")


def _tries(seen: Answered) -> int | None:
    return int(seen.attempts) if seen.attempts is not None and seen.attempts.isdecimal() else None


def check_departure(evidence: Evidence) -> Check:
    """A client that leaves in the middle of a stream is noticed, and the frontend is told."""
    blank = open_check(
        "traffic.disconnect",
        6,
        f"a client that leaves is noticed within {NOTICED_S:g} s, and the frontend's work is cancelled",
        "no admin listener was given",
    )
    seen = evidence.departures
    if not seen:
        why = "there was no stable inventory to leave a stream of"
        return (
            replace(blank, reason=why)
            if evidence.task.admins and stable(evidence.task, evidence.readings) is None
            else blank
        )
    wrong = []
    for one in seen:
        if not one.left:
            wrong.append(f"{one.ingress}: there was no stream to leave: {one.reason}")
        elif one.noticed_s is None or one.noticed_s > NOTICED_S:
            wrong.append(f"{one.ingress} had not noticed after {NOTICED_S:g} s: {one.reason}")
        elif one.cancelled is not None and one.cancelled < 1:
            wrong.append(f"{one.ingress}: no frontend counted a cancellation")
    found = replace(blank, asked=len(seen), good=len(seen) - len(wrong)).during([(one.at, 0.0) for one in seen])
    if wrong:
        return found.failed(f"{len(wrong)} of {len(seen)} departures were not followed through", wrong)
    if silent := [one.ingress for one in seen if one.cancelled is None]:
        return replace(found, reason=f"the frontends do not tell of cancellations (asked for {', '.join(silent)})")
    slowest = max(one.noticed_s or 0.0 for one in seen)
    return found.passed(f"{len(seen)} ingresses noticed within {slowest * 1000:.0f} ms, and the frontends were told")


def check_one_life(evidence: Evidence) -> Check:
    """No discovery and no ingress was restarted while it was looked at."""
    blank = open_check(
        "traffic.one-life", 6, "discoveries and ingresses are the same processes from the first look to the last", ""
    )
    wrong = []
    for name, _ in evidence.task.discoveries:
        looks = [*evidence.readings, *evidence.after, *(one for seen in evidence.disturbances for one in seen.readings)]
        epochs = {one.epoch for one in looks if one.discovery == name and isinstance(one.seen, Listing)}
        if len(epochs) > 1:
            wrong.append(f"discovery of {name}: {len(epochs)} epochs: {', '.join(sorted(epochs))}")
    for name, _ in evidence.task.ingresses:
        lives = {v.seen.started for v in evidence.viewings if v.ingress == name and isinstance(v.seen, View)}
        if len(lives) > 1:
            wrong.append(f"ingress of {name}: started at {', '.join(sorted(lives))}")
    if wrong:
        return blank.failed(f"{len(wrong)} were restarted", wrong)
    watched = {one.ingress for one in evidence.viewings if isinstance(one.seen, View)}
    if lacking := [name for name, _ in evidence.task.ingresses if name not in watched]:
        return replace(blank, reason=f"no admin listener tells of the ingress of {', '.join(lacking)}")
    return blank.passed(f"{len(evidence.task.discoveries)} discoveries and {len(watched)} ingresses kept their lives")


def _disturbed(blank: Check, evidence: Evidence, kind: str, judged: _Judge) -> Check:
    seen = next((one for one in evidence.disturbances if one.kind == kind), None)
    if seen is None:
        if evidence.task.disturb and stable(evidence.task, evidence.readings) is None:
            return replace(blank, reason="there was no stable inventory to disturb")
        return replace(blank, reason="it was not done") if evidence.task.disturb else blank
    found = blank.during([(one.at, one.total_s) for one in seen.exchanges])
    if undone := [_words(deed) for deed in seen.deeds if deed.failure is not None]:
        return found.failed("the disturbance could not be made or undone", undone)
    return judged(found, evidence, seen)


def _words(deed: Deed) -> str:
    return f"{deed.action} {deed.cluster} {deed.pool}: {deed.failure}"


def _bad(evidence: Evidence, exchanges: Sequence[Exchange]) -> Iterator[str]:
    for one in exchanges:
        if found := _faults(evidence, one):
            yield f"{one.asked}: {'; '.join(found)}"


def _faults(evidence: Evidence, one: Exchange) -> tuple[str, ...]:
    return faults(one, stable(evidence.task, evidence.readings) or (), dict(evidence.task.marks))
