"""How one value of the operator's file is spelled, and what it means.

Owns durations, sizes, addresses, URLs, CIDRs, names and paths. What is not acceptable raises `NotAllowed`, whose text
says what is; what was found, and where, is added by whoever knows the place. Keeps the rule that what `show_*` writes
reads back to the same value.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from dataclasses import dataclass
from datetime import UTC, datetime

MIN_DURATION, MAX_DURATION = 0.001, 30 * 86400.0
MAX_SIZE = 1 << 40
MAX_WORKERS = 256
MOST_PER_SECOND = 1_000_000
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_SIZE = re.compile(r"([0-9]{1,15}) ?(B|kB|MB|GB|KiB|MiB|GiB)")
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_URL = re.compile(r"(https?)://(\[[^\[\]/?#@]*\]|[^\[\]/:?#@]*)(?::([0-9]*))?/?", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class NotAllowed(ValueError):
    """The text is what people read: `must be …`."""


class SecretNotAllowed(NotAllowed):
    """What was found may hold a secret, and is not to be shown."""


# Durations and sizes


def _seconds(value: object) -> float:
    """Seconds of `500ms`, `5s`, `2m`, `1h` or a number; nan of anything else."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        number, unit = float(match[1]), match[2]
        return number / 1000 if unit == "ms" else number * {"s": 1, "m": 60, "h": 3600}[unit]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(max(min(value, 1 << 62), -1))  # an integer can be too large for float()
    return float("nan")


def duration(value: object) -> float:
    seconds = _seconds(value)
    if seconds != seconds:
        raise NotAllowed("must be a duration such as 500ms, 5s or 2m")
    if not MIN_DURATION <= seconds <= MAX_DURATION:
        raise NotAllowed("must be a duration from 1ms to 720h")
    return seconds


def duration_or_zero(value: object) -> float:
    return 0.0 if _seconds(value) == 0 else duration(value)


def show_duration(seconds: float) -> str | float:
    """The spelling that reads back to exactly this value; a bare number when no unit does."""
    for unit, length, least in (("h", 3600, 3600), ("m", 60, 600), ("s", 1, 0)):
        if seconds >= least and seconds % length == 0:
            return f"{int(seconds // length)}{unit}"
    return f"{round(seconds * 1000)}ms" if round(seconds * 1000) / 1000 == seconds else seconds


def size(value: object) -> int:
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        value = int(match[1]) * _BYTES[match[2]]
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotAllowed("must be a size such as 32KiB, 32MiB, 1GiB or a number of bytes")
    if not 1 <= value <= MAX_SIZE:
        raise NotAllowed("must be a size from 1 byte to 1024GiB")
    return value


def header_size(value: object) -> int:
    count = size(value)
    if not 1 << 10 <= count <= 1 << 20:
        raise NotAllowed("must be a size from 1KiB to 1MiB")
    return count


def show_size(count: int) -> str | int:
    return next((f"{count // _BYTES[u]}{u}" for u in ("GiB", "MiB", "KiB") if count % _BYTES[u] == 0), count)


# Addresses


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; `host` is a name or an IP address without brackets, `port` 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(value: object) -> Address:
    if isinstance(value, Address):
        return value
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not host:
        raise NotAllowed("must be HOST:PORT such as 0.0.0.0:8000 or [::]:8000")
    return Address(_host(host), _port(port, lowest=0))


