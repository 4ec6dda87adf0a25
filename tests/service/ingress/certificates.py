"""Authorities and certificates made by openssl, for tests of TLS."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A CA with its own folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        self._request(self.pair, name, "-x509", "-days", "3", "-addext", "basicConstraints=critical,CA:TRUE")

    @property
    def file(self) -> Path:
        return self.pair.certificate

    def issue(self, name: str, host: str = "localhost") -> Pair:
        """For this host, and for 127.0.0.1 unless the host is another one."""
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        names = f"subjectAltName=DNS:{host}" + (",IP:127.0.0.1" if host == "localhost" else "")
        signed_by = ("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key))
        self._request(pair, name, "-x509", "-days", "3", *signed_by, "-addext", names, "-addext",
                      "basicConstraints=critical,CA:FALSE")  # fmt: skip
        return pair

    @staticmethod
    def _request(pair: Pair, name: str, *more: str) -> None:
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-config", "/dev/null", "-keyout", str(pair.key), "-out", str(pair.certificate), *more)  # fmt: skip


def client_side(authority: Authority, shown: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.file))
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


def server_side(shown: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    if clients is not None:
        context.load_verify_locations(clients.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
