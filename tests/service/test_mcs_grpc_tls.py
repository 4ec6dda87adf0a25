"""The registry's gRPC over TLS: with the certificate of its HTTP, and never beside it in the clear."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc
import pytest

from discovery.mcs import messages
from discovery.mcs.proto import registry_pb2 as pb
from tests.service.ingress.certificates import Authority
from tests.service.test_mcs_grpc import Caller, registry
from tests.service.test_mcs_registry import OHIO

pytestmark = pytest.mark.outside


async def test_a_client_that_knows_the_authority_is_served_and_one_in_the_clear_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    shown = authority.issue("registry")
    flags = ("--tls-cert-file", str(shown.certificate), "--tls-key-file", str(shown.key))
    async with registry(*flags) as (_, url, where):
        assert url.startswith("https://")
        known = grpc.ssl_channel_credentials(authority.file.read_bytes())
        async with grpc.aio.secure_channel(where, known) as channel:
            assert (await Caller(channel).call("Register", messages.write(OHIO))).cluster == "ohio"
        async with grpc.aio.insecure_channel(where) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Caller(channel).all("ListClusters", pb.ListClustersRequest())
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        stranger = grpc.ssl_channel_credentials(Authority(tmp_path, "stranger").file.read_bytes())
        async with grpc.aio.secure_channel(where, stranger) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Caller(channel).all("ListClusters", pb.ListClustersRequest())
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_files_that_are_no_certificate_are_said(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text("no PEM")
    flags = ("--tls-cert-file", str(tmp_path / "cert"), "--tls-key-file", str(tmp_path / "key"))

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "discovery.mcs.registry_command", *flags),
        *("--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert b"mcs-registry: cannot use" in err
    assert b"Traceback" not in err
