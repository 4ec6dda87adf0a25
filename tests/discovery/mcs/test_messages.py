"""The registry's protobuf messages: whatever is said arrives as it was meant, and is the same word as in JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from discovery.mcs import messages, wire
from discovery.mcs.model import Announcement, Event, Export, ServiceKey, Session, Stamp, Term
from discovery.mcs.proto import registry_pb2 as pb
from discovery.mcs.registry import Reason, Refused
from tests.discovery.mcs.making import endpoints, export
from tests.discovery.mcs.test_wire import EXPORTS, SETS, TERMS, WORDS, events
from tests.house.tree import ROOT


@given(events())
def test_events_arrive_as_they_were_sent(event: Event) -> None:
    sent = messages.write_event(event).SerializeToString()
    # Of a text with a default, "" is the default: checks let no such value in.
    read = messages.read_event(pb.WatchResponse.FromString(sent))
    assert filled(read) == filled(event)


@given(st.one_of(EXPORTS, SETS, st.builds(Announcement, term=TERMS, labels=WORDS)))
def test_values_arrive_as_they_were_sent(value: Any) -> None:
    sent = messages.write(value)
    assert filled(messages.read(type(value), type(sent).FromString(sent.SerializeToString()))) == filled(value)


def filled(value: Any) -> str:
    """Its text, with the default in the place of an empty text that has one."""
    return (
        repr(value)
        .replace("session_affinity=''", "session_affinity='None'")
        .replace("internal_traffic_policy=''", "internal_traffic_policy='Cluster'")
    )


@pytest.mark.parametrize("value", [export(labels=(("a", "b"),)), endpoints()])
def test_the_json_of_a_message_is_the_json_of_rest(value: Any) -> None:
    assert wire.read(type(value), json_format.MessageToDict(messages.write(value))) == value


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda one: one.ClearField("exported_at"), "exportedAt"),
        (lambda one: one.ClearField("service"), "service"),
        (lambda one: setattr(one.exported_at, "seconds", 10**15), "exportedAt"),
        (lambda one: setattr(one.exported_at, "nanos", -1), "exportedAt"),
        (lambda one: setattr(one, "type", "Other"), "type"),
        (lambda one: setattr(one, "type", ""), "type"),
    ],
)
def test_what_is_wrong_is_said_by_field(change: Any, field: str) -> None:
    message = messages.write(export())
    change(message)
    with pytest.raises(Refused) as caught:
        messages.read(Export, message)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID, field)


def test_parts_of_requests() -> None:
    stamp = pb.Stamp(cluster="c1", session="5.1.0", seq=3)
    request = pb.DeleteExportRequest(stamp=stamp, service=pb.ServiceKey(namespace="n", name="x"))
    assert messages.read_stamp(request) == Stamp(Session("c1", 5, Term(1, 0)), 3)
    assert messages.part(ServiceKey, request, "service") == ServiceKey("n", "x")
    for wrong, field in [
        (pb.DeleteExportRequest(), "stamp"),
        (pb.DeleteExportRequest(stamp=pb.Stamp(cluster="c1", session="5.1.0", seq=-1)), "stamp.seq"),
        (pb.DeleteExportRequest(stamp=pb.Stamp(cluster="c1", session="x")), "stamp.session"),
    ]:
        with pytest.raises(Refused) as caught:
            messages.read_stamp(wrong)
        assert caught.value.field == field
    with pytest.raises(Refused, match="missing"):
        messages.part(ServiceKey, pb.DeleteExportRequest(stamp=stamp), "service")
    with pytest.raises(Refused, match="unknown"):
        messages.read_event(pb.WatchResponse())


def test_the_generated_code_is_fresh(tmp_path: Path) -> None:
    """`make proto` makes it."""
    source = "discovery/mcs/proto/registry.proto"
    flags = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *flags, source], cwd=ROOT, check=True)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py*"))
    assert len(made) == 3
    for path in made:
        assert (ROOT / path).read_text() == (tmp_path / path).read_text(), f"{path} is stale: make proto"
