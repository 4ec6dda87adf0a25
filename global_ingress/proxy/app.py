"""`global-ingress serve`, put together: file, flags and variables, sockets, supervisor, discovery, probes, admin.

Owns the wiring, the signals and the exit code: 0 when it was asked to stop, 1 when it cannot start or cannot go on,
2 for wrong usage or settings.
"""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from discovery.kit import log
from discovery.kit.backoff import SYSTEM_CHANCE
from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.service import CannotServe
from global_ingress.proxy.running import WORKER, Running
from global_ingress.proxy.settings.file import Fault, Settings, SettingsFault
from global_ingress.proxy.supervising.config_file import ConfigFile, Overrides
from global_ingress.proxy.supervising.exporting import export_rules
from global_ingress.proxy.supervising.guarding import read_guards
from global_ingress.proxy.supervising.listening import CannotListen, open_listeners

_log = log.logger("global_ingress")

NO_FILE = """\
global-ingress serve: no settings file. Give one with --config FILE or GLOBAL_INGRESS_CONFIG. The least it needs:

discovery:
  urls: [http://global-discovery:8080]
models:
  - id: meta-llama/Llama-3.1-8B-Instruct
"""


def serve_command(
    config: str | None = None,
    listen: str | None = None,
    admin: str | None = None,
    workers: int | str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    worker: Sequence[str] = WORKER,
) -> int:
    """Serve until told to stop; a flag beats its variable, which beats the file. `worker` is the worker's program."""
    environment = os.environ if environment is None else environment  # noqa: TID251 - the composition root
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a reload that comes too early or too late ends nothing
    config = config or environment.get("GLOBAL_INGRESS_CONFIG")
    if not config:
        print(NO_FILE, file=sys.stderr, end="")
        return 2
    check = functools.partial(_check_beside, environment)
    file = ConfigFile(Path(config), _overrides(listen, admin, workers, environment), SYSTEM_CLOCK, check)
    try:
        settings = file.read()
        listeners = open_listeners(settings.listen.host, settings.listen.port, settings.workers)
    except SettingsFault as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{config}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    except CannotListen as error:
        print(error, file=sys.stderr)
        return 1
    if not _can_log(settings.log.access):
        return 1
    log.configure(settings.log.format, settings.log.level, sys.stderr)
    _raise_descriptor_limit()
    _look_at_descriptors(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(file, settings, listeners, worker, environment))


def _check_beside(environment: Mapping[str, str], settings: Settings) -> None:
    """What the settings need beside them: files, and for traces an exporter. Raises SettingsFault with all faults."""
    faults: list[Fault] = []
    for check in (lambda: read_guards(settings), lambda: settings.trace and export_rules(environment)):
        try:
            check()
        except SettingsFault as error:
            faults += error.faults
    if faults:
        raise SettingsFault(faults)


def _can_log(access: str | None) -> bool:
    """Whether the workers will be able to open the access log; says why not."""
    if access in (None, "stdout"):
        return True
    try:
        os.close(os.open(access, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o640))
    except OSError as error:
        print(f"log.access: {access}: cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def _overrides(
    listen: str | None, admin: str | None, workers: int | str | None, environment: Mapping[str, str]
) -> Overrides:
    given: dict[str, str | int | None] = {"listen": listen, "admin": admin, "workers": workers}
    origins = {}
    for key in given:
        variable = f"GLOBAL_INGRESS_{key.upper()}"
        if given[key] is None and environment.get(variable):
            given[key] = environment[variable]
            origins[key] = variable
    texts = {key: None if value is None else str(value) for key, value in given.items()}
    return Overrides(texts["listen"], texts["admin"], texts["workers"], origins)


def _raise_descriptor_limit() -> None:
    """Connections, counters and sockets are descriptors: take as many as we may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _look_at_descriptors(settings: Settings) -> None:
    """Each request takes a descriptor for its client and one for its frontend."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections // settings.workers
    if wanted > soft:
        _log.warning(
            "limits.connections is above the limit of descriptors", connections_per_worker=wanted, descriptors=soft
        )


async def _serve(
    file: ConfigFile,
    settings: Settings,
    listeners: list[socket.socket],
    worker: Sequence[str],
    environment: Mapping[str, str],
) -> int:
    async with AsyncExitStack() as stack:
        running = Running(
            file,
            settings,
            listeners,
            clock=SYSTEM_CLOCK,
            chance=SYSTEM_CHANCE,
            worker=worker,
            environment=environment,
        )
        stack.callback(running.close)
        _take_signals(stack, running)
        try:
            await stack.enter_async_context(running)
        except CannotServe as error:
            print(error, file=sys.stderr)
            return 1
        return await running.until_ended()


def _take_signals(stack: AsyncExitStack, running: Running) -> None:
    loop = asyncio.get_running_loop()
    acts: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGTERM: running.stop,
        signal.SIGINT: running.stop,
        signal.SIGHUP: running.reload,
    }
    for number, act in acts.items():
        loop.add_signal_handler(number, act)
        stack.callback(_give_back, loop, number)


def _give_back(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    """As it was before: SIGHUP is ignored, the others end the process."""
    loop.remove_signal_handler(number)
    if number is signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)
