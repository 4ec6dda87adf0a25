"""What the operator gives beside addresses, read from files: kubeconfigs, rendered folders, the fleet file.

Owns the refusal of what cannot be read, before anything is measured. Refuses nothing that can be evidence: an API
server that does not answer, or a folder that is not what was rendered, is for the report.
"""

from __future__ import annotations

from pathlib import Path

import typer

from global_ingress.validate.asking import Given, Rendered
from global_ingress.validate.bundle import BadBundle, Object, read_bundle, sha256
from global_ingress.validate.platform import Bundle

_MOST = 16 * 1024 * 1024


def read_given(
    kubeconfigs: list[str],
    contexts: list[str],
    bundle: Path | None,
    rollback: Path | None,
    fleet: Path | None,
    protect: list[str],
) -> tuple[Given, Rendered]:
    """Raises typer.BadParameter."""
    named, chosen = _pairs("--kubeconfig", kubeconfigs, "PATH"), _pairs("--context", contexts, "NAME")
    if strangers := [name for name in chosen if name not in named]:
        raise typer.BadParameter(f"no --kubeconfig is given for {', '.join(strangers)}", param_hint="--context")
    if missing := [path for path in named.values() if not Path(path).expanduser().is_file()]:
        raise typer.BadParameter(f"there is no file {', '.join(missing)}", param_hint="--kubeconfig")
    if fleet is not None and bundle is None:
        raise typer.BadParameter("there is no --bundle to compare it with", param_hint="--fleet")
    deployed, objects = _folder("--bundle", bundle)
    former, earlier = _folder("--rollback", rollback)
    given = Given(
        kubeconfigs=tuple((name, path, chosen.get(name, "")) for name, path in named.items()),
        bundle=deployed,
        rollback=former,
        fleet_sha256=_sha256(fleet) if fleet is not None else "",
        protect=tuple(protect),
    )
    return given, Rendered(objects, earlier)


def _pairs(flag: str, given: list[str], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    wrong = []
    for pair in given:
        cluster, _, value = pair.partition("=")
        if not cluster or not value:
            wrong.append(f"{pair!r} is not CLUSTER={what}")
        elif cluster in found:
            wrong.append(f"{cluster} is named twice")
        found[cluster] = value
    if wrong:
        raise typer.BadParameter("; ".join(wrong), param_hint=flag)
    return found


def _folder(flag: str, folder: Path | None) -> tuple[Bundle | None, dict[str, list[Object]]]:
    if folder is None:
        return None, {}
    try:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        if sum(path.stat().st_size for path in paths) > _MOST:
            raise typer.BadParameter(f"{folder} holds more than {_MOST} bytes; it is no bundle", param_hint=flag)
        return read_bundle(str(folder), {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})
    except (OSError, BadBundle) as error:
        raise typer.BadParameter(str(error), param_hint=flag) from error


def _sha256(path: Path) -> str:
    try:
        return sha256(path.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--fleet") from error
