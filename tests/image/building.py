"""Builds `Dockerfile.runtime` with buildah on a base that debootstrap makes, without a container daemon.

Owns the folder it is given: base, storage, wheels. Says why it cannot, when it cannot: `CannotBuild`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/global-ingress"
_BASE = "localhost/base"
_MIRRORS = {"debian": "http://deb.debian.org/debian", "ubuntu": "http://archive.ubuntu.com/ubuntu"}
_PATIENCE_S = 900.0


class CannotBuild(Exception):
    """This machine lacks what building needs; the message says what."""


class BuildFailed(Exception):
    """A step ended with a failure; the message holds its last lines."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the image must say of itself."""

    version: str
    revision: str

    @property
    def told(self) -> str:
        return f"{self.version}+g{self.revision}" if self.revision else self.version


def identity() -> Identity:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return Identity(version, found.stdout.strip() if found.returncode == 0 else "")


def lacking() -> str | None:
    """Why no image can be built here; None when it can."""
    if os.geteuid() != 0:
        return "not root: buildah's chroot isolation and debootstrap need it"
    missing = [tool for tool in ("buildah", "debootstrap", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return None if _release()[0] in _MIRRORS else "neither Debian nor Ubuntu: no base for debootstrap"


def _release() -> tuple[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    words = {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}
    return words.get("ID", ""), words.get("VERSION_CODENAME", "")


class Builder:
    """buildah, with its storage in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._buildah = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "storage")]
        self._buildah += ["--runroot", str(folder / "run")]

    def buildah(self, *arguments: str) -> str:
        return run([*self._buildah, *arguments])

    def base(self) -> None:
        """The base image: the release of this machine, so that its Python is the one the wheels are fetched for."""
        tree = self.folder / "base"
        if not (tree / "made").exists():
            shutil.rmtree(tree, ignore_errors=True)
            distribution, codename = _release()
            try:
                run(["debootstrap", "--variant=minbase", codename, str(tree / "root"), _MIRRORS[distribution]])
            except BuildFailed as failed:
                raise CannotBuild(f"debootstrap cannot make a base here: {failed}") from None
            for package in (tree / "root" / "var" / "cache" / "apt" / "archives").glob("*.deb"):
                package.unlink()  # installed already
            (tree / "made").touch()
        if _BASE in self.buildah("images", "--format", "{{.Name}}").split():
            return
        container = self.buildah("from", "scratch")
        mounted = self.buildah("mount", container)
        run(["cp", "-a", str(tree / "root") + "/.", mounted])
        self.buildah("umount", container)
        self.buildah("commit", "-q", container, _BASE)
        self.buildah("rm", container)

    def image(self, who: Identity) -> None:
        fetch_wheels()
        given = {
            "BASE_IMAGE": _BASE,
            "PIP_OPTIONS": "--no-index --find-links dist/wheels",
            "VERSION": who.told,
            "REVISION": who.revision,
        }
        arguments = [part for key, value in given.items() for part in ("--build-arg", f"{key}={value}")]
        how = ["--isolation", "chroot", "--pull-never", *arguments, "-f", str(ROOT / "Dockerfile.runtime")]
        self.buildah("build", *how, "-t", IMAGE, str(ROOT))
        self.buildah("rmi", "--prune")  # the image before this one, and what it was built in

    def drop(self, container: str) -> None:
        self.buildah("umount", container)
        self.buildah("rm", container)


def fetch_wheels() -> None:
    """The locked dependencies into dist/wheels, hashes checked, for this machine's Python."""
    wheels = ROOT / "dist" / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    download = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--require-hashes"]
    for lock in ("runtime", "build"):
        file = str(ROOT / "requirements" / f"{lock}.lock")
        run([*download, "--only-binary", ":all:", "-r", file, "-d", str(wheels)])


def run(command: Sequence[str]) -> str:
    """What the command printed. Raises BuildFailed with its last lines."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BuildFailed(f"{' '.join(command[:4])} … ended with {done.returncode}:\n{last}")
    return done.stdout.strip()
