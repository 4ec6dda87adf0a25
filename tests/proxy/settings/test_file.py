"""The operator's file: what each key gives, all faults at once with their places, overrides, and writing back."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from ipaddress import ip_network
from typing import Any

import pytest

from global_ingress.proxy.settings.file import (
    Address,
    Settings,
    SettingsFault,
    as_written,
    decoded,
    load,
    with_overrides,
)
from global_ingress.proxy.settings.not_yet import NOT_YET
from global_ingress.proxy.settings.sections import Affinity, Auth, Cors, Hedge, Probe, Selector, Tls, UpstreamTls

URLS = "discovery: {urls: [http://d:1]}\n"


def loaded(text: str, not_yet: tuple[str, ...] = NOT_YET) -> Settings:
    return load(URLS + text, name="ingress.yaml", directory="/etc/ingress", not_yet=not_yet)


def faults(text: str, not_yet: tuple[str, ...] = NOT_YET) -> list[str]:
    with pytest.raises(SettingsFault) as caught:
        load(text, name="i.yaml", directory="/etc/ingress", not_yet=not_yet)
    return [str(fault) for fault in caught.value.faults]


def test_defaults() -> None:
    settings = loaded("")
    assert (settings.listen, settings.admin) == (Address("0.0.0.0", 8000), Address("127.0.0.1", 9090))
    assert (settings.workers, settings.region, settings.models, settings.trusted_proxies) == (1, None, None, ())
    d, t, x, r = settings.discovery, settings.timeouts, settings.limits, settings.retries
    assert (d.urls, d.pools, d.hold_last_good, d.hold_incomplete) == (("http://d:1",), None, 60.0, 600.0)
    assert (t.connect, t.first_byte, t.idle, t.total, t.client_header) == (5.0, 300.0, 120.0, None, 10.0)
    assert (t.client_body, t.client_write, t.keep_alive, t.upstream_keep_alive) == (30.0, 60.0, 75.0, 4.0)
    assert (x.body, x.header, x.connections) == (32 << 20, 32 << 10, 10_000)
    assert (x.buffered, x.in_flight_per_pool) == (512 << 20, None)
    assert (r.attempts, r.budget, r.statuses, r.first_event_gate) == (2, 0.2, (502, 503, 504, 529), True)
    e = settings.ejection
    assert (e.failures, e.base, e.max, e.max_share) == (5, 10.0, 300.0, 0.5)
    assert settings.probe == Probe(interval=5.0, timeout=2.0, headers={})
    assert (settings.drain.delay, settings.drain.timeout) == (5.0, 300.0)
    assert (settings.hedge, settings.slow_start, settings.sse.heartbeat, settings.cors) == (None, None, None, None)
    assert (settings.auth, settings.tls, settings.upstream.tls, settings.trace) == (None, None, None, False)
    assert settings.headers.expose_pool is True
    assert (settings.log.level, settings.log.format, settings.log.access) == ("info", "auto", "stdout")


def test_models() -> None:
    settings = loaded(
        "models: [{id: a/b, aliases: [x, y], policy: least_requests, weights: {r: 0, c: 1000}}, {id: z}]\n"
    )
    assert settings.models is not None
    first, second = settings.models
    assert (first.id, first.aliases, first.pools, first.policy) == ("a/b", ("x", "y"), None, "least_requests")
    assert (first.weights, first.affinity) == ({"r": 0, "c": 1000}, None)
    assert (second.aliases, second.policy, second.weights) == ((), "round_robin", {})
    (model,) = (
        loaded("models: [{id: a, pools: [{cluster: c}, {region: r}], affinity: {header: X-Session-Id}}]").models or ()
    )
    assert model.pools == (Selector(cluster="c"), Selector(region="r"))
    assert model.affinity == Affinity(header="x-session-id")


def test_static_pools() -> None:
    text = """
discovery:
  pools:
    - {cluster: ohio, namespace: dynamo, name: llama, region: us-east-2, frontends: ["http://10.0.0.1:8000/", "http://h"]}
    - {cluster: oregon, namespace: dynamo, name: llama, frontends: ["http://[::1]:1"]}
