"""Runs in `.venv-deploy`, which has what is too large for the tests' own environment; JSON in, JSON out.

`validate VERSION…`: what is wrong with each object, by Kubernetes version. `helm CHART`: a chart with each of several
values, or why the values are refused.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import Any

WITHOUT_SCHEMA = {"ServiceMonitor"}


def validate(versions: list[str], objects: list[dict[str, Any]]) -> list[str]:
    """A line for each fault. A kind that has no schema is one, unless it is named above."""
    import kubernetes_validate
    from kubernetes_validate import utils

    utils.schema_contents = functools.cache(utils.schema_contents)
    found = []
    for version in versions:
        for one in objects:
            name = f"{version}: {one.get('kind')}/{one['metadata']['name']}"
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{name}: {list(error.absolute_path)}: {error.message[:200]}")
            except kubernetes_validate.SchemaNotFoundError:
                if one["kind"] not in WITHOUT_SCHEMA:
                    found.append(f"{name}: there is no schema for it")
    return found


def helm(chart: str, all_values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import helm_python
    import yaml

    loaded = helm_python.Chart.load(chart)
    answers: list[dict[str, Any]] = []
    for values in all_values:
        try:
            files = loaded.render(values=values, name="release", namespace="default")
        except helm_python.HelmError as error:
            answers.append({"error": str(error)})
            continue
        documents = [one for text in files.values() for one in yaml.safe_load_all(text)]
        answers.append({"objects": [one for one in documents if one]})
    return answers


if __name__ == "__main__":
    given = json.load(sys.stdin)
    answer: Any = validate(sys.argv[2:], given) if sys.argv[1] == "validate" else helm(sys.argv[2], given)
    json.dump(answer, sys.stdout)
