"""Short ways to make the values of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discovery.identity import PoolKey
from discovery.pool import Frontend, Pool, PoolTable, make_table
from global_ingress.proxy.settings.sections import Settings


def frontend(n: int, state: str = "ready") -> Frontend:
    """`state`: ready, leaving (serving and terminating) or down."""
    return Frontend(
        f"http://10.0.0.{n}:8000", ready=state == "ready", serving=state != "down", terminating=state == "leaving"
    )


def pool(cluster: str, *frontends: Frontend, region: str = "", name: str = "llama") -> Pool:
    return Pool(PoolKey(cluster, "dynamo", name), region or f"region-{cluster}", frontends, sources=("mcs",))


def table(*pools: Pool, revision: int = 1) -> PoolTable:
    return make_table("e", revision, True, pools)


def settings(models: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> Settings:
    data: dict[str, Any] = {"discovery": {"urls": ["http://directory:8080"]}, **more}
    if models is not None:
        data["models"] = list(models)
    return Settings.model_validate(data)


def model(id: str = "m", **more: Any) -> Any:
    """One model of a settings file."""
    made = settings([{"id": id, **more}]).models
    assert made is not None
    return made[0]
