"""A counter shared by processes: the position of an open file, moved by lseek.

lseek on a file opened by path is one atomic fetch-and-add: no lock that a killed process could leave held. On a bare
memfd it is not (the kernel takes no position lock there), so the memfd is opened again by its path.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence


class Turn:
    """Number the turns of all processes that hold the same descriptor: each number is drawn exactly once.

    The descriptor is closed with the object, so whoever may still draw keeps the counter alive by holding it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def draw(self) -> int:
        """The next number, from 1."""
        return os.lseek(self.fd, 1, os.SEEK_CUR)

    def position(self) -> int:
        """The number drawn last; 0 before the first."""
        return os.lseek(self.fd, 0, os.SEEK_CUR)

    def close(self) -> None:
        """Give the descriptor back now; nobody may draw afterwards."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def new_turn() -> Turn:
    """A counter of its own, at 0. Raises OSError when the process has no descriptors left."""
    memory = os.memfd_create("turn", os.MFD_CLOEXEC)
    try:
        return Turn(os.open(f"/proc/self/fd/{memory}", os.O_RDWR | os.O_CLOEXEC))
    finally:
        os.close(memory)


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """The payload of a TURNS message: 4 bytes each, big-endian."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def unpack_numbers(payload: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(payload) // 4}I", payload)
