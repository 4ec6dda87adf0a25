"""Headers, framing, HTTP versions, paths: rows B8 of the field reports, rules I1, I2, I3, I12, I13 and I14.

Two readings of a message's end must agree before a byte of it goes on; what is not understood is refused, in JSON, and
the connection closed.
"""

from __future__ import annotations

import asyncio
import gzip
import re

import pytest

from tests.service.ingress.client import request
from tests.service.ingress.frontend import CHUNKED_JSON, LAST, SSE, chunk, event, hang, whole
from tests.service.ingress.rig import Start

pytestmark = [pytest.mark.outside, pytest.mark.asyncio(loop_scope="session")]

BODY = b'{"model":"acme/tiny"}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
SIZE = b"Content-Length: %d\r\n" % len(BODY)
CODED = b"Transfer-Encoding: chunked\r\n"
OK = [whole(b'{"ok":1}')]
ROUTES = ("chat/completions", "completions", "embeddings", "responses", "messages")


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
async def test_row_059_row_060_row_061_an_encoded_body_passes_untouched(start: Start, coding: str) -> None:
    rig = await start(pools=2)
    body = gzip.compress(b'{"usage":{"prompt_tokens":1}}' * 20) if coding == "gzip" else bytes(range(256)) * 3
    rig.play([whole(body, "200 OK", f"content-encoding: {coding}")])
    answer = await rig.ask(headers=[f"accept-encoding: {coding}"])
    assert (answer.body, answer.all("content-encoding")) == (body, [coding])


