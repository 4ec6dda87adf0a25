"""What is decoded of a request body, as types. Not compiled: msgspec reads the types of its structs from their
annotations, which mypyc loses."""

from __future__ import annotations

import msgspec


class Peek(msgspec.Struct, gc=False):
    """`model` as the client wrote it, `stream` as JSON, whatever it is."""

    model: str = ""
    stream: msgspec.Raw = msgspec.Raw(b"false")

    @property
    def streaming(self) -> bool:
        """Whether the client asked for a stream; what is one, the answer's content type says."""
        return bytes(self.stream) == b"true"


class Loose(msgspec.Struct):
    """`model`, whatever it is."""

    model: msgspec.Raw = msgspec.Raw(b"")


decode_peek = msgspec.json.Decoder(Peek).decode
decode_loosely = msgspec.json.Decoder(Loose).decode
