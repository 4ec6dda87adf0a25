"""The command's settings: defaults, variables, and everything that is wrong at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from typer.testing import CliRunner

from discovery.kit.metrics import Metrics
from discovery.mcs.controller.command import controller_app
from discovery.mcs.controller.settings import Settings, check
from discovery.mcs.registry import Registry
from tests.discovery.mcs.controllers import settings
from tests.discovery.mcs.plain_registry import PlainRegistry


@asynccontextmanager
async def connect(_: Settings, __: Metrics) -> AsyncIterator[Registry]:
    yield PlainRegistry().member("c1")


def run(*arguments: str, **env: str) -> tuple[int, str]:
    result = CliRunner().invoke(controller_app(connect), arguments, env=env)
    return result.exit_code, result.output


def test_everything_that_is_wrong_is_told_at_once() -> None:
    code, said = run("--hold-down", "soon", "--namespace", "A_b", MCS_STALE_ENDPOINTS="burn")
    assert code == 2
    for flag in ("--registry", "--hold-down", "--namespace", "--stale-endpoints"):
        assert f"\n{flag}" in said, said


def test_a_cluster_that_cannot_be_reached_by_these_credentials_ends_it() -> None:
    given = ("--registry", "http://127.0.0.1:1", "--kubeconfig", "/nowhere/config", "--listen", "127.0.0.1:0")
    assert run(*given)[0] == 1


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600.0), ("60s", 60.0), ("1.5h", 5400.0), ("500ms", 0.5)])
def test_durations(text: str, seconds: float) -> None:
    assert settings(hold_down=text).hold_down == seconds


@pytest.mark.parametrize(
    "wrong",
    [
        {"registry": ["ftp://x"]},
        {"registry": []},
        {"cluster_id": "a.b.c"},
        {"cluster_id": "A"},
        {"max_delete_ratio": 1.5},
        {"listen": "8081"},
        {"export_label": "not a key"},
        {"registry_cert_file": "only-one"},
    ],
)
def test_what_is_refused(wrong: dict[str, object]) -> None:
    given = settings().model_dump() | {"hold_down": "1s", "settle": "1s", "brake_wait": "1s", "unexport_timeout": "1s"}
    found = check(given | {"listen": "127.0.0.1:0"} | wrong)
    assert isinstance(found, list)
    [line] = found
    assert next(iter(wrong)).replace("_", "-") in line
