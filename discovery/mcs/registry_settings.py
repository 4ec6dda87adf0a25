"""The registry's settings, checked: everything that is wrong at once.

Pure. Refuses to be reached from elsewhere by anybody: without tokens it listens on loopback, unless told otherwise.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discovery.kit.address import host_and_port

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h)", re.ASCII)
_SIZE = re.compile(r"(\d{1,6})(KiB|MiB)", re.ASCII)
_DURATIONS = ("lease_ttl", "renew", "grace", "export_retention")
_CHOICES = {
    "store": ("memory", "dynamodb"),
    "log_format": ("auto", "json", "text"),
    "log_level": ("debug", "info", "warning", "error"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations in milliseconds."""

    host: str
    port: int
    grpc_host: str | None
    """None: no gRPC."""
    grpc_port: int
    store: str
    clusterset: str
    dynamodb_table: str | None
    dynamodb_region: str | None
    dynamodb_endpoint: str | None
    lease_ttl: int
    renew: int
    """How often a cluster renews its lease; 0: each third of it."""
    grace: int
    export_retention: int
    watch_queue: int
    """Bytes."""
    tokens_file: str | None
    tls_cert_file: str | None
    tls_key_file: str | None
    log_format: Any
    log_level: Any


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check(given: Mapping[str, Any]) -> Settings | list[str]:
    """The settings, or a line for everything that is wrong."""
    faults: list[str] = []
    values = dict(given)
    for name, allowed in _CHOICES.items():
        if values[name] not in allowed:
            faults.append(f"{_flag(name)}: {values[name]!r} is not one of {', '.join(allowed)}")
    for name in _DURATIONS:
        if values[name] is None:
            values[name] = 0
            continue
        found = _DURATION.fullmatch(values[name])
        values[name] = int(found[1]) * _UNITS[found[2]] if found else 0
        if found is None:
            faults.append(f"{_flag(name)}: {given[name]!r} is not a duration, as 500ms, 30s, 10m or 24h")
    if values["lease_ttl"] < 100:
        faults.append("--lease-ttl must be 100ms or longer")
    elif given["renew"] and not 0 < values["renew"] <= values["lease_ttl"] / 2:
        faults.append("--renew: more than 0 and at most half of --lease-ttl, so that one that is lost ends no lease")
    values["watch_queue"] = _size(given["watch_queue"], faults)
    default = "0.0.0.0:8080" if given["tokens_file"] else "127.0.0.1:8080"
    is_guarded = bool(given["tokens_file"] or given["insecure"])
    host, port = _address("--http-listen", values.pop("http_listen") or default, is_guarded, faults)
    grpc_host, grpc_port = None, 0
    if grpc := values.pop("grpc_listen"):
        grpc_host, grpc_port = _address("--grpc-listen", grpc, is_guarded, faults)
    if (given["tls_cert_file"] is None) != (given["tls_key_file"] is None):
        faults.append("--tls-cert-file and --tls-key-file: both or none")
    if values["store"] == "dynamodb" and len(given["dynamodb_table"] or "") < 3:
        faults.append("--store dynamodb needs --dynamodb-table, a name of at least 3 characters")
    if not given["clusterset"] or "#" in given["clusterset"]:
        faults.append("--clusterset is not a name without '#'")
    if faults:
        return faults
    del values["insecure"]
    return Settings(host=host, port=port, grpc_host=grpc_host, grpc_port=grpc_port, **values)


def _size(text: str, faults: list[str]) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        faults.append(f"--watch-queue: {text!r} is not a size, as 64MiB or 512KiB")
        return 0
    size = int(found[1]) * (1024 if found[2] == "KiB" else 1024 * 1024)
    if not 64 * 1024 <= size <= 1024**3:
        faults.append("--watch-queue is from 64KiB to 1024MiB")
    return size


def _address(flag: str, text: str, is_guarded: bool, faults: list[str]) -> tuple[str, int]:
    try:
        host, port = host_and_port(text)
    except ValueError as error:
        faults.append(f"{flag}: {error}")
        return "", 0
    if not is_loopback(host) and not is_guarded:
        faults.append(f"{flag} {host}: anybody could write; give --tokens-file, or --insecure to allow it")
    return host, port


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
