"""What is fuzzed: everything that reads bytes of others. A target takes any bytes and raises only when we have a fault.

Each states what its reader owes: the refusals it may answer with, and that neither the cut of the bytes nor a second
reading changes what was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from discovery.documents import BrokenFile, objects_in
from discovery.errors import MalformedSlice, MalformedWire
from discovery.slices import parse_slice, slice_objects
from discovery.wire import decode_line, decode_routers, decode_table
from global_ingress.proxy.carrying.framing import Framer
from global_ingress.proxy.carrying.headers import Head, Peer, read_answer
from global_ingress.proxy.carrying.observer import Observer
from global_ingress.proxy.carrying.request import peek, with_model
from global_ingress.proxy.settings import file as settings
from global_ingress.proxy.shared.errors import Refusal

Target = Callable[[bytes], None]
PEER = Peer(b"127.0.0.1", b"http", trusted=False)
NAMES: frozenset[bytes] = frozenset({b"x-session-id"})
LIMIT = 16 * 1024


def slices(data: bytes) -> None:
    """Any JSON is slices or MalformedSlice."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        for found in slice_objects(document):
            parse_slice(found)
    except MalformedSlice:
        return


def files(data: bytes) -> None:
    """Any file is objects or BrokenFile, as YAML and as JSON."""
    for is_json in (False, True):
        try:
            objects_in(data, is_json=is_json)
        except BrokenFile:
            continue


def wire(data: bytes) -> None:
    """Any bytes are a table, a line of a watch, or MalformedWire."""
    for decode in (decode_table, decode_routers, decode_line):
        try:
            decode(data)
        except MalformedWire:
            continue


def settings_file(data: bytes) -> None:
    """Any file is settings, or faults that say what is wrong."""
    try:
        settings.load(settings.decoded(data, name="f"), name="f", directory="/")
    except settings.SettingsFault as refused:
        faults = refused.faults
    else:
        return
    assert faults
    assert all(each.message for each in faults)


def body(data: bytes) -> None:
    """Any body is refused or names one model, which alone changes when it is rewritten."""
    try:
        model = peek(data).model
    except Refusal:
        return
    assert model
    assert peek(with_model(data, "other")).model == "other"


def requests(data: bytes) -> None:
    """Any bytes of a client are the same requests, or are refused after the same ones, however they are cut."""
    whole = list(_requests([data]))
    assert list(_requests([data[i : i + 1] for i in range(len(data))])) == whole


def answers(data: bytes) -> None:
    """Any head of an answer is read or is none."""
    read_answer(data, expose_pool=True)


def events(data: bytes) -> None:
    """Any stream shows the same end, error and usage however it is cut, and never holds more than its bound."""
    whole, cut = Observer(), Observer()
    whole.feed(data)
    for i in range(len(data)):
        cut.feed(data[i : i + 1])
    whole.end()
    cut.end()
    if not (whole.lost or cut.lost):
        assert (whole.done, whole.error, whole.usage()) == (cut.done, cut.error, cut.usage())


TARGETS: dict[str, Target] = {
    target.__name__: target for target in (slices, files, wire, settings_file, body, requests, answers, events)
}


def _requests(pieces: list[bytes]) -> Iterator[tuple[Head, bytes] | str]:
    """The requests in these pieces, then a word if what follows them was refused."""
    framer = Framer()
    try:
        for piece in pieces:
            data = piece
            while data:
                if framer.head is None:
                    if not framer.read_head(data, PEER, NAMES, LIMIT):
                        break
                    data = b""
                if not framer.read_body(data, LIMIT):
                    break
                assert framer.head is not None
                yield framer.head, bytes(framer.body)
                data = framer.rest()
    except Refusal:
        yield "refused"
