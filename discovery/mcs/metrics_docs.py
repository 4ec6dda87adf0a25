"""The page of the registry's metrics, made from what is exposed.

`python -m discovery.mcs.metrics_docs` prints `docs/mcs/metrics.md`; a test keeps it fresh.
"""

from __future__ import annotations

from collections.abc import Iterator

from discovery.kit.clock import SYSTEM_CLOCK
from discovery.kit.metrics import Metrics
from discovery.mcs.registry_metrics import declare
from discovery.mcs.rest import Rest
from discovery.mcs.rpc import Rpc
from discovery.mcs.service import RegistryService
from discovery.mcs.store_memory import MemoryStore

_INTRO = """# The metrics of mcs-registry

Made from the declarations by `python -m discovery.mcs.metrics_docs`; do not edit. `/metrics` of the HTTP listener
tells them; `k8s/observability/alerts.yaml` has rules on these names.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def families() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name as exposed, kind, labels and meaning of each."""
    metrics = Metrics()
    service = RegistryService(MemoryStore(), SYSTEM_CLOCK, epoch="0", chance=lambda: 0.5)
    declare(metrics, service)
    Rest(service, lambda authorization, cluster: None, metrics, lambda: None)
    Rpc(service, lambda authorization, cluster: None, metrics)
    for family in metrics.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        yield name, family.type, tuple(getattr(family, "_labelnames", ())), family.documentation


def page() -> str:
    rows = (
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels) or '–'} | {meaning} |\n"
        for name, kind, labels, meaning in families()
    )
    return _INTRO + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
