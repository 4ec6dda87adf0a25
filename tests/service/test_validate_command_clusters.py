"""`global-ingress validate` as a person calls it where there are API servers, and where it is broken off."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from global_ingress.validate.evidence import Task
from tests.service.ingress.process import eventually
from tests.service.test_validate_command import validate
from tests.validate.deployed import FOLDER, deployed
from tests.validate.world import MODEL, Wrong, world

pytestmark = [pytest.mark.outside, pytest.mark.slow]


def addresses(task: Task) -> list[str]:
    found = [f"--ingress={name}={url}" for name, url in task.ingresses]
    found += [f"--discovery={name}={url}" for name, url in task.discoveries]
    return [*found, "--model", MODEL, "--requests-per-pool", "4"]


async def test_an_api_server_is_asked_and_held_against_the_bundle(tmp_path: Path) -> None:
    fleet = FOLDER.parents[1] / "examples" / "fleet.yaml"
    async with world(Wrong()) as task, deployed() as fake:
        path = fake.kubeconfig(tmp_path / "config")
        given = [f"--kubeconfig=ohio={path}", "--context=ohio=fake", f"--bundle={FOLDER}", f"--rollback={FOLDER}"]
        code, _, errors = await validate(*addresses(task), *given, f"--fleet={fleet}", "-o", str(tmp_path / "report"))
    assert code == 0, errors
    assert "API servers of ohio" in errors
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    verdicts = {check["id"]: (check["verdict"], check["reason"]) for check in report["checks"]}
    for name in ("provenance.digests", "materialization.diff", "conformance.access", "rollback.bundle"):
        # All is well in ohio, and nobody knows of oregon.
        assert verdicts[name] == ("skipped", "unknown: oregon: no kubeconfig was given (--kubeconfig)")
    assert report["clusters"][0]["version"] == "v1.34.0+fake"


async def test_the_clusters_cannot_disturb_without_their_kubeconfigs() -> None:
    given = ["--ingress=a=http://127.0.0.1:1", "--discovery=a=http://127.0.0.1:1", "--model", "m"]
    code, _, errors = await validate(*given, "--disturb", "kubernetes")
    assert code == 2
    assert "kubernetes needs --kubeconfig" in " ".join(errors.replace("│", " ").split())


async def test_a_region_that_is_cut_comes_back_when_it_is_told_to_end(tmp_path: Path) -> None:
    """By SIGTERM, as whatever runs it sends."""
    deeds, script = tmp_path / "deeds", tmp_path / "disturb.py"
    script.write_text(
        f"import sys\nopen({str(deeds)!r}, 'a').write(sys.argv[1] + '\\n')\nsys.exit(sys.argv[1] == 'replace')\n"
    )
    deeds.write_text("")
    async with world(Wrong()) as task:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "global_ingress", "validate", *addresses(task)),
            *("--disturb", f"{sys.executable} {script}"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await eventually(lambda: "cut" in deeds.read_text(), "the cut to be asked for", 60.0)
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 143
    assert "ended by SIGTERM" in errors.decode()
    assert deeds.read_text().split() == ["replace", "cut", "restore"]


@pytest.mark.parametrize(
    ("says", "verdict", "named"),
    [
        ("sys.exit('no signatures found' if '@sha256:' not in sys.argv[1] else 0)", "passed", "1 images are signed"),
        ("sys.exit('no signatures found')", "failed", "1 of 1 images are not signed by who may"),
    ],
    ids=["signed", "not signed"],
)
async def test_images_are_verified_by_the_command_that_is_given(
    tmp_path: Path, says: str, verdict: str, named: str
) -> None:
    script = tmp_path / "verify.py"
    script.write_text(f"import sys\n{says}\n")
    async with world(Wrong()) as task:
        given = [f"--bundle={FOLDER}", f"--verifier={sys.executable} {script}", "--phase=1", "--phase=3"]
        code, _, errors = await validate(*addresses(task), *given, "-o", str(tmp_path / "report"))
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    checks = {check["id"]: check for check in report["checks"]}
    found = checks["provenance.signatures"]
    assert (found["verdict"], found["reason"]) == (verdict, named), errors
    assert code == (verdict == "failed")
    assert [one["image"] for one in report["signatures"]] == list(
        json.loads((FOLDER / "bundle.json").read_bytes())["images"]
    )
    assert report["exchanges"] == [], "nothing is sent for these phases"
    assert checks["traffic.steady-state-1"]["reason"] == "phase 6 was not asked for (--phase 1, 3)"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--phase=8"], "'--phase': Input should be less than or equal to 7"),
        (["--phase=5", "--disturb=true"], "phase 6, which disturbs, is not among --phase"),
        (["--verifier=cosign verify"], "there is no --bundle whose images it could verify"),
        ([f"--bundle={FOLDER}", "--verifier=cosign 'verify"], "No closing quotation"),
        (["--disturb= "], "it is empty"),
    ],
)
async def test_what_does_not_fit_together_is_refused(given: list[str], named: str) -> None:
    code, _, errors = await validate(
        "--ingress=a=http://127.0.0.1:1", "--discovery=a=http://127.0.0.1:1", "--model=m", *given
    )
    assert code == 2
    assert named in " ".join(errors.replace("│", " ").split())