def _host(text: str) -> str:
    """A name or address, lower case, IPv6 without its brackets."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return str(ipaddress.IPv6Address(text[1:-1] if "%" not in text else ""))
        except ValueError:
            raise NotAllowed("must have an IPv6 address between its brackets") from None
    if ":" in text:
        raise NotAllowed("must have brackets around an IPv6 address, such as [::1]:8000")
    if re.fullmatch(r"[0-9.]+", text):
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            raise NotAllowed("must have a host that is a name or an IP address") from None
    if len(text) > 253 or not all(_LABEL.fullmatch(part) for part in text.removesuffix(".").split(".")):
        raise NotAllowed("must have a host that is a name or an IP address")
    return text.lower()


def _port(text: str, lowest: int) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not lowest <= int(text) <= 65535:
        raise NotAllowed(f"must have a port from {lowest} to 65535")
    return int(text)


def url(value: object) -> str:
    """`scheme://host:port` in lower case, the port always written, nothing after it."""
    if not isinstance(value, str):
        raise NotAllowed("must be a URL such as http://10.0.0.1:8000")
    if "@" in value:
        raise SecretNotAllowed("must be a URL without credentials")
    if "?" in value or "#" in value:
        raise NotAllowed("must be a URL without a query and a fragment")
    match = _URL.fullmatch(value)
    if match is None:
        if re.match(r"https?://[^/]+/.", value, re.IGNORECASE):
            raise NotAllowed("must be a URL without a path")
        raise NotAllowed("must be a URL such as http://10.0.0.1:8000")
    scheme = match[1].lower()
    port = {"http": 80, "https": 443}[scheme] if match[3] is None else _port(match[3], lowest=1)
    return f"{scheme}://{Address(_host(match[2]), port)}"


def origin(value: object) -> str:
    if value == "*":
        return "*"
    if isinstance(value, str) and (match := _URL.fullmatch(value)) and not value.endswith("/"):
        _host(match[2])
        return value.lower()
    raise NotAllowed("must be * or an origin such as https://chat.example.com")


def network(value: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if not isinstance(value, str):
        raise NotAllowed("must be a CIDR such as 10.0.0.0/8")
    try:
        return ipaddress.ip_network(value)
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise NotAllowed("must be a CIDR such as 10.0.0.0/8") from None
    raise NotAllowed(f"must be a CIDR without bits beyond its prefix, such as {meant}")


# Words


def name(value: object) -> str:
    if isinstance(value, int | float):
        raise NotAllowed("must be a text, in quotes")
    if not isinstance(value, str) or not value:
        raise NotAllowed("must be a text that is not empty")
    if value != value.strip() or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise NotAllowed("must be a text without white space around it and without control characters")
    return value


def header_name(value: object) -> str:
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise NotAllowed("must be the name of a header such as x-session-id")
    return value.lower()


def own_header_name(value: object) -> str:
    """Of a header that we send of ourselves."""
    word = header_name(value)
    if word in ("connection", "content-length", "transfer-encoding"):
        raise NotAllowed(f"must not be {word}, which the connection decides")
    return word


def header_value(value: object) -> str:
    if not isinstance(value, str) or value != value.strip() or not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value):
        raise SecretNotAllowed("must be a text on one line without white space around it")
    return value


def file_path(value: object, directory: str) -> str:
    """The path seen from where the program runs, when the file stands in `directory`."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise NotAllowed("must be the path of a file")
    return posixpath.join(directory, value)


def access_log(value: object, directory: str) -> str:
    if value == "stdout":
        return "stdout"
    if not isinstance(value, str) or "/" not in value:
        raise NotAllowed("must be stdout or a path with a / in it")
    return file_path(value, directory)


def rate(value: object) -> tuple[int, float]:
    """How many, and in how many seconds."""
    count, slash, window = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or not re.fullmatch(r"[1-9][0-9]{0,8}", count):
        raise NotAllowed("must be COUNT/DURATION such as 100/1m")
    seconds = duration(window)
    if int(count) > seconds * MOST_PER_SECOND:
        raise NotAllowed(f"must be {MOST_PER_SECOND} in a second at most")
    return int(count), seconds


def digest(value: object) -> str:
    """What was found is not shown: people put the key itself here."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise SecretNotAllowed("must be the 64 lower-case hex digits of the key's SHA-256")
    return value


def moment(value: object) -> float:
    """Seconds since the epoch; of a day, its beginning in UTC."""
    text = value if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T.*)?", value) else ""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise NotAllowed("must be a day or a time such as 2027-01-31 or 2027-01-31T12:00:00Z") from None
    if when.tzinfo is None:
        if "T" in text:
            raise NotAllowed("must have a time zone, such as 2027-01-31T12:00:00Z")
        when = when.replace(tzinfo=UTC)
    return when.timestamp()


def hedge_after(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"p[5-9][0-9]", value):
        raise NotAllowed("must be a percentile from p50 to p99")
    return value


def switch(value: object) -> bool:
    if value in ("on", "off"):
        return value == "on"
    if not isinstance(value, bool):
        raise NotAllowed("must be on or off")
    return value
