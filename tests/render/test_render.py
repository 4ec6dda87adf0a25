"""`global-ingress render`: the same bytes for the same fleet, bundle.json true of them, the folder looked after."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from global_ingress.proxy.settings import file as settings
from global_ingress.proxy.settings.faults import SettingsFault
from global_ingress.render.bundle import rendered
from global_ingress.render.chart import FILES
from tests.render.making import CONFIG, EXAMPLE, FLEETS, LEAST, ROOT, fleet, objects

CHART = ROOT / "k8s" / "chart" / "global-ingress"
WITH_SECRETS = """
discovery: {urls: ["http://global-discovery:8080"]}
auth: {keys_file: ../auth/keys.yaml}
tls: {certificate: ../tls/tls.crt, key: /etc/global-ingress/tls/tls.key}
upstream: {tls: {ca: ../upstream/ca.crt}}
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "global_ingress", "render", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)


def made(text: str, config: str = CONFIG, not_yet: tuple[str, ...] = ()) -> dict[str, bytes]:
    names = {"name": "fleet.yaml", "config_name": "ingress.yaml", "version": "1"}
    return rendered(text, config, **names, not_yet=not_yet)


def faults(text: str, config: str) -> list[str]:
    with pytest.raises(SettingsFault) as raised:
        made(text, config)
    return [str(fault) for fault in raised.value.faults]


def test_what_is_committed_is_fresh() -> None:
    """make render"""
    checked = run("examples/fleet.yaml", "--check")
    assert (checked.returncode, checked.stdout) == (0, "k8s/rendered: as rendered\n")


def test_the_fleet_of_four_makes_a_folder_for_each_cluster_and_one_registry() -> None:
    fleet = (ROOT / "examples" / "fleet-four.yaml").read_text()
    config = (ROOT / "examples" / "ingress-minimal.yaml").read_text()
    files = rendered(fleet, config, name="fleet-four.yaml", config_name="ingress-minimal.yaml", version="1")
    assert {path.partition("/")[0] for path in files} == {"ohio", "oregon", "frankfurt", "tokyo", "bundle.json"}
    assert [path for path in files if path.endswith("mcs-registry.yaml")] == ["ohio/mcs-registry.yaml"]
    assert json.loads(files["bundle.json"])["warnings"] == []


@pytest.mark.parametrize("file", FILES)
def test_what_the_chart_takes_from_the_declarations_is_fresh(file: str) -> None:
    """make render"""
    assert (CHART / file).read_text() == FILES[file]()


def test_the_chart_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_same_fleet_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "global_ingress", "render", str(EXAMPLE), "-o", str(tmp_path / seed)]
        subprocess.run(command, check=True, timeout=60, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
    first, second = (
        {p.relative_to(tmp_path / seed): p.read_bytes() for p in (tmp_path / seed).rglob("*") if p.is_file()}
        for seed in ("1", "2")
    )
    assert first == second
    assert len(first) == 12


def test_the_bundle_tells_the_digest_of_every_file_and_of_the_fleet() -> None:
    files = made(FLEETS["example"])
    bundle = json.loads(files.pop("bundle.json"))
    assert bundle["files"] == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert bundle["fleet"] == {"name": "prod", "sha256": hashlib.sha256(FLEETS["example"].encode()).hexdigest()}
    [(image, digest)] = bundle["images"].items()
    assert image.endswith(f"@{digest}")
    assert bundle["secrets"] == {
        "mcs-registry-tokens": "mcs-registry in ohio: tokens.yaml",
        "mcs-controller-token": "mcs-controller in each cluster: token",
    }


def test_what_is_more_open_than_one_may_think_is_a_warning() -> None:
    assert json.loads(made(FLEETS["example"])["bundle.json"])["warnings"] == [
        "clusters: oregon has no api_server_cidr; any address may be reached at 443 and 6443",
    ]
    warned = json.loads(made(LEAST, "discovery: {urls: ['http://elsewhere:1']}\n")["bundle.json"])["warnings"]
    assert [line.partition(":")[0] for line in warned] == [
        *("image", "clusters", "clusters", "ingress.allow_from", "ingress.yaml")
    ]


def test_each_cluster_gets_the_operators_text_with_its_region() -> None:
    for index, cluster in enumerate(fleet("example").clusters):
        [config] = [one for one in objects(fleet("example"), index) if one["kind"] == "ConfigMap"]
        text = config["data"]["ingress.yaml"]
        assert text == f'region: "{cluster.region}"\n{CONFIG}'
        assert settings.load(text, name="x", directory="/").region == cluster.region
        assert config["metadata"]["name"] == f"global-ingress-config-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def test_a_config_that_is_reloaded_in_place_keeps_its_name() -> None:
    [config] = [one for one in objects(fleet("full")) if one["kind"] == "ConfigMap"]
    assert config["metadata"]["name"] == "global-ingress-config"


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (
            "region: here\n" + CONFIG,
            "ingress.yaml: region: is each cluster's own, and set from the fleet; leave it out",
        ),
        ('{"discovery": {"urls": ["http://global-discovery:8080"]}}', "must have each key on its own line"),
        (CONFIG + "drain: {timeout: 320s}\n", "drain: takes 330s with ingress.pre_stop, and ingress.grace is 330s"),
        (CONFIG + "log: {access: /var/log/access}\n", "log.access: must be stdout, off or a path in /tmp"),
        (CONFIG + "auth: {keys_file: keys.yaml}\n", "auth: names files, and the fleet has no ingress.auth_secret"),
        (CONFIG + "retrys: {}\n", "ingress.yaml:7:1: retrys: is no key of this file; did you mean retries?"),
    ],
)
def test_a_settings_file_that_does_not_fit_the_fleet(config: str, fault: str) -> None:
    assert fault in "\n".join(faults(LEAST, config))


