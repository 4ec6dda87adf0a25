"""`python -m discovery.testing.cluster`: a fake cluster by itself, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discovery.kit.certificate import Tls
from discovery.kit.service import CannotServe, stop_on_signals
from discovery.testing.cluster.failures import ApiFailure
from discovery.testing.cluster.fake import FakeCluster
from discovery.testing.cluster.settings import Settings
from discovery.testing.cluster.text import NotText, read_documents


def main(
    port: Annotated[int, typer.Option(min=0, max=65535, help="where to listen; 0 takes any free port")] = 0,
    host: Annotated[str, typer.Option(help="address to listen at")] = "127.0.0.1",
    load: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="YAML or JSON of objects, repeatable")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="write a kubeconfig here")] = None,
    token: Annotated[str, typer.Option(help="token for the kubeconfig; any token may do everything")] = "",
    tls_cert: Annotated[Path | None, typer.Option(exists=True, help="certificate (PEM); needs --tls-key")] = None,
    tls_key: Annotated[Path | None, typer.Option(exists=True, help="its key (PEM)")] = None,
    bookmark_every: Annotated[float, typer.Option(min=0.01, help="seconds between bookmarks")] = 60.0,
    history: Annotated[int, typer.Option(min=1, help="events that are kept at least")] = 10_000,
) -> None:
    """Serve a fake Kubernetes API for tests and demos. It prints its URL once it listens."""
    if (tls_cert is None) != (tls_key is None):
        raise typer.BadParameter("--tls-cert and --tls-key go together")
    tls = Tls(tls_cert, tls_key) if tls_cert and tls_key else None
    settings = Settings(history=history, bookmark_every=bookmark_every)
    try:
        asyncio.run(
            _serve(FakeCluster(settings=settings, host=host, port=port, tls=tls), load or [], kubeconfig, token)
        )
    except (CannotServe, ValueError, OSError) as error:
        print(f"fake cluster: {error}", file=sys.stderr)
        raise typer.Exit(1) from error


async def _serve(cluster: FakeCluster, files: list[Path], kubeconfig: Path | None, token: str) -> None:
    for file in files:
        try:
            cluster.put_all(_objects(file))
        except ApiFailure as failure:
            raise ValueError(f"{file}: {failure.message}") from failure
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        async with cluster:
            if kubeconfig is not None:
                cluster.kubeconfig(kubeconfig, token=token)
            print(cluster.url, flush=True)
            await stop.wait()


def _objects(file: Path) -> list[dict[str, Any]]:
    """The objects of a file: documents, and lists as kubectl writes them. Raises ValueError."""
    try:
        documents = list(read_documents(file.read_bytes()))
    except NotText as error:
        raise ValueError(f"{file}: {error}") from error
    found: list[dict[str, Any]] = []
    for document in documents:
        if not isinstance(document, dict) or not isinstance(document.get("items", []), list):
            raise ValueError(f"{file}: a document is no object")  # noqa: TRY004 - the file's fault, not a caller's
        found += document.get("items", [document])
    return found


if __name__ == "__main__":
    typer.run(main)
