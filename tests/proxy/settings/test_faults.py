"""What is wrong with a file: each fault in words, at its place, and all of them at once."""

from __future__ import annotations

import re

import pytest

from global_ingress.proxy.settings.file import SettingsFault, load
from global_ingress.proxy.settings.not_yet import NOT_YET

URLS = "discovery: {urls: [http://d:1]}\n"


def faults(text: str, not_yet: tuple[str, ...] = NOT_YET) -> list[str]:
    with pytest.raises(SettingsFault) as caught:
        load(text, name="i.yaml", directory="/etc/ingress", not_yet=not_yet)
    return [str(fault) for fault in caught.value.faults]


def fault(text: str, not_yet: tuple[str, ...] = ()) -> str:
    """The one fault of a file whose first line is good, without its file and line."""
    (only,) = faults(URLS + text, not_yet)
    return re.sub(r"^i\.yaml:\d+:\d+: ", "", only)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("timeouts: {connect: soon}", "timeouts.connect: must be a duration such as 500ms, 5s or 2m, got 'soon'"),
        ("timeouts: {total: soon}", "timeouts.total: must be a duration such as 500ms, 5s or 2m, or off, got 'soon'"),
        ("timeouts: {idle: off}", "timeouts.idle: must be a duration such as 500ms, 5s or 2m, got 'off'"),
        ("timeouts: {idle: -5}", "timeouts.idle: must be a duration from 1ms to 720h, got -5"),
        ("timeouts:\n", "timeouts: is empty; leave the key out for its default"),
        ("timeouts: {idle: }", "timeouts.idle: must be a duration such as 500ms, 5s or 2m"),
        ("probe:\n", "probe: is empty; leave the key out for its default, or write off"),
        ("probe: on", "probe: must be a mapping, or off, got 'on'"),
        ("workers: '2'", "workers: must be a whole number, got '2'"),
        ("workers: 2.0", "workers: must be a whole number, got 2.0"),
        ("workers: true", "workers: must be a whole number, got true"),
        ("workers: off", "workers: must be a whole number, got 'off'"),
        (f"workers: {'9' * 300}", "workers: must be at most 256, got a number of more than 30 digits"),
        (f"retries: {{budget: {'9' * 400}}}", "retries.budget: must be a number, got a number of more than 30 digits"),
        ("retries: {budget: .nan}", "retries.budget: must be a number, got nan"),
        ("retries: {budget: 20%}", "retries.budget: must be a number, got '20%'"),
        ("retries: {first_event_gate: yes}", "retries.first_event_gate: must be true or false, got 'yes'"),
        ("retries: {statuses: 502}", "retries.statuses: must be a list, got 502"),
        (
            "retries: {statuses: [502, 502]}",
            "retries.statuses[1]: the status 502 is given twice, first at retries.statuses[0]",
        ),
        ("headers: {expose_pool: 1}", "headers.expose_pool: must be true or false, got 1"),
        (
            "log: {level: wraning}",
            "log.level: must be one of debug, info, warning, error, got 'wraning'; did you mean warning?",
        ),
        ("log: {access: stderr}", "log.access: must be stdout or a path with a / in it, or off, got 'stderr'"),
        ("region: ''", "region: must be a text that is not empty, got ''"),
        ("listen: 8000", "listen: must be HOST:PORT such as 0.0.0.0:8000 or [::]:8000, got 8000"),
        ("listen: off", "listen: must be HOST:PORT such as 0.0.0.0:8000 or [::]:8000, got 'off'"),
        ("listen: 127.0.0.1:9090", "listen: must be another port than that of admin, got '127.0.0.1:9090'"),
        ("admin: '[::1]:8000'", "admin: must be another port than that of listen, got '[::1]:8000'"),
        ("models: []", "models: must hold at least one"),
        ("models:\n", "models: is empty; leave the key out instead"),
        ("models: {id: a}", "models: must be a list, got a mapping"),
        ("models: [a]", "models[0]: must be a mapping, got 'a'"),
        ("models: [{aliases: [b]}]", "models[0].id: is required"),
        ("models: [{id: a}, {id: a}]", "models[1].id: the model name a is given twice, first at models[0].id"),
        (
            "models: [{id: a, aliases: [a]}]",
            "models[0].aliases[0]: the model name a is given twice, first at models[0].id",
        ),
        (
            "models: [{id: a, aliases: [b]}, {id: b}]",
            "models[0].aliases[0]: the model name b is given twice, first at models[1].id",
        ),
        ("models: [{id: ''}]", "models[0].id: must be a text that is not empty, got ''"),
        ("models: [{id: 3}]", "models[0].id: must be a text, in quotes, got 3"),
        ("models: [{id: a, pools: []}]", "models[0].pools: must hold at least one"),
        (
            "models: [{id: a, pools: [{}]}]",
            "models[0].pools[0]: must name at least one of cluster, region, namespace and name",
        ),
        ("models: [{id: a, pools: ['']}]", "models[0].pools[0]: must be a mapping, got ''"),
        ("models: [{id: a, pools: [~]}]", "models[0].pools[0]: is empty"),
        ("models: [{id: a, weights: {r: 1.5}}]", "models[0].weights.r: must be a whole number, got 1.5"),
        ("models: [{id: a, weights: {r: true}}]", "models[0].weights.r: must be a whole number, got true"),
        ("models: [{id: a, weights: {'': 1}}]", "models[0].weights.'': as a key must be a text that is not empty"),
        ("models: [{id: a, weights: [1]}]", "models[0].weights: must be a mapping, got a list"),
        ("models: [{id: a, affinity: x-id}]", "models[0].affinity: must be a mapping, or off, got 'x-id'"),
        (
            "models: [{id: a, affinity: {header: 'a b'}}]",
            "models[0].affinity.header: must be the name of a header such as x-session-id, got 'a b'",
        ),
        (
            "models: [{id: a, policy: roundrobin}]",
            "models[0].policy: must be one of round_robin, least_requests, local_first, got 'roundrobin'; "
            "did you mean round_robin?",
        ),
        ("probe: {headers: {A: x, a: y}}", "probe.headers.a: the header a is given twice, first at probe.headers.A"),
        (
            "probe: {headers: {Content-Length: '3'}}",
            "probe.headers.Content-Length: as a key must not be content-length, which the connection decides",
        ),
        (
            "trusted_proxies: [10.1.0.0/8]",
            "trusted_proxies[0]: must be a CIDR without bits beyond its prefix, such as 10.0.0.0/8, got '10.1.0.0/8'",
        ),
        ("upstream: {tls: {key: k}}", "upstream.tls.key: needs certificate beside it"),
        ("auth: {}", "auth.keys_file: is required"),
        ("tls: {certificate: c, key: k, client_ca: }", "tls.client_ca: is empty; leave the key out instead"),
        ("cors: {origins: []}", "cors.origins: must hold at least one"),
        ("time_outs: {}", "time_outs: is no key of this file; did you mean timeouts?; allowed: "),
        (
            "retries: {atempts: 3}",
            "retries.atempts: is no key of retries; did you mean attempts?; "
            "allowed: attempts, budget, first_event_gate, statuses",
        ),
        (
            "models: [{id: a, zzz: 1}]",
            "models[0].zzz: is no key of models[0]; allowed: affinity, aliases, id, policy, pools, weights",
        ),
        ("probe: {path: /x}", "probe.path: is no key of probe; allowed: headers, interval, timeout"),
        ("'a\\n b': 1", "'a\\\\n b': is no key of this file; allowed: "),
    ],
)
def test_one_fault(text: str, told: str) -> None:
    found = fault(text)
    assert found == told or (told.endswith("allowed: ") and found.startswith(told))