"""
    pools = load(text, name="x", directory="").discovery.pools
    assert pools is not None
    assert [(p.cluster, p.namespace, p.name, p.region) for p in pools] == [
        ("ohio", "dynamo", "llama", "us-east-2"),
        ("oregon", "dynamo", "llama", "oregon"),
    ]
    assert [p.frontends for p in pools] == [("http://10.0.0.1:8000", "http://h:80"), ("http://[::1]:1",)]


ON = """
hedge: {max_share: 1}
slow_start: 60s
sse: {heartbeat: 15s}
cors: {origins: ["*"]}
auth: {keys_file: keys.yaml}
tls: {certificate: a.crt, key: /k/a.key, client_ca: ca.crt}
upstream: {tls: {ca: ca.crt, server_name: x}}
trace: on
"""


def test_every_other_key() -> None:
    settings = loaded(ON, not_yet=())
    assert settings.hedge == Hedge(after="p95", max_share=1.0, max_body=64 << 10)
    assert (settings.slow_start, settings.sse.heartbeat, settings.trace) == (60.0, 15.0, True)
    assert settings.cors == Cors(origins=("*",), max_age=600.0)
    assert settings.auth == Auth(keys_file="/etc/ingress/keys.yaml")
    assert settings.tls == Tls(certificate="/etc/ingress/a.crt", key="/k/a.key", client_ca="/etc/ingress/ca.crt")
    assert settings.upstream.tls == UpstreamTls(ca="/etc/ingress/ca.crt", server_name="x")
    settings = loaded(
        "trusted_proxies: [10.0.0.0/8, '::1']\nregion: r1\nlog: {access: ./a.log, level: debug, format: json}\n"
    )
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1/128"))
    assert (settings.region, settings.log.access, settings.log.level) == ("r1", "/etc/ingress/./a.log", "debug")


def test_what_is_not_built_is_refused() -> None:
    assert NOT_YET == ()
    told = faults(URLS + ON, ("trace",))
    assert [line.split(": ")[1] for line in told] == ["trace"]
    assert all("is not available in this version" in line for line in told)


@pytest.mark.parametrize("word", ["off", "false"])
def test_off(word: str) -> None:
    text = f"""
