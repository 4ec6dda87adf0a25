"""TLS of the data listener and towards frontends (I61), with the rules of streams and ends held inside it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.service.ingress.certificates import Authority, Pair, client_side, openssl, server_side
from tests.service.ingress.checks import frame_of, memory
from tests.service.ingress.client import MODEL, Client, request
from tests.service.ingress.frontend import DONE, LAST, SSE, Frontend, Script, chunk, event, hang, rst, whole
from tests.service.ingress.process import eventually
from tests.service.ingress.rig import Rig, Start, static_pools
from tests.service.ingress.wire import Gone

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]


class Shown:
    """The files that the settings name; `show` replaces their content."""

    def __init__(self, folder: Path) -> None:
        self.ca, self.other = Authority(folder, "ca"), Authority(folder, "other")
        self.first, self.second = self.ca.issue("first"), self.ca.issue("second")
        self.stranger = self.other.issue("stranger")
        self.folder = folder
        self.show(self.first)

    def show(self, pair: Pair) -> None:
        for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
            shutil.copy(source, self.folder / f"{name}.new")
            (self.folder / f"{name}.new").replace(self.folder / name)

    @property
    def tls(self) -> dict[str, str]:
        return {"certificate": str(self.folder / "tls.crt"), "key": str(self.folder / "tls.key")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return Shown(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def shown(made: Shown) -> Shown:
    made.show(made.first)
    return made


async def secure(rig: Rig, context: ssl.SSLContext, *, receive_buffer: int = 0) -> Client:
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    await rig.loop.sock_connect(sock, ("127.0.0.1", rig.ingress.port))
    _, client = await rig.loop.create_connection(Client, sock=sock, ssl=context, server_hostname="localhost")
    rig._clients.append(client)
    return client


async def subject(client: Client) -> str:
    found = client.transport.get_extra_info("peercert")
    return str(dict(pair[0] for pair in found["subject"])["commonName"])


async def test_i61_requests_streams_and_what_frontends_are_told(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    client = await secure(rig, client_side(shown.ca))
    for _ in range(2):
        assert (await rig.ask(on=client)).status == 200
    assert rig.requests[-1].one("x-forwarded-proto") == "https"
    rig.play((SSE, event(b'{"n":1}'), event(b'{"n":2}'), DONE, LAST))
    answer = await rig.ask(on=client, stream=True)
    assert answer.whole
    assert answer.body == b'data: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n'


async def test_i61_each_event_goes_out_at_once(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    gate = asyncio.Event()
    rig.play((SSE, event(b"1"), gate, event(b"2"), DONE, LAST))
    client = await secure(rig, client_side(shown.ca))
    await client.send(request(stream=True))
    await client.seen(b"data: 1\n\n")
    assert b"data: 2" not in client.raw
    gate.set()
    assert (await client.answer()).whole


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_i61_versions_that_are_spoken(start: Start, shown: Shown, version: ssl.TLSVersion) -> None:
    rig = await start(alone=True, tls=shown.tls)
    context = client_side(shown.ca)
    context.minimum_version = context.maximum_version = version
    client = await secure(rig, context)
    assert client.transport.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
    assert (await rig.ask(on=client)).status == 200


async def test_i61_older_versions_are_not_spoken(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    codes = {}
    for version in ("-tls1_1", "-tls1_2"):
        command = ["openssl", "s_client", version, "-cipher", "DEFAULT:@SECLEVEL=0"]
        command += ["-connect", f"127.0.0.1:{rig.ingress.port}"]
        asked = await asyncio.to_thread(
            subprocess.run, command, input=b"", capture_output=True, timeout=30, check=False
        )
        codes[version] = asked.returncode
    assert codes == {"-tls1_1": 1, "-tls1_2": 0}


async def test_i61_clients_show_a_certificate(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls | {"client_ca": str(shown.ca.file)})
    friend = await secure(rig, client_side(shown.ca, shown.second))
    assert (await rig.ask(on=friend)).status == 200
    for pair in (None, shown.stranger):
        with pytest.raises((ssl.SSLError, ConnectionError, Gone)):
            await _answered(rig, client_side(shown.ca, pair))
    assert rig.asked == 1


async def _answered(rig: Rig, context: ssl.SSLContext) -> None:
    client = await secure(rig, context)  # with TLS 1.3 the no comes after the handshake
    await client.send(request())
    await client.more()


async def test_i61_plain_speech_to_it_is_nothing(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    client = await rig.client()
    await client.send(request())
    await client.ended()
    assert b"200" not in client.raw
    assert rig.asked == 0


async def test_i61_certificates_change_and_no_connection_is_dropped(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls, workers=2)
    go_on = asyncio.Event()
    rig.play((SSE, event(b"1"), go_on, event(b"2"), DONE, LAST))
    streams = []
    for _ in range(4):
        client = await secure(rig, client_side(shown.ca))
        assert await subject(client) == "first"
        await client.send(request(stream=True))
        await client.seen(b"data: 1")
        streams.append(client)
    shown.show(shown.second)

    async def changed() -> bool:
        fresh = [await secure(rig, client_side(shown.ca)) for _ in range(8)]
        names = {await subject(one) for one in fresh}
        for one in fresh:
            one.fin()
        return names == {"second"}

    await eventually(changed, "all workers show the new certificate")
    go_on.set()
    for client in streams:
        assert (await client.answer()).whole
    rig.play((whole(),))
    assert [(await rig.ask(on=one)).status for one in streams] == [200] * 4


async def test_i61_new_connections_never_fail_while_certificates_change(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    served = 0
    for turn in range(6):
        shown.show(shown.second if turn % 2 == 0 else shown.first)
        end = rig.loop.time() + 1.2
        while rig.loop.time() < end:
            client = await secure(rig, client_side(shown.ca))
            assert (await rig.ask(on=client)).status == 200
            client.fin()
            served += 1
    assert served > 20
    assert len(rig.ingress.log("keys or certificates taken over")) >= 3


async def test_i61_a_broken_certificate_changes_nothing_but_the_log(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    shutil.copy(shown.second.key, shown.tls["key"])
    await eventually(lambda: "does not fit the certificate" in rig.ingress.text(), "the fault is told")
    client = await secure(rig, client_side(shown.ca))
    assert await subject(client) == "first"
    assert "PRIVATE KEY" not in rig.ingress.text()
    shown.show(shown.first)
    await eventually(lambda: rig.ingress.log("keys and certificates can be used again"), "its end is told")


async def test_i61_a_key_with_a_password_is_refused(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    openssl("ec", "-in", str(shown.first.key), "-aes128", "-passout", "pass:secret", "-out", shown.tls["key"])
    await eventually(lambda: "the key is encrypted" in rig.ingress.text(), "the fault is told")


async def test_i61_a_handshake_that_does_not_go_on_ends(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls, timeouts={"client_header": "500ms"})
    silent = [await rig.client() for _ in range(3)]
    await silent[1].send(b"\x16\x03\x01")
    began = rig.loop.time()
    for one in silent:
        assert await one.ended() - began < 5
    late = await secure(rig, client_side(shown.ca))
    await late.send(b"POST /v1/")
    assert (await late.answer()).status == 408


async def test_i61_a_cut_stream_is_seen_as_cut(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    rig.play((SSE, event(b"{}"), rst))
    answer = await rig.ask(on=await secure(rig, client_side(shown.ca)), stream=True)
    assert frame_of(answer, b"data: {}\n\n")["code"] == "upstream_reset"
    rig.play((whole(b"", "200 OK", "x: y").replace(b"length: 0", b"length: 9") + b"half", rst))
    assert not (await rig.ask(on=await secure(rig, client_side(shown.ca)))).whole


async def test_i61_a_body_that_only_its_end_ends_is_cut_by_a_reset(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls)
    rig.play((SSE, event(b"1"), chunk(b"data: half"), rst))
    client = await secure(rig, client_side(shown.ca))
    await client.send(request(stream=True, version="1.0"))
    await client.ended()
    assert client.end != "fin", "a good-bye of TLS made a cut body look whole"


async def test_i61_refused_and_still_told_why(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls, limits={"body": "64KiB"})
    client = await secure(rig, client_side(shown.ca))
    client.transport.write(request(b"x" * 3_000_000))
    answer = await client.answer()
    assert (answer.status, answer.error["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_i61_client_gone_is_frontend_closed(start: Start, shown: Shown, how: str) -> None:
    rig = await start(alone=True, tls=shown.tls)
    rig.play((SSE, event(b"1"), hang))
    client = await secure(rig, client_side(shown.ca))
    await client.send(request(stream=True))
    await client.seen(b"data: 1")
    (carrier,) = rig.frontends[0].carriers
    getattr(client, how)()
    assert await carrier.ended(5)


async def test_i61_a_client_that_does_not_read_stops_the_frontend(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls, timeouts={"client_write": "2s"})
    part = chunk(b"data: " + b"x" * 65530 + b"\n\n")
    rig.play((SSE, event(b"1"), *[part] * 1500, DONE, LAST))
    client = await secure(rig, client_side(shown.ca), receive_buffer=16384)
    before = memory(rig.ingress.process.pid)
    client.pause()
    await client.send(request(stream=True))
    (carrier,) = await _carriers(rig)
    await carrier.ended(12)
    sent = sum(len(data) for _, data in carrier.sent)
    assert sent < 40_000_000, "the frontend was read although the client reads nothing"
    assert memory(rig.ingress.process.pid) - before < 8_000_000


async def _carriers(rig: Rig) -> list[Any]:
    await eventually(lambda: rig.frontends[0].carriers, "the frontend is asked")
    return rig.frontends[0].carriers


async def test_i61_a_client_that_reads_slowly_is_left_alone(start: Start, shown: Shown) -> None:
    rig = await start(alone=True, tls=shown.tls, timeouts={"client_write": "1s"})
    body = b"y" * 8_000_000
    rig.play((whole(body),))
    client = await secure(rig, client_side(shown.ca), receive_buffer=16384)
    await client.send(request())
    end = rig.loop.time() + 4
    while rig.loop.time() < end:  # four times the limit, and never still for as long
        client.pause()
        await asyncio.sleep(0.3)
        client.resume()
        await client.more()
    assert (await client.answer(30)).body == body


# Towards frontends.


class Upstreams:
    """Frontends with certificates, in the place of a rig's own."""

    def __init__(self, start: Start) -> None:
        self._start = start

    async def rig(self, context: ssl.SSLContext, tls: dict[str, str] | str, **settings: Any) -> Rig:
        frontend = Frontend("tls", [{"id": MODEL, "object": "model"}], tls=context)
        frontend.forget()
        await frontend.start()
        pools = {"pools": static_pools("secure", [[frontend]])}
        rig = await self._start(alone=True, discovery=pools, upstream={"tls": tls}, **settings)
        rig.frontends.append(frontend)
        return rig


