"""The names, labels and numbers of /metrics (I71)."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from global_ingress.proxy.admin.metrics import Loop, Snapshot, exposition
from global_ingress.proxy.shared import sums
from global_ingress.proxy.shared.counts import STREAM_ENDS, Series
from global_ingress.proxy.supervising.labels import Labels, PoolLabel

Sample = tuple[str, tuple[tuple[str, str], ...]]


def shown(snapshot: Snapshot) -> dict[Sample, float]:
    labels = Labels()
    labels.learn({"p1": PoolLabel("c1/n/a", "r1")}, ["m"])
    text = exposition(snapshot, labels).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples["global_ingress_" + name, tuple(sorted(labels.items()))]


def series(model: str, pool: str, **requests: int) -> Series:
    one = sums.empty_series(model, pool)
    one.requests = {(int(code[1:]), "ok", True): count for code, count in requests.items()}
    one.duration.buckets[:3] = [1, 0, 2]
    one.duration.total = 0.5
    return one


def test_requests_and_histograms() -> None:
    totals = sums.nothing()
    totals.series = [series("m", "p1", c200=4, c529=1)]
    found = shown(Snapshot(totals, "1.2.3"))
    where = {"model": "m", "region": "r1", "pool": "c1/n/a"}
    assert value(found, "requests_total", **where, code="529", outcome="ok", stream="true") == 1
    bounds = ("0.005", "0.01", "0.025", "300.0", "+Inf")
    buckets = [value(found, "request_duration_seconds_bucket", **where, le=le) for le in bounds]
    assert buckets == [1, 1, 3, 3, 3]
    assert value(found, "request_duration_seconds_sum", **where) == 0.5
    assert value(found, "time_to_first_byte_seconds_count", **where) == 0
    assert value(found, "inter_chunk_seconds_count", **where) == 0


def test_unknown_names_and_words_are_other_and_nothing_is_lost() -> None:
    totals = sums.nothing()
    totals.series = [series(f"typo-{n}", f"pool-{n}", c200=1) for n in range(50)]
    totals.series[0].requests = {(999, "weird", False): 2}
    totals.stream_ends = {"done": 3, "new word": 1}
    found = shown(Snapshot(totals, "1"))
    requests = {sample: n for sample, n in found.items() if sample[0] == "global_ingress_requests_total"}
    assert (len(requests), sum(requests.values())) == (2, 51)
    where = {"model": "other", "region": "other", "pool": "other"}
    assert value(found, "requests_total", **where, code="other", outcome="other", stream="false") == 2
    assert value(found, "request_duration_seconds_count", **where) == 150
    ends = {dict(labels)["reason"]: n for (name, labels), n in found.items() if name.endswith("_stream_end_total")}
    assert ends == dict.fromkeys(STREAM_ENDS, 0) | {"done": 3, "other": 1}


def test_everything_else() -> None:
    totals = sums.nothing()
    totals.attempts, totals.ejections = {"first": 2, "status": 1}, {"http://a": 1, "http://b": 2}
    totals.client_disconnects, totals.upstream_connections = 7, {"idle": 3}
    found = shown(
        Snapshot(
            totals,
            "1.2.3",
            loops=[Loop("supervisor", 0.25, 1000.5), Loop("worker-0", 0.5, 1001)],
            in_flight={"c1/n/a": 4},
            routable={"c1/n/a": True, "c2/n/a": False},
            reloads={"ok": 2},
            discovery_age=1.5,
        )
    )
    expected = [
        (2, "attempts_total", {"reason": "first"}),
        (3, "ejections_total", {}),
        (7, "client_disconnects_total", {}),
        (3, "upstream_connections", {"state": "idle"}),
        (4, "in_flight_requests", {"pool": "c1/n/a"}),
        (1, "pool_routable", {"pool": "c1/n/a"}),
        (0, "pool_routable", {"pool": "c2/n/a"}),
        (2, "config_reloads_total", {"result": "ok"}),
        (0, "config_reloads_total", {"result": "refused"}),
        (1.5, "discovery_age_seconds", {}),
        (0.25, "loop_lag_seconds", {"loop": "supervisor"}),
        (1001, "loop_last_tick_timestamp_seconds", {"loop": "worker-0"}),
        (1, "build_info", {"version": "1.2.3", "build": "pure"}),
    ]
    assert [value(found, name, **labels) for _, name, labels in expected] == [number for number, _, _ in expected]


def test_no_table_has_no_age() -> None:
    assert not [sample for sample in shown(Snapshot(sums.nothing(), "1")) if "discovery_age" in sample[0]]
