"""Files that an operator names, read whole: never more than is sensible, and nothing that has no end or does not come.

A directory, a device, a pipe or a socket is refused by name; opening one never blocks.
"""

from __future__ import annotations

import errno
import os
import stat

MOST = 16 << 20


def read_file(path: str | os.PathLike[str], most: int = MOST) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises OSError, whose `strerror` says what is wrong."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        words = "is a directory, not a file" if stat.S_ISDIR(mode) else "is no regular file"
        raise OSError(errno.EINVAL, words, os.fspath(path))
    with os.fdopen(fd, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than {most >> 20} MiB", os.fspath(path))
    return content
