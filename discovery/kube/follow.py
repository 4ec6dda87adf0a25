"""One list/watch over a real connection: drives the state machine and hands its events on.

Owns the waiting: for answers, for bytes, until a deadline. Gives everybody else on the loop a turn every few
milliseconds, however much there is to read. Ends only when it is cancelled; then the answer is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from discovery.kit.clock import Clock
from discovery.kube.client import Answer, KubeClient
from discovery.kube.errors import BadKubeConfig, Unreachable
from discovery.kube.events import Ask, Event, Wait
from discovery.kube.watch import ListWatch

T = TypeVar("T")

_TURN = 0.008
"""Seconds of work before others get their turn."""


async def follow_resource(
    client: KubeClient,
    path: str,
    machine: ListWatch[T],
    clock: Clock,
    on_event: Callable[[Event[T]], None],
    on_step: Callable[[], None],
) -> None:
    """For ever. `on_event` gets each event as it comes; `on_step` is called after each answer, however it went."""
    while True:
        step = machine.next(clock.monotonic())
        if isinstance(step, Wait):
            await clock.sleep(step.seconds)
            continue
        try:
            await _exchange(client, path, step, machine, clock, on_event)
        finally:
            on_step()


async def _exchange(
    client: KubeClient, path: str, ask: Ask, machine: ListWatch[T], clock: Clock, on_event: Callable[[Event[T]], None]
) -> None:
    status = 0
    try:
        async with (
            asyncio.timeout(machine.deadline - clock.monotonic()) as until,
            client.get(path, ask.query) as answer,
        ):
            until.reschedule(None)
            status = answer.status
            machine.head(status, answer.retry_after, clock.monotonic())
            await _read(answer, machine, clock, on_event)
    except TimeoutError:
        machine.overdue(clock.monotonic())
    except (Unreachable, BadKubeConfig) as error:
        machine.cut(str(error), clock.monotonic())
    if status == 401:
        # Tokens change under us, and so do the files and plugins that they come from.
        await client.renew()


async def _read(answer: Answer, machine: ListWatch[T], clock: Clock, on_event: Callable[[Event[T]], None]) -> None:
    while machine.reading:
        try:
            async with asyncio.timeout(machine.deadline - clock.monotonic()):
                data = await answer.read()
        except TimeoutError:
            machine.overdue(clock.monotonic())
        except Unreachable as error:
            machine.cut(str(error), clock.monotonic())
        else:
            if data:
                machine.body(data, clock.monotonic())
            else:
                machine.end(clock.monotonic())
        await _drain(machine, clock, on_event)


async def _drain(machine: ListWatch[T], clock: Clock, on_event: Callable[[Event[T]], None]) -> None:
    begun = clock.monotonic()
    while (event := machine.next_event(clock.monotonic())) is not None:
        on_event(event)
        if clock.monotonic() - begun > _TURN:
            await clock.sleep(0)
            begun = clock.monotonic()
