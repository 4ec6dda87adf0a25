"""What works where the extras `dynamodb` and `grpc` are not installed: help, and saying what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiobotocore", "botocore", "google", "grpc", "grpc_health", "grpc_reflection"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from discovery.mcs.%s import main
main()
"""


def ran(module: str, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-c", _WITHOUT % module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "shown"), [("admin_command", "create-table"), ("registry_command", "--grpc-listen")]
)
def test_help_is_given(module: str, shown: str) -> None:
    code, said = ran(module, "--help")
    assert code == 0, said
    assert shown in said


@pytest.mark.parametrize(
    ("module", "arguments", "code", "extra"),
    [
        ("admin_command", ["list-clusters", "--dynamodb-table", "mcs", "--clusterset", "x"], 2, "dynamodb"),
        ("admin_command", ["create-table", "--dynamodb-table", "mcs"], 2, "dynamodb"),
        (
            "registry_command",
            ["--store", "dynamodb", "--dynamodb-table", "mcs", "--http-listen", "127.0.0.1:0"],
            1,
            "dynamodb",
        ),
        ("registry_command", ["--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"], 1, "grpc"),
    ],
)
def test_what_is_missing_is_said(module: str, arguments: list[str], code: int, extra: str) -> None:
    found, said = ran(module, *arguments)
    assert found == code, said
    assert f"pip install 'global-ingress[{extra}]'" in said
    assert "Traceback" not in said