POOL = "{cluster: c, namespace: n, name: p, frontends: [http://f:1]}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", ["i.yaml:1:1: discovery: is required"]),
        ("", ["i.yaml:1:1: is empty; at least discovery is needed"]),
        ("# only\n\n", ["i.yaml:1:1: is empty; at least discovery is needed"]),
        ("[1]", ["i.yaml:1:1: must be a mapping, got a list; at least discovery is needed"]),
        ("\nlisten", ["i.yaml:2:1: must be a mapping, got 'listen'; at least discovery is needed"]),
        ("discovery:\n  {}", ["i.yaml:2:3: discovery: needs urls or pools"]),
        ("discovery:", ["i.yaml:1:11: discovery: is empty"]),
        ("discovery: {pools: []}", ["i.yaml:1:20: discovery.pools: must hold at least one"]),
        (
            f"discovery: {{urls: [http://d], pools: [{POOL}]}}",
            ["i.yaml:1:31: discovery.pools: cannot stand beside discovery.urls; exactly one is allowed"],
        ),
        (
            "discovery: {urls: [http://d, 'http://D:80/']}",
            ["i.yaml:1:30: discovery.urls[1]: the URL http://d:80 is given twice, first at discovery.urls[0]"],
        ),
        (
            f"discovery:\n  pools:\n  - {POOL}\n  - {POOL}",
            [
                "i.yaml:4:5: discovery.pools[1]: the pool c/n/p is given twice, first at discovery.pools[0]",
                "i.yaml:4:53: discovery.pools[1].frontends[0]: the frontend http://f:1 is given twice, "
                "first at discovery.pools[0].frontends[0]",
            ],
        ),
        (
            "discovery: {pools: [{cluster: '', frontends: [], region: }]}",
            [
                "i.yaml:1:21: discovery.pools[0].name: is required",
                "i.yaml:1:21: discovery.pools[0].namespace: is required",
                "i.yaml:1:31: discovery.pools[0].cluster: must be a text that is not empty, got ''",
                "i.yaml:1:46: discovery.pools[0].frontends: must hold at least one",
                "i.yaml:1:57: discovery.pools[0].region: must be a text that is not empty",
            ],
        ),
        (
            "discovery: {pools: [{cluster: c, namespace: n, name: p, frontends: [https://f, http://u@f, http://f/x]}]}",
            [
                "i.yaml:1:80: discovery.pools[0].frontends[1]: must be a URL without credentials",
                "i.yaml:1:92: discovery.pools[0].frontends[2]: must be a URL without a path, got 'http://f/x'",
            ],
        ),
        (
            "discovery: {urls: [http://d]\n",
            ["i.yaml:2:1: is no YAML: while parsing a flow mapping expected ',' or '}', but got '<stream end>'"],
        ),
        (
            "discovery: &d {urls: [http://d]}\nlisten: *d\nworkers: !!int 3\n"
            "region: a\nregion: b\ntimeouts: {idle: 0}\n",
            [
                "i.yaml:1:12: discovery: the anchor &d is not allowed",
                "i.yaml:2:9: listen: the alias *d is not allowed; write the value out",
                "i.yaml:3:10: workers: the tag tag:yaml.org,2002:int is not allowed",
                "i.yaml:5:1: region: is given twice, first in line 4",
                "i.yaml:6:18: timeouts.idle: must be a duration from 1ms to 720h, got 0",
            ],
        ),
    ],
)
def test_faults_with_their_places(text: str, told: list[str]) -> None:
    assert faults(text) == told


def test_all_faults_of_a_file_in_order_of_place() -> None:
    text = (
        '{"discovery": {"pools": []},\n "modles": 3, "timeouts": {"connect": "soon"},\n'
        ' "admin": off, "log": {"level": 3}}'
    )
    told = faults(text)
    assert [line.split(": ")[0] for line in told] == ["i.yaml:1:25", "i.yaml:2:2", "i.yaml:2:39", "i.yaml:3:33"]
    assert "did you mean models?" in told[1]


def test_secrets_are_not_shown() -> None:
    told = fault('probe: {headers: {Authorization: "Bearer s3cret\\n"}}')
    assert told == "probe.headers.Authorization: must be a text on one line without white space around it"


def test_a_long_value_is_shortened_in_its_fault() -> None:
    assert len(fault(f"region: ' {'x' * 500}'")) < 250
