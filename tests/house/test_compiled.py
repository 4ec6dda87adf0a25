"""What mypyc compiles is written so that it means the same compiled as not."""

from __future__ import annotations

import ast
import functools
import tomllib

from tests.house.tree import ROOT

# mypyc 2.4 fails on a slice of bytes that begins behind its end, where Python gives b"". So a slice with two bounds in
# a compiled module stands here, and whoever adds one has seen that its bounds are always in order.
IN_ORDER = {
    "bodies: raw[at:at + 2]",
    "chunks: data[at:at + self._left]",
    "chunks: data[at:end + 1]",
    "framing: buffer[self._fed:end + 4]",
    "framing: data[start:end]",
    "headers: low[at + 17:end if end >= 0 else None]",
    "headers: low[at + 20:end if end >= 0 else None]",
    "observer: pieces[1:-1]",
    "plane: digits[at:at + 32]",
    "toplevel: body[max(0, end - reach):end]",
    "toplevel: body[self._at:self._at + 1]",
    "toplevel: body[start:end]",
    "upstream: head[end:end + 2]",
    "upstream: head[start + 2:at]",
    "upstream: raw[end - 3:end]",
}


@functools.cache
def compiled() -> dict[str, ast.Module]:
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    names: list[str] = hooks["custom"]["modules"]
    assert names == sorted(set(names))
    return {name: ast.parse((ROOT / (name.replace(".", "/") + ".py")).read_text()) for name in names}


def test_no_slice_can_begin_behind_its_end() -> None:
    found = {
        f"{name.rpartition('.')[2]}: {ast.unparse(node)}"
        for name, tree in compiled().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower
        if node.slice.upper
    }
    assert found == IN_ORDER


def test_no_struct_is_compiled() -> None:
    """msgspec reads the types of a struct from its annotations, and mypyc puts `type` there for classes of ours."""
    classes = [node for tree in compiled().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes if any("Struct" in ast.unparse(base) for base in node.bases)] == []


def test_no_default_of_a_class_is_left_out() -> None:
    """mypyc ignores a class attribute's value that is no literal; it is set in __init__ instead."""
    for name, tree in compiled().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or any(base in ("Enum", "NamedTuple") for base in _bases(node)):
                continue
            for line in node.body:
                value = line.value if isinstance(line, ast.Assign | ast.AnnAssign) else None
                named = [ast.unparse(target) for target in line.targets] if isinstance(line, ast.Assign) else []
                if value is not None and named != ["__slots__"]:
                    assert _is_literal(value), f"{name}: {ast.unparse(line)}"


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in node.bases]


def _is_literal(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant)
    )
