"""`serve` from its command line: usage, addresses, settings that change, the admin listener (sections 1, 8, 10)."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from global_ingress.proxy.admin.openapi import document
from tests.service.supervised import STATIC, Serve, eventually, free_port, serving


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()[1]


def ended(folder: Path, settings: dict[str, Any] | str | None, *args: str, **environment: str) -> tuple[int, str]:
    with serving(folder, settings, *args, **environment) as serve:
        code = serve.exit_code()
        return code, serve.text()


def test_without_a_file_the_least_one_is_shown(tmp_path: Path) -> None:
    code, text = ended(tmp_path, None, "-")
    assert code == 2
    assert "--config" in text
    assert "GLOBAL_INGRESS_CONFIG" in text
    assert "discovery:\n  urls:" in text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert ended(tmp_path, None, "/no/such/file.yaml") == (
        1,
        "/no/such/file.yaml: cannot be read: No such file or directory\n",
    )


def test_all_faults_of_a_file_are_told(tmp_path: Path) -> None:
    code, text = ended(tmp_path, '{"discovery": {"pools": []},\n "modles": 3, "workers": 0}')
    assert code == 2
    for word in ("modles", "workers", "discovery.pools"):
        assert word in text
    assert ":2:" in text


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC, str(tmp_path / "ingress.yaml"), GLOBAL_INGRESS_WORKERS="many") as serve:
        assert serve.exit_code() == 2
        assert "GLOBAL_INGRESS_WORKERS" in serve.text()


def test_an_address_in_use_is_one_clear_line(tmp_path: Path, taken: int) -> None:
    config = str(tmp_path / "ingress.yaml")
    expected = f"cannot listen on 127.0.0.1:{taken}: address already in use\n"
    for listen, admin in ((taken, free_port()), (free_port(), taken)):
        code, text = ended(tmp_path, STATIC, config, f"127.0.0.1:{listen}", f"127.0.0.1:{admin}")
        assert (code, text.lower()) == (1, expected)


def test_a_flag_beats_its_variable_which_beats_the_file(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(4)]
    given = STATIC | {"listen": f"127.0.0.1:{ports[0]}", "admin": f"127.0.0.1:{ports[1]}", "workers": 1}
    with serving(
        tmp_path,
        given,
        "-",
        f"127.0.0.1:{ports[3]}",
        GLOBAL_INGRESS_CONFIG=str(tmp_path / "ingress.yaml"),
        GLOBAL_INGRESS_LISTEN=f"127.0.0.1:{ports[2]}",
        GLOBAL_INGRESS_WORKERS="2",
    ) as serve:
        serve.port, serve.admin = ports[3], ports[1]
        serve.ready()
        assert len(serve.workers()) == 2
        serve.request()
        assert json.loads(serve.ask("/config")[1])["listen"] == f"127.0.0.1:{ports[3]}"


def test_admin_off(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, STATIC, str(tmp_path / "ingress.yaml"), f"127.0.0.1:{port}", "off") as serve:
        serve.port = port
        eventually(lambda: serve.lines("worker listens"), "a worker listens")
        serve.request()
        serve.signal(signal.SIGTERM)
        assert serve.exit_code() == 0


def test_every_admin_route_is_described_and_errors_have_one_shape(tmp_path: Path) -> None:
    given = STATIC | {"probe": {"interval": "1h", "headers": {"authorization": "Bearer secret-1"}}}
    with serving(tmp_path, given) as serve:
        serve.ready()
        described = json.loads(serve.ask("/openapi.json")[1])
        assert described["paths"] == document("x")["paths"]
        for path in described["paths"]:
            status, body = serve.ask(path)
            # A decision is there for a request that was made, and none was.
            assert status == (404 if "{request_id}" in path else 200), path
            assert path in ("/metrics", "/status") or json.loads(body)
            assert b"secret-1" not in body
        assert b'"authorization":"***"' in serve.ask("/config")[1]
        status, body = serve.ask("/nope")
        assert (status, json.loads(body)["error"]["code"]) == (404, "unknown_url")


def test_the_status_names_models_pools_and_reasons(tmp_path: Path) -> None:
    given = STATIC | {"models": [{"id": "m"}, {"id": "n", "pools": [{"cluster": "elsewhere"}]}], "region": "r0"}
    with serving(tmp_path, given) as serve:
        status = serve.ready().status()
        assert (status["ready"], status["region"], status["discovery"]["static"]) == (True, "r0", True)
        assert [(m["id"], m["routable"], m["why"]) for m in status["models"]] == [
            ("m", True, None),
            ("n", False, "2 pools not selected by the model's `pools`"),
        ]
        assert [pool["models"] for pool in status["pools"]] == [{"m": "routable", "n": "not_selected"}] * 2


# ---- settings that change


def generation(serve: Serve) -> int:
    return serve.request()[2]


def test_a_signal_reloads(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        before = generation(serve.ready())
        serve.write(STATIC | {"models": [{"id": "m", "aliases": ["alias"]}]})
        serve.signal(signal.SIGHUP)
        eventually(lambda: generation(serve) == before + 1, "new routes")
        eventually(lambda: serve.metric("config_reloads_total", result="ok") >= 1, "it is counted")
        assert serve.status()["models"][0]["aliases"] == ["alias"]


def test_a_changed_file_is_read_without_a_signal_and_the_same_content_is_not(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        before = generation(serve.ready())
        serve.write(STATIC)
        (tmp_path / "other").touch()
        serve.write(STATIC | {"models": [{"id": "other"}]})
        eventually(lambda: generation(serve) == before + 1, "new routes")
        assert serve.metric("config_reloads_total") == 1


def test_a_swapped_symlink_is_seen(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: ingress.yaml → ..data/ingress.yaml, ..data → a folder that is replaced."""
    mount = tmp_path / "mount"
    for name, id in (("..1", "one"), ("..2", "two")):
        (mount / name).mkdir(parents=True)
        (mount / name / "ingress.yaml").write_text(json.dumps(STATIC | {"models": [{"id": id}]}))
    (mount / "..data").symlink_to("..1")
    (mount / "ingress.yaml").symlink_to("..data/ingress.yaml")
    ports = [free_port(), free_port()]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    with serving(tmp_path, None, str(mount / "ingress.yaml"), *addresses) as serve:
        serve.port, serve.admin = ports
        assert serve.ready().status()["models"][0]["id"] == "one"
        (mount / "..new").symlink_to("..2")
        os.rename(mount / "..new", mount / "..data")
        eventually(lambda: serve.status()["models"][0]["id"] == "two", "the other file is in force")


