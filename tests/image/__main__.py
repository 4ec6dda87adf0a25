"""`make image`: builds the image, looks into it, runs it, and prints what it is.

Exit codes: 0 the image is as it must be, or cannot be built here and the reason is printed; 1 it is not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.image.building import IMAGE, ROOT, Builder, BuildFailed, CannotBuild, Identity, identity, lacking
from tests.image.running import Inside
from tests.image.smoke import smoke

SBOM = ROOT / "dist" / "global-ingress.cdx.json"
COMMANDS = ("global-ingress", "global-discovery-service")
# By name, in any folder of the image: what has no business there.
FORBIDDEN = ("gcc", "cc", "clang", "make", "pip", "pip3", "ensurepip", "setuptools", "*.h", "*.a")


def main() -> int:
    begun = time.monotonic()
    if (reason := lacking()) is not None:
        print(f"*** image: skipped, {reason}")
        return 0
    who = identity()
    builder = Builder(ROOT / ".image")
    builder.folder.mkdir(exist_ok=True)
    try:
        builder.base()
        builder.image(who)
        facts = _try(builder, who)
    except CannotBuild as reason_:
        print(f"*** image: skipped, {reason_}")
        return 0
    except BuildFailed as failed:
        print(f"*** image: FAILED: {failed}", file=sys.stderr)
        return 1
    facts |= _bill_of_materials()
    for key, value in facts.items():
        print(f"  {key:24} {value}")
    print(f"image {IMAGE}: built, run read-only as 65532, exact split; {time.monotonic() - begun:.0f} s")
    return 0


def _try(builder: Builder, who: Identity) -> dict[str, Any]:
    container = builder.buildah("from", "--pull-never", IMAGE)
    try:
        root = Path(builder.buildah("mount", container))
        config = json.loads(builder.buildah("inspect", "--type", "image", IMAGE))["OCIv1"]
        facts: dict[str, Any] = {"size_mib": _size(root), "base_mib": _size(builder.folder / "base" / "root")}
        facts["layers"] = builder.buildah("images", "--format", "{{.Size}}", IMAGE)
        labelled(config["config"], who)
        holds_nothing_else(root)
        with tempfile.TemporaryDirectory() as folder:
            files, logs = Path(folder, "files"), Path(folder, "logs")
            for path in (Path(folder), files, logs):
                path.mkdir(exist_ok=True)
                path.chmod(0o755)
            environment = dict(pair.split("=", 1) for pair in config["config"]["Env"])
            inside = Inside(root, files, environment)
            for command in COMMANDS:
                told = inside.run(command, "--version")
                wanted = f"{command} {who.told}" + (" (compiled)" if command == "global-ingress" else "")
                if told != wanted:
                    raise BuildFailed(f"{command} --version says {told!r}, not {wanted!r}")
            facts |= smoke(inside, files, logs)
        return {"version": who.told, **facts}
    finally:
        builder.drop(container)


def labelled(config: dict[str, Any], who: Identity) -> None:
    labels = config["Labels"]
    said = (labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"])
    if said != (who.told, who.revision):
        raise BuildFailed(f"the labels say {said}, not {who}")
    if (config["User"], config["StopSignal"]) != ("65532:65532", "SIGTERM"):
        raise BuildFailed(f"user or stop signal are wrong: {config}")


def holds_nothing_else(root: Path) -> None:
    found = sorted(str(path.relative_to(root)) for name in FORBIDDEN for path in root.rglob(name) if path.is_file())
    found += sorted(str(path.relative_to(root)) for path in root.rglob("pip") if path.is_dir())
    if found:
        raise BuildFailed(f"the image holds what it must not: {', '.join(found[:20])}")


def _size(tree: Path) -> int:
    return sum(path.lstat().st_size for path in tree.rglob("*") if not path.is_symlink() and path.is_file()) >> 20


def _bill_of_materials() -> dict[str, Any]:
    """CycloneDX of what is locked, into dist/; from the environment that `make` keeps for such tools."""
    tool = ROOT / ".venv-deploy" / "bin" / "cyclonedx-py"
    if not tool.exists():
        return {"sbom": "skipped: .venv-deploy is not made"}
    lock = ROOT / "requirements" / "runtime.lock"
    SBOM.parent.mkdir(exist_ok=True)
    command = [str(tool), "requirements", str(lock), "--of", "JSON", "--output-reproducible", "-o", str(SBOM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"sbom": f"failed: {done.stderr[-300:]}"}
    components = json.loads(SBOM.read_text())["components"]
    return {"sbom": f"{SBOM.relative_to(ROOT)}: {len(components)} components"}


if __name__ == "__main__":
    sys.exit(main())
