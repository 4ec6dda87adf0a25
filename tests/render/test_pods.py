"""Every pod is closed: restricted Pod Security, no token unasked, limits, probes; and its command takes its flags."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from global_ingress.render.manifests import discovery_command
from tests.render.making import FLEETS, everything, fleet, objects

DEPLOYMENTS = [one for one in everything() if one["kind"] == "Deployment"]


def asks_the_api_server(deployment: dict[str, Any]) -> bool:
    """The controller, and discovery where it reads slices."""
    name = deployment["metadata"]["name"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    if name == "global-discovery":
        return bool(arguments[arguments.index("--pool-discovery") + 1] != "registrations")
    return bool(name == "mcs-controller")


def named(deployment: dict[str, Any]) -> str:
    return f"{deployment['metadata']['labels']['app.kubernetes.io/instance']}-{deployment['metadata']['name']}"


def test_there_are_deployments() -> None:
    assert {one["metadata"]["name"] for one in DEPLOYMENTS} == {
        *("global-ingress", "global-discovery", "mcs-registry", "mcs-controller")
    }


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=named)
def test_a_pod_is_closed(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    tokens = [volume for volume in pod["volumes"] if "serviceAccountToken" in str(volume)]
    assert bool(tokens) == asks_the_api_server(deployment)
    writable = [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["tmp"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=named)
def test_a_pod_lives_and_ends_in_order(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert {*container["resources"]["requests"]} == {*container["resources"]["limits"]} == {"cpu", "memory"}
    ports = {port["name"] for port in container["ports"]}
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] in ports
    assert pod["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert len(pod["topologySpreadConstraints"]) == 2


@pytest.mark.parametrize("name", FLEETS)
def test_services_budgets_and_policies_select_pods_that_are_there(name: str) -> None:
    found = objects(fleet(name), len(fleet(name).clusters) - 1)
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in found if one["kind"] == "Deployment"]
    selecting = {"Service": ("selector",), "PodDisruptionBudget": ("selector", "matchLabels")}
    selecting["NetworkPolicy"] = ("podSelector", "matchLabels")
    for one in [o for o in found if o["kind"] in selecting]:
        wanted = one["spec"]
        for key in selecting[one["kind"]]:
            wanted = wanted.get(key, {})
        selected = [labels for labels in pods if wanted.items() <= labels.items()]
        assert len(selected) == 1 or (one["metadata"]["name"] in ("default-deny", "dns") and wanted == {})


@pytest.mark.parametrize("name", FLEETS)
def test_discovery_takes_its_flags(name: str, tmp_path: Path) -> None:
    """Started with them outside of a cluster it says that it is in none, not that the flags are wrong."""
    declared = fleet(name)
    program = str(Path(sys.executable).with_name("global-discovery-service"))
    arguments = discovery_command(declared, declared.clusters[0])[1:]
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **nowhere}
    process = subprocess.Popen(
        [program, *arguments, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        try:
            output, _ = process.communicate(timeout=6)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 2, output
    assert "cannot start with these settings" not in output
    assert "No such option" not in output


@pytest.mark.parametrize("command", ["global-ingress", "mcs-registry", "mcs-controller"])
def test_every_flag_of_a_command_is_one_of_its_flags(command: str) -> None:
    program = shutil.which(command, path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip(f"{command} is not installed: its flags are not checked")
    [container] = next(o for o in DEPLOYMENTS if o["metadata"]["name"] == command)["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"] == [command]
    arguments = container["args"]
    sub = [arguments[0]] if not arguments[0].startswith("--") else []
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "200"}
    told = subprocess.run(
        [program, *sub, "--help"], capture_output=True, text=True, check=True, timeout=60, env=environment
    ).stdout
    known = set(re.findall(r"--[a-z-]+", told))
    assert {argument for argument in arguments if argument.startswith("--")} - known == set()