@pytest_asyncio.fixture(loop_scope="session")
async def upstreams(start: Start) -> AsyncIterator[Upstreams]:
    yield Upstreams(start)


async def test_i61_frontends_by_their_authority(upstreams: Upstreams, shown: Shown) -> None:
    rig = await upstreams.rig(server_side(shown.first), {"ca": str(shown.ca.file)})
    client = await rig.client()
    assert [(await rig.ask(on=client)).status for _ in range(3)] == [200] * 3
    rig.play((SSE, event(b"1"), DONE, LAST))
    assert (await rig.ask(on=client, stream=True)).whole
    assert len(rig.frontends[-1].carriers) == 1, "the connection is kept"


@pytest.mark.parametrize("case", ["stranger", "system"])
async def test_i61_a_frontend_that_nobody_vouches_for_gets_nothing(
    upstreams: Upstreams, shown: Shown, case: str
) -> None:
    pair = shown.stranger if case == "stranger" else shown.first
    rig = await upstreams.rig(server_side(pair), {"ca": str(shown.ca.file)} if case == "stranger" else "off")
    answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert rig.asked == 0


async def test_i61_the_name_that_frontends_must_have(upstreams: Upstreams, shown: Shown) -> None:
    asked: list[str | None] = []
    context = server_side(shown.ca.issue("named", "pool.example.com"))
    context.sni_callback = lambda sock, name, ctx: asked.append(name)
    rig = await upstreams.rig(
        context, {"ca": str(shown.ca.file), "server_name": "pool.example.com"}, probe={"interval": "200ms"}
    )
    assert (await rig.ask()).status == 200
    await eventually(lambda: len(asked) > 2, "probes ask too")
    assert set(asked) == {"pool.example.com"}
    assert "probe of a frontend fails" not in rig.ingress.text()


