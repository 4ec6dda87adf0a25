"""TLS contexts from the content of PEM files (I61): 1.2 at least, names and chains always checked.

Python loads certificates from files only, so the content goes through a memory file; no key touches a disk of ours, and
an encrypted one is refused instead of asked for.
"""

from __future__ import annotations

import os
import ssl

from global_ingress.proxy.shared.routes import TlsFiles

_STRANGERS = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")  # the last: of another kind


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
    chain, key = _memory(files.certificate or b""), _memory(files.key or b"")
    try:
        context.load_cert_chain(f"/proc/self/fd/{chain}", f"/proc/self/fd/{key}", password=_no_password)
    except ssl.SSLError as error:
        what = "the key does not fit the certificate" if error.reason in _STRANGERS else "is not readable PEM"
        raise CannotUse(f"certificate and key: {what}") from None
    except _Encrypted:
        raise CannotUse("the key is encrypted; give one that is not") from None
    finally:
        os.close(chain)
        os.close(key)


def _load_ca(context: ssl.SSLContext, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):  # ValueError: empty, or not ASCII
        raise CannotUse("the CA is not readable PEM") from None


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _memory(content: bytes) -> int:
    fd = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    return fd
