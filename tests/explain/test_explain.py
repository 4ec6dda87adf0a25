"""`global-ingress explain`: each edge case that a dump can hold gets its line; the models get theirs.

Rows 9 to 11 and 25 to 28 are events of a watch, which no dump holds: tests/discovery/test_edge_cases.py has them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discovery.directory.naming import NamingRules
from global_ingress.explain.explained import explain, lines
from tests.discovery.making import KARMADA, LOCAL, Json, endpoint, port, slice_json
from tests.proxy.making import settings

SUBMARINER = "lighthouse.submariner.io/sourceNamespace"
SERVICE = {"kind": "Service", "name": "llama", "uid": "same"}
ONE = [endpoint()]


def one(**said: Any) -> Json:
    return slice_json(**({"endpoints": ONE, "ports": [port()]} | said))


def only(**said: Any) -> list[Json]:
    return [one(endpoints=[endpoint(**said)])]


def karmada(**said: Any) -> Json:
    return one(
        service=None,
        cluster=None,
        name="imported-member1-llama-frontend-x7k2p",
        managed_by=KARMADA,
        labels={LOCAL: "derived-llama-frontend"},
        annotations={"work.karmada.io/namespace": "karmada-es-member2"},
        **said,
    )


# row: (slices, verdicts with reasons, pools as "key: frontends, ready")
OHIO = "ohio/dynamo/llama"
ROWS: dict[int, tuple[list[Json], list[str], list[str]]] = {
    1: ([one(endpoints=None, ports=None)], ["ignored no endpoints"], []),
    2: (only(conditions={}), ["used"], [f"{OHIO}: 1, 1"]),
    3: (only(conditions={"ready": None, "serving": False}), ["used"], [f"{OHIO}: 1, 1"]),
    4: (only(ready=False, serving=True, terminating=True), ["used"], [f"{OHIO}: 1, 0"]),
    5: (only(ready=True, serving=False, terminating=True), ["used"], [f"{OHIO}: 1, 1"]),
    6: (
        [
            one(name="a", endpoints=[endpoint("10.0.0.1", uid="u1")], ports=[port(8001)]),
            one(name="b", endpoints=[endpoint("10.0.0.2", uid="u2")], ports=[port(8002)]),
        ],
        ["used", "used"],
        [f"{OHIO}: 2, 2"],
    ),
    7: (
        [
            one(name="four", endpoints=[endpoint("10.0.0.1", uid="u0")]),
            one(name="six", endpoints=[endpoint("fd00::1", uid="u0")], address_type="IPv6"),
        ],
        ["used", "used"],
        [f"{OHIO}: 1, 1"],
    ),
    8: (
        [
            one(name="a", endpoints=[endpoint(uid="u0", ready=False)]),
            one(name="b", endpoints=[endpoint(uid="u0", ready=True)]),
        ],
        ["used", "used"],
        [f"{OHIO}: 1, 1"],
    ),
    12: ([one(cluster="evil", managed_by="endpointslice-controller.k8s.io")], ["invalid kubernetes managed"], []),
    13: ([one(namespace="broker", labels={SUBMARINER: "dynamo"})], ["ignored other namespace"], []),
    14: (
        [one(endpoints=[endpoint("10.0.0.1", targetRef=SERVICE), endpoint("10.0.0.2", targetRef=SERVICE)])],
        ["used"],
        [f"{OHIO}: 2, 2"],
    ),
    15: ([karmada()], ["used"], ["member1/dynamo/llama: 1, 1"]),
    16: (
        [one(name=f"n{n}", service=name) for n, name in enumerate(("relay-", "relayx", "frontend"))],
        ["ignored not a pool"] * 3,
        [],
    ),
    17: (
        [one(name="a"), one(name="b", cluster="oregon"), one(name="c", namespace="other")],
        ["used"] * 3,
        [f"{OHIO}: 1, 1", "ohio/other/llama: 1, 1", "oregon/dynamo/llama: 1, 1"],
    ),
    18: (
        [
            one(cluster="member1", endpoints=[endpoint("10.0.0.1"), endpoint("10.0.0.2")]),
            karmada(endpoints=[endpoint("10.0.0.2"), endpoint("10.0.0.3")]),
        ],
        ["used", "used"],
        ["member1/dynamo/llama: 3, 3"],
    ),
    19: ([one(ports=[port(None, "any")])], ["invalid no port"], []),
    20: (
        [
            one(name="a", ports=[port(8000), port(9000, "admin")]),
            one(name="b", endpoints=[endpoint("10.0.0.2")], ports=[port(1, "x"), port(2, "y")]),
        ],
        ["used", "invalid port not found"],
        [f"{OHIO}: 1, 1"],
    ),
    21: ([one(ports=[port(protocol="UDP")])], ["invalid no port"], []),
    22: ([one(address_type="FQDN", endpoints=[endpoint("a.example")])], ["invalid address type"], []),
    23: (
        [one(name=f"s{n}", endpoints=[endpoint(f"10.0.{n}.{i}") for i in range(1, 101)]) for n in range(3)],
        ["used"] * 3,
        [f"{OHIO}: 300, 300"],
    ),
    24: ([one(endpoints=[{"addresses": ["10.0.0.1", "10.0.0.2"]}])], ["used"], [f"{OHIO}: 1, 1"]),
    29: ([one(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])], ["ignored deleting"], []),
    30: (
        [one(name="a", region="r1"), one(name="b", region="r2", endpoints=[endpoint("10.0.0.2")])],
        ["used", "used"],
        [f"{OHIO}: 2, 2"],
    ),
    31: ([one(cluster="c1.reg1")], ["used"], ["c1.reg1/dynamo/llama: 1, 1"]),
    32: ([one(name="a", cluster="a"), one(name="b", cluster="b")], ["used", "used"], []),
}


def dump(slices: list[Json]) -> bytes:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": slices}).encode()


@pytest.mark.parametrize("row", ROWS)
def test_each_slice_has_a_line_with_verdict_and_reason(row: int) -> None:
    slices, verdicts, pools = ROWS[row]
    found = explain(dump(slices), NamingRules(), settings(), is_json=True)
    assert sorted(f"{line.verdict} {line.reason}".strip() for line in found.slices) == sorted(verdicts)
    shown = [f"{pool.key}: {len(pool.frontends)}, {sum(f.ready for f in pool.frontends)}" for pool in found.pools]
    assert shown == (pools if row != 32 else ["a/dynamo/llama: 1, 1", "b/dynamo/llama: 1, 1"])
    told = list(lines(found))
    assert sum(line.startswith(("  used", "  ignored", "  invalid")) for line in told) == len(slices)


def test_what_is_used_but_not_right_is_warned_of() -> None:
    told = "\n".join(lines(explain(dump(ROWS[30][0]), NamingRules(), settings(), is_json=True)))
    assert "warning ohio/dynamo/llama: region conflict" in told


def test_a_slice_that_is_none_is_named() -> None:
    found = explain(dump([one() | {"addressType": 3}, one(name="good")]), NamingRules(), settings(), is_json=True)
    assert [line.verdict for line in found.slices] == ["used", "invalid"]


MODELS = [{"id": "m", "aliases": ["alias"], "pools": [{"cluster": "ohio"}]}, {"id": "n", "weights": {"ohio": 0}}]


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "dump.json").write_bytes(dump([one(), one(name="b", cluster="oregon")]))
    (folder / "i.yaml").write_text(json.dumps({"discovery": {"urls": ["http://d"]}, "models": MODELS}))
    command = [sys.executable, "-m", "global_ingress", "explain", "--slices", "dump.json", "--config", "i.yaml", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)


def test_the_models_get_their_pools_with_reasons(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "model m: 1 of 2 pools\n  ohio/dynamo/llama: gets requests\n" in done.stdout
    assert "  oregon/dynamo/llama: not selected by the model's `pools`\n" in done.stdout
    assert "  ohio/dynamo/llama: drained by weight 0\n" in done.stdout


def test_one_model_by_its_alias_and_an_unknown_one(tmp_path: Path) -> None:
    done = run(tmp_path, "--model", "alias")
    assert "model m:" in done.stdout
    assert "model n:" not in done.stdout
    unknown = run(tmp_path, "--model", "nope")
    assert unknown.returncode == 2
    assert "'nope' is no model" in unknown.stderr


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert run(tmp_path, "--slices", "gone").returncode == 1
    (tmp_path / "bad.yaml").write_text("a: [")
    assert run(tmp_path, "--slices", "bad.yaml").returncode == 2
    assert run(tmp_path, "--config", "bad.yaml").returncode == 2
    for text in ("hello", "metadata: 5\nkind: EndpointSlice\n"):
        (tmp_path / "none.yaml").write_text(text)
        done = run(tmp_path, "--slices", "none.yaml")
        assert (done.returncode, done.stderr) == (2, "none.yaml: holds nothing that is an EndpointSlice\n")
        assert "invalid" in done.stdout, "with the reason"
    (tmp_path / "none.yaml").write_text("kind: List\nitems: []\n")
    assert run(tmp_path, "--slices", "none.yaml").returncode == 0, "a cluster without slices is one"
