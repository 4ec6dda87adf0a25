"""Bodies of POST /pools, which of two registrations holds, and the join with slices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.directory.addresses import frontend_url, parse_network, service_url
from discovery.directory.registrations import (
    BadRegistration,
    Held,
    Registration,
    Superseded,
    after_writing,
    check_deletion,
    join,
    parse_registration,
)
from discovery.identity import PoolKey
from discovery.lease import Lease
from discovery.pool import Frontend, Pod, Pool, Relay

KEY = PoolKey("eu", "inference", "llama")
RELAY = Relay("ip:10.0.0.7", "http://10.0.0.7:5561")
NETS = (parse_network("10.0.0.0/8"), parse_network("fd00::/8"))


def body(**changes: Any) -> bytes:
    said: dict[str, Any] = {
        "cluster": "eu",
        "namespace": "inference",
        "name": "llama",
        "region": "eu-central",
        "relay": {"identity": "ip:10.0.0.7", "url": "http://10.0.0.7:5561"},
    }
    return json.dumps({key: value for key, value in (said | changes).items() if value is not ...}).encode()


def faults(data: bytes) -> dict[str, str]:
    with pytest.raises(BadRegistration) as caught:
        parse_registration(data, NETS)
    return {fault.path: fault.reason for fault in caught.value.faults}


def test_the_least_and_the_most() -> None:
    assert parse_registration(body(), ()) == Registration(KEY, "eu-central", RELAY)
    assert parse_registration(body(frontends=None), ()).frontends == ()
    full = {"url": "http://10.0.0.8:8000/", "also": ["http://[FD00::8]:8000"], "ready": False, "serving": True}
    full |= {"terminating": True, "pod": {"name": "p", "uid": "u"}, "zone": "a"}
    found = parse_registration(body(frontends=[full], incarnation=7), NETS)
    pod = Pod("p", "u")
    assert found.frontends == (
        Frontend("http://10.0.0.8:8000", ("http://[fd00::8]:8000",), False, True, True, pod, "a"),
    )
    assert found.incarnation == 7


def test_all_faults_at_once_with_their_paths() -> None:
    found = faults(
        body(
            cluster=" eu",
            namespace="a/b",
            name="",
            region=7,
            relay={"identity": "ip:10.0.0", "url": "http://h/path", "port": 1},
            frontends=[{"url": "http://11.0.0.1:1/"}, {"also": [], "url": "http://10.0.0.1:1", "reday": True}],
            incarnation=-1,
            extra=None,
        )
    )
    assert set(found) == {
        "cluster",
        "namespace",
        "name",
        "region",
        "relay.identity",
        "relay.url",
        "relay.port",
        "frontends[0].url",
        "frontends[1].reday",
        "incarnation",
        "extra",
    }
    assert found["extra"] == "is no field of a registration"
    assert "outside of --allow-cidr 10.0.0.0/8, fd00::/8" in found["frontends[0].url"]
    assert faults(body(relay=...))["relay"] == "is missing"
    assert "again" in faults(body(frontends=[{"url": "http://10.0.0.1:1"}, {"url": "http://10.0.0.1:1/"}]))["frontends"]


def test_many_faults_are_told_in_part_and_counted() -> None:
    with pytest.raises(BadRegistration) as caught:
        parse_registration(body(**{f"x{i}": 1 for i in range(50)}), NETS)
    assert len(caught.value.faults) == 50
    assert str(caught.value).endswith("; and 30 more")


def test_without_networks_no_frontend_may_be_named() -> None:
    with pytest.raises(BadRegistration, match="no --allow-cidr"):
        parse_registration(body(frontends=[{"url": "http://10.0.0.1:1"}]), ())


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8000/v1",
        "http://10.0.0.1",
        "http://10.0.0.1:0",
        "http://10.0.0.1:65536",
        "http://010.0.0.1:80",
        "http://10.1:80",
        "http://167772161:80",
        "http://u@10.0.0.1:80",
        "http://10.0.0.1:80@evil:80",
        "http://localhost:80",
        "http://10.0.0.1:80\n",
        "ftp://10.0.0.1:80",
        "HTTP://10.0.0.1:80",
        "http://[::ffff:10.0.0.1]:80",
        "http://[fe80::1%eth0]:80",
        "http://fd00::1:80",
        "http://10.0.0.1:٨٠",
        "",
    ],
)
def test_frontends_are_plain_addresses(url: str) -> None:
    with pytest.raises(ValueError):
        frontend_url(url, [parse_network("0.0.0.0/0"), parse_network("::/0")])


@given(st.ip_addresses(), st.integers(1, 65535), st.sampled_from(["http", "https"]))
def test_an_address_passes_exactly_inside(address: Any, port: int, scheme: str) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    inside = any(address in network for network in NETS)
    try:
        assert frontend_url(f"{scheme}://{host}:{port}/", NETS) == f"{scheme}://{host}:{port}"
        assert inside
    except ValueError:
        assert not inside or getattr(address, "ipv4_mapped", None) is not None


@pytest.mark.parametrize("url", ["http://relay.eu:5561", "https://[fd00::1]:1/", "http://r"])
def test_relays_and_routers_may_have_names(url: str) -> None:
    assert service_url(url) == url.rstrip("/")


@pytest.mark.parametrize("url", ["r:1", "http://", "http://a b", "http://r?x", "http://r/#", "http://-r", "http://[1]"])
def test_bad_service_urls(url: str) -> None:
    with pytest.raises(ValueError):
        service_url(url)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
FIELDS = ["cluster", "namespace", "name", "region", "relay", "frontends", "incarnation", "other"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_a_registration_or_has_faults(changes: dict[str, Any]) -> None:
    try:
        found = parse_registration(body(**changes), NETS)
    except BadRegistration as error:
        refusal = error
    else:
        assert found.key.cluster == changes.get("cluster", "eu")
        return
    assert refusal.faults
    assert str(refusal).isprintable()


@given(st.binary())
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(BadRegistration):
        parse_registration(data, NETS)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b'{"cluster":"\\ud800"}', b"null", b"[]"])
def test_absurd_bodies(data: bytes) -> None:
    assert faults(data)


# ---- which one holds

REGISTRATIONS = st.builds(Registration, st.just(KEY), st.sampled_from(["a", "b"]), st.just(RELAY), st.just(()),
                          st.integers(0, 3))  # fmt: skip
WRITES = st.lists(st.tuples(REGISTRATIONS, st.integers(-5_000, 20_000), st.integers(1, 30_000)), max_size=12)


@given(WRITES)
def test_of_live_ones_the_newest_incarnation_holds_and_no_lease_is_shortened(
    writes: list[tuple[Registration, int, int]],
) -> None:
    held: Held | None = None
    now = 10**9
    for new, step, duration in writes:
        now += step
        after: Held | None
        try:
            after = after_writing(held, new, now_ms=now, duration_ms=duration)
        except Superseded:
            after = None
        if after is None:
            assert held is not None
            assert held.lease.is_live(now)
            assert new.incarnation < held.registration.incarnation
            continue
        assert after.registration == new
        assert after.lease.is_live(now)
        if held is not None and held.lease.is_live(now):
            assert new.incarnation >= held.registration.incarnation
            if new.incarnation == held.registration.incarnation:
                assert after.lease.expires_ms >= held.lease.expires_ms
        held = after


def test_an_older_life_may_not_end_a_newer_one() -> None:
    held = Held(Registration(KEY, "eu", RELAY, incarnation=2), Lease(0, 100))
    with pytest.raises(Superseded):
        check_deletion(held, 1, 50)
    check_deletion(held, 2, 50)
    check_deletion(held, None, 50)
    check_deletion(held, 1, 100)


# ---- the join


def test_slices_say_where_and_a_registration_adds() -> None:
    pool = Pool(
        KEY,
        "region",
        (Frontend("http://10.0.0.1:1", ("http://[fd00::1]:1",)),),
        Relay("ip:10.9.9.9", "http://s"),
        ("mcs",),
    )
    said = (
        Frontend("http://[fd00::1]:1"),
        Frontend("http://10.0.0.2:1"),
        Frontend("http://10.0.0.3:1", ready=False),
        Frontend("http://10.0.0.4:1", ready=False, terminating=True),
    )
    (joined,) = join([pool], [Registration(KEY, "elsewhere", Relay("spiffe://x", "http://r"), said)])
    assert joined.region == "region"
    assert joined.relay == Relay("spiffe://x", "http://s")
    assert [one.url for one in joined.frontends] == ["http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.4:1"]
    assert joined.sources == ("mcs", "registration")


KEYS = st.builds(PoolKey, st.sampled_from("ab"), st.just("n"), st.sampled_from("xy"))
POOLS = st.lists(st.builds(Pool, KEYS, st.just("r")), unique_by=lambda pool: pool.key)
OTHERS = st.lists(st.builds(Registration, KEYS, st.just("r"), st.just(RELAY)), unique_by=lambda one: one.key)


@given(POOLS, OTHERS)
def test_either_alone_is_a_pool(pools: list[Pool], registrations: list[Registration]) -> None:
    joined = {pool.key: pool for pool in join(pools, registrations)}
    assert joined.keys() == {pool.key for pool in pools} | {one.key for one in registrations}
    for pool in pools:
        if pool.key not in {one.key for one in registrations}:
            assert joined[pool.key] is pool
    assert all(joined[one.key].relay == RELAY for one in registrations)
    assert {pool.key: pool for pool in join(reversed(pools), reversed(registrations))} == joined
