"""Manifests before Kubernetes' own schemas, the chart beside the render, a real API server where one is given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from global_ingress.render.chart import values_of
from tests.render.making import CONFIG, FLEETS, ROOT, everything, fleet, objects

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(300)]
VERSIONS = ("1.31", "1.34", "1.37")
CHART = "k8s/chart/global-ingress"
CASES = [(name, index) for name in FLEETS for index in range(len(fleet(name).clusters))]


def tools(given: object, *arguments: str) -> Any:
    command = [".venv-deploy/bin/python", "tests/render/deploy_tools.py", *arguments]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=250, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_object_is_as_kubernetes_declares_it() -> None:
    assert tools(everything(), "validate", *VERSIONS) == []


def test_what_is_not_would_be_told() -> None:
    wrong = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"prots": []}},
        {"apiVersion": "example.com/v1", "kind": "Strange", "metadata": {"name": "b"}},
    ]
    first, second = tools(wrong, "validate", VERSIONS[0])
    assert "prots" in first
    assert "no schema" in second


def test_the_chart_renders_what_render_does() -> None:
    values = [values_of(fleet(name), fleet(name).clusters[index].id, CONFIG) for name, index in CASES]
    for (name, index), answer in zip(CASES, tools(values, "helm", CHART), strict=True):
        assert "error" not in answer, answer
        wanted = {_key(one): one for one in objects(fleet(name), index)}
        found = {_key(one): one for one in answer["objects"]}
        assert len(found) == len(answer["objects"])
        assert found.keys() == wanted.keys(), (name, index)
        for key, one in wanted.items():
            assert found[key] == one, (name, index, key)


def test_the_charts_defaults_are_the_renders() -> None:
    least: dict[str, Any] = {
        "name": "small",
        "image": "registry.example.com/global-ingress:0.1.0",
        "clusters": [{"id": "only", "region": "eu-west-1"}],
        "cluster": "only",
        "ingress": {"config": CONFIG},
    }
    [answer] = tools([least], "helm", CHART)
    found = {_key(one): one for one in answer["objects"]}
    assert found == {_key(one): one for one in objects(fleet("least"))}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"nmae": "x"}, "nmae"),
        ({"image": "UPPER CASE"}, "image"),
        ({"cluster": "rome"}, "rome"),
        ({"discovery": {"mode": "files"}}, "mode"),
        ({"ingress": {"config": ""}}, "config"),
    ],
)
def test_values_that_are_wrong_are_refused_by_name(changed: dict[str, Any], named: str) -> None:
    values = values_of(fleet("example"), "ohio", CONFIG) | changed
    [answer] = tools([values], "helm", CHART)
    assert named in answer["error"]


def test_a_real_api_server_takes_every_object() -> None:
    kubeconfig = os.environ.get("KUBECONFIG_TEST")
    if not kubeconfig or shutil.which("kubectl") is None:
        pytest.skip("KUBECONFIG_TEST names no API server, or there is no kubectl: nothing was dry-run on a real one")
    documents = [one for one in objects(fleet("example")) if one.get("kind") != "Namespace"]
    for one in documents:  # the namespace is not there in a dry run
        one["metadata"].pop("namespace", None)
    done = subprocess.run(
        ["kubectl", "--kubeconfig", kubeconfig, "apply", "--dry-run=server", "-f", "-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cluster", ["ohio", "oregon"])
def test_kustomize_builds_what_is_committed(cluster: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl: kustomize did not build the folders")
    built = subprocess.run(
        ["kubectl", "kustomize", f"k8s/rendered/{cluster}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert built.returncode == 0, built.stderr
    index = ["ohio", "oregon"].index(cluster)
    wanted = {_key(one): one for one in objects(fleet("example"), index)}
    assert {_key(one): one for one in yaml.safe_load_all(built.stdout)} == wanted


def _key(one: dict[str, Any]) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]
