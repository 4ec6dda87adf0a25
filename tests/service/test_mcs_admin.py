"""`mcs-admin` as it is run, without a terminal, on a table on loopback: every command and every exit code."""

from __future__ import annotations

import itertools
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

aiobotocore = pytest.importorskip("aiobotocore", reason="the extra `dynamodb` is not installed")

from discovery.dynamodb import Table, client_of, ensure_table  # noqa: E402
from discovery.kit.clock import SYSTEM_CLOCK  # noqa: E402
from discovery.mcs.digest import digest  # noqa: E402
from discovery.mcs.model import EndpointSet, Export, Sync  # noqa: E402
from discovery.mcs.store_dynamodb import DynamoStore  # noqa: E402
from discovery.mcs.store_items import record_key  # noqa: E402
from tests.discovery.mcs.keeping import endpoints, export, item, record  # noqa: E402
from tests.service.dynamodb import ENVIRONMENT, MINISTACK, ministack  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not MINISTACK.exists(), reason="ministack is not installed: no DynamoDB on loopback"),
    pytest.mark.slow,
]
ADMIN = str(Path(sys.executable).with_name("mcs-admin"))
_names = (f"admin-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack")) as url:
        yield url


class Admin:
    """The command with the registry's variables for one table."""

    def __init__(self, endpoint: str, table: str) -> None:
        self.table = Table(table, "eu-central-1", endpoint)
        self.environment = (
            os.environ
            | ENVIRONMENT
            | {
                "AWS_SECRET_ACCESS_KEY": "very-secret",
                "MCS_DYNAMODB_TABLE": table,
                "MCS_DYNAMODB_REGION": "eu-central-1",
                "MCS_DYNAMODB_ENDPOINT": endpoint,
                "MCS_CLUSTERSET": "set",
            }
        )

    def __call__(self, *given: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        told = subprocess.run(
            [ADMIN, *given],
            env=self.environment | variables,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "very-secret" not in told.stdout + told.stderr
        assert "Traceback" not in told.stderr
        return told

    def json(self, *given: str) -> Any:
        told = self(*given, "-o", "json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)


@pytest.fixture
async def admin(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Admin:
    """A table with a silent cluster c1, a live one c2 whose port differs, and nothing wrong."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Admin(endpoint, next(_names))
    now = int(SYSTEM_CLOCK.now().timestamp() * 1000)
    async with client_of(made.table) as client:
        await ensure_table(client, made.table.name)
        store = DynamoStore(client, made.table.name, "set", SYSTEM_CLOCK)
        for cluster, renewed, number in (("c1", now - 600_000, 80), ("c2", now + 600_000, 81)):
            values: tuple[Export | EndpointSet, ...] = (export(cluster, number=number), endpoints(cluster, count=3))
            for seq, told in enumerate(values, 1):
                await store.write(item(told, seq))
            kept = record(cluster, renewed_ms=renewed, digest=digest(values), rev=1, sync=Sync.COMPLETE)
            await store.save(kept, 0)
    return made


def test_a_table_is_made_once(endpoint: str) -> None:
    admin = Admin(endpoint, next(_names))
    assert admin("describe").returncode == 3
    first = admin("create-table", "--point-in-time-recovery")
    assert (first.returncode, first.stdout) == (0, f"table {admin.table.name} was made\n"), first.stderr
    again = admin("create-table")
    assert (again.returncode, again.stdout) == (0, f"table {admin.table.name} is there already, as it must be\n")
    assert admin("create-table", "--consistency", "strong").returncode == 2


async def test_a_table_with_other_keys_is_left_alone(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    admin = Admin(endpoint, next(_names))
    async with client_of(admin.table) as client:
        await client.create_table(
            TableName=admin.table.name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    refused = admin("create-table")
    assert (refused.returncode, "its keys are not" in refused.stderr) == (2, True)


def test_what_is_described(admin: Admin) -> None:
    told = admin.json("describe")
    assert told["table"]["status"] == "ACTIVE"
    silent, live = told["clusters"]
    assert (silent["cluster"], silent["state"], silent["digest_ok"]) == ("c1", "silent", True)
    assert (live["cluster"], live["state"], live["exports"], live["endpoints"]) == ("c2", "live", 1, 3)
    as_yaml = admin("describe", "-o", "yaml")
    assert [one["cluster"] for one in yaml.safe_load(as_yaml.stdout)["clusters"]] == ["c1", "c2"]
    assert "CLUSTER" in admin("describe").stdout
    assert [one["state"] for one in admin.json("list-clusters")] == ["silent", "live"]


def test_imports_and_why_they_are_so(admin: Admin) -> None:
    (value,) = admin.json("list-imports")
    assert (value["clusters"], value["conflicts"]) == (["c2"], ["PortConflict"])
    why = admin.json("explain", "inference/llama-pool-relay")
    assert [one["cluster"] for one in why["order"]] == ["c1", "c2"]
    (port,) = why["ports"]
    assert (port["from"], port["served_by"]) == ("c1", ["c1"])
    assert admin("explain", "inference/nobody").returncode == 3
    assert admin("explain", "inference").returncode == 2


async def test_verify_finds_what_is_wrong(admin: Admin) -> None:
    assert admin.json("verify") == []
    async with client_of(admin.table) as client:
        store = DynamoStore(client, admin.table.name, "set", SYSTEM_CLOCK)
        await store.write(item(endpoints("c1", "orphan", service=export().service._replace(name="x")), 9))
        broken = record_key("set", "c3") | {"record": {"S": "?"}}
        await client.put_item(TableName=admin.table.name, Item=broken)
    told = admin("verify", "-o", "json")
    assert told.returncode == 1
    faults = " ".join(one["fault"] for one in json.loads(told.stdout))
    for expected in ("cannot be read", "add up to", "without its export"):
        assert expected in faults
    described = admin.json("describe")["clusters"]
    assert [(one["cluster"], one["state"]) for one in described][-1] == ("c3", "unreadable")
    assert admin("dump").returncode == 1


def test_a_live_cluster_is_deleted_only_by_force(admin: Admin) -> None:
    refused = admin("delete-cluster", "c2", "--yes")
    assert (refused.returncode, "is live" in refused.stderr) == (2, True)
    assert admin("delete-cluster", "c2", "--dry-run").returncode == 0
    assert len(admin.json("list-imports")[0]["clusters"]) == 1
    assert admin("delete-cluster", "c2", "--force", "--yes").returncode == 0
    assert [one["state"] for one in admin.json("list-clusters")] == ["silent", "deleted"]


def test_a_deletion_asks_and_can_be_done_again(admin: Admin) -> None:
    nobody = admin("delete-cluster", "c1")
    assert (nobody.returncode, "--yes" in nobody.stderr) == (2, True)
    assert [one["state"] for one in admin.json("list-clusters")] == ["silent", "live"]
    done = admin("delete-cluster", "c1", "--yes")
    assert (done.returncode, "cluster c1 was deleted" in done.stdout) == (0, True)
    for cluster in ("c1", "never"):
        again = admin("delete-cluster", cluster, "--yes")
        assert (again.returncode, "nothing to do" in again.stdout) == (0, True)


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 2), (b"y\n", 0)])
def test_on_a_terminal_it_asks(admin: Admin, answer: bytes, code: int) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        told = subprocess.run(
            [ADMIN, "delete-cluster", "c1"],
            env=admin.environment,
            stdin=theirs,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (told.returncode, b"Delete cluster c1 of set" in told.stderr) == (code, True)
    finally:
        os.close(ours)
        os.close(theirs)


class Stranger(BaseHTTPRequestHandler):
    """Answers everything, and is no DynamoDB."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize("command", ["list-clusters", "describe", "list-imports", "verify", "dump"])
def test_what_is_no_dynamodb_is_told(command: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        told = Admin(f"http://127.0.0.1:{server.server_port}", "table")(command)
    finally:
        server.shutdown()
        server.server_close()
    assert told.returncode == 4, told.stderr
    assert "what answers is no DynamoDB" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_dump_is_restored(admin: Admin, tmp_path: Path) -> None:
    dumped = admin("dump")
    assert (dumped.returncode, len(dumped.stdout.splitlines())) == (0, 6)
    file = tmp_path / "dump.jsonl"
    file.write_text(dumped.stdout)
    assert admin("restore", str(file), "--dry-run", "--clusterset", "other").stdout.startswith("would come: 2")
    assert admin("list-clusters", "--clusterset", "other", "-o", "json").stdout == "[]\n"
    for _ in range(2):
        restored = admin("restore", str(file), "--clusterset", "other")
        assert restored.returncode == 0, restored.stderr
    assert admin("dump", "--clusterset", "other").stdout == dumped.stdout
    admin("delete-cluster", "c1", "--yes")
    assert admin("restore", str(file)).returncode == 2
    assert admin("restore", "-", stdin="{}\n").returncode == 2
    deep = admin("restore", "-", stdin='{"a":' * 200_000)
    assert (deep.returncode, deep.stderr) == (2, "mcs-admin: -: line 1: it is nested too deeply\n")
    assert admin("restore", "-", stdin=dumped.stdout.splitlines()[0]).returncode == 2


def test_a_watch_tells_what_is_there_and_ends_in_time(admin: Admin) -> None:
    told = admin("watch", "--timeout", "3")
    assert told.returncode == 0, told.stderr
    assert "ImportChanged" in told.stdout
    assert "ClusterChanged" in told.stdout


@pytest.mark.parametrize(
    "command",
    [
        *(["describe"], ["list-clusters"], ["list-imports"], ["explain", "a/b"], ["verify"], ["dump"]),
        *(["create-table"], ["watch"], ["delete-cluster", "c1", "--yes"]),
    ],
    ids=lambda command: str(command[0]),
)
def test_a_store_that_is_away(admin: Admin, command: list[str]) -> None:
    told = admin(*command, MCS_DYNAMODB_ENDPOINT="http://127.0.0.1:9")
    assert told.returncode == 4, told.stderr
    assert told.stderr.startswith("mcs-admin: ") or '"level"' in told.stderr


def test_what_is_missing_is_said(admin: Admin) -> None:
    assert admin("describe", MCS_DYNAMODB_TABLE="").returncode == 2
    assert admin("describe", MCS_CLUSTERSET="").returncode == 2
    assert admin("describe", "-o", "xml").returncode == 2
    assert admin("nothing").returncode == 2
    assert admin("describe", "--timeout", "0").returncode == 2
    flag = admin("describe", "--clusterset", "empty", "-o", "json")
    assert json.loads(flag.stdout)["clusters"] == []
