"""The process of the simulated frontends: one listener for each region, until it is told to stop.

`python -m global_ingress.demo.frontends --model ID --pace SECONDS MARK=PORT…`. Owns the listeners, all on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated

import typer
import uvicorn

from global_ingress.demo.frontend import Region, frontend_app

HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    """uvicorn that leaves the signals to `serve`, since several run in one loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(region: Region) -> uvicorn.Config:
    return uvicorn.Config(
        frontend_app(region),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=3600,  # the original closes no idle connection
        timeout_graceful_shutdown=2,
    )


def _listener(port: int) -> socket.socket:
    # Protocol 6 by name: asyncio sets TCP_NODELAY only on sockets that say so.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(512)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


@contextlib.asynccontextmanager
async def serving(regions: Mapping[Region, int]) -> AsyncIterator[list[int]]:
    """Serves each region at its port (0 = any) while the block runs; gives the ports. Raises OSError."""
    with contextlib.ExitStack() as opened:
        listeners = [opened.enter_context(contextlib.closing(_listener(port))) for port in regions.values()]
        servers = [_Server(_config(region)) for region in regions]
        async with asyncio.TaskGroup() as group:
            for server, listener in zip(servers, listeners, strict=True):
                group.create_task(server.serve(sockets=[listener]))
            try:
                yield [listener.getsockname()[1] for listener in listeners]
            finally:
                for server in servers:
                    server.should_exit = True


async def serve(regions: Mapping[Region, int]) -> None:
    """Serves until SIGTERM or SIGINT. Raises OSError where a port cannot be had."""
    told_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told_to_end.set)
    async with serving(regions):
        await told_to_end.wait()


def command(
    places: Annotated[list[str], typer.Argument(metavar="MARK=PORT…", help="a region's word and its port")],
    model: Annotated[str, typer.Option(help="the model that is served")],
    pace: Annotated[float, typer.Option(min=0, help="seconds between two tokens")] = 0.005,
) -> None:
    """Serves simulated regional frontends on 127.0.0.1."""
    regions: dict[Region, int] = {}
    for place in places:
        mark, _, port = place.partition("=")
        if not mark or not port.isdecimal():
            raise typer.BadParameter(f"{place!r} is not MARK=PORT")
        regions[Region(mark, model, pace)] = int(port)
    try:
        asyncio.run(serve(regions))
    except OSError as error:
        typer.echo(f"simulated frontends: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(command)
