"""`global-ingress validate` as a person calls it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

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
