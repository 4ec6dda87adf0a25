"""Files have up to 400 lines, functions up to 40 without their docstring.

What is larger stands in a budget, which may only shrink: raise no number, add no line; when something has become
smaller, write its new size here, and when it fits, take its line out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.tree import files, named, parsed

FILE, FUNCTION = 400, 40
LARGER_FILES = {
    "global_ingress/proxy/upstream.py": 411,
}
LARGER_FUNCTIONS = {
    "discovery/cli.py:directory": 87,  # the flags are its parameters
    "global_ingress/proxy/answering.py:_account": 41,
    "global_ingress/proxy/headers.py:read_head": 58,
    "global_ingress/proxy/running.py:__init__": 56,
}


def test_files() -> None:
    assert larger({named(path): len(path.read_text().splitlines()) for path in files(".py")}, FILE) == LARGER_FILES


def test_functions() -> None:
    sizes = {f"{name}:{function.name}": lines for name, tree in parsed() for function, lines in functions(tree)}
    assert larger(sizes, FUNCTION) == LARGER_FUNCTIONS


def test_a_docstring_does_not_count() -> None:
    found = functions(ast.parse('def f():\n    """One\n\n    two."""\n    return 1\n'))
    assert [(function.name, lines) for function, lines in found] == [("f", 2)]


@pytest.mark.parametrize(("size", "found"), [(40, {}), (41, {"a": 41})])
def test_the_limit_itself_fits(size: int, found: dict[str, int]) -> None:
    assert larger({"a": size}, 40) == found


def larger(sizes: dict[str, int], limit: int) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size > limit}


def functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _height(node)
            if ast.get_docstring(node) is not None:
                lines -= _height(node.body[0])
            yield node, lines


def _height(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