async def test_row_062_the_length_is_that_of_the_body(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([whole(b'{"ok":1}', "200 OK")], [CHUNKED_JSON + chunk(b"{}") + LAST], [whole(b"x" * 70_000)])
    for framing, size in (("length", 8), ("chunked", 2), ("length", 70_000)):
        answer = await rig.ask()
        assert (answer.framing, len(answer.body)) == (framing, size)
    assert (await rig.ask(model="nobody")).error["code"] == "model_not_found"


async def test_row_062_an_alias_changes_the_length_too(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask(model="small")
    seen = rig.requests[0]
    assert seen.all("content-length") == [str(len(seen.body))]


async def test_row_063_row_076a_hop_by_hop_headers_end_here_whatever_their_case(start: Start) -> None:
    rig = await start(pools=2)
    lines = ("CoNnEcTiOn: X-Foo , Keep-Alive", "X-FOO: 1", "Keep-Alive: timeout=5", "PROXY-Authenticate: B", "X-Bar: 2")
    rig.play([whole(b"{}", "200 OK", *lines)])
    answer = await rig.ask(
        headers=[
            "CONNECTION: X-Secret , keep-alive",
            "X-SECRET: 1",
            "Keep-Alive: timeout=9",
            "TE: trailers",
            "Proxy-Connection: keep-alive",
            "Proxy-Authorization: Basic x",
            "Upgrade: h2c",
            "X-Kept: yes",
        ]
    )
    assert answer.all("x-foo") == answer.all("keep-alive") == answer.all("proxy-authenticate") == []
    assert answer.all("x-bar") == ["2"]
    names = {name.lower() for name, _ in rig.requests[0].headers}
    assert not names & {"x-secret", "keep-alive", "te", "proxy-connection", "proxy-authorization", "upgrade"}
    assert rig.requests[0].all("x-kept") == ["yes"]


async def test_row_063_connection_cannot_name_what_frames_or_addresses(start: Start) -> None:
    rig = await start(pools=2)
    assert (await rig.ask(headers=["Connection: content-length, host, x-forwarded-for"])).status == 200
    seen = rig.requests[0]
    assert [len(seen.all(name)) for name in ("content-length", "host", "x-forwarded-for")] == [1, 1, 1]


async def test_row_064_one_date_and_one_server(start: Start) -> None:
    rig = await start(pools=2)
    date = "Mon, 02 Mar 2026 10:00:00 GMT"
    rig.play([whole(b"{}", "200 OK", "Server: uvicorn", f"Date: {date}")])
    answer = await rig.ask()
    assert (answer.all("server"), answer.all("date")) == (["uvicorn"], [date])


async def test_row_065_row_076a_repetition_order_and_case_are_kept_both_ways(start: Start) -> None:
    rig = await start(pools=2)
    lines = ["set-cookie: a=1; Path=/", "X-a: One", "Set-Cookie: b=2", "x-A: TWO", "SET-COOKIE: c=3, d"]
    rig.play([whole(b"{}", "200 OK", *lines)])
    answer = await rig.ask(headers=["X-b: First", "x-C: 1", "x-B: second", "Cookie: k=v", "cookie: l=w"])
    assert [f"{k}: {v}" for k, v in answer.headers if k.lower() in ("set-cookie", "x-a")] == lines
    seen = [f"{k}: {v}" for k, v in rig.requests[0].headers if k.lower() in ("x-b", "x-c", "cookie")]
    assert seen == ["X-b: First", "x-C: 1", "x-B: second", "Cookie: k=v", "cookie: l=w"]


async def test_row_066_host_is_the_frontends_and_forwarded_headers_are_ours(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask(headers=["X-Forwarded-For: 10.9.8.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil"])
    await rig.ask(host="api.example:81")
    first, second = rig.requests
    assert first.all("host") == [first.connection.frontend.url.removeprefix("http://")]
    assert first.all("x-forwarded-for") == ["10.9.8.7, 127.0.0.1"]
    assert (first.all("x-forwarded-proto"), first.all("x-forwarded-host")) == (["http"], ["ingress.test"])
    assert (second.all("x-forwarded-for"), second.all("x-forwarded-host")) == (["127.0.0.1"], ["api.example:81"])


async def test_rule_i12_a_trusted_proxy_is_believed(start: Start) -> None:
    rig = await start(pools=2, trusted_proxies=["127.0.0.0/8"])
    await rig.ask(headers=["X-Forwarded-For: 10.9.8.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: api.example"])
    seen = rig.requests[0]
    assert seen.all("x-forwarded-for") == ["10.9.8.7, 127.0.0.1"]
    assert (seen.all("x-forwarded-proto"), seen.all("x-forwarded-host")) == (["https"], ["api.example"])


async def test_row_067_odd_headers_of_clients_do_not_reach_the_frontend(start: Start) -> None:
    rig = await start(pools=2)
    raw = request(headers=["Expect: 100-continue", "Connection: keep-alive", "TE: gzip;q=0.5", "Trailer: x"])
    answer = await rig.ask(raw)
    assert answer.status == 200
    names = {name.lower() for name, _ in rig.requests[0].headers}
    assert not names & {"expect", "connection", "te", "trailer"}


@pytest.mark.parametrize("route", ROUTES)
async def test_row_068_credentials_pass_on_every_route(start: Start, route: str) -> None:
    rig = await start(pools=2)
    given = ["Authorization: Bearer k1", "x-api-key: k2", "anthropic-version: 2023-06-01", "OpenAI-Organization: o"]
    assert (await rig.ask(path=f"/v1/{route}?api-version=1&x=%2e%2F", headers=given)).status == 200
    seen = rig.requests[0]
    assert seen.target == f"/v1/{route}?api-version=1&x=%2e%2F"
    assert [f"{k}: {v}" for k, v in seen.headers if f"{k}: {v}" in given] == given


BAD_REQUESTS = {
    "both lengths": POST + SIZE + CODED + b"\r\n" + chunk(BODY) + LAST,
    "invalid length beside chunked": POST + b"Content-Length: blah\r\n" + CODED + b"\r\n" + chunk(BODY) + LAST,
    "two lengths": POST + SIZE + b"Content-Length: 5\r\n\r\n" + BODY,
    "the same length twice": POST + SIZE + SIZE + b"\r\n" + BODY,
    "lengths in a list": POST + b"Content-Length: 21, 21\r\n\r\n" + BODY,
    "signed length": POST + b"Content-Length: +21\r\n\r\n" + BODY,
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "hexadecimal length": POST + b"Content-Length: 0x15\r\n\r\n" + BODY,
    "length with a space": POST + b"Content-Length: 2 1\r\n\r\n" + BODY,
    "endless length": POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "space before the colon": POST + b"Content-Length : 21\r\n\r\n" + BODY,
    "folded line": POST + SIZE + b"X-A: 1\r\n  folded\r\n\r\n" + BODY,
    "NUL in a value": POST + SIZE + b"X-A: 1\x002\r\n\r\n" + BODY,
    "bare CR in a value": POST + SIZE + b"X-A: 1\r2\r\n\r\n" + BODY,
    "bare LF as line end": (POST + SIZE).replace(b"\r\n", b"\n") + b"\n" + BODY,
    "bare LF once": POST + b"X-A: 1\nX-B: 2\r\n" + SIZE + b"\r\n" + BODY,
    "chunked twice": POST + CODED + CODED + b"\r\n" + chunk(BODY) + LAST,
    "chunked, chunked": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + chunk(BODY) + LAST,
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n" + chunk(BODY) + LAST,
    "chunked is not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + chunk(BODY) + LAST,
    "chunked in HTTP/1.0": POST.replace(b"1.1", b"1.0") + CODED + b"\r\n" + chunk(BODY) + LAST,
    "no chunk size": POST + CODED + b"\r\nzz\r\n" + BODY + b"\r\n" + LAST,
    "signed chunk size": POST + CODED + b"\r\n+15\r\n" + BODY + b"\r\n" + LAST,
    "chunk longer than said": POST + CODED + b"\r\n5\r\n" + BODY + b"\r\n" + LAST,
    "chunk shorter than said": POST + CODED + b"\r\n16\r\n" + BODY + b"\r\n" + LAST + b"\r\n" * 3,
    "bare LF after a size": POST + CODED + b"\r\n15\n" + BODY + b"\r\n" + LAST,
    "long chunk extension": POST + CODED + b"\r\n15;" + b"x" * 5000 + b"\r\n" + BODY + b"\r\n" + LAST,
    "LF in a chunk extension": POST + CODED + b"\r\n15;a\nb\r\n" + BODY + b"\r\n" + LAST,
    "no Host": b"POST /v1/chat/completions HTTP/1.1\r\n" + SIZE + b"\r\n" + BODY,
    "two Hosts": POST + b"Host: b\r\n" + SIZE + b"\r\n" + BODY,
    "Host with a path": POST.replace(b": a", b": a/b") + SIZE + b"\r\n" + BODY,
    "nameless header": POST + SIZE + b": x\r\n\r\n" + BODY,
    "header without colon": POST + SIZE + b"just words\r\n\r\n" + BODY,
    "HTTP/2.0": POST.replace(b"1.1", b"2.0") + SIZE + b"\r\n" + BODY,
    "HTTP/1.2": POST.replace(b"1.1", b"1.2") + SIZE + b"\r\n" + BODY,
    "two spaces": POST.replace(b"POST ", b"POST  ") + SIZE + b"\r\n" + BODY,
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello\r\n\r\n",
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
async def test_row_069_row_070_a_request_that_can_be_read_two_ways_is_refused(start: Start, what: str) -> None:
    rig = await start(pools=2)
    client = await rig.client()
    await client.send(BAD_REQUESTS[what])
    answer = await client.answer()
    assert answer.status == 400, answer
    assert answer.error["code"] in ("bad_request", "bad_path")
    await client.ended(5)
    assert bytes(client.raw[client.at :]) == b"", "the connection is used on"
    assert rig.asked == 0


SMUGGLED = request(headers=["x-smuggled: 1"])


@pytest.mark.parametrize(
    "raw",
    [
        POST + SIZE + CODED + b"\r\n" + LAST + SMUGGLED,
        POST + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
        POST + CODED + b"\r\n15;\n" + BODY + b"\r\n" + LAST + SMUGGLED,
        POST + b"X: a\rTransfer-Encoding: chunked\r\n" + SIZE + b"\r\n" + BODY + SMUGGLED,
    ],
)
async def test_row_070_nothing_is_smuggled(start: Start, raw: bytes) -> None:
    rig = await start(pools=2)
    client = await rig.client()
    await client.send(raw)
    assert (await client.answer()).status == 400
    await client.ended(5)
    assert rig.asked == 0


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BAD_ANSWERS = {
    "both lengths": HEAD + b"content-length: 2\r\n" + CODED + b"\r\n" + chunk(b"{}") + LAST,
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
    "signed length": HEAD + b"content-length: +2\r\n\r\n{}",
    "invalid length": HEAD + b"content-length: 2x\r\n\r\n{}",
    "unknown coding": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n" + chunk(b"{}") + LAST,
    "chunked in HTTP/1.0": HEAD.replace(b"1.1", b"1.0") + CODED + b"\r\n" + chunk(b"{}") + LAST,
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
    "folded line": HEAD + b"x-a: 1\r\n folded\r\ncontent-length: 2\r\n\r\n{}",
    "space before the colon": HEAD + b"content-length : 2\r\n\r\n{}",
    "NUL in a value": HEAD + b"x-a: 1\x002\r\ncontent-length: 2\r\n\r\n{}",
    "no status line": b"hello\r\n\r\n",
    "status of two digits": b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "an endless head": HEAD + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 100) for n in range(1000)),
    "a bad first chunk": CHUNKED_JSON + b"zz\r\n",
}


@pytest.mark.parametrize("what", BAD_ANSWERS)
async def test_row_069_row_070_an_answer_that_can_be_read_two_ways_is_a_502(start: Start, what: str) -> None:
    rig = await start(pools=1)
    rig.play([BAD_ANSWERS[what], hang])
    answer = await rig.ask()
    assert answer.status == 502, answer
    assert answer.error["code"] == "upstream_bad_response"
    await rig.requests[0].connection.ended()
    assert rig.asked == 1, "it may have worked on the request: not repeated"


@pytest.mark.parametrize("garbage", [b"zz\r\nxx\r\n", b"\r\n", b"5\r\nabcdefgh", b"-1\r\n", b"5;\nx\r\n"])
async def test_row_069_garbage_inside_a_stream_never_reaches_the_client(start: Start, garbage: bytes) -> None:
    rig = await start(pools=1)
    rig.play([SSE + event(b"1"), 0.05, garbage, hang])
    answer = await rig.ask(stream=True)
    assert not answer.whole
    assert answer.body.startswith(b"data: 1\n\n")
    assert answer.body.count(b"data:") <= 2
    assert b"[DONE]" not in answer.body


async def test_row_071_http_1_0_is_answered_without_chunks_and_closed(start: Start) -> None:
    rig = await start(pools=2)
    rig.play([SSE + event(b"1"), 0.05, event(b"2") + LAST], OK)
    stream = await rig.client()
    await stream.send(request(stream=True, version="1.0", host=None))
    answer = await stream.answer()
    assert (answer.framing, answer.body) == ("close", b"data: 1\n\ndata: 2\n\n")
    assert answer.all("transfer-encoding") == []
    unary = await rig.client()
    await unary.send(request(version="1.0"))
    answer = await unary.answer()
    assert (answer.body, answer.all("connection")) == (b'{"ok":1}', ["close"])
    await unary.ended(5)
    assert {one.version for one in rig.requests} == {"HTTP/1.1"}


async def test_rule_i1_connection_close_is_obeyed(start: Start) -> None:
    rig = await start(pools=2)
    client = await rig.client()
    answer = await rig.ask(on=client, headers=["Connection: close"])
    assert (answer.status, answer.all("connection")) == (200, ["close"])
    await client.ended(5)


async def test_rule_i1_pipelined_requests_are_answered_in_order(start: Start) -> None:
    rig = await start(pools=2)
    rig.play(
        [0.2, SSE + event(b"first") + LAST], [whole(b"second")], [SSE + event(b"third") + LAST], [whole(b"fourth")]
    )
    client = await rig.client()
    refused = request(model="nobody")
    await client.send(
        request(stream=True)
        + request()
        + refused
        + request(stream=True)
        + request(method="GET", path="/livez")
        + request()
    )
    bodies = [(await client.answer()).body for _ in range(6)]
    assert bodies[:2] == [b"data: first\n\n", b"second"]
    assert b"model_not_found" in bodies[2]
    assert bodies[3:] == [b"data: third\n\n", b'{"status":"live"}', b"fourth"]


async def test_rule_i1_many_small_pipelined_requests(start: Start) -> None:
    rig = await start(pools=2)
    client = await rig.client()
    raw = request()
    await client.send(raw * 300)
    for _ in range(300):
        assert (await client.answer()).status == 200
    assert rig.counts() == [150, 150]


@pytest.mark.parametrize(
    "body", [request(), request(stream=True), request(b'{"model":"acme/tiny"}', headers=["X-A: b"])]
)
async def test_rule_i2_every_cut_of_a_request_gives_the_same_answer(start: Start, body: bytes) -> None:
    rig = await start(pools=1)
    rig.play(OK)
    client = await rig.client()
    for cut in range(1, len(body)):
        await client.send(body[:cut])
        await asyncio.sleep(0.001)
        await client.send(body[cut:])
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b'{"ok":1}'), f"cut after {cut} bytes"
    assert {one.body for one in rig.requests} == {body[body.index(b"\r\n\r\n") + 4 :]}
    heads = {re.sub(rb"x-request-id: \w+", b"", one.raw) for one in rig.requests}
    assert len(heads) == 1, "what goes on depends on the cut"


async def test_rule_i2_every_cut_of_a_chunked_request_gives_the_same_answer(start: Start) -> None:
    rig = await start(pools=1)
    rig.play(OK)
    raw = request(b"", headers=["Transfer-Encoding: chunked"], length=False) + chunk(BODY[:9]) + chunk(BODY[9:]) + LAST
    client = await rig.client()
    for cut in range(1, len(raw)):
        await client.send(raw[:cut])
        await asyncio.sleep(0.001)
        await client.send(raw[cut:])
        assert (await client.answer()).body == b'{"ok":1}', f"cut after {cut} bytes"
    assert {one.body for one in rig.requests} == {BODY}


async def test_rule_i2_byte_by_byte_both_ways(start: Start) -> None:
    rig = await start(pools=1)
    recorded = CHUNKED_JSON + chunk(b'{"a":1') + chunk(b"}") + LAST
    rig.play([step for n in range(len(recorded)) for step in (recorded[n : n + 1], 0.001)])
    client = await rig.client()
    for byte in request():
        await client.send(bytes([byte]))
    answer = await client.answer()
    assert (answer.whole, answer.body) == (True, b'{"a":1}')


async def test_row_072_expect_is_answered_here_and_interim_answers_are_not_the_answer(start: Start) -> None:
    rig = await start(pools=2)
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    rig.play([interim, 0.05, whole(b'{"ok":1}')], [interim + whole(b'{"ok":2}')])
    raw = request(headers=["Expect: 100-continue"])
    cut = raw.index(b"\r\n\r\n") + 4
    client = await rig.client()
    began = await client.send(raw[:cut])
    assert await client.seen(b"HTTP/1.1 100 Continue\r\n\r\n") - began < 0.5
    assert rig.asked == 0
    await client.send(raw[cut:])
    answer = await client.answer()
    assert (answer.interim, answer.body) == ([100], b'{"ok":1}')
    assert rig.requests[0].all("expect") == []
    answer = await rig.ask()
    assert (answer.interim, answer.body) == ([], b'{"ok":2}')


async def test_row_072_expect_is_refused_at_once_when_the_request_is(start: Start) -> None:
    rig = await start(pools=2)
    client = await rig.client()
    await client.send(request(path="/v1/nothing", headers=["Expect: 100-continue"], length=True).partition(b"{")[0])
    answer = await client.answer()
    assert (answer.interim, answer.status) == ([], 404)


async def test_row_073_large_headers_pass_and_too_large_ones_are_named(start: Start) -> None:
    rig = await start(pools=2)
    token = "Authorization: Bearer " + "t" * 12_000
    assert (await rig.ask(headers=[token])).status == 200
    assert rig.requests[0].one("authorization") == token.removeprefix("Authorization: ")
    before = await rig.metrics()
    for lines in (["X-Big: " + "b" * 40_000], [f"X-{n}: " + "c" * 95 for n in range(400)]):
        client = await rig.client()
        await client.send(request(headers=lines))
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (431, "headers_too_large")
        assert answer.one("x-should-retry") == "false"
    assert rig.asked == 1
    await rig.grew(before, "refusals_total", 2, code="headers_too_large")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%2e%2e/metrics",
        "/v1/../metrics",
        "/v1/.%2E/x",
        "/v1//models",
        "//v1/models",
        "/v1/./models",
        "/v1/chat%2Fcompletions",
        "/v1\\models",
        "/v1/%5c..%5cmetrics",
        "/v1/models/../../metrics",
        "/v1/models/a%2F..%2Fb",
        "http://ingress.test/v1/models",
    ],
)
async def test_row_075_strange_paths_are_refused_and_never_forwarded(start: Start, path: str) -> None:
    rig = await start(pools=2)
    for method in ("GET", "POST"):
        answer = await rig.ask(path=path, method=method)
        assert (answer.status, answer.error["code"]) == (400, "bad_path")
    assert rig.asked == 0


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/v1", "/v1/chat", "/v1/files", "/v1/chat/completions/", "/v1/..;/admin", "/V1/models", "/pools"],
)
async def test_row_075_unknown_paths_are_refused(start: Start, path: str) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(path=path)
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    assert rig.asked == 0


