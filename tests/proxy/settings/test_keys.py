"""The keys file: what it may say, and that no fault of it shows a key (I60, I63)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.settings import keys, yaml_places
from global_ingress.proxy.settings.faults import SettingsFault
from global_ingress.proxy.settings.file import load as load_settings
from global_ingress.proxy.settings.keys import Key
from global_ingress.proxy.supervising.guarding import read_guards

SECRET = "gi-5ecre7" * 4
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
OTHER = "0" * 64


def faults(text: str) -> list[str]:
    with pytest.raises(SettingsFault) as caught:
        keys.load(text, name="keys.yaml")
    return [str(fault) for fault in caught.value.faults]


def test_a_whole_entry() -> None:
    (key,) = keys.load(
        f"keys:\n- {{name: a, sha256: {DIGEST}, models: ['acme/*'], rate: 100/1m,"
        " concurrent: 20, expires: 2027-01-31}",
        name="k",
    )
    assert (key.models, key.rate, key.concurrent, key.expires) == (("acme/*",), (100, 60.0), 20, 1801353600.0)


def test_what_is_left_out_is_not_limited() -> None:
    (key,) = keys.load(f"keys: [{{name: a, sha256: '{DIGEST}'}}]", name="k")
    assert (key.models, key.rate, key.concurrent, key.expires) == (("*",), None, None, None)


@pytest.mark.parametrize("text", ["keys: []", "keys:"])
def test_no_key_is_nobody(text: str) -> None:
    assert keys.load(text, name="k") == ()


@pytest.mark.parametrize(
    "text",
    [
        f"keys: [{{name: a, sha256: {SECRET}}}]",
        f"keys: [{{name: a, key: {SECRET}}}]",
        f"keys: [{{name: a, {SECRET}: x}}]",
        f"keys: [{SECRET}]",
        f"keys: {SECRET}",
        f"{SECRET}",
        f"{SECRET}: 1",
        f"keys: [{{name: a, sha256: {DIGEST}, rate: {SECRET}}}]",
        f"keys: [{{name: a, sha256: {DIGEST}, concurrent: {SECRET}}}]",
        f"keys: [{{name: a, sha256: {DIGEST}, expires: {SECRET}}}]",
        f"keys: [{{name: a, sha256: {DIGEST}, models: {SECRET}}}]",
        f"keys: *{SECRET}",
        f"keys: !{SECRET} a",
        f"keys: &{SECRET} []",
        f'keys: ["{SECRET}',
        f"keys: [a\n{SECRET}: }}",
        f"{SECRET}: 1\n{SECRET}: 2",
    ],
)
def test_no_fault_shows_what_may_be_a_key(text: str) -> None:
    told = faults(text)
    assert told
    assert not any("5ecre7" in line for line in told), told


def test_names_and_digests_are_given_once() -> None:
    text = f"keys: [{{name: a, sha256: '{DIGEST}'}}, {{name: a, sha256: '{OTHER}'}}, {{name: b, sha256: '{DIGEST}'}}]"
    assert [line.split(": ", 1)[1] for line in faults(text)] == [
        "keys[1].name: the name is given twice, first at keys[0]",
        "keys[2].sha256: the digest is given twice, first at keys[0]",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", "100"), ("rate", "0/1m"), ("rate", "5/0s"), ("rate", "1001/1ms"), ("concurrent", "0"),
        ("expires", "tomorrow"), ("expires", "2027-01-31T12:00:00"), ("expires", "2027-02-30"), ("models", "[]"),
    ],
)  # fmt: skip
def test_what_is_no_limit_is_a_fault(field: str, value: str) -> None:
    (told,) = faults(f"keys: [{{name: a, sha256: '{DIGEST}', {field}: {value}}}]")
    assert f"keys[0].{field}" in told


NAMES = st.text(min_size=1, max_size=20).filter(
    lambda text: text == text.strip() and not any(ord(c) < 32 or 127 <= ord(c) < 160 or ord(c) > 0xD7FF for c in text)
)


@given(st.lists(NAMES, unique=True, max_size=6))
def test_what_is_written_reads_back(names: list[str]) -> None:
    entries = [{"name": name, "sha256": f"{n:064x}", "rate": "5/1s"} for n, name in enumerate(names)]
    text = keys.written(entries, "# mine\nkeys: []\n")
    assert text.startswith("# mine\n")
    assert [key.name for key in keys.load(text, name="k")] == names
    assert (yaml_places.read(text).data["keys"] or []) == entries


def test_workers_are_told_digests() -> None:
    (key,) = keys.load(f"keys: [{{name: a, sha256: '{DIGEST}', rate: 3/2s}}]", name="k")
    (route,) = keys.routes_of([key], {DIGEST: 4})
    assert isinstance(key, Key)
    assert (route.digest, route.slot, route.rate) == (bytes.fromhex(DIGEST), 4, (3, 2.0))


def test_a_file_that_has_not_changed_is_not_read_anew(tmp_path: Path) -> None:
    """It is looked at each second; thousands of keys would take a good part of that."""
    file = tmp_path / "keys.yaml"
    text = json.dumps({"discovery": {"urls": ["http://d:1"]}, "auth": {"keys_file": str(file)}})
    settings = load_settings(text, name="s", directory=str(tmp_path))
    file.write_text(f"keys: [{{name: a, sha256: '{DIGEST}'}}]")
    first = read_guards(settings).keys
    assert read_guards(settings).keys is first
    file.write_text("keys: nonsense")
    for _ in range(2):
        with pytest.raises(SettingsFault, match="keys"):
            read_guards(settings)
    file.write_text(f"keys: [{{name: b, sha256: '{DIGEST}'}}]")
    assert [key.name for key in read_guards(settings).keys or ()] == ["b"]
