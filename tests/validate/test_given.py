"""What the operator gives is read before anything is measured, and refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from global_ingress.validate.given import read_given
from tests.validate.deployed import BUNDLE, FOLDER

FLEET = FOLDER.parents[1] / "examples" / "fleet.yaml"


def test_folders_kubeconfigs_and_the_fleet_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("")
    given, rendered = read_given([f"ohio={path}"], ["ohio=east:1"], FOLDER, FOLDER, FLEET, ["billing"])
    assert given.kubeconfigs == (("ohio", str(path), "east:1"),)
    assert given.bundle is not None
    assert (given.bundle.sha256, given.fleet_sha256) == (BUNDLE.sha256, BUNDLE.fleet_sha256)
    assert given.protect == ("billing",)
    assert set(rendered.objects) == set(rendered.rollback) == {"ohio", "oregon"}


def test_nothing_given_is_nothing_known() -> None:
    given, rendered = read_given([], [], None, None, None, [])
    assert (given.kubeconfigs, given.bundle, rendered.objects) == ((), None, {})


@pytest.mark.parametrize(
    ("kubeconfigs", "contexts", "bundle", "fleet", "named"),
    [
        (["ohio"], [], None, None, "'ohio' is not CLUSTER=PATH"),
        (["ohio=x", "ohio=y"], [], None, None, "ohio is named twice"),
        (["ohio=/nowhere/config"], [], None, None, "there is no file /nowhere/config"),
        ([], ["ohio=east"], None, None, "no --kubeconfig is given for ohio"),
        ([], [], FLEET.parent, None, "there is no bundle.json"),
        ([], [], None, FLEET, "there is no --bundle to compare it with"),
        ([], [], FOLDER, FLEET.parent / "nothing.yaml", "No such file"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    kubeconfigs: list[str], contexts: list[str], bundle: Path | None, fleet: Path | None, named: str
) -> None:
    with pytest.raises(typer.BadParameter, match=named):
        read_given(kubeconfigs, contexts, bundle, None, fleet, [])