async def test_row_076_a_doubled_v1_gets_a_hint(start: Start) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(path="/v1/v1/chat/completions")
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    assert "/v1" in answer.error["message"]
    assert "base URL" in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/embeddings", "POST"),
        ("DELETE", "/v1/models", "GET, HEAD"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("POST", "/readyz", "GET, HEAD"),
        ("OPTIONS", "/v1/responses", "POST"),
    ],
)
async def test_rule_i11_a_wrong_method_is_told_the_right_one(start: Start, method: str, path: str, allow: str) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(method=method, path=path)
    assert (answer.status, answer.error["code"], answer.one("allow")) == (405, "method_not_allowed", allow)


async def test_rule_i3_an_encoded_request_is_refused(start: Start) -> None:
    rig = await start(pools=2)
    answer = await rig.ask(gzip_request())
    assert (answer.status, answer.error["code"]) == (415, "unsupported_encoding")
    assert (await rig.ask(headers=["Content-Encoding: identity"])).status == 200
    assert rig.asked == 1


def gzip_request() -> bytes:
    return request(gzip.compress(BODY), headers=["Content-Encoding: gzip"])


async def test_rule_i12_request_ids(start: Start) -> None:
    rig = await start(pools=2)
    for good in ("abc-1.2_Z", "a" * 128):
        answer = await rig.ask(headers=[f"X-Request-ID: {good}"])
        assert answer.all("x-request-id") == rig.requests[-1].all("x-request-id") == [good]
    made = set()
    bad = [None, "a b", "a%0aERROR", "x" * 129, "", "é", "a,b"]
    for given in bad:
        answer = await rig.ask(headers=[] if given is None else [f"x-request-id: {given}"])
        (one,) = answer.all("x-request-id")
        assert re.fullmatch("[0-9a-f]{32}", one)
        assert rig.requests[-1].all("x-request-id") == [one]
        made.add(one)
    assert len(made) == len(bad)
    rig.play([whole(b"{}", "200 OK", "X-Request-Id: theirs")])
    assert (await rig.ask(headers=["x-request-id: mine"])).all("x-request-id") == ["theirs"]


