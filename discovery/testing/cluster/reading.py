"""Lists and what a read may ask for: versions, pages, tokens.

Owns the meaning of resourceVersion, resourceVersionMatch, limit and continue. It decides at one moment; waiting for a
version of the future is the caller's (`wait_for`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from discovery.testing.cluster.failures import (
    Cause,
    bad_request,
    expired_page,
    forbidden_field,
    invalid_options,
    too_old,
)
from discovery.testing.cluster.kinds import Kind, Object
from discovery.testing.cluster.selectors import Selector
from discovery.testing.cluster.store import Compacted, Store, Where

_TRUE = {"true": True, "1": True, "t": True, "T": True, "TRUE": True, "True": True}


def is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "") in _TRUE


def number(query: Mapping[str, str], name: str) -> int:
    """A number of a query, 0 if it is not there. Raises ApiFailure 400."""
    text = query.get(name, "") or "0"
    if not text.isascii() or not text.isdigit():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of a list or a watch that have to do with versions. `version` None: not given."""

    version: int | None
    match: str
    limit: int
    token: str
    watch: bool
    initial: bool
    bookmarks: bool
    timeout: int

    @property
    def wait_for(self) -> int:
        """The version that a list needs to see before it may answer."""
        return 0 if self.token else self.version or 0


def parse_options(query: Mapping[str, str], *, streaming_lists: bool) -> Options:
    """Raises ApiFailure 400 or 422. `streaming_lists` False: an older server, that knows no sendInitialEvents."""
    text = query.get("resourceVersion", "")
    options = Options(
        version=number(query, "resourceVersion") if text else None,
        match=query.get("resourceVersionMatch", ""),
        limit=number(query, "limit"),
        token=query.get("continue", ""),
        watch=is_true(query, "watch"),
        initial=is_true(query, "sendInitialEvents"),
        bookmarks=is_true(query, "allowWatchBookmarks"),
        timeout=number(query, "timeoutSeconds"),
    )
    causes = _watch_causes(options, "sendInitialEvents" in query, streaming_lists)
    if not options.watch:
        causes = _list_causes(options, "sendInitialEvents" in query)
    if causes:
        raise invalid_options(causes)
    if options.token and options.version is not None and not options.watch:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def _watch_causes(options: Options, initial_given: bool, streaming_lists: bool) -> list[Cause]:
    causes = []
    match = "resourceVersionMatch"
    if initial_given and not streaming_lists:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        causes.append(forbidden_field("sendInitialEvents", why))
    elif initial_given and options.match != "NotOlderThan":
        causes.append(forbidden_field(match, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    elif not initial_given and options.match:
        causes.append(forbidden_field(match, "resourceVersionMatch is forbidden for watch"))
    return causes


def _list_causes(options: Options, initial_given: bool) -> list[Cause]:
    causes = []
    match = "resourceVersionMatch"
    if initial_given:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not options.match:
        return causes
    if options.token:
        causes.append(forbidden_field(match, "resourceVersionMatch is forbidden when continue is provided"))
    if options.version is None:
        causes.append(forbidden_field(match, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if options.match not in {"Exact", "NotOlderThan"}:
        causes.append(Cause(match, "FieldValueNotSupported", f'Unsupported value: "{options.match}"'))
    if options.match == "Exact" and options.version == 0:
        causes.append(forbidden_field(match, 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'))
    return causes


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a piece of one: `token` is "" when it is the last. `remaining` None: not told."""

    revision: int
    items: Sequence[Object]
    token: str
    remaining: int | None


def order(where: Where) -> str:
    """How objects are ordered: by their key in etcd."""
    return f"{where[0]}/{where[1]}"


def read_page(store: Store, selector: Selector, options: Options, cached: int | None = None) -> Page:
    """Raises ApiFailure 400 for a bad token, 410 for a version that is no longer known.

    `cached` is the revision of a cache that lags: what resourceVersion=0 sees.
    """
    if options.token:
        revision, start = _read_token(options.token)
        revision = store.revision if revision < 0 else revision
    else:
        revision, start = store.revision, ""
        if options.match == "Exact":
            revision = options.version or 0
        elif options.version == 0 and cached is not None:
            revision = cached
    things = _things_at(store, selector.kind, revision, options, start)
    wheres = sorted((where for where in things if order(where) >= start), key=order)
    # A list from the cache is whole, whatever limit says.
    limit = options.limit if options.version != 0 else 0
    matching = (where for where in wheres if selector.admits(things[where]))
    chosen = _take(matching, limit)
    more = bool(limit) and len(chosen) > limit
    chosen = chosen[:limit] if more else chosen
    if not more:
        return Page(revision, [things[where] for where in chosen], "", None)
    token = _write_token(revision, order(chosen[-1]) + "\0")
    remaining = None
    if not selector.selective:
        remaining = sum(selector.admits(things[where]) for where in wheres) - limit
    return Page(revision, [things[where] for where in chosen], token, remaining)


def _take(wheres: Iterable[Where], limit: int) -> list[Where]:
    """One more than the limit, to see whether there is more."""
    found: list[Where] = []
    for where in wheres:
        found.append(where)
        if limit and len(found) > limit:
            break
    return found


def _things_at(store: Store, kind: Kind, revision: int, options: Options, start: str) -> Mapping[Where, Object]:
    try:
        return store.at(kind.resource, revision)
    except Compacted as gone:
        if options.token:
            # The token in this answer goes on with whatever is there then: not one moment's list any more.
            raise expired_page(_write_token(-1, start)) from gone
        raise too_old(gone.asked, gone.oldest) from gone


def _write_token(revision: int, start: str) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = found["rv"], found["start"]
    except (binascii.Error, ValueError, TypeError, KeyError) as error:
        raise bad_request("continue key is not valid: illegal base64 or JSON") from error
    if found.get("v") != "meta.k8s.io/v1" or not isinstance(revision, int) or not isinstance(start, str):
        raise bad_request("continue key is not valid: server does not recognize this encoded version")
    return revision, start
