"""kubectl, as the one client everybody trusts, against the fake: get, list, watch, apply, delete, tokens over TLS."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
import yaml

from discovery.kit.certificate import Tls
from discovery.testing.cluster import READ_SLICES, FakeCluster
from tests.discovery.cluster.api import FAST, slice_of

KUBECTL = shutil.which("kubectl")
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="NOT CHECKED: there is no kubectl on this machine")


class Kubectl:
    def __init__(self, folder: Path, fake: FakeCluster, token: str = "") -> None:
        self.folder = folder
        self.fake = fake
        config = fake.kubeconfig(folder / f"config{token}", token=token)
        # Nothing of the machine: no cache of another server's groups, no proxy.
        self.environment = {"KUBECONFIG": str(config), "HOME": str(folder), "PATH": os.environ["PATH"]}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, stdout=pipe, stderr=pipe, stdin=asyncio.subprocess.DEVNULL, env=self.environment
        )

    async def __call__(self, *arguments: str) -> tuple[int | None, str]:
        process = await self.start(*arguments)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        return process.returncode, (out + err).decode()

    async def apply(self, *arguments: str, **thing: object) -> tuple[int | None, str]:
        file = self.folder / "object.yaml"
        file.write_text(yaml.safe_dump(thing))
        return await self("apply", *arguments, "-f", str(file))


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with FakeCluster(settings=FAST) as fake:
        yield Kubectl(tmp_path, fake)


async def test_get_list_and_selectors(kubectl: Kubectl) -> None:
    for name, colour in (("a", "red"), ("b", "blue")):
        kubectl.fake.put(slice_of(name, colour=colour))
    code, text = await kubectl("get", "endpointslices", "--all-namespaces", "-o", "json")
    assert code == 0, text
    assert [item["metadata"]["name"] for item in orjson.loads(text)["items"]] == ["a", "b"]
    code, text = await kubectl("get", "endpointslices", "-l", "colour=red", "-o", "name")
    assert (code, text) == (0, "endpointslice.discovery.k8s.io/a\n")
    code, text = await kubectl("get", "endpointslice", "none")
    assert code == 1
    assert '(NotFound): endpointslices.discovery.k8s.io "none" not found' in text
    code, text = await kubectl("get", "svcim", "-A")
    assert (code, text) == (0, "No resources found\n")


async def test_pages_of_a_long_list(kubectl: Kubectl) -> None:
    for number in range(7):
        kubectl.fake.put(slice_of(f"s{number}"))
    code, text = await kubectl("get", "endpointslices", "--chunk-size=3", "-o", "name")
    assert (code, text.count("\n")) == (0, 7)
    assert [entry.query["limit"] for entry in kubectl.fake.asked("list")] == ["3", "3", "3"]


async def test_watch_tells_changes(kubectl: Kubectl) -> None:
    kubectl.fake.put(slice_of("a"))
    process = await kubectl.start("get", "endpointslices", "--watch", "--output-watch-events", "-o", "name")
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert b"/a" in await process.stdout.readline()
            await kubectl.fake.watched()
            kubectl.fake.put(slice_of("b"))
            assert b"/b" in await process.stdout.readline()
    finally:
        process.terminate()
        await process.communicate()


async def test_apply_from_the_client_and_from_the_server(kubectl: Kubectl) -> None:
    code, text = await kubectl.apply(**slice_of("a", colour="red"))
    assert (code, text) == (0, "endpointslice.discovery.k8s.io/a created\n")
    code, text = await kubectl.apply(**slice_of("a", colour="blue"))
    assert (code, text) == (0, "endpointslice.discovery.k8s.io/a configured\n")
    thing = kubectl.fake.get("endpointslices", "default", "a")
    assert thing is not None
    assert thing["metadata"]["labels"] == {"colour": "blue"}
    code, text = await kubectl.apply("--server-side", **slice_of("a", colour="green"))
    assert (code, text) == (0, "endpointslice.discovery.k8s.io/a serverside-applied\n")
    thing = kubectl.fake.get("endpointslices", "default", "a")
    assert thing is not None
    assert thing["metadata"]["labels"] == {"colour": "green"}


async def test_apply_of_a_service_and_of_a_custom_resource(kubectl: Kubectl) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    for number in (80, 81):
        code, text = await kubectl.apply(**service, spec={"ports": [{"name": "http", "port": number}]})
        assert code == 0, text
    thing = kubectl.fake.get("services", "default", "a")
    assert thing is not None
    assert [port["port"] for port in thing["spec"]["ports"]] == [81]
    export = {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "a"}}
    for _ in range(2):
        code, text = await kubectl.apply(**export)
        assert code == 0, text
    assert text == "serviceexport.multicluster.x-k8s.io/a unchanged\n"


async def test_delete_waits_for_the_end(kubectl: Kubectl) -> None:
    kubectl.fake.put(slice_of("a"))
    code, text = await kubectl("delete", "endpointslice", "a")
    assert (code, text) == (0, 'endpointslice.discovery.k8s.io "a" deleted\n')
    assert kubectl.fake.get("endpointslices", "default", "a") is None


async def test_tokens_over_tls(tmp_path: Path) -> None:
    if OPENSSL is None:
        pytest.skip("NOT CHECKED: there is no openssl to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=fake", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = await asyncio.create_subprocess_exec(
        *[OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject],
        *["-keyout", str(key), "-out", str(cert)],
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await made.wait() == 0
    async with FakeCluster(settings=FAST, tls=Tls(cert, key)) as fake:
        fake.put(slice_of("a"))
        fake.access.grant("reader", READ_SLICES)
        reader = Kubectl(tmp_path, fake, "reader")
        code, text = await reader("get", "endpointslices", "-o", "name")
        assert (code, text) == (0, "endpointslice.discovery.k8s.io/a\n")
        code, text = await reader("get", "services")
        assert code == 1
        assert "(Forbidden): services is forbidden" in text
        code, text = await Kubectl(tmp_path, fake, "nobody")("get", "endpointslices")
        assert code == 1
        assert "You must be logged in" in text
        assert {entry.token for entry in fake.requests} == {"reader", "nobody"}