async def test_rule_i12_a_request_that_came_through_an_ingress_is_refused(start: Start) -> None:
    rig = await start(pools=2)
    await rig.ask()
    assert rig.requests[0].all("x-dynamo-global-router-hop") == ["1"]
    answer = await rig.ask(headers=["X-Dynamo-Global-Router-Hop: 1"])
    assert (answer.status, answer.error["code"], answer.one("x-should-retry")) == (508, "loop_detected", "false")
    assert rig.asked == 1


async def test_rule_i13_which_pool_it_was(start: Start) -> None:
    rig = await start(pools=2)
    seen = {}
    for _ in range(2):
        rig.each([whole(b"{}", "200 OK", "x-dynamo-pool: liar", "x-dynamo-attempts: 9")])
        answer = await rig.ask()
        name = rig.requests[-1].connection.frontend.name
        seen[name] = [answer.all(f"x-dynamo-{what}") for what in ("pool", "target-region", "attempts")]
        assert len(answer.all("x-dynamo-pool-id")) == 1
    assert seen == {f"f{n}": [[rig.pool(n)], [f"r{n}"], ["1"]] for n in (0, 1)}


async def test_rule_i13_which_pool_it_was_is_a_secret_if_wanted(start: Start) -> None:
    rig = await start(pools=2, headers={"expose_pool": False})
    rig.each([whole(b"{}")], [whole(b"{}", "503 Busy")])
    answers = [await rig.ask(), await rig.ask(), await rig.ask(model="nobody")]
    assert not [name for answer in answers for name, _ in answer.headers if name.lower().startswith("x-dynamo")]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "300 Choices"])
async def test_rule_i14_redirects_are_not_followed_and_not_passed(start: Start, status: str) -> None:
    rig = await start(pools=2)
    rig.each([whole(b"", status, "Location: http://elsewhere/")])
    answer = await rig.ask()
    assert (answer.status, answer.error["code"], answer.all("location")) == (502, "upstream_redirect", [])
    assert rig.asked == 1
