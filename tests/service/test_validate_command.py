"""`global-ingress validate` as a person calls it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from global_ingress.validate.report.document import to_json
from global_ingress.validate.report.judged import report_on
from global_ingress.validate.run import Patience, measure
from tests.validate.world import MODEL, Wrong, world

pytestmark = pytest.mark.outside


async def validate(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "global_ingress", "validate", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize(("wrong", "code"), [(Wrong(), 0), (Wrong(lose_done_at=1), 1)], ids=["right", "wrong"])
async def test_it_prints_writes_and_ends_as_the_verdict_says(tmp_path: Path, wrong: Wrong, code: int) -> None:
    async with world(wrong) as task:
        addresses = [f"--ingress={name}={url}" for name, url in task.ingresses]
        addresses += [f"--discovery={name}={url}" for name, url in task.discoveries]
        found, output, errors = await validate(
            *addresses, "--model", MODEL, "--requests-per-pool", "4", "-o", str(tmp_path / "report")
        )
    assert found == code, errors
    assert "traffic, run 2 of 2: 16 requests" in errors
    assert output.splitlines()[-1].startswith("PASSED: 32/32" if code == 0 else "FAILED: 31/32")
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert report["verdict"] == ("passed" if code == 0 else "failed")
    assert (tmp_path / "report" / "report.txt").read_text() == output
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "report.json",
        "report.txt",
        "report.md",
        "report.html",
        "junit.xml",
    }


async def test_wrong_addresses_are_named_all_at_once() -> None:
    code, _, errors = await validate(
        "--ingress", "ohio", "--ingress", "a=ftp://x", "--discovery", "a=http://x", "--model", "m"
    )
    assert code == 2
    words = " ".join(errors.replace("│", " ").split())
    assert "'ohio' is not CLUSTER=http://HOST:PORT; 'a=ftp://x' is not CLUSTER=http://HOST:PORT" in words


async def test_a_folder_that_cannot_be_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    where = str(tmp_path / "file" / "report")
    code, output, errors = await validate(
        "--ingress", "a=http://127.0.0.1:1", "--discovery", "a=http://127.0.0.1:1", "--model", "m", "-o", where
    )
    assert (code, output) == (1, "")
    assert errors.startswith("cannot write the report: ")


async def test_what_is_needed_is_named_all_at_once() -> None:
    code, _, errors = await validate("--requests-per-pool", "4")
    assert code == 2
    assert "missing: --model, --ingress, --discovery" in " ".join(errors.replace("│", " ").split())


async def test_an_admin_listener_of_nobody_is_refused() -> None:
    addresses = ["--ingress=a=http://127.0.0.1:1", "--discovery=a=http://127.0.0.1:1", "--admin=b=http://127.0.0.1:1"]
    code, _, errors = await validate(*addresses, "--model", "m")
    assert code == 2
    assert "no --ingress is given for b" in errors


async def test_two_reports_are_compared(tmp_path: Path) -> None:
    bodies = []
    for wrong in (Wrong(), Wrong(lose_done_at=1)):
        async with world(wrong) as task:
            report = report_on(await measure(task, say=lambda _: None, patience=Patience(interval_s=0.01)))
        bodies.append(to_json(report))
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for path, body in zip((old, new), bodies, strict=True):
        path.write_bytes(body)
    code, output, _ = await validate("--diff", str(old), str(new))
    assert code == 1
    assert output.startswith("traffic.steady-state-1: passed -> failed")
    assert (await validate("--diff", str(new), str(new)))[:2] == (0, "nothing changed\n")
    code, _, errors = await validate("--diff", str(old), str(tmp_path / "nothing.json"))
    assert code == 2
    assert "nothing.json" in errors


async def test_bad_objectives_end_it_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "objectives.yaml"
    file.write_text("latency: 1s\n")
    addresses = ["--ingress=a=http://127.0.0.1:1", "--discovery=a=http://127.0.0.1:1", "--model", "m"]
    code, _, errors = await validate(*addresses, "--objectives", str(file))
    assert code == 2
    assert "latency: unknown" in errors


async def test_the_schema_of_a_report_is_printed() -> None:
    code, output, _ = await validate("--schema")
    assert code == 0
    assert json.loads(output)["$ref"] == "#/$defs/Document"
