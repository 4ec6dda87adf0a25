"""The environment of the deployment's tools is made before the first test that needs it."""

from __future__ import annotations

import subprocess

import pytest

from tests.render.making import ROOT


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test, whose time limit a download must not eat."""
    wanted = any(item.get_closest_marker("deploy") for item in session.items)
    if wanted and not session.config.option.collectonly:
        made = subprocess.run(["make", "-s", ".venv-deploy/.ok"], cwd=ROOT, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            pytest.exit(f".venv-deploy cannot be made:\n{made.stderr[-2000:]}", returncode=1)