async def test_i61_we_show_a_certificate_to_frontends(upstreams: Upstreams, shown: Shown) -> None:
    own = {"certificate": str(shown.second.certificate), "key": str(shown.second.key)}
    rig = await upstreams.rig(server_side(shown.first, shown.ca), {"ca": str(shown.ca.file), **own})
    assert (await rig.ask()).status == 200


async def test_i61_a_frontend_that_wants_one_refuses_us_without(upstreams: Upstreams, shown: Shown) -> None:
    rig = await upstreams.rig(server_side(shown.first, shown.ca), {"ca": str(shown.ca.file)})
    assert (await rig.ask()).status == 502
    assert rig.asked == 0


async def test_i61_a_frontend_that_breaks_off_is_told_as_ever(upstreams: Upstreams, shown: Shown) -> None:
    rig = await upstreams.rig(server_side(shown.first), {"ca": str(shown.ca.file)})
    scripts: list[tuple[Script, bytes]] = [((SSE, event(b"{}"), rst), b"data: {}\n\n")]
    for script, sent in scripts:
        rig.play(script)
        assert frame_of(await rig.ask(stream=True), sent)["code"] in ("upstream_reset", "upstream_truncated")


async def test_i61_a_handshake_of_a_frontend_that_hangs_is_a_connect_timeout(start: Start, shown: Shown) -> None:
    silent = await asyncio.start_server(_silent, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    pools = static_pools("silent", [[Frontend("s", [], port=port, tls=server_side(shown.first))]])
    rig = await start(alone=True, discovery={"pools": pools}, upstream={"tls": {"ca": str(shown.ca.file)}},
                      timeouts={"connect": "300ms"})  # fmt: skip
    answer = await rig.ask()
    assert (answer.status, answer.error["code"]) == (504, "connect_timeout")
    silent.close()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