admin: {word}
timeouts: {{total: {word}}}
limits: {{in_flight_per_pool: {word}}}
hedge: {word}
probe: {word}
slow_start: {word}
sse: {{heartbeat: {word}}}
cors: {word}
auth: {word}
tls: {word}
upstream: {{tls: {word}}}
log: {{access: {word}}}
trace: {word}
models: [{{id: a, affinity: {word}}}]
"""
    settings = loaded(text)
    assert (settings.admin, settings.timeouts.total, settings.limits.in_flight_per_pool) == (None, None, None)
    assert (settings.probe, settings.log.access, settings.trace) == (None, None, False)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("workers: 1", "workers: 0"),
        ("workers: 256", "workers: 257"),
        ("limits: {connections: 1}", "limits: {connections: 0}"),
        ("limits: {connections: 1000000}", "limits: {connections: 1000001}"),
        ("limits: {header: 1KiB}", "limits: {header: 1023}"),
        ("limits: {header: 1MiB}", "limits: {header: 1048577}"),
        ("limits: {in_flight_per_pool: 1}", "limits: {in_flight_per_pool: 0}"),
        ("limits: {body: 512MiB}", "limits: {body: 536870913}"),
        ("limits: {body: 1, buffered: 1}", "limits: {body: 2, buffered: 1}"),
        ("limits: {buffered: 32MiB}", "limits: {buffered: 33554431}"),
        ("limits: {body: 1024GiB, buffered: 1024GiB}", "limits: {buffered: 1025GiB}"),
        ("retries: {attempts: 1}", "retries: {attempts: 0}"),
        ("retries: {attempts: 20}", "retries: {attempts: 21}"),
        ("retries: {budget: 0}", "retries: {budget: -0.1}"),
        ("retries: {budget: 10}", "retries: {budget: 10.1}"),
        ("retries: {statuses: [400, 599]}", "retries: {statuses: [399]}"),
        ("retries: {statuses: []}", "retries: {statuses: [600]}"),
        ("ejection: {failures: 1}", "ejection: {failures: 0}"),
        ("ejection: {failures: 1000000}", "ejection: {failures: 1000001}"),
        ("ejection: {max_share: 0}", "ejection: {max_share: -0.01}"),
        ("ejection: {max_share: 1}", "ejection: {max_share: 1.01}"),
        ("ejection: {base: 300s}", "ejection: {base: 301s}"),
        ("ejection: {max: 10s}", "ejection: {max: 9s}"),
        ("models: [{id: a, weights: {r: 1000}}]", "models: [{id: a, weights: {r: 1001}}]"),
        ("models: [{id: a, weights: {r: 0}}]", "models: [{id: a, weights: {r: -1}}]"),
        ("timeouts: {connect: 1ms}", "timeouts: {connect: 0}"),
        ("timeouts: {total: 720h}", "timeouts: {total: 721h}"),
        ("drain: {delay: 0}", "drain: {timeout: 0}"),
        ("discovery: {urls: [http://d], hold_last_good: 0s}", "probe: {interval: 0s}"),
        ("hedge: {max_share: 1.0, after: p50}", "hedge: {max_share: 1.1}"),
    ],
)
def test_limits_at_their_edge(good: str, bad: str) -> None:
    if good.startswith("discovery"):
        load(good, name="x", directory="", not_yet=())
    else:
        loaded(good, not_yet=())
    assert len(faults(URLS + bad, not_yet=())) == 1


def test_decoded() -> None:
    assert decoded("\ufeffé: 1".encode(), name="x") == "é: 1"
    with pytest.raises(SettingsFault) as caught:
        decoded("a: 1\né: ".encode() + b"\xff", name="x")
    assert str(caught.value) == "x:2:4: is no UTF-8: byte 0xff"


def test_json_as_machines_write_it() -> None:
    text = json.dumps(
        {"discovery": {"urls": ["http://d:1"]}, "models": [{"id": "é/🎈", "aliases": ["a/b"]}], "probe": False}
    )
    settings = load(text.replace("/", "\\/"), name="x", directory="")
    assert settings.models is not None
    assert settings.models[0].id == "é/🎈"


@pytest.mark.parametrize(
    "text", ["", ON, "models: [{id: a, weights: {r: 2}, pools: [{cluster: c}]}]\nprobe: off\nadmin: off\nregion: x\n"]
)
def test_what_is_written_loads_to_the_same(text: str) -> None:
    settings = loaded(text, not_yet=())
    again = load(json.dumps(as_written(settings)), name="x", directory="/elsewhere", not_yet=())
    assert again == settings


def test_masked() -> None:
    settings = loaded("probe: {headers: {Authorization: Bearer secret}}")
    assert settings.probe is not None
    assert settings.probe.headers == {"authorization": "Bearer secret"}
    assert as_written(settings, masked=True)["probe"]["headers"] == {"authorization": "***"}
    assert as_written(settings)["probe"]["headers"] == {"authorization": "Bearer secret"}


def test_settings_are_frozen() -> None:
    settings = loaded("")
    for target, key in ((settings, "workers"), (settings.timeouts, "connect"), (settings.listen, "port")):
        with pytest.raises((ValueError, AttributeError)):
            setattr(target, key, 3)


def test_overrides() -> None:
    settings = loaded("")
    assert with_overrides(settings) == settings
    changed = with_overrides(settings, listen="[::1]:0", admin="off", workers="4")
    assert (changed.listen, changed.admin, changed.workers) == (Address("::1", 0), None, 4)
    assert changed.model_copy(update={"listen": settings.listen, "admin": settings.admin, "workers": 1}) == settings
    assert with_overrides(settings, workers=256).workers == 256


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"listen": "x"}, ["--listen: must be HOST:PORT such as 0.0.0.0:8000 or [::]:8000, got 'x'"]),
        (
            {"admin": "", "workers": "two"},
            [
                "--admin: must be HOST:PORT such as 0.0.0.0:8000 or [::]:8000, got ''",
                "GLOBAL_INGRESS_WORKERS: must be a whole number from 1 to 256, got 'two'",
            ],
        ),
        ({"workers": 0}, ["GLOBAL_INGRESS_WORKERS: must be a whole number from 1 to 256, got 0"]),
        ({"workers": "257"}, ["GLOBAL_INGRESS_WORKERS: must be a whole number from 1 to 256, got '257'"]),
        ({"workers": "²"}, ["GLOBAL_INGRESS_WORKERS: must be a whole number from 1 to 256, got '²'"]),
        ({"listen": "127.0.0.1:9090"}, ["--listen: listen and admin must be two ports, got 127.0.0.1:9090 for both"]),
        ({"admin": "[::1]:8000"}, ["--admin: listen and admin must be two ports, got [::1]:8000 for both"]),
    ],
)
def test_bad_overrides(given: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(SettingsFault) as caught:
        with_overrides(loaded(""), origins={"workers": "GLOBAL_INGRESS_WORKERS"}, **given)
    assert [str(fault) for fault in caught.value.faults] == told


def test_the_file_can_serve_one_port_on_two_addresses() -> None:
    settings = loaded("listen: 127.0.0.1:8000\nadmin: 127.0.0.2:8000\n")
    assert settings.admin == Address("127.0.0.2", 8000)
    assert loaded("listen: 0.0.0.0:0\nadmin: 127.0.0.1:0\n").listen.port == 0


def test_importing_settings_loads_no_event_loop_and_no_data_plane() -> None:
    code = (
        "import sys, global_ingress.proxy.settings.file\n"
        "print([m for m in ('asyncio', 'logging', 'ssl', 'httptools', 'uvloop', 'typer') if m in sys.modules])\n"
        "print(sorted(m for m in sys.modules if m.startswith(('global_ingress.', 'discovery'))))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    loop, ours = out.splitlines()
    assert loop == "[]"
    assert re.fullmatch(r"\['global_ingress\.proxy'(, 'global_ingress\.proxy\.settings(\.\w+)?')+\]", ours)
