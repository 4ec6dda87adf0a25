"""The directory's settings, checked: everything that is wrong at once.

Pure. Owns what a flag's text means and which flags belong to which mode. The command line hands over texts as given;
nothing here reads the environment or the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from discovery.directory import registration_flags
from discovery.directory.addresses import Network
from discovery.directory.naming import NamingRules, is_cluster_id
from discovery.kit.address import host_and_port
from discovery.pool import Router
from discovery.slices import is_dns_label

MODES = ("registrations", "karmada", "mcs", "files")


class Listen(BaseModel):
    model_config = ConfigDict(frozen=True)

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """`HOST:PORT` or `[V6]:PORT`. Raises ValueError."""
    host, port = host_and_port(text)
    return Listen(host=host, port=port)


def _listen(value: Any) -> Any:
    return parse_listen(value) if isinstance(value, str) else value


def _modes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    modes = tuple(part.strip() for part in value.split(","))
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ValueError(f"does not know {', '.join(map(repr, unknown))}; there are: {', '.join(MODES)}")
    return modes


def _region_map(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    found: dict[str, str] = {}
    for item in value or ():
        cluster, equals, region = str(item).partition("=")
        if not equals or not region.strip() or not is_cluster_id(cluster):
            raise ValueError(f"{item!r} is not CLUSTER=REGION")
        if found.setdefault(cluster, region) != region:
            raise ValueError(f"gives cluster {cluster!r} two regions")
    return found


def _namespaces(values: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [value for value in values if not is_dns_label(value)]:
        raise ValueError(f"{', '.join(map(repr, wrong))}: not the name of a namespace")
    return values


def _clusters(values: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [value for value in values if not is_cluster_id(value)]:
        raise ValueError(f"{', '.join(map(repr, wrong))}: not the name of a cluster")
    return values


def _cluster(value: str | None) -> str | None:
    if value is not None and not is_cluster_id(value):
        raise ValueError(f"{value!r}: not the name of a cluster")
    return value


def _name(value: str | None) -> str | None:
    if value is not None and not is_dns_label(value):
        raise ValueError(f"{value!r}: not the name of a namespace or Service")
    return value


def _as_rule(field: str) -> Callable[[str], str]:
    """Checks one naming rule alone, so that the faults of several are told together."""

    def check(value: str) -> str:
        # The other pattern must differ from this one, whatever this one is.
        other = {"relay_service": "frontend_service", "frontend_service": "relay_service"}.get(field)
        NamingRules(**{field: value, **({other: f"not-{value}"} if other else {})})  # type: ignore[arg-type]
        return value

    return check


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: Annotated[Listen, BeforeValidator(_listen)]
    tls_cert_path: str | None = None
    tls_key_path: str | None = None
    pool_discovery: Annotated[tuple[str, ...], BeforeValidator(_modes)]
    registration_storage: Literal["memory", "dynamodb"]
    heartbeat_interval_secs: Annotated[int, BeforeValidator(registration_flags.seconds)]
    lease_duration_secs: Annotated[int, BeforeValidator(registration_flags.seconds)]
    registration_tokens_file: str | None = None
    insecure_registrations: bool = False
    allow_cidr: Annotated[tuple[Network, ...], BeforeValidator(registration_flags.networks)]
    router: Annotated[tuple[Router, ...], BeforeValidator(registration_flags.routers)]
    dynamodb_table: str | None = None
    dynamodb_region: str | None = None
    dynamodb_endpoint: str | None = None
    files: str | None = None
    relay_service: Annotated[str, AfterValidator(_as_rule("relay_service"))]
    frontend_service: Annotated[str, AfterValidator(_as_rule("frontend_service"))]
    relay_port: Annotated[str, AfterValidator(_as_rule("relay_port"))]
    frontend_port: Annotated[str, AfterValidator(_as_rule("frontend_port"))]
    cluster_region: Annotated[dict[str, str], BeforeValidator(_region_map)]
    karmada_cluster: Annotated[tuple[str, ...], AfterValidator(_clusters)]
    cluster_id: Annotated[str | None, AfterValidator(_cluster)] = None
    router_namespace: Annotated[str | None, AfterValidator(_name)] = None
    router_service: Annotated[str | None, AfterValidator(_name)] = None
    router_port: Annotated[str, AfterValidator(_as_rule("router_port"))]
    kubeconfig: str | None = None
    context: str | None = None
    confirm_mass_removal: bool = False
    namespace: Annotated[tuple[str, ...], AfterValidator(_namespaces)]
    address_family: Literal["ipv4", "ipv6"]
    log_format: Literal["auto", "json", "text"]
    log_level: Literal["debug", "info", "warning", "error"]

    @property
    def may_register(self) -> bool:
        """Whether POST and DELETE are open to anybody at all."""
        return self.insecure_registrations or self.registration_tokens_file is not None

    @property
    def has_registrations(self) -> bool:
        """Whether registrations are a source of the table: asked for, possible, or perhaps made by other replicas."""
        return "registrations" in self.pool_discovery or self.may_register or self.registration_storage != "memory"

    def naming_rules(self) -> NamingRules:
        return NamingRules(
            relay_service=self.relay_service,
            frontend_service=self.frontend_service,
            relay_port=self.relay_port,
            frontend_port=self.frontend_port,
            cluster_regions=self.cluster_region,
            karmada_clusters=self.karmada_cluster,
            cluster_id=self.cluster_id,
            router_namespace=self.router_namespace,
            router_service=self.router_service,
            router_port=self.router_port,
            address_family=self.address_family,
        )


@dataclass(frozen=True, slots=True)
class Given:
    """A flag as it was given: `name` without dashes in front, `source` commandline or environment (None: left at its
    default), `modes` the discovery modes it belongs to (empty: all), `storages` the registration storages likewise."""

    name: str
    value: Any
    source: str | None
    modes: tuple[str, ...]
    storages: tuple[str, ...] = ()


def check(given: Mapping[str, Given]) -> Settings | list[str]:
    """The settings, or every fault in them, a line each, beginning with the flag."""
    faults = _foreign_flags(given) + _together({name: flag.value for name, flag in given.items()})
    try:
        settings = Settings.model_validate({name: flag.value for name, flag in given.items()})
    except ValidationError as error:
        for one in error.errors(include_url=False):
            name = str(one["loc"][0]).replace("_", "-")
            faults.append(f"--{name}: {one['msg'].removeprefix('Value error, ')}")
        return faults
    return faults or settings


def _together(values: Mapping[str, Any]) -> list[str]:
    """What is wrong between flags, whatever else is wrong with each."""
    faults = []
    if bool(values["tls_cert_path"]) != bool(values["tls_key_path"]):
        faults.append("--tls-cert-path and --tls-key-path: both or none")
    if "files" in _split(values["pool_discovery"]) and not values["files"]:
        faults.append("--files: is needed with --pool-discovery files")
    if bool(values["router_namespace"]) != bool(values["router_service"]):
        faults.append("--router-namespace and --router-service: both or none")
    if values["relay_service"] == values["frontend_service"]:
        faults.append(f"--relay-service and --frontend-service: are both {values['relay_service']!r}")
    if values["registration_storage"] == "dynamodb" and not values["dynamodb_table"]:
        faults.append("--dynamodb-table: is needed with --registration-storage dynamodb")
    if values["registration_tokens_file"] and values["insecure_registrations"]:
        faults.append("--registration-tokens-file and --insecure-registrations: one of them, not both")
    return faults + registration_flags.lease_faults(values["heartbeat_interval_secs"], values["lease_duration_secs"])


def _split(modes: object) -> set[str]:
    return {part.strip() for part in str(modes).split(",")}


def _foreign_flags(given: Mapping[str, Given]) -> list[str]:
    chosen = _split(given["pool_discovery"].value)
    storage = given["registration_storage"].value
    faults = []
    for flag in given.values():
        name = f"--{flag.name.replace('_', '-')} ({flag.source})"
        if flag.source and flag.modes and chosen.isdisjoint(flag.modes):
            faults.append(f"{name}: is for --pool-discovery {' or '.join(flag.modes)}")
        if flag.source and flag.storages and storage not in flag.storages:
            faults.append(f"{name}: is for --registration-storage {' or '.join(flag.storages)}")
    return faults