def test_a_faulty_file_is_refused_with_all_its_faults_and_the_old_settings_stay(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        before = generation(serve.ready())
        serve.write('{"discovery": {"pools": []}, "modles": 3, "timeouts": {"connect": "soon"}}')
        serve.signal(signal.SIGHUP)
        eventually(lambda: serve.metric("config_reloads_total", result="refused") >= 1, "it is counted")
        [refused, *_] = serve.lines("settings refused, the old ones stay")
        assert [any(word in fault for fault in refused["faults"]) for word in ("modles", "soon", "pools")] == [True] * 3
        assert generation(serve) == before
        assert serve.ask("/readyz")[0] == 200
        assert serve.status()["reloads"][0]["faults"] == refused["faults"]
        serve.config.unlink()
        serve.signal(signal.SIGHUP)
        eventually(lambda: "cannot be read" in serve.text(), "the missing file is told")
        serve.write(STATIC | {"models": [{"id": "again"}]})
        eventually(lambda: generation(serve) == before + 1, "a good file is taken again")


def test_what_needs_a_restart_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        before = generation(serve.ready())
        serve.write(STATIC | {"workers": 3, "log": {"level": "debug"}, "models": [{"id": "new"}]})
        eventually(lambda: generation(serve) == before + 1, "the rest is in force")
        [told, *_] = serve.lines("changed settings need a restart")
        assert told["keys"] == ["workers", "log"]
        assert len(serve.workers()) == 1
        assert serve.status()["reloads"][0]["needs_restart"] == ["workers", "log"]


def test_a_hundred_reloads_make_a_hundred_generations_and_no_failure(tmp_path: Path) -> None:
    with serving(tmp_path, STATIC) as serve:
        serve.ready()
        for n in range(100):
            serve.write(STATIC | {"models": [{"id": "m", "aliases": [f"a{n}"]}]})
            serve.signal(signal.SIGHUP)
            serve.request()
        eventually(lambda: serve.status()["models"][0]["aliases"] == ["a99"], "the last one is in force")
        drawn = [serve.request()[1] for _ in range(3)]
        assert drawn == [101, 102, 103], "the turn goes on through all of them"
