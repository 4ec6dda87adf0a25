"""Messages arrive whole, in order, with their descriptors, and the end is told once."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from global_ingress.proxy.shared import control


@dataclass
class End:
    """One end and what it heard."""

    messages: list[tuple[bytes, bytes, list[int]]] = field(default_factory=list)
    ends: int = 0
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    control: control.Control = field(init=False)

    def hear(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        self.messages.append((kind, payload, fds))
        self.bell.set()

    def over(self) -> None:
        self.ends += 1
        self.bell.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.messages) + self.ends < count:
                self.bell.clear()
                await self.bell.wait()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[End, End]]:
    ends = End(), End()
    loop = asyncio.get_running_loop()
    for end, sock in zip(ends, control.pair(), strict=True):
        end.control = control.Control(sock, loop, end.hear, end.over)
    try:
        yield ends
    finally:
        for end in ends:
            end.control.close()
            for _, _, fds in end.messages:
                for fd in fds:
                    os.close(fd)


async def test_messages_of_any_size_arrive_in_order() -> None:
    payloads = [b"", b"x", b"y" * control.INLINE, b"z" * (control.INLINE + 1), b"w" * 3_000_000, b"last"]
    async with connected() as (one, other):
        for payload in payloads:
            one.control.send(control.ROUTES, payload)
        await other.until(len(payloads))
        assert [message[1] for message in other.messages] == payloads
        assert {message[0] for message in other.messages} == {control.ROUTES}
        assert all(message[2] == [] for message in other.messages)


async def test_descriptors_travel_beside_small_and_large_payloads() -> None:
    read, write = os.pipe()
    async with connected() as (one, other):
        one.control.send(control.TURNS, b"small", [write])
        one.control.send(control.TURNS, b"L" * 100_000, [write, write])
        os.close(write)
        await other.until(2)
        assert [len(message[2]) for message in other.messages] == [1, 2]
        for n, (_, _, fds) in enumerate(other.messages):
            os.write(fds[-1], b"%d" % n)
    assert os.read(read, 10) == b"01"
    assert os.read(read, 10) == b""  # every copy of the write end is closed
    os.close(read)


async def test_a_packet_holds_as_many_descriptors_as_it_promises() -> None:
    read, write = os.pipe()
    async with connected() as (one, other):
        one.control.send(control.TURNS, b"n", [write] * control.FDS_PER_PACKET)
        await other.until(1)
        assert len(other.messages[0][2]) == control.FDS_PER_PACKET
    os.close(read)
    os.close(write)


async def test_a_peer_that_does_not_read_blocks_nobody_and_loses_nothing() -> None:
    ours, theirs = control.pair()
    end = End()
    sender = control.Control(ours, asyncio.get_running_loop(), end.hear, end.over)
    for n in range(2000):
        sender.send(control.NOTICE, n.to_bytes(4, "big") + b"p" * 1000)
    other = End()
    reader = control.Control(theirs, asyncio.get_running_loop(), other.hear, other.over)
    await other.until(2000)
    assert [int.from_bytes(message[1][:4], "big") for message in other.messages] == list(range(2000))
    sender.close()
    await other.until(2001)
    assert (other.ends, end.ends) == (1, 0)
    reader.close()


async def test_the_end_is_told_once_and_sending_afterwards_is_nothing() -> None:
    async with connected() as (one, other):
        one.control.send(control.END)
        one.control.close()
        await other.until(2)
        assert (len(other.messages), other.ends) == (1, 1)
        other.control.send(control.COUNTS, b"into the void")
        assert other.ends == 1
    assert one.ends == 0


async def test_what_has_come_is_taken_without_waiting_for_the_loop() -> None:
    ours, theirs = control.pair()
    end = End()
    receiver = control.Control(theirs, asyncio.get_running_loop(), end.hear, end.over)
    ours.setblocking(True)
    socket.socket.send(ours, control.COUNTS + b"i" + b"last words")
    ours.close()
    receiver.receive()
    assert [message[:2] for message in end.messages] == [(control.COUNTS, b"last words")]
    assert end.ends == 1


class Reluctant(socket.socket):
    """A socket in a kernel that holds too many descriptors on their way, for the first few times."""

    refusals = 3

    def sendmsg(self, *args: Any) -> int:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        return super().sendmsg(*args)


async def test_descriptors_the_kernel_does_not_take_yet_are_sent_again() -> None:
    ours, theirs = control.pair()
    reluctant = Reluctant(fileno=ours.detach())
    reluctant.setblocking(False)
    end, other = End(), End()
    read, write = os.pipe()
    sender = control.Control(reluctant, asyncio.get_running_loop(), end.hear, end.over)
    reader = control.Control(theirs, asyncio.get_running_loop(), other.hear, other.over)
    sender.send(control.TURNS, b"first", [write])
    sender.send(control.ROUTES, b"second")
    await other.until(2)
    assert [(payload, len(fds)) for _, payload, fds in other.messages] == [(b"first", 1), (b"second", 0)]
    assert (end.ends, other.ends, reluctant.refusals) == (0, 0, 0)
    for fd in (read, write, *other.messages[0][2]):
        os.close(fd)
    sender.close()
    reader.close()
