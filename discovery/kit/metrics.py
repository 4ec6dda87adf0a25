"""Prometheus text from plain counters.

Owns the exposition. The code that counts only adds to a `Counter` or offers a function that reads its own state; the
client library is touched when somebody scrapes, never on the way of a request. Label values come from known sets only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = Iterable[tuple[Sequence[str], float]]
"""Label values, in the order of the family's labels, and the number."""


class Counter:
    """A number per tuple of label values; only ever grows."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0)

    def samples(self) -> Samples:
        return list(self._values.items())


class Metrics(Collector):
    """The families of one program, in the order they were declared."""

    def __init__(self) -> None:
        self._families: list[Callable[[], Metric]] = []
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Counter:
        """Declare a counter (`name` without `_total`) and return what to count with."""
        counts = Counter()
        if not labels:
            counts.add(by=0)
        self.read("counter", name, meaning, labels, counts.samples)
        return counts

    def gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Declare a number that is read when somebody asks."""
        self.read("gauge", name, meaning, (), lambda: [((), value())])

    def read(
        self,
        kind: Literal["counter", "gauge"],
        name: str,
        meaning: str,
        labels: Sequence[str],
        samples: Callable[[], Samples],
    ) -> None:
        """Declare a family whose samples are read from elsewhere."""
        family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily

        def collected() -> Metric:
            metric = family(name, meaning, labels=list(labels))
            for values, number in samples():
                metric.add_metric(list(values), number)
            return metric

        self._families.append(collected)

    def collect(self) -> Iterator[Metric]:
        return (family() for family in self._families)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
