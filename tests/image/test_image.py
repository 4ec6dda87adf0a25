"""What `make image` would object to, without an image."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.image.__main__ import holds_nothing_else, labelled
from tests.image.building import ROOT, BuildFailed, Identity, identity
from tests.image.smoke import REGIONS, REQUESTS, kind

RIGHT = {
    "User": "65532:65532",
    "StopSignal": "SIGTERM",
    "Labels": {"org.opencontainers.image.version": "1.2.3+gabc", "org.opencontainers.image.revision": "abc"},
}


@pytest.mark.parametrize("path", ["usr/bin/gcc", "usr/include/stdio.h", "opt/lib/site-packages/pip/x.py", "bin/pip3"])
def test_what_has_no_business_in_it_is_found(tmp_path: Path, path: str) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()
    holds_nothing_else(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    with pytest.raises(BuildFailed, match="holds what it must not"):
        holds_nothing_else(tmp_path)


UNTRUE = {"org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.revision": "abc"}


@pytest.mark.parametrize("wrong", [{"User": "root"}, {"StopSignal": "SIGKILL"}, {"Labels": UNTRUE}])
def test_labels_and_user_are_looked_at(wrong: dict[str, object]) -> None:
    who = Identity("1.2.3", "abc")
    labelled(RIGHT, who)
    with pytest.raises(BuildFailed):
        labelled(RIGHT | wrong, who)


def test_the_eight_requests_are_of_all_kinds_and_no_pool_gets_one_kind_twice() -> None:
    kinds = [kind(k) for k in range(REQUESTS)]
    assert sorted(set(kinds)) == [(False, False), (False, True), (True, False), (True, True)]
    for pool in range(REGIONS):
        assert len({kinds[k] for k in range(pool, REQUESTS, REGIONS)}) == REQUESTS // REGIONS


def test_the_identity_is_the_projects() -> None:
    assert identity().told.startswith(identity().version)


def test_only_what_is_needed_goes_into_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert allowed == {
        *("pyproject.toml", "README.md", "LICENSE", "requirements/build.lock", "requirements/runtime.lock"),
        *("discovery", "global_ingress", "hatch_build.py", "dist/wheels"),
    }


def test_the_setup_of_ci_is_a_script_that_can_be_read() -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "setup")], check=False, timeout=30).returncode == 0
