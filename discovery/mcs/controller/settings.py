"""The controller's settings, checked: everything that is wrong at once.

Pure. The command line hands over texts as given; nothing here reads the environment or the disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from discovery.kit.address import host_and_port
from discovery.slices import is_dns_label

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Listen(BaseModel):
    model_config = ConfigDict(frozen=True)

    host: str
    port: int


def seconds(value: Any) -> Any:
    """`10m`, `60s`, `1.5h`, `500ms`."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is not a duration, as 500ms, 60s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def _listen(value: Any) -> Any:
    host, port = host_and_port(str(value))
    return {"host": host, "port": port}


def _urls(value: Any) -> Any:
    found = tuple(part.strip() for one in value or () for part in str(one).split(",") if part.strip())
    for one in found:
        parts = urlsplit(one)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{one!r} is not a URL, as https://registry.example:8080")
    if not found:
        raise ValueError("is missing: the URL of a registry")
    return found


def is_cluster_id(text: str) -> bool:
    """One or two DNS labels with a dot between, 63 characters at most."""
    parts = text.split(".")
    return len(text) <= 63 and len(parts) <= 2 and all(is_dns_label(part) for part in parts)


def _cluster(value: str | None) -> str | None:
    if value is not None and not is_cluster_id(value):
        raise ValueError(f"{value!r} is not one or two DNS labels with a dot between, 63 characters at most")
    return value


def _namespaces(values: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [value for value in values if not is_dns_label(value)]:
        raise ValueError(f"{', '.join(map(repr, wrong))}: not the name of a namespace")
    return values


def _label_key(value: str) -> str:
    if not _KEY.fullmatch(value):
        raise ValueError(f"{value!r} is not the key of a label")
    return value


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0)]


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: Annotated[tuple[str, ...], BeforeValidator(_urls)]
    registry_token_file: str | None = None
    registry_ca_file: str | None = None
    registry_cert_file: str | None = None
    registry_key_file: str | None = None
    cluster_id: Annotated[str | None, AfterValidator(_cluster)] = None
    region: str | None = None
    clusterset: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    namespace: Annotated[tuple[str, ...], AfterValidator(_namespaces)] = ()
    export_label: Annotated[str, AfterValidator(_label_key)]
    unexport_timeout: Seconds
    hold_down: Seconds
    settle: Seconds
    brake_wait: Seconds
    max_delete_ratio: Annotated[float, Field(ge=0, le=1)]
    stale_endpoints: Literal["withdraw", "keep"]
    adopt: bool = False
    leader_elect: bool = True
    lease_namespace: str | None = None
    listen: Annotated[Listen, BeforeValidator(_listen)]
    log_format: Literal["auto", "json", "text"]
    log_level: Literal["debug", "info", "warning", "error"]


def check(given: Mapping[str, Any]) -> Settings | list[str]:
    """The settings, or a line for everything that is wrong."""
    try:
        found = Settings(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        return [_line(one) for one in error.errors()]
    if (found.registry_cert_file is None) != (found.registry_key_file is None):
        return ["--registry-cert-file and --registry-key-file: both or none"]
    return found


def _line(error: Any) -> str:
    flag = f"--{str(error['loc'][0]).replace('_', '-')}"
    cause = (error.get("ctx") or {}).get("error")
    if error["type"] == "missing":
        return f"{flag} is missing"
    return f"{flag}: {cause or error['msg']}"