def test_secrets_are_mounted_where_the_settings_file_names_its_files() -> None:
    secrets = "ingress: {auth_secret: keys, tls_secret: certificate, upstream_tls_secret: upstream}\n"
    assert "only/ingress.yaml" in made(LEAST + secrets, WITH_SECRETS)
    strange = WITH_SECRETS.replace("../auth/", "")
    assert "must name its files ../auth/NAME" in faults(LEAST + secrets, strange)[0]
    assert len(faults(LEAST, WITH_SECRETS)) == 3
    assert len(faults(LEAST + secrets, CONFIG)) == 3


def test_a_changed_folder_is_told_and_put_right(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert run(str(EXAMPLE), "-o", str(folder)).returncode == 0
    (folder / "ohio" / "ingress.yaml").write_text("kind: Nothing\n")
    (folder / "oregon" / "discovery.yaml").unlink()
    told = run(str(EXAMPLE), "-o", str(folder), "--check")
    assert told.returncode == 1
    assert [line.rpartition("out/")[2] for line in told.stdout.splitlines()] == [
        "ohio/ingress.yaml: differs",
        "oregon/discovery.yaml: is missing",
    ]
    assert run(str(EXAMPLE), "-o", str(folder)).returncode == 0
    assert run(str(EXAMPLE), "-o", str(folder), "--check").returncode == 0


def test_files_of_an_earlier_rendering_go_and_others_are_never_touched(tmp_path: Path) -> None:
    folder, source = tmp_path / "out", tmp_path / "fleet.yaml"
    shutil.copy(ROOT / "examples" / "ingress-minimal.yaml", tmp_path / "ingress.yaml")
    source.write_text(EXAMPLE.read_text().replace("ingress-minimal.yaml", "ingress.yaml"))
    assert run(str(source), "-o", str(folder)).returncode == 0
    source.write_text(LEAST)
    assert run(str(source), "-o", str(folder)).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.json", "only"]
    (folder / "mine.txt").write_text("mine")
    refused = run(str(source), "-o", str(folder))
    assert (refused.returncode, refused.stderr.count("mine.txt")) == (1, 1)
    assert (folder / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("name: x\n", 2, "fleet.yaml:1:1: clusters: is required"), (LEAST, 1, "ingress.yaml: No such file")],
)
def test_what_is_wrong_is_said_with_its_exit_code(tmp_path: Path, text: str, code: int, said: str) -> None:
    (tmp_path / "fleet.yaml").write_text(text)
    done = run(str(tmp_path / "fleet.yaml"), "-o", str(tmp_path / "out"))
    assert done.returncode == code
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_kustomization_names_every_file() -> None:
    files = made(
        FLEETS["full"]
        .replace("auth_secret: keys", "")
        .replace("  tls_secret: certificate\n", "")
        .replace("  upstream_tls_secret: upstream\n", "")
    )
    for cluster in ("ohio", "oregon", "tokyo"):
        there = {path.partition("/")[2] for path in files if path.startswith(f"{cluster}/")}
        named = yaml.safe_load(files[f"{cluster}/kustomization.yaml"])["resources"]
        assert {*named, "kustomization.yaml"} == there


def test_any_order_of_clusters_gives_each_the_same_objects() -> None:
    declared = fleet("full")
    clusters = list(declared.clusters)
    random.Random(7).shuffle(clusters)
    other = declared.model_copy(update={"clusters": tuple(clusters)})
    kinds = [(one["kind"], one["metadata"]["name"]) for one in objects(declared, 0)]
    assert kinds == [
        (one["kind"], one["metadata"]["name"]) for one in objects(other, clusters.index(declared.clusters[0]))
    ]
