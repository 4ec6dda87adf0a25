"""`global-ingress keys`, run as people run it (I60)."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from global_ingress.proxy.settings import keys


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "global_ingress", "keys", *arguments],
        capture_output=True, text=True, timeout=60, cwd=folder, check=False, env={"PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_key_is_shown_once_and_kept_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("# of the platform team\nkeys: []\n")
    file.chmod(0o640)
    code, secret, err = run(tmp_path, "add", "a", "--model", "acme/*", "--rate", "5/1m", "--expires", "2030-01-01")
    assert (code, err) == (0, "")
    text = file.read_text()
    assert text.startswith("# of the platform team\n")
    assert secret.strip() not in text
    (key,) = keys.load(text, name="k")
    assert key.sha256 == hashlib.sha256(secret.strip().encode()).hexdigest()
    assert (key.name, key.models, key.rate) == ("a", ("acme/*",), (5, 60.0))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640, "whoever could read it still can"
    code, out, _ = run(tmp_path, "list")
    assert (code, out) == (0, f"a  sha256:{key.sha256[:12]}  models=acme/*  rate=5/1m  expires=2030-01-01\n")
    assert run(tmp_path, "revoke", "a")[:2] == (0, "")
    assert keys.load(file.read_text(), name="k") == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".keys.yaml.lock", "keys.yaml"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("add", "a"), 1, "there is a key of the name 'a' already"),
        (("revoke", "b"), 1, "there is no key of the name 'b'"),
        (("add", "b", "--rate", "often"), 2, "keys[1].rate: must be COUNT/DURATION such as 100/1m"),
        (("add", "b", "--file", "no/such/keys.yaml"), 1, "No such file or directory"),
        (("add", "b", "--expires", "2020-01-01"), 2, "--expires 2020-01-01 is in the past"),
        (("list", "--file", "nope.yaml"), 1, "nope.yaml: No such file or directory"),
        (("list", "--file", "broken.yaml"), 2, "keys[0].sha256: must be the 64 lower-case hex digits"),
        (("add", "b", "--file", "broken.yaml"), 2, "keys[0].sha256: must be the 64 lower-case hex digits"),
    ],
)
def test_what_cannot_be_done_changes_nothing(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    (tmp_path / "broken.yaml").write_text("keys: [{name: x, sha256: gi-5ecre7}]")
    assert run(tmp_path, "add", "a")[0] == 0
    before = (tmp_path / "keys.yaml").read_bytes(), (tmp_path / "broken.yaml").read_bytes()
    got, out, err = run(tmp_path, *arguments)
    assert (got, out) == (code, "")
    assert said in err
    assert "5ecre7" not in err
    assert before == ((tmp_path / "keys.yaml").read_bytes(), (tmp_path / "broken.yaml").read_bytes())


def test_commands_at_once_lose_no_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: run(tmp_path, "add", f"k{n}"), range(6)))
    assert [code for code, _, _ in done] == [0] * 6
    assert {key.name for key in keys.load((tmp_path / "keys.yaml").read_text(), name="k")} == {
        f"k{n}" for n in range(6)
    }


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    real, link = tmp_path / "kept" / "real.yaml", tmp_path / "keys.yaml"
    real.write_text("keys: []\n")
    link.symlink_to("kept/real.yaml")
    assert run(tmp_path, "add", "a")[0] == 0
    assert link.is_symlink()
    assert [key.name for key in keys.load(real.read_text(), name="k")] == ["a"]
    assert run(tmp_path, "revoke", "a")[0] == 0
    assert link.is_symlink()
    assert keys.load(link.read_text(), name="k") == ()


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    assert run(tmp_path, "add", "a")[0] == 0
    assert stat.S_IMODE((tmp_path / "keys.yaml").stat().st_mode) == 0o600


def test_a_key_that_nobody_saw_is_not_kept(tmp_path: Path) -> None:
    assert run(tmp_path, "add", "a")[0] == 0
    before = (tmp_path / "keys.yaml").read_bytes()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "global_ingress", "keys", "add", "b"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=tmp_path, check=False,
            env={"PYTHONPATH": str(Path.cwd())},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1, "keys.yaml: the key could not be shown, so it is not kept: No space left on device\n",
    )  # fmt: skip
    assert (tmp_path / "keys.yaml").read_bytes() == before
