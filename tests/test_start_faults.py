"""What stands in the way of a start, told by `check` and `serve` alike: in words, with exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

URLS = "discovery: {urls: ['http://127.0.0.1:9']}\nlisten: 127.0.0.1:0\nadmin: off\n"
SECRET = "SECRET-0451"


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/full")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)


def text(content: str | bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def nothing(path: Path) -> None:
    """There is no file."""


UNUSABLE = [
    (nothing, 1, "No such file or directory"),
    (directory, 1, "is a directory, not a file"),
    (pipe, 1, "is no regular file"),
    (device, 1, "is no regular file"),
    (huge, 1, "has more than 16 MiB"),
    (text(b"\xff\xfe\x00"), 2, "is no UTF-8"),
    (text(""), 2, "at least discovery is needed"),
    (text("a: [1\n"), 2, ":2:1: "),
    (text(URLS + "worker: 2\ntimeouts: {connect: soon}\n"), 2, "did you mean workers?"),
    (text(URLS + "worker: 2\ntimeouts: {connect: soon}\n"), 2, "x.yaml:5:21: timeouts.connect"),
]
BESIDE = [(nothing, "cannot be read: No such"), (directory, "is a directory"), (pipe, "is no regular file"),
          (device, "is no regular file"), (huge, "has more than 16 MiB"), (text(SECRET), "")]  # fmt: skip


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "global_ingress", *arguments],
        capture_output=True, text=True, timeout=60, cwd=folder, check=False, stdin=subprocess.DEVNULL,
        env={"PYTHONPATH": str(Path.cwd()), **variables},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", [("check",), ("serve", "--config")], ids=["check", "serve"])
@pytest.mark.parametrize(("make", "code", "said"), UNUSABLE)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, command: tuple[str, ...], make: Callable[[Path], None], code: int, said: str
) -> None:
    make(tmp_path / "x.yaml")
    got, err = run(tmp_path, *command, "x.yaml")
    assert (got, said in err) == (code, True), err


@pytest.mark.parametrize("command", [("check",), ("serve", "--config")], ids=["check", "serve"])
@pytest.mark.parametrize(("make", "said"), BESIDE)
def test_files_that_the_settings_name(
    tmp_path: Path, command: tuple[str, ...], make: Callable[[Path], None], said: str
) -> None:
    """All of them at once, and nothing that they hold is shown."""
    for name in ("keys.yaml", "a.pem", "b.pem"):
        make(tmp_path / name)
    beside = "auth: {keys_file: keys.yaml}\ntls: {certificate: a.pem, key: a.pem}\nupstream: {tls: {ca: b.pem}}\n"
    (tmp_path / "x.yaml").write_text(URLS + beside)
    got, err = run(tmp_path, *command, "x.yaml")
    assert got == 2
    assert SECRET not in err
    lines = err.splitlines()
    assert all(any(name in line and said in line for line in lines) for name in ("keys.yaml", "a.pem", "b.pem")), err


def test_variables_of_traces_are_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(URLS + "trace: on\nauth: {keys_file: no.yaml}\n")
    wrong = {"OTEL_TRACES_SAMPLER": "alway_on", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    got, err = run(tmp_path, "serve", "--config", "x.yaml", **wrong)
    assert (got, len(err.splitlines())) == (2, 3), err
    assert "did you mean always_on?" in err
    assert run(tmp_path, "check", "x.yaml")[0] == 2


def test_traces_without_their_extra(tmp_path: Path) -> None:
    """A module of that name which is none stands in for a library that is not there."""
    (tmp_path / "opentelemetry.py").write_text("")
    (tmp_path / "x.yaml").write_text(URLS + "trace: on\n")
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
    got, err = run(tmp_path, "serve", "--config", "x.yaml", **path)
    assert (got, "pip install 'global-ingress[otel]'" in err) == (2, True), err
    got, err = run(tmp_path, "check", "x.yaml", **path)
    assert (got, "pip install 'global-ingress[otel]'" in err) == (0, True), err
