"""The report as JSON, with all the evidence behind the verdicts; and the schema of that. Pure.

The document is declared once, as types: the schema follows from them, and `read_report` refuses what is otherwise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import orjson

from global_ingress.validate.checks.verdicts import Check, Verdict
from global_ingress.validate.evidence import (
    Answered,
    Asked,
    Departure,
    Disturbance,
    Evidence,
    Exchange,
    Listing,
    Reading,
    RouterReading,
    Task,
    Unanswered,
    Unknown,
    Viewing,
)
from global_ingress.validate.inventory import latest
from global_ingress.validate.report.judged import Report, Row
from global_ingress.validate.report.text import moment

SCHEMA = "global-ingress/validate/1"


class BadReport(ValueError):
    """A file that is no report of this schema; the message says where and what."""


@dataclass(frozen=True, slots=True)
class Window:
    """When was looked, RFC 3339."""

    began: str
    ended: str


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: exactly one of `answered` and `unanswered` is there. Times are seconds, `at` is RFC 3339."""

    asked: Asked
    answered: Answered | None
    unanswered: Unanswered | None
    at: str
    first_byte_s: float | None
    total_s: float


@dataclass(frozen=True, slots=True)
class LastReading:
    """What a discovery said last before the traffic; neither `listing` nor `unknown`: it was never asked."""

    discovery: str
    at: str | None
    took_s: float | None
    listing: Listing | None
    unknown: Unknown | None


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A disturbance, and what was seen meanwhile."""

    kind: str
    pool: str
    deeds: tuple[dict[str, Any], ...]
    exchanges: tuple[Sent, ...]
    readings: tuple[LastReading, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """`report.json`."""

    schema: str
    verdict: Verdict
    counts: dict[str, int]
    task: Task
    window: Window
    checks: tuple[Check, ...]
    table: tuple[Row, ...]
    inventory: tuple[LastReading, ...]
    routers: tuple[dict[str, Any], ...]
    viewings: tuple[dict[str, Any], ...]
    exchanges: tuple[Sent, ...]
    departures: tuple[Departure, ...]
    disturbances: tuple[Disturbed, ...]
    clusters: tuple[dict[str, Any], ...] = ()
    """By what was read there; what is unknown is `{"reason": …}`."""
    signatures: tuple[dict[str, Any], ...] = ()


def document(report: Report) -> Document:
    evidence = report.evidence
    return Document(
        schema=SCHEMA,
        verdict=report.verdict,
        counts={verdict.value: report.count(verdict) for verdict in Verdict},
        task=evidence.task,
        window=Window(moment(evidence.began), moment(evidence.ended)),
        checks=report.checks,
        table=report.rows,
        inventory=tuple(_last(evidence, name) for name, _ in evidence.task.discoveries),
        routers=tuple(_seen(one) for one in evidence.routers),
        viewings=tuple(_seen(one) for one in evidence.viewings),
        exchanges=tuple(_sent(one) for one in evidence.exchanges),
        departures=evidence.departures,
        disturbances=tuple(_disturbed(one) for one in evidence.disturbances),
        clusters=tuple(asdict(one) for one in evidence.clusters),
        signatures=tuple({**asdict(one), "at": moment(one.at)} for one in evidence.signatures),
    )


def to_json(report: Report) -> bytes:
    """The whole report; keys sorted, one trailing newline."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document(report), option=options)


def report_schema() -> bytes:
    """The JSON Schema of `report.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Document)}
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def read_report(body: bytes) -> Document:
    """Raises BadReport."""
    try:
        found = msgspec.json.decode(body, type=Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadReport(str(error)) from error
    if found.schema != SCHEMA:
        raise BadReport(f"its schema is {found.schema!r}; {SCHEMA!r} can be read")
    return found


def _last(evidence: Evidence, name: str) -> LastReading:
    reading = latest(evidence.readings, name)
    return _reading(reading) if reading else LastReading(name, None, None, None, None)


def _reading(one: Reading) -> LastReading:
    listing = one.seen if isinstance(one.seen, Listing) else None
    unknown = one.seen if isinstance(one.seen, Unknown) else None
    return LastReading(one.discovery, moment(one.at), one.took_s, listing, unknown)


def _seen(one: RouterReading | Viewing) -> dict[str, Any]:
    kind = "unknown" if isinstance(one.seen, Unknown) else "seen"
    return {**asdict(one), "at": moment(one.at), "seen": {kind: asdict(one.seen)}}


def _sent(exchange: Exchange) -> Sent:
    answered = exchange.seen if isinstance(exchange.seen, Answered) else None
    unanswered = exchange.seen if isinstance(exchange.seen, Unanswered) else None
    at = moment(exchange.at)
    return Sent(exchange.asked, answered, unanswered, at, exchange.first_byte_s, exchange.total_s)


def _disturbed(one: Disturbance) -> Disturbed:
    return Disturbed(
        one.kind,
        one.before.key,
        tuple({**asdict(deed), "at": moment(deed.at)} for deed in one.deeds),
        tuple(_sent(exchange) for exchange in one.exchanges),
        tuple(_reading(reading) for reading in one.readings),
    )
