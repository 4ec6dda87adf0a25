"""The queries of lists and watches. Pure."""

from __future__ import annotations

from collections.abc import Callable

from discovery.kube.events import Policy, Query


def streaming_list(selector: str, at_least: str, seconds: int) -> Query:
    """A watch that begins with everything. Without a version it is as new as the server's store."""
    version = (("resourceVersion", at_least),) if at_least else ()
    return (
        *_selected(selector),
        ("watch", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        *version,
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(seconds)),
    )


def page(selector: str, at_least: str, token: str, size: int) -> Query:
    """A page of a list. A token already says of which version, and the server refuses to be told another."""
    query = (*_selected(selector), ("limit", str(size)))
    if token:
        return (*query, ("continue", token))
    if at_least:
        return (*query, ("resourceVersion", at_least), ("resourceVersionMatch", "NotOlderThan"))
    return query


def watch(selector: str, version: str, seconds: int) -> Query:
    assert version, "a watch without a version begins anywhere"
    return (
        *_selected(selector),
        ("watch", "true"),
        ("resourceVersion", version),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(seconds)),
    )


def watch_seconds(policy: Policy, chance: Callable[[], float], left: float) -> int:
    """How long a watch is to last, `left` seconds before the next safety list: watches of many do not end together."""
    wanted = policy.shortest_watch + (policy.longest_watch - policy.shortest_watch) * chance()
    return max(1, int(min(wanted, left)))


def _selected(selector: str) -> Query:
    return (("labelSelector", selector),) if selector else ()
