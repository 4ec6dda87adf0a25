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
    "cluster_id": None,
    "router_namespace": None,
    "router_service": None,
    "router_port": "http",
    "kubeconfig": None,
    "context": None,
    "confirm_mass_removal": False,
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


KUBERNETES = {"kubeconfig", "context", "confirm_mass_removal"}


def modes_of(name: str) -> tuple[str, ...]:
    if name in FOR_ALL or name.startswith("dynamodb_"):
        return ()
    if name in KUBERNETES:
        return ("mcs", "karmada")
    return {"router": ("registrations",), "files": ("files",), "karmada_cluster": ("karmada", "files")}.get(
        name, ("mcs", "karmada", "files")
    )


def checked(**flags: Any) -> Settings | list[str]:
    return check(
        {
            name: Given(
                name,
                flags.get(name, default),
                "commandline" if name in flags else None,
                modes_of(name),
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


@pytest.mark.parametrize("mode", ["karmada", "mcs", "karmada,mcs", "files,mcs", "registrations, karmada"])
def test_one_mode_or_several(mode: str) -> None:
    settings = checked(pool_discovery=mode, **({"files": "/x"} if "files" in mode else {}))
    assert isinstance(settings, Settings), settings
    assert settings.pool_discovery == tuple(part.strip() for part in mode.split(","))


def test_flags_of_the_kubernetes_modes() -> None:
    settings = checked(
        pool_discovery="mcs",
        cluster_id="hub",
        router_namespace="dynamo",
        router_service="global-router",
        router_port="grpc",
        kubeconfig="/k",
        context="karmada",
        confirm_mass_removal=True,
    )
    assert isinstance(settings, Settings), settings
    rules = settings.naming_rules()
    assert (rules.router_namespace, rules.router_service, rules.router_port) == ("dynamo", "global-router", "grpc")
    assert rules.cluster_id == "hub"


def test_faults_of_the_kubernetes_modes() -> None:
    found = faults(
        pool_discovery="mcs", cluster_id="-", router_service="Global", router_port="0", karmada_cluster=("m1",)
    )
    assert [line.split(":")[0] for line in sorted(found)] == [
        "--cluster-id",
        "--karmada-cluster (commandline)",
        "--router-namespace and --router-service",
        "--router-port",
        "--router-service",
    ]


def test_an_unknown_mode_is_told_what_there_is() -> None:
    assert faults(pool_discovery="dns") == [
        "--pool-discovery: does not know 'dns'; there are: registrations, karmada, mcs, files"
    ]


def test_flags_of_another_mode_are_all_named_also_at_their_default_value() -> None:
    found = faults(pool_discovery="registrations", files="/x", relay_port="grpc", kubeconfig="/k")
    assert found == [
        "--files (commandline): is for --pool-discovery files",
        "--relay-port (commandline): is for --pool-discovery mcs or karmada or files",
        "--kubeconfig (commandline): is for --pool-discovery mcs or karmada",
    ]
    assert faults(pool_discovery="mcs", files="/x") == ["--files (commandline): is for --pool-discovery files"]


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
