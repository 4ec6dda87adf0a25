"""PEM files as they are found: used, or refused in words; nothing else ever comes of them (I61)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from global_ingress.proxy.shared import tls
from global_ingress.proxy.shared.routes import TlsFiles
from tests.service.ingress.certificates import Authority


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    authority = Authority(tmp_path_factory.mktemp("pem"), "ca")
    pair = authority.issue("server")
    return TlsFiles(pair.certificate.read_bytes(), pair.key.read_bytes(), authority.file.read_bytes())


@pytest.mark.parametrize("which", ["certificate", "key", "ca"])
def test_a_file_cut_anywhere_is_used_or_refused(good: TlsFiles, which: str) -> None:
    whole = getattr(good, which)
    refused = 0
    for end in {0, 1, *range(0, len(whole), 13)}:
        files = msgspec.structs.replace(good, **{which: whole[:end]})
        for make in (tls.server_context, tls.client_context):
            try:
                make(files)
            except tls.CannotUse:
                refused += 1
    assert refused > len(whole) // 13


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"]
)
def test_a_ca_that_is_none_is_refused(good: TlsFiles, content: bytes) -> None:
    files = msgspec.structs.replace(good, ca=content)
    for make in (tls.server_context, tls.client_context):
        with pytest.raises(tls.CannotUse, match="the CA is not readable PEM"):
            make(files)


def test_a_key_of_another_kind_does_not_fit(good: TlsFiles, tmp_path: Path) -> None:
    for kind in ("RSA", "EC -pkeyopt ec_paramgen_curve:P-384", "ED25519"):
        key = tmp_path / "other.key"
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", *kind.split(), "-out", key],
            check=True,
            capture_output=True,
            timeout=60,
        )
        with pytest.raises(tls.CannotUse, match="the key does not fit the certificate"):
            tls.server_context(msgspec.structs.replace(good, key=key.read_bytes()))
