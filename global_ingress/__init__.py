"""What carries requests to the pools, and what deploys and proves that."""

from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.metadata import version

__version__ = version("global-ingress")


def build() -> str:
    """Whether what carries requests is here as Python or as machine code: "pure" or "compiled"."""
    found = PathFinder.find_spec("exchange", [f"{__path__[0]}/proxy/carrying"])
    origin = found.origin if found is not None and found.origin is not None else ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
