"""TLS contexts from the content of PEM files (I61): 1.2 at least, names and chains always checked."""

from __future__ import annotations

import ssl

from discovery.kit.pem import BadPair, load_pair
from global_ingress.proxy.shared.routes import TlsFiles


class CannotUse(Exception):
    """The certificate, key or CA cannot be used; the message says which and why, and holds nothing of the key."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For a listener; with a CA, clients must show a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _common(context)
    context.set_alpn_protocols(["http/1.1"])
    load_own(context, files)
    if files.ca is not None:
        _load_ca(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(files: TlsFiles | None) -> ssl.SSLContext:
    """For frontends: by the CA given, else the system's."""
    context = ssl.create_default_context()
    if files is not None and files.ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_ca(context, files.ca)
    _common(context)
    if files is not None and files.certificate is not None:
        load_own(context, files)
    return context


def _common(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Also for a context that is in use: open connections keep what they have."""
    try:
        load_pair(context, files.certificate or b"", files.key or b"")
    except BadPair as error:
        raise CannotUse(f"certificate and key: {error}") from None


def _load_ca(context: ssl.SSLContext, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):  # ValueError: empty, or not ASCII
        raise CannotUse("the CA is not readable PEM") from None
