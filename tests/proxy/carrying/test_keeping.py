"""Why there is no connection: the frontend's fault, or ours."""

from __future__ import annotations

import asyncio
import errno
from typing import Any, cast

import pytest
from msgspec import structs

from global_ingress.proxy.carrying.keeping import connect
from global_ingress.proxy.shared.attempt import Trouble
from tests.proxy.wirekit import rigged

OURS = [OSError(number, "no") for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)]
THEIRS = [
    ConnectionRefusedError(errno.ECONNREFUSED, "no"),
    OSError(errno.EADDRNOTAVAIL, "no"),
    OSError(errno.ENETUNREACH, "no"),
    OSError("several addresses, none answers"),
    UnicodeError("no name"),
]


@pytest.mark.parametrize(
    ("error", "want"),
    [*((e, Trouble.EXHAUSTED) for e in OURS), *((e, Trouble.UNREACHABLE) for e in THEIRS)],
    ids=repr,
)
async def test_what_we_lack_is_not_the_frontend_s_fault(error: Exception, want: Trouble) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise error

    with rigged() as rig:
        loop = cast(Any, rig.plane.loop)
        loop.create_connection = refuse
        assert await connect(rig.plane, rig.plane.frontends["http://f0:80"]) is want
        assert rig.plane.tally.upstream["connecting"] == 0


async def test_no_answer_in_time() -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    with rigged() as rig:
        loop = cast(Any, rig.plane.loop)
        loop.create_connection = hang
        rig.plane.timeouts = structs.replace(rig.plane.timeouts, connect=0.05)
        async with asyncio.timeout(10):
            assert await connect(rig.plane, rig.plane.frontends["http://f0:80"]) is Trouble.CONNECT_TIMEOUT
