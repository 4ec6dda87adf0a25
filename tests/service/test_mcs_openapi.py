"""What `/openapi.json` of the registry says is what it does: every call tried with what fits and what does not."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from discovery.kit.metrics import Metrics
from discovery.mcs import wire
from discovery.mcs.client import RegistryClient
from discovery.mcs.model import Stamp
from discovery.mcs.openapi import CALLS, PLAIN, document
from discovery.mcs.rest import Rest
from tests.discovery.mcs.making import service
from tests.service.test_mcs_registry import EXPORT, OHIO, SLICE, registry

pytestmark = pytest.mark.outside

# A status that is not described fails; 500 never is.
CHECKS: Any = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_the_document_names_what_is_served() -> None:
    from discovery.kit.testing import VirtualClock

    app = Rest(service(VirtualClock()), lambda authorization, cluster: None, Metrics(), lambda: None).app()
    served = {
        (route.path, method)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, method.upper()) for path, item in document("1").get("paths", {}).items() for method in item}
    assert described == served


def test_it_is_openapi() -> None:
    """Its own rules: every reference leads somewhere, every schema is one."""
    described = document("1")
    schemas = described["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    text = repr(described)
    assert {part.partition("'")[0] for part in text.split("#/components/schemas/")[1:]} <= schemas.keys()
    assert len({call.name for call in CALLS}) == len(CALLS)


async def test_events_are_as_described() -> None:
    described = document("1")
    event = {"$ref": "#/components/schemas/Event", "components": described["components"]}
    async with registry() as (_, url), RegistryClient([url]) as client, httpx.AsyncClient(base_url=url) as http:
        session = (await client.register(OHIO)).session
        await client.put_export(Stamp(session, 1), EXPORT)
        await client.put_endpoints(Stamp(session, 2), SLICE)
        seen = set()
        async with http.stream("GET", "/v1/imports:watch") as answer:
            async for line in answer.aiter_lines():
                value = wire.parse(line.encode())
                jsonschema.Draft202012Validator(event).validate(value)
                seen.add(value["type"])
                if value["type"] == "SNAPSHOT_END":
                    break
        assert seen == {
            *("SNAPSHOT_BEGIN", "CLUSTER", "UPSERT_IMPORT", "UPSERT_ENDPOINTS", "EXPORT_STATUS", "SNAPSHOT_END"),
        }


def tried(url: str, session: str) -> list[str]:
    """Try every call but the endless one; the paths that were tried."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    paths = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.path.endswith(":watch"):
            continue
        paths.append(f"{operation.method.upper()} {operation.path}")
        try_one(operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE), session, False)
        if "{" in operation.path:
            # Elsewhere every text is right.
            try_one(operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE), session, True)
    return paths


def try_one(strategy: Any, session: str, negative: bool) -> None:
    seq = iter(range(10, 10_000))

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(strategy, st.booleans())
    def once(case: Any, is_ours: bool) -> None:
        if is_ours and not negative:
            # Behind the session there is more to be tried.
            if "cluster" in (case.path_parameters or {}):
                case.path_parameters["cluster"] = "ohio"
            if "mcs-session" in (case.headers or {}):
                case.headers.update({"mcs-session": session, "mcs-seq": str(next(seq))})
        case.call_and_validate(checks=[*CHECKS, negative_data_rejection] if negative else CHECKS, timeout=10)

    once()


@pytest.mark.slow
async def test_every_call_keeps_to_the_document() -> None:
    async with registry() as (_, url), RegistryClient([url]) as client:
        session = wire.write_session((await client.register(OHIO)).session)
        paths = await asyncio.to_thread(tried, url, session)
    calls = [f"{call.method} {call.path}" for call in CALLS if call.name != "watch"]
    assert sorted(paths) == sorted([*calls, *(f"GET {path}" for path in PLAIN if path != "/openapi.json")])
