"""What of the `OTEL_*` variables we read ourselves: who is sampled, and how much waits for the exporter. Pure.

The exporter's own variables (endpoint, headers, certificates, timeout, compression) are read by its library. Refuses
what would be taken for something else: an unknown sampler, a ratio outside 0 to 1, a protocol that is not there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from global_ingress.proxy.settings.faults import Fault, SettingsFault
from global_ingress.proxy.shared.routes import Sampling

SAMPLERS = ("always_on", "always_off", "traceidratio")
NAMES = (*SAMPLERS, *(f"parentbased_{name}" for name in SAMPLERS))


T = TypeVar("T")


EVERY = Sampling(1.0, True)


@dataclass(frozen=True)
class Otel:
    """`queue` spans wait at most, `batch` go out together, after `delay` seconds at the latest."""

    sampling: Sampling = EVERY
    queue: int = 16384
    batch: int = 512
    delay: float = 5.0
    disabled: bool = False


def read_otel(environment: Mapping[str, str]) -> Otel:
    """Raises SettingsFault with everything that is wrong."""
    faults: list[Fault] = []

    def read(name: str, default: T, reader: Callable[[str], T]) -> T:
        text = environment.get(name, "").strip()
        try:
            return reader(text) if text else default
        except _Wrong as error:
            faults.append(Fault(name, 0, 0, "", f"{error}, got {text[:60]!r}"))
            return default

    sampler = read("OTEL_TRACES_SAMPLER", "parentbased_always_on", _sampler)
    ratio = read("OTEL_TRACES_SAMPLER_ARG", 1.0, _ratio) if sampler.endswith("traceidratio") else 1.0
    known = Otel(
        Sampling(0.0 if sampler.endswith("always_off") else ratio, sampler.startswith("parentbased_")),
        read("OTEL_BSP_MAX_QUEUE_SIZE", Otel.queue, _count),
        read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", Otel.batch, _count),
        read("OTEL_BSP_SCHEDULE_DELAY", Otel.delay, lambda text: _count(text) / 1e3),
        read("OTEL_SDK_DISABLED", False, lambda text: text.lower() == "true")
        or read("OTEL_TRACES_EXPORTER", "otlp", _exporter) == "none",
    )
    for signal in ("", "_TRACES"):
        read(f"OTEL_EXPORTER_OTLP{signal}_PROTOCOL", "http/protobuf", _protocol)
        read(f"OTEL_EXPORTER_OTLP{signal}_ENDPOINT", "", _endpoint)
    if faults:
        raise SettingsFault(faults)
    return known


class _Wrong(ValueError):
    pass


def _sampler(text: str) -> str:
    if text in NAMES:
        return text
    near = difflib.get_close_matches(text, NAMES, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    raise _Wrong(f"must be one of {', '.join(NAMES)}{meant}")


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise _Wrong("must be a ratio from 0 to 1")
    return ratio


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= len(text) <= 9 or int(text) < 1:
        raise _Wrong("must be a whole number of at least 1")
    return int(text)


def _exporter(text: str) -> str:
    if text not in ("otlp", "none"):
        raise _Wrong("must be otlp or none")
    return text


def _protocol(text: str) -> str:
    if text != "http/protobuf":
        raise _Wrong("must be http/protobuf, which collectors take on port 4318")
    return text


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise _Wrong("must be an http or https URL")
    return text
