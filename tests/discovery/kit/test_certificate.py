"""A listener's certificate on real sockets: replaced, broken, mended; and what a start refuses."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from discovery.kit.certificate import BadCertificate, Certificate, Tls
from discovery.kit.service import CannotServe, make_app, serve
from discovery.kit.testing import VirtualClock
from tests.service.ingress.certificates import Authority, Pair, openssl
from tests.service.ingress.process import eventually

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def nothing_fails(error: Exception) -> None:
    raise AssertionError(error)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def given(tmp_path: Path, pair: Pair) -> Tls:
    tls = Tls(tmp_path / "tls.crt", tmp_path / "tls.key")
    put(tls, pair)
    return tls


def put(tls: Tls, pair: Pair) -> None:
    shutil.copy(pair.certificate, tls.cert)
    shutil.copy(pair.key, tls.key)


async def shown(port: int, authority: Authority) -> bytes:
    """The certificate that a new connection sees, checked against the authority."""
    context = ssl.create_default_context(cafile=str(authority.file))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    try:
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    assert found is not None
    return found


def binary(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


async def test_new_connections_see_the_new_certificate_and_a_broken_one_changes_nothing(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, three = (authority.issue(name) for name in ("one", "two", "three"))
    tls, clock = given(tmp_path, one), VirtualClock()

    async def a_second_passes() -> None:
        await clock.advance(1.0)
        await eventually(lambda: clock.sleepers == 1, "the files to be looked at")

    async with serve(make_app([]), "127.0.0.1", 0, on_failure=nothing_fails, tls=tls, clock=clock) as bound:
        assert await shown(bound.port, authority) == binary(one)
        put(tls, two)
        await a_second_passes()
        assert await shown(bound.port, authority) == binary(two)
        for broken in (b"", b"no certificate", three.certificate.read_bytes()):  # the last: with the key of another one
            tls.cert.write_bytes(broken)
            await a_second_passes()
            await a_second_passes()
            assert await shown(bound.port, authority) == binary(two)
        tls.cert.unlink()
        await a_second_passes()
        assert await shown(bound.port, authority) == binary(two)
        assert caplog.text.count("certificate is broken, the last good one stays") == 3, "each fault is said once"
        assert "PRIVATE KEY" not in caplog.text
        put(tls, three)
        await a_second_passes()
        assert await shown(bound.port, authority) == binary(three)


async def test_a_start_refuses_what_cannot_be_used(tmp_path: Path, authority: Authority) -> None:
    one, two = authority.issue("one"), authority.issue("two")
    locked = tmp_path / "locked.key"
    openssl("ec", "-in", str(one.key), "-out", str(locked), "-aes128", "-passout", "pass:secret")
    large = tmp_path / "large.crt"
    large.write_bytes(b"x" * (1024 * 1024 + 1))
    for tls, why in (
        (Tls(tmp_path / "none.crt", one.key), "none.crt: No such file or directory"),
        (Tls(one.certificate, two.key), "the key does not fit the certificate"),
        (Tls(one.certificate, locked), "the key is encrypted"),
        (Tls(large, one.key), "has more than 1048576 bytes"),
    ):
        with pytest.raises(BadCertificate, match=why):
            Certificate(tls, VirtualClock())
        with pytest.raises(CannotServe, match=why):
            async with serve(make_app([]), "127.0.0.1", 0, on_failure=nothing_fails, tls=tls):
                pass


def test_old_versions_of_tls_are_not_spoken(tmp_path: Path, authority: Authority) -> None:
    context = Certificate(given(tmp_path, authority.issue("one")), VirtualClock()).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
