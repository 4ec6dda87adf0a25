"""The settings file: flags over it, readings counted, unwatchable places looked at (I51)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from watchfiles import Change

from discovery.kit.tasks import background
from discovery.kit.testing import VirtualClock, settle
from global_ingress.proxy.settings.faults import Fault
from global_ingress.proxy.settings.file import Settings, SettingsFault
from global_ingress.proxy.supervising.config_file import LOOK, ConfigFile, Overrides


def write(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({"discovery": {"urls": ["http://d:1"]}} | more))


async def test_flags_stand_over_the_file_in_every_reading(tmp_path: Path) -> None:
    path, taken = tmp_path / "i.yaml", list[Settings]()
    write(path, listen="127.0.0.1:1", workers=3)
    file = ConfigFile(path, Overrides(listen="127.0.0.1:2"), VirtualClock())
    first = file.read()
    assert (str(first.listen), first.workers) == ("127.0.0.1:2", 3)
    write(path, listen="127.0.0.1:9", workers=4, region="here")
    await file.reload(taken.append, asked=True)
    assert [(str(one.listen), one.workers, one.region) for one in taken] == [("127.0.0.1:2", 3, "here")]
    assert file.readings[-1].needs_restart == ("workers",), "the flag hides the other address"


async def test_readings_are_counted_by_result(tmp_path: Path) -> None:
    path, taken = tmp_path / "i.yaml", list[Settings]()
    write(path)
    file = ConfigFile(path, Overrides(), VirtualClock())
    file.read()
    await file.reload(taken.append, asked=False)
    assert (file.counted, taken) == ({}, []), "nobody asked, nothing changed"
    await file.reload(taken.append, asked=True)
    path.write_text("discovery: 3")
    await file.reload(taken.append, asked=False)
    await file.reload(taken.append, asked=False)
    path.unlink()
    await file.reload(taken.append, asked=False)
    await file.reload(taken.append, asked=False)
    write(path)
    await file.reload(taken.append, asked=False)
    assert file.counted == {"unchanged": 2, "refused": 2}
    write(path, region="here")
    await file.reload(taken.append, asked=False)
    assert file.counted == {"unchanged": 2, "refused": 2, "ok": 1}
    assert [one.region for one in taken] == ["here"]


def test_only_the_settings_and_links_are_looked_at_again(tmp_path: Path) -> None:
    """A log that grows beside the settings does not have them read at each line."""
    path, link = tmp_path / "i.yaml", tmp_path / "..data"
    link.symlink_to("..1")
    file = ConfigFile(path, Overrides(), VirtualClock())
    seen = [file.concerned(Change.modified, str(tmp_path / name)) for name in ("i.yaml", "..data", "access.log")]
    assert seen == [True, True, False]


async def test_what_it_names_may_come_later(tmp_path: Path) -> None:
    """A ConfigMap and the Secret beside it arrive in any order."""
    path, beside, taken = tmp_path / "i.yaml", tmp_path / "keys.yaml", list[Settings]()

    def check(settings: Settings) -> None:
        if settings.region and not beside.exists():
            raise SettingsFault([Fault(str(beside), 0, 0, "", "cannot be read")])

    write(path)
    file = ConfigFile(path, Overrides(), VirtualClock(), check)
    file.read()
    await file.again(taken.append)
    write(path, region="here")
    await file.reload(taken.append, asked=False)
    await file.again(taken.append)
    assert (file.counted, taken) == ({"refused": 1}, []), "told once"
    await file.reload(taken.append, asked=True)
    assert file.counted == {"refused": 2}, "who asks is told"
    beside.touch()
    await file.reload(taken.append, asked=False)
    assert taken == [], "it has not changed itself"
    await file.again(taken.append)
    assert [one.region for one in taken] == ["here"]
    beside.unlink()
    await file.again(taken.append)
    assert file.counted == {"refused": 2, "ok": 1}, "settings that are used are not looked at again"


def test_at_the_start_faults_are_raised(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    with pytest.raises(FileNotFoundError):
        ConfigFile(path, Overrides(), VirtualClock()).read()
    write(path, modles=1)
    with pytest.raises(SettingsFault, match="modles"):
        ConfigFile(path, Overrides(), VirtualClock()).read()
    write(path)
    with pytest.raises(SettingsFault, match="GLOBAL_INGRESS_WORKERS"):
        ConfigFile(path, Overrides(workers="x", origins={"workers": "GLOBAL_INGRESS_WORKERS"}), VirtualClock()).read()


async def test_where_nothing_can_be_watched_the_file_is_looked_at(tmp_path: Path) -> None:
    folder, clock, taken = tmp_path / "mount", VirtualClock(), list[Settings]()
    folder.mkdir()
    path = folder / "i.yaml"
    write(path)
    file = ConfigFile(path, Overrides(), clock)
    file.read()
    folder.rename(tmp_path / "elsewhere")
    failures: list[Exception] = []
    async with background(file.watch(taken.append), name="watch", on_failure=failures.append):
        async with asyncio.timeout(20):
            while not clock.sleepers:
                await settle(1)
        folder.mkdir()
        write(path, region="here")
        await clock.advance(LOOK)
        async with asyncio.timeout(20):
            while not taken:  # noqa: ASYNC110 - a thread reads the file
                await asyncio.sleep(0.01)
    assert (failures, [one.region for one in taken]) == ([], ["here"])
