"""`discovery directory`: how it starts, refuses to, and ends."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.service.running import directory, finished, running, slice_object, write

pytestmark = pytest.mark.outside

EXAMPLES = Path(__file__).parents[2] / "examples" / "endpointslices"


async def test_the_examples_are_four_regions() -> None:
    async with directory(EXAMPLES, "--cluster-region", "aps1=ap-south") as (url, command):
        async with httpx.AsyncClient(base_url=url) as client:
            pools = (await client.get("/pools")).json()["pools"]
            status = (await client.get("/status.json")).json()
            page = await client.get("/status")
        assert [one["region"] for one in pools] == ["ap-south", "eu-central", "us-east", "us-west"]
        assert status["verdicts"] == {"used": 6, "no_endpoints": 1}
        assert status["warnings"] == []
        assert "mixtral-frontend-aps1" in page.text
        command.process.send_signal(signal.SIGTERM)
        assert await command.process.wait() == 0


async def test_flags_may_be_variables(tmp_path: Path) -> None:
    write(tmp_path / "a.json", slice_object("c1", "10.0.0.1"), slice_object("c2", "10.0.0.2", namespace="other"))
    variables = {
        "GLOBAL_DISCOVERY_POOL_DISCOVERY": "files",
        "GLOBAL_DISCOVERY_FILES": str(tmp_path),
        "GLOBAL_DISCOVERY_LISTEN": "127.0.0.1:0",
        "GLOBAL_DISCOVERY_NAMESPACE": "inference more",
    }
    async with running("-m", "discovery", "directory", **variables) as command:
        url = (await command.message("listening"))["url"]
        assert (await command.message("table published"))["pools"] == 1
        async with httpx.AsyncClient(base_url=url) as client:
            assert [one["cluster"] for one in (await client.get("/pools")).json()["pools"]] == ["c1"]


async def test_flags_of_another_mode_are_one_error_that_names_all() -> None:
    code, _, err = await finished("--relay-port", "grpc", GLOBAL_DISCOVERY_FILES="/nowhere")
    assert code == 2
    assert "--relay-port (commandline): is for --pool-discovery mcs or karmada or files" in err
    assert "--files (environment): is for --pool-discovery files" in err
    assert "--frontend-port" not in err


async def test_unknown_flags_end_with_2_and_the_version_with_0() -> None:
    assert (await finished("--nonsense"))[0] == 2
    code, out, _ = await finished("--version")
    assert (code, out.split()[0]) == (0, "global-discovery-service")


@pytest.mark.parametrize("kind", ["missing", "file", "unreadable"])
async def test_a_directory_that_cannot_be_read_ends_with_1(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "slices"
    if kind == "file":
        path.write_text("x")
    elif kind == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root reads everything")
        path.mkdir(mode=0)
    code, _, err = await finished("--pool-discovery", "files", "--files", str(path), "--listen", "127.0.0.1:0")
    assert code == 1
    assert err.count("\n") == 1
    assert f"cannot read the directory {path}" in err


async def test_a_taken_port_ends_with_1_and_names_the_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = await finished("--pool-discovery", "files", "--files", str(tmp_path), "--listen", address)
    assert code == 1
    assert err == f"global-discovery-service: cannot listen on {address}: Address already in use\n"


async def test_a_missing_certificate_ends_with_1(tmp_path: Path) -> None:
    tls = ["--tls-cert-path", str(tmp_path / "c.pem"), "--tls-key-path", str(tmp_path / "k.pem")]
    code, _, err = await finished(
        "--pool-discovery", "files", "--files", str(tmp_path), "--listen", "127.0.0.1:0", *tls
    )
    assert code == 1
    assert "c.pem" in err
    assert err.count("\n") == 1


async def test_sigterm_ends_watches_in_order(tmp_path: Path) -> None:
    async with (
        directory(tmp_path) as (url, command),
        httpx.AsyncClient(base_url=url) as client,
        client.stream("GET", "/pools", params={"watch": "true"}) as response,
    ):
        lines = response.aiter_lines()
        assert '"reset"' in await anext(lines)
        command.process.send_signal(signal.SIGTERM)
        # A cut would raise: the stream is ended by its last chunk.
        rest = [line async for line in lines]
        assert '"ready"' in rest[0]
        assert await command.process.wait() == 0
