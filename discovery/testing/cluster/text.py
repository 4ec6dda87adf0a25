"""Objects as text: JSON, or YAML as Kubernetes reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import yaml


class NotText(Exception):
    """It is neither JSON nor YAML; the message says where."""


class _Loader(yaml.SafeLoader):
    """Kubernetes knows no dates in YAML: a time is a string, written with or without quotes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_json(text: bytes) -> Any:
    """Raises NotText."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotText(str(error)) from error


def read_yaml(text: bytes | str) -> Any:
    """The first document. Raises NotText."""
    # Most of what says it is YAML is JSON, which is read much faster as such.
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return next(read_documents(text), None)


def read_documents(text: bytes | str) -> Iterator[Any]:
    """Every document that is not empty. Raises NotText."""
    try:
        # The loader is a safe one.
        for document in yaml.load_all(text, Loader=_Loader):
            if document is not None:
                yield document
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise NotText(str(error)) from error
