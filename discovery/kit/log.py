"""Logging: constant messages with key-value pairs, as JSON lines or as text for a terminal.

Owns how a line looks. Whatever comes from outside goes into a value and is escaped there, so nobody can forge a line
or reach the reader's terminal. Configured once, by a composition root; libraries only call `logger`.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import IO, Literal

Format = Literal["auto", "json", "text"]
Level = Literal["debug", "info", "warning", "error"]

_PAIRS = "kit_pairs"
_NOISY = ("httpx", "httpcore", "watchfiles", "uvicorn.access", "uvicorn.error", "aiobotocore", "botocore")


class Log:
    """A named logger whose calls take a constant message and pairs."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **pairs: object) -> None:
        self._logger.debug(message, extra={_PAIRS: pairs})

    def info(self, message: str, **pairs: object) -> None:
        self._logger.info(message, extra={_PAIRS: pairs})

    def warning(self, message: str, **pairs: object) -> None:
        self._logger.warning(message, extra={_PAIRS: pairs})

    def error(self, message: str, **pairs: object) -> None:
        self._logger.error(message, extra={_PAIRS: pairs})

    def exception(self, message: str, cause: BaseException, **pairs: object) -> None:
        """An error with the whole trace of `cause`: for what nobody foresaw."""
        self._logger.error(message, exc_info=cause, extra={_PAIRS: pairs})


def logger(name: str) -> Log:
    return Log(name)


def configure(form: Format, level: Level, stream: IO[str]) -> None:
    """Send everything to `stream`. `auto` is text on a terminal and JSON elsewhere."""
    as_text = form == "text" or (form == "auto" and stream.isatty())
    output = logging.StreamHandler(stream)
    output.setFormatter(TextLines() if as_text else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [output]
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _pairs(record: logging.LogRecord) -> dict[str, object]:
    found = getattr(record, _PAIRS, None)
    return found if isinstance(found, dict) else {}


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return "".join(traceback.format_exception(record.exc_info[1]))


class JsonLines(logging.Formatter):
    """One JSON object a line; JSON's own escaping keeps a value inside its line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _pairs(record).items():
            line[key if key not in line else f"{key}_"] = value
        if trace := _trace(record):
            line["trace"] = trace
        # JSON escapes every control character but this one.
        return json.dumps(line, default=str).replace("\x7f", "\\u007f")


class TextLines(logging.Formatter):
    """`time LEVEL logger: message key=value …`; values with anything unusual in them are quoted and escaped."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname:<7} {record.name}: {_printable(record.getMessage())}"
        line = " ".join([head, *(f"{key}={_value(value)}" for key, value in _pairs(record).items())])
        trace = _trace(record)
        return line + "".join(f"\n    {_printable(part)}" for part in trace.splitlines())


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text and text.isprintable() and not any(c in ' "=\\' for c in text):
        return text
    return _printable(json.dumps(text, ensure_ascii=not text.isprintable()))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
