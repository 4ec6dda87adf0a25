"""A certificate and its key given as content of PEM files, into a TLS context.

Python loads them from files only, so the content goes through memory files: what was read and checked is what is used,
no key touches a disk of ours, and an encrypted one is refused instead of asked for.
"""

from __future__ import annotations

import os
import ssl

_STRANGERS = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")  # the last: of another kind


class BadPair(Exception):
    """The pair cannot be used; the message says why, and holds nothing of the key."""


def load_pair(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Also for a context that is in use: open connections keep what they have. Raises BadPair."""
    shown, kept = _memory(chain), _memory(key)
    try:
        context.load_cert_chain(f"/proc/self/fd/{shown}", f"/proc/self/fd/{kept}", password=_no_password)
    except ssl.SSLError as error:
        fits = error.reason not in _STRANGERS
        raise BadPair("is not readable PEM" if fits else "the key does not fit the certificate") from None
    except _Encrypted:
        raise BadPair("the key is encrypted; give one that is not") from None
    finally:
        os.close(shown)
        os.close(kept)


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _memory(content: bytes) -> int:
    fd = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    return fd
