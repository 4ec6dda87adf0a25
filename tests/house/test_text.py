"""What no file of ours holds, and what each module opens with."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.tree import PACKAGES, files, named, parsed

# Put together here, so that this file does not hold them.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + r"X\b"]))
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(?<![\w./])/(?:ho" + r"me|ro" + r"ot|wo" + r"rk|Use" + r"rs)/",
            "pyt" + r"honhosted\.org",
            "py" + r"pi\.org",
            "index" + "-url [^-]",
            r"\.\./sha" + "red",
        ]
    )
)
MOCK = "unittest" + ".mock"
TEXTS = [path for path in files() if path.suffix not in {".png", ".ico"}]


@pytest.mark.parametrize(("what", "forbidden"), [("unfinished", UNFINISHED), ("elsewhere", ELSEWHERE)])
def test_no_file_holds(what: str, forbidden: re.Pattern[str]) -> None:
    found = [
        f"{named(path)}:{number}: {line.strip()[:100]}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if forbidden.search(line)
    ]
    assert found == [], what


@pytest.mark.parametrize("line", ["# TO" + "DO: later", "see /wo" + "rk/notes", "https://py" + "pi.org/simple"])
def test_they_would_be_found(line: str) -> None:
    assert UNFINISHED.search(line) or ELSEWHERE.search(line)


def test_nothing_is_mocked() -> None:
    importing = [
        name
        for name, tree in parsed()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == MOCK)
        or (isinstance(node, ast.Import) and any(alias.name == MOCK for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "unittest" and "mock" in {a.name for a in node.names})
    ]
    assert importing == []


def test_every_module_opens_with_what_it_is() -> None:
    silent = [name for name, tree in parsed() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


def test_a_broad_except_names_its_reason() -> None:
    """`except Exception` stands only in a task's outermost frame; the linter's code for it is where that is said."""
    bare = [
        f"{name}:{node.lineno}"
        for name, tree in parsed()
        if name.startswith(PACKAGES)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def test_locks_hold_hashes_only() -> None:
    for path in files(".lock"):
        for line in path.read_text().splitlines():
            assert "://" not in line, named(path)
            assert re.match(r"(\S+==|    --hash=sha256:[0-9a-f]{64}|    #|$)", line), (named(path), line)
