"""Flags to settings: everything that is wrong at once."""

from __future__ import annotations

from typing import Any

import pytest

from discovery.directory.settings import Given, Settings, check, parse_listen

DEFAULTS: dict[str, Any] = {
    "listen": "0.0.0.0:8080",
    "tls_cert_path": None,
    "tls_key_path": None,
    "pool_discovery": "registrations",
    "registration_storage": "memory",
    "heartbeat_interval_secs": "5",
    "lease_duration_secs": "15",
    "registration_tokens_file": None,
    "allow_cidr": (),
    "insecure_registrations": False,
    "router": (),
    "dynamodb_table": None,
    "dynamodb_region": None,
    "dynamodb_endpoint": None,
    "files": None,
    "relay_service": "{name}-pool-relay",
    "frontend_service": "{name}-frontend",
    "relay_port": "grpc",
    "frontend_port": "http",
    "cluster_region": (),
    "karmada_cluster": (),
    "namespace": (),
    "address_family": "ipv4",
    "log_format": "auto",
    "log_level": "info",
}
FOR_ALL = {
    "listen",
    "tls_cert_path",
    "tls_key_path",
    "pool_discovery",
    "registration_storage",
    "heartbeat_interval_secs",
    "lease_duration_secs",
    "registration_tokens_file",
    "allow_cidr",
    "insecure_registrations",
    "log_format",
    "log_level",
}


def checked(**flags: Any) -> Settings | list[str]:
    return check(
        {
            name: Given(
                name,
                flags.get(name, default),
                "commandline" if name in flags else None,
                ("registrations",) if name == "router" else () if name in FOR_ALL or in_dynamodb else ("files",),
                ("dynamodb",) if in_dynamodb else (),
            )
            for name, default in DEFAULTS.items()
            for in_dynamodb in [name.startswith("dynamodb_")]
        }
    )


def good(**flags: Any) -> Settings:
    settings = checked(pool_discovery="files", files="/x", **flags)
    assert isinstance(settings, Settings), settings
    return settings


def faults(**flags: Any) -> list[str]:
    found = checked(**flags)
    assert isinstance(found, list)
    return found


def test_files_mode() -> None:
    settings = good(cluster_region=("c1=eu", "c2=us"), relay_service="relay-{name}", relay_port="50051")
    rules = settings.naming_rules()
    assert rules.cluster_regions == {"c1": "eu", "c2": "us"}
    assert (rules.relay_service, rules.relay_port) == ("relay-{name}", "50051")


@pytest.mark.parametrize("mode", ["karmada", "mcs", "karmada,mcs", "files,mcs"])
def test_modes_that_are_not_served_are_refused(mode: str) -> None:
    found = faults(pool_discovery=mode, **({"files": "/x"} if "files" in mode else {}))
    assert len(found) == 1
    assert "not served by this version, which serves: registrations, files" in found[0]


def test_an_unknown_mode_is_told_what_there_is() -> None:
    assert faults(pool_discovery="dns") == [
        "--pool-discovery: does not know 'dns'; there are: registrations, karmada, mcs, files"
    ]


def test_flags_of_another_mode_are_all_named_also_at_their_default_value() -> None:
    found = faults(pool_discovery="mcs", files="/x", relay_port="grpc")
    assert "--files (commandline): is for --pool-discovery files" in found
    assert "--relay-port (commandline): is for --pool-discovery files" in found


def test_all_faults_at_once() -> None:
    found = faults(
        pool_discovery="files",
        listen="8080",
        tls_key_path="/k",
        relay_service="relay",
        frontend_port="0",
        cluster_region=("x",),
        namespace=("A b",),
        karmada_cluster=("-",),
        address_family="ipv5",
        log_level="loud",
    )
    flags = (
        "listen",
        "tls-cert-path",
        "files",
        "relay-service",
        "frontend-port",
        "cluster-region",
        "namespace",
        "karmada-cluster",
        "address-family",
        "log-level",
    )
    for flag in flags:
        assert sum(line.startswith(f"--{flag}") for line in found) == 1, (flag, found)
    assert len(found) == len(flags)


def test_two_patterns_must_differ() -> None:
    assert (
        "are both 'x-{name}'"
        in faults(pool_discovery="files", files="/x", relay_service="x-{name}", frontend_service="x-{name}")[0]
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("0.0.0.0:8080", "0.0.0.0", 8080), ("[::]:1", "::", 1), ("localhost:0", "localhost", 0)],
)
def test_listen(text: str, host: str, port: int) -> None:
    listen = parse_listen(text)
    assert (listen.host, listen.port) == (host, port)


@pytest.mark.parametrize("text", ["", "8080", ":8080", "::1:80", "a:", "a:99999", "a:-1", "a:x", "[::1]", "a:١"])
def test_bad_listen(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_listen(text)
