"""The harness itself: regions are real, say their name in the text, and nothing of them is left behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest

from tests.e2e import model_folder
from tests.e2e.children import ROOT, Children, ConditionNotMet, wait_until
from tests.e2e.leash import left_over, start_ticks
from tests.e2e.regions import MODEL, Region, free_ports
from tests.e2e.traffic import HELLO, open_stream, sdk, take, text_of, whole_text

SLEEPER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
DEAF = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


def test_tags_are_read_from_the_text() -> None:
    assert model_folder.tags(" r1w1484 r1w1461") == ["r1", "r1"]
    assert model_folder.tags("hello r1 w17") == []


def test_the_vocabulary_covers_what_the_mocker_emits(tmp_path: Path) -> None:
    folder = model_folder.write(tmp_path / "model", "r7")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    words = {number: word for word, number in vocabulary.items()}
    assert len(vocabulary) == len(words) == model_folder.VOCABULARY
    assert all(words[number] == f"\u0120r7w{number}" for number in range(1000, 2000))


def test_a_condition_that_never_comes_says_what_was_seen() -> None:
    with pytest.raises(ConditionNotMet, match=r"three: not within 0\.1 s, last seen \[\]"):
        wait_until(list, "three", 0.1)


def test_a_given_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"taken on 127.0.0.1: {port}"):
            free_ports(1, port)


def test_every_child_is_ended_even_one_that_ignores_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.e2e.children.STOP_GRACE_S", 0.5)
    with Children(tmp_path) as own:
        polite, deaf = own.start("polite", SLEEPER, {}), own.start("deaf", DEAF, {})
        for child in (polite, deaf):
            wait_until(lambda child=child: "up" in child.log_text(), f"{child!r} up", 10)  # type: ignore[misc]
    assert not polite.alive()
    assert polite.wait(0) == -signal.SIGTERM
    assert deaf.wait(0) == -signal.SIGKILL


def test_the_leash_ends_what_a_killed_run_leaves(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal\nfrom pathlib import Path\nfrom tests.e2e.children import Children\n"
        "with Children(Path(sys.argv[1])) as own:\n"
        "    print(own.start('deaf', eval(sys.argv[2]), {}).pid, flush=True)\n    signal.pause()\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), repr(DEAF)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        ticks = start_ticks(pid)
        assert ticks is not None
        run.kill()
    wait_until(lambda: start_ticks(pid) != ticks or _is_zombie(pid), f"end of {pid}", 10)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def test_the_leash_lists_only_what_was_not_ended() -> None:
    assert left_over(["+10 77\n", "+11 78\n", "-10\n"]) == {11: "78"}


@pytest.mark.e2e
def test_each_region_names_itself_in_the_text(regions: list[Region]) -> None:
    for region in regions:
        with sdk(region.url) as direct:
            answer = direct.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=5)
            assert set(model_folder.tags(answer.choices[0].message.content or "")) == {region.tag}
            with open_stream(direct, 20) as stream:
                assert set(model_folder.tags(whole_text(list(stream), 20))) == {region.tag}


@pytest.mark.e2e
def test_a_killed_worker_fails_its_stream_and_comes_back(regions: list[Region]) -> None:
    region = regions[0]
    with sdk(region.url) as direct, open_stream(direct) as stream:
        assert model_folder.tags(text_of(take(stream, 5)))
        region.signal_worker()
        with pytest.raises(openai.APIError):
            list(stream)
    region.restore()
    with sdk(region.url) as direct:
        assert direct.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1).choices


@pytest.mark.e2e
def test_a_killed_frontend_refuses_and_comes_back_on_its_port(regions: list[Region]) -> None:
    region = regions[1]
    region.signal_frontend()
    wait_until(lambda: region.ready_workers() == 0, "the frontend gone", 5)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{region.url}/live")
    region.restore()
    assert region.ready_workers() == 1


@pytest.mark.e2e
def test_a_client_that_leaves_is_reported_by_the_mocker(regions: list[Region]) -> None:
    region = regions[2]
    before, log_before = region.cancellations(), len(region.worker_log())
    with sdk(region.url) as direct, open_stream(direct) as stream:
        take(stream, 3)
    wait_until(lambda: region.cancellations() == before + 1, "the frontend's cancellation count", 5)
    wait_until(lambda: "cancel" in region.worker_log()[log_before:], "the mocker's log of the cancellation", 5)
    wait_until(lambda: region.in_flight() == 0, "nothing in flight in the region", 5)
