"""The page of the metrics, made from what is exposed. Pure.

`python -m global_ingress.proxy.admin.metrics_docs` prints `docs/metrics.md`; a test keeps it fresh.
"""

from __future__ import annotations

from collections.abc import Iterator

from global_ingress.proxy.admin import metrics
from global_ingress.proxy.admin.metrics import Loop, Snapshot
from global_ingress.proxy.shared import sums
from global_ingress.proxy.supervising.labels import Labels

_INTRO = """# The metrics of global-ingress

Made by `python -m global_ingress.proxy.admin.metrics_docs` from what `/metrics` of the admin listener exposes; do not
edit.

Label values come from known sets, else they are `other`. A histogram has `_bucket`, `_sum` and `_count`; its buckets
have the label `le`. `k8s/observability/` holds a dashboard and alert rules on these names.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def families() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name as exposed, kind, labels and meaning of each."""
    snapshot = Snapshot(sums.nothing(), "0", loops=[Loop("supervisor", 0.0, 0.0)], discovery_age=0.0)
    for family in metrics.families(snapshot, Labels()):
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
