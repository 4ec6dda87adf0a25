"""The simulated frontends, and how they are replaced, cut and restored: the demo's means of disturbing.

Owns the frontend of each region and the slices that tell of it: in every region's folder, as a multi-cluster services
implementation would carry them there. Refuses to disturb what is not of the demo.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx

from discovery.kit.clock import Clock
from global_ingress.demo.children import Child, Children
from global_ingress.demo.regions import Place
from global_ingress.demo.slices import slice_list

_PACE_S = 0.002
_READY_S = 30.0
_POLL_S = 0.05


class Disturbing:
    """Keeps `validate.means.Means`. `files` holds a folder of slices for each cluster."""

    def __init__(self, places: Sequence[Place], model: str, children: Children, files: Path, clock: Clock) -> None:
        self._places = {place.cluster: place for place in places}
        self._model = model
        self._children = children
        self._files = files
        self._clock = clock
        self._frontends: dict[str, Child] = {}

    async def start(self) -> None:
        """Every region's frontend, and the slices. Raises OSError."""
        for place in self._places.values():
            (self._files / place.cluster).mkdir(parents=True)
            await self._start(place)
        self._write_slices()

    async def do(self, action: str, cluster: str, pool: str) -> str | None:
        place = self._places.get(cluster)
        if place is None or f"{cluster}/{pool}" != place.pool:
            return f"the demo has no pool {cluster}/{pool}"
        match action:
            case "replace":
                return await self._replace(place)
            case "cut":
                await self._children.end(self._frontends[cluster], signal.SIGKILL)
                return None
            case "restore":
                await self._start(place)
                return await self._ready(place)
        return f"the demo cannot {action}"

    async def _replace(self, place: Place) -> str | None:
        """As a rolling update does it: the new one serves before the old one is told to end."""
        old = self._frontends[place.cluster]
        place = replace(place, frontend_port=place.replacement_port, replacement_port=place.frontend_port)
        self._places[place.cluster] = place
        await self._start(place)
        if (why := await self._ready(place)) is not None:
            return why
        self._write_slices()
        await self._children.end(old, signal.SIGTERM)
        return None

    async def _start(self, place: Place) -> None:
        command = [sys.executable, "-m", "global_ingress.demo.frontends", "--model", self._model]
        command += ["--pace", str(_PACE_S), f"{place.mark}={place.frontend_port}"]
        name = f"frontend of {place.cluster} at {place.frontend_port}"
        self._frontends[place.cluster] = await self._children.start(name, command)

    async def _ready(self, place: Place) -> str | None:
        end = self._clock.monotonic() + _READY_S
        seen = ""
        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
            while self._clock.monotonic() < end:
                try:
                    answer = await client.get(f"{place.frontend}/v1/models/{self._model}/ready")
                except httpx.HTTPError as error:
                    seen = f"{type(error).__name__}: {error}"
                else:
                    if answer.status_code == 200:
                        return None
                    seen = f"status {answer.status_code}"
                await self._clock.sleep(_POLL_S)
        return f"the frontend of {place.cluster} was not ready in {_READY_S:g} s: {seen}"

    def _write_slices(self) -> None:
        """Swapped in whole, as nobody may read half a file."""
        text = slice_list(tuple(self._places.values()))
        for cluster in self._places:
            file = self._files / cluster / "endpointslices.yaml"
            beside = file.with_name(".endpointslices.yaml.new")
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, file)
