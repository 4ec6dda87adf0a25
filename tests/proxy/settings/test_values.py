"""How one value is spelled: what is taken, to the edge, what is not, and that what is written reads back."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from global_ingress.proxy.settings import values
from global_ingress.proxy.settings.values import Address, NotAllowed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("1ms", 0.001),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("720h", 2_592_000.0),
        ("1.5s", 1.5),
        ("0.25m", 15.0),
        (0.001, 0.001),
        (5, 5.0),
        (2_592_000, 2_592_000.0),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    found = values.duration(text)
    assert (found, type(found)) == (seconds, float)


@pytest.mark.parametrize(
    "text",
    [
        *("soon", "", "5", "5 s", "5S", "-5s", "+5s", "5sec", "s", "1e3s", "5s ", "1:30", "5m30s", ".5s", "5.s", "٥s"),
        *(
            True,
            False,
            None,
            [],
            {},
            float("nan"),
            float("inf"),
            float("-inf"),
            10**400,
            -(10**400),
            -1,
            0,
            "0s",
            "0ms",
        ),
        *("0.9ms", 0.00099, "720.1h", 2_592_000.1, 2_592_001, "999999999999h", "9999999999999s"),
    ],
)
def test_no_durations(text: object) -> None:
    with pytest.raises(NotAllowed, match="must be a duration"):
        values.duration(text)


def test_milliseconds_are_exact() -> None:
    assert all(values.duration(f"{n}ms") == float(f"{n}e-3") for n in range(1, 3000))


def test_zero_where_it_is_allowed() -> None:
    assert [values.duration_or_zero(text) for text in (0, 0.0, "0s", "0ms", "1ms")] == [0.0, 0.0, 0.0, 0.0, 0.001]
    for text in (-1, "0", False, None, 0.0009):
        with pytest.raises(NotAllowed):
            values.duration_or_zero(text)


@given(st.floats(values.MIN_DURATION, values.MAX_DURATION) | st.integers(1, 2_592_000).map(float))
@settings(deadline=None)
def test_a_shown_duration_reads_back(seconds: float) -> None:
    assert values.duration(values.show_duration(seconds)) == seconds


def test_shown_durations_are_those_people_write() -> None:
    shown = [
        values.show_duration(s)
        for s in (0.0, 0.001, 0.5, 5.0, 60.0, 75.0, 300.0, 600.0, 660.0, 3600.0, 5400.0, 1e-3 + 1e-9)
    ]
    assert shown == ["0s", "1ms", "500ms", "5s", "60s", "75s", "300s", "10m", "11m", "1h", "90m", 1e-3 + 1e-9]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (1, 1),
        ("1B", 1),
        ("32KiB", 32768),
        ("32 MiB", 33554432),
        ("1GiB", 1 << 30),
        ("1kB", 1000),
        ("3MB", 3_000_000),
        ("2GB", 2_000_000_000),
        ("1024GiB", 1 << 40),
        (1 << 40, 1 << 40),
    ],
)
def test_sizes(text: object, count: int) -> None:
    assert values.size(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "32",
        "32K",
        "32kb",
        "32KB",
        "32Kib",
        "1.5MiB",
        "-1B",
        "1  MiB",
        "MiB",
        1.5,
        True,
        None,
        [],
        0,
        "0B",
        -1,
        "1025GiB",
        (1 << 40) + 1,
    ],
)
def test_no_sizes(text: object) -> None:
    with pytest.raises(NotAllowed, match="must be a size"):
        values.size(text)


def test_header_sizes_have_closer_limits() -> None:
    assert (values.header_size("1KiB"), values.header_size("1MiB")) == (1024, 1 << 20)
    for text in (1023, (1 << 20) + 1, "soon"):
        with pytest.raises(NotAllowed):
            values.header_size(text)


@given(st.integers(1, values.MAX_SIZE) | st.integers(1, 1 << 20).map(lambda n: n << 20))
@settings(deadline=None)
def test_a_shown_size_reads_back(count: int) -> None:
    assert values.size(values.show_size(count)) == count


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:8000", "0.0.0.0", 8000),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::]:65535", "::", 65535),
        ("[0:0::1]:80", "::1", 80),
        ("LocalHost:1", "localhost", 1),
        ("a_b.example.com.:1", "a_b.example.com.", 1),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert values.address(text) == Address(host, port)
    assert values.address(str(values.address(text))) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":8000", "8000", "localhost", "localhost:", "localhost:http", "localhost:65536", "localhost:-1"),
        *(
            "::1:80",
            "[::1]",
            "[::1:80",
            "[]:80",
            "[x]:80",
            "[fe80::1%eth0]:80",
            "1.2.3:80",
            "256.0.0.1:80",
            "1.2.3.4.5:80",
        ),
        *(
            "a b:80",
            "-a:80",
            "a-:80",
            "a..b:80",
            "*:80",
            "http://x:80",
            "x:80/",
            f"{'a' * 64}:80",
            "é:80",
            "x:٨٠",
            "x:8_0",
        ),
        *(8000, True, None, []),
    ],
)
def test_no_addresses(text: object) -> None:
    with pytest.raises(NotAllowed, match=r"^must (be HOST:PORT|have)"):
        values.address(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000"),
        ("HTTP://Example.COM:1", "http://example.com:1"),
        ("http://x", "http://x:80"),
        ("https://x/", "https://x:443"),
        ("https://[FD00::1]:65535", "https://[fd00::1]:65535"),
    ],
)
def test_urls(text: str, url: str) -> None:
    assert values.url(text) == url
    assert values.url(url) == url


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "such as"),
        ("x:80", "such as"),
        ("ftp://x", "such as"),
        ("http:/x", "such as"),
        ("http://", "host"),
        ("http://:80", "host"),
        ("http://x:", "port"),
        ("http://x:0", "port"),
        ("http://x:65536", "port"),
        ("http://x:http", "such as"),
        ("http://x/v1", "path"),
        ("http://x:80//", "path"),
        ("http://u:p@x", "credentials"),
        ("http://x?a=1", "query"),
        ("http://x#a", "fragment"),
        ("http:// x", "host"),
        ("http://x ", "host"),
        ("http://x\n", "host"),
        ("http://fd00::1", "such as"),
        ("http://[fd00::1", "such as"),
        ("http://[1.2.3.4]", "IPv6"),
        (80, "such as"),
        (None, "such as"),
    ],
)
def test_no_urls(text: object, word: str) -> None:
    with pytest.raises(NotAllowed, match=word):
        values.url(text)


def test_networks() -> None:
    assert [values.network(text) for text in ("10.0.0.0/8", "::/0", "192.0.2.1")] == [
        ip_network("10.0.0.0/8"),
        ip_network("::/0"),
        ip_network("192.0.2.1/32"),
    ]
    with pytest.raises(NotAllowed, match=r"such as 10\.0\.0\.0/8$"):
        values.network("10.1.0.0/8")
    for text in ("", "x", "10.0.0.0/33", 10, None, b"\n\0\0\1"):
        with pytest.raises(NotAllowed, match="CIDR"):
            values.network(text)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (values.name, ["a", "meta-llama/Llama 3", "é"], ["", " a", "a\n", "a\0b", "a\x85b", 1, None, True]),
        (values.header_name, ["x-session-id", "!#$"], ["", "a b", "a:", "é", "a\n", 1]),
        (values.header_value, ["", "Bearer x", "a\tb"], [" a", "a\r\nb", "a\0", "\u2028", 1, None]),
        (
            values.origin,
            ["*", "https://a.example:8443", "http://[::1]"],
            ["", "a", "https://a/", "https://a/b", "https://", 1],
        ),
        (values.hedge_after, ["p50", "p99"], ["p49", "p100", "95", 95, None]),
        (lambda text: values.file_path(text, "/etc"), ["a"], ["", "a\0", 1, None]),
        (lambda text: values.access_log(text, "/etc"), ["stdout", "./a", "/a"], ["", "stderr", "log", "off", 1]),
    ],
)
def test_words(read: Callable[[Any], object], good: list[object], bad: list[object]) -> None:
    for text in good:
        read(text)
    for text in bad:
        with pytest.raises(NotAllowed, match=r"^must be"):
            read(text)


def test_paths_start_at_the_files_directory() -> None:
    assert values.file_path("keys.yaml", "/etc/ingress") == "/etc/ingress/keys.yaml"
    assert values.file_path("/keys.yaml", "/etc/ingress") == "/keys.yaml"
    assert values.access_log("./a.log", "/var") == "/var/./a.log"


def test_switches() -> None:
    assert [values.switch(value) for value in ("on", "off", True, False)] == [True, False, True, False]
    bad: tuple[object, ...] = ("yes", 1, 0, None, [], {})
    for value in bad:
        with pytest.raises(NotAllowed):
            values.switch(value)


readers: st.SearchStrategy[Callable[[Any], object]] = st.sampled_from(
    (
        *(
            values.duration,
            values.duration_or_zero,
            values.size,
            values.address,
            values.url,
            values.network,
            values.name,
        ),
        *(values.header_name, values.header_value, values.origin, values.hedge_after, values.switch),
    )
)
anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.lists(st.text())
    | st.text("[]:/.0129ahtpsKiB%@ ")
)


@given(readers, anything)
@settings(deadline=None)
def test_any_value_is_read_or_not_allowed(read: Callable[[Any], object], value: object) -> None:
    told = "must "
    try:
        read(value)
    except NotAllowed as error:
        told = str(error)
    assert told.startswith("must ")
