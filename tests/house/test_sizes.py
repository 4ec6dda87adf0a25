"""Files have up to 400 lines, functions up to 40 without docstring and parameters (a command's
flags are its parameters).

What is larger stands in a budget, which may only shrink: raise no number, add no line, and when something fits, take
its line out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.tree import files, is_generated, named, parsed

FILE, FUNCTION = 400, 40
LARGER_FILES = {
    "tests/discovery/cluster/test_contract_objects.py": 430,
    "tests/service/test_b08_framing.py": 524,
    "tests/discovery/kube/test_watch.py": 434,
    "tests/service/test_b13_discovery.py": 490,
    "tests/service/test_b14_lifecycle.py": 486,
}
LARGER_FUNCTIONS = {
    "tests/soak/test_soak.py:test_nothing_fails_while_everything_changes": 45,
    "tests/soak/test_table_churn.py:test_changes_of_a_large_table_are_not_felt": 59,
}


def test_files() -> None:
    sizes = {named(path): len(path.read_text().splitlines()) for path in files(".py") if not is_generated(path)}
    assert beyond(sizes, FILE, LARGER_FILES) == []


def test_functions() -> None:
    sizes = {f"{name}:{function.name}": lines for name, tree in parsed() for function, lines in functions(tree)}
    assert beyond(sizes, FUNCTION, LARGER_FUNCTIONS) == []


def test_docstring_and_parameters_do_not_count() -> None:
    found = functions(ast.parse('def f(\n    a,\n    b,\n):\n    """One\n\n    two."""\n    return 1\n'))
    assert [(function.name, lines) for function, lines in found] == [("f", 2)]


@pytest.mark.parametrize(
    ("size", "budget", "found"),
    [
        (40, {}, []),
        (41, {}, ["a: 41 lines, 40 are the most"]),
        (41, {"a": 50}, []),
        (51, {"a": 50}, ["a: 51 lines, 50 are the most"]),
        (40, {"a": 50}, ["a: fits now, or is gone: take it out of the budget"]),
        (40, {"b": 50}, ["b: fits now, or is gone: take it out of the budget"]),
    ],
)
def test_the_budget(size: int, budget: dict[str, int], found: list[str]) -> None:
    assert beyond({"a": size}, 40, budget) == found


def beyond(sizes: dict[str, int], limit: int, budget: dict[str, int]) -> list[str]:
    large = [(name, size, budget.get(name, limit)) for name, size in sizes.items()]
    return [f"{name}: {size} lines, {most} are the most" for name, size, most in large if size > most] + [
        f"{name}: fits now, or is gone: take it out of the budget" for name in budget if sizes.get(name, 0) <= limit
    ]


def functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            assert node.end_lineno is not None
            yield node, 1 + node.end_lineno - body[0].lineno + 1 if body else 1
