"""The commands `check` and `schema`, run as people run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from global_ingress import __version__, build

ROOT = Path(__file__).parents[1]
GOOD = "discovery: {urls: [http://d]}\n"


def run(*arguments: str, cwd: Path = ROOT) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "global_ingress", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_check_of_good_files() -> None:
    names = [f"examples/{name}.yaml" for name in ("ingress", "ingress-minimal", "models")]
    assert run("check", *names) == (0, "".join(f"{name}: no faults\n" for name in names), "")


def test_check_tells_all_faults_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("modles: 3\n" + GOOD + "workers: 0\n")
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "c.yaml").write_bytes(b"a: \xff\n")
    code, out, err = run("check", "a.yaml", "b.yaml", "c.yaml", cwd=tmp_path)
    assert (code, out) == (2, "b.yaml: no faults\n")
    first, second, third = err.splitlines()
    assert first.startswith("a.yaml:1:1: modles: is no key of this file; did you mean models?; allowed: admin, ")
    assert second == "a.yaml:3:10: workers: must be at least 1, got 0"
    assert third == "c.yaml:1:4: is no UTF-8: byte 0xff"


def test_an_unreadable_file_is_a_failure_and_faults_weigh_more(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("")
    assert run("check", "nope.yaml", cwd=tmp_path) == (1, "", "nope.yaml: cannot be read: No such file or directory\n")
    assert run("check", ".", cwd=tmp_path)[0] == 1
    assert run("check", "bad.yaml", "nope.yaml", cwd=tmp_path)[0] == 2


def test_wrong_usage_is_2() -> None:
    assert run("check")[0] == 2
    assert run("chek", "x")[0] == 2
    assert run("check", "--nope", "x")[0] == 2


def test_schema_is_the_published_one() -> None:
    code, out, err = run("schema")
    assert (code, err) == (0, "")
    assert out == (ROOT / "examples" / "ingress.schema.json").read_text()
    assert "discovery" in json.loads(out)["required"]


def test_version() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out == f"global-ingress {__version__} ({build()})\n"


def test_the_shell_can_complete() -> None:
    script = subprocess.run(
        [str(Path(sys.executable).with_name("global-ingress"))],
        env={"PATH": "/usr/bin:/bin", "_GLOBAL_INGRESS_COMPLETE": "complete_bash", "COMP_WORDS": "global-ingress ch",
             "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert (script.returncode, script.stdout.split()) == (0, ["check"])
