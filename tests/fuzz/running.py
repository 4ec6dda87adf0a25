"""How a fuzz target is run: with atheris when it is installed, else with a clear message."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

USAGE = "fuzzing needs atheris, which is not installed: uv pip install atheris (CPython 3.11 to 3.13, Linux)"


def run(check: Callable[[bytes], None], seeds: Sequence[bytes], arguments: Sequence[str]) -> int:
    """Check the seeds, then what atheris makes of them; `arguments` are libFuzzer's."""
    for seed in seeds:
        check(seed)
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print(f"{len(seeds)} seeds passed; {USAGE}", file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="fuzz-") as folder:
        for n, seed in enumerate(seeds):
            Path(folder, f"seed-{n}").write_bytes(seed)
        for name in ("framing", "headers", "chunks", "upstream", "request"):
            module = sys.modules.get(f"global_ingress.proxy.{name}")
            if module is not None:
                for function in [f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__]:
                    instrument(atheris, module, function)
        atheris.Setup([sys.argv[0], folder, f"-artifact_prefix={gettempdir()}/", *arguments], check)
        atheris.Fuzz()
    return 0


def instrument(atheris: object, module: object, function: object) -> None:
    """Have atheris see the branches of plain functions and of methods."""
    hook = getattr(atheris, "instrument_func")  # noqa: B009 - atheris has no types
    if isinstance(function, type):
        for name, method in list(vars(function).items()):
            if callable(method) and hasattr(method, "__code__"):
                setattr(function, name, hook(method))
    elif hasattr(function, "__code__"):
        setattr(module, getattr(function, "__name__"), hook(function))  # noqa: B009
