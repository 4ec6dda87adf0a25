"""What the demo writes for its ingresses, and what it reads from them."""

from __future__ import annotations

import json

import pytest

from global_ingress.demo.regions import layout
from global_ingress.demo.run import ingress_file, routable
from global_ingress.proxy.settings import file as settings


def test_the_ingress_file_is_one_that_the_ingress_takes() -> None:
    place = layout(2)[1]
    content = ingress_file(place, "meta-llama/Tiny")
    settings.load(content, name="ingress.yaml", directory="/nowhere")
    assert place.discovery in content


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (json.dumps({"pools": [{"routable": True, "id": "a"}, {"routable": False}, {"routable": True}]}).encode(), 2),
        (b'{"pools":[]}', 0),
        (b'{"pools":[{}]}', None),
        (b"[]", None),
        (b"", None),
        (b"\xff", None),
    ],
)
def test_routable_pools_are_counted_or_unknown(body: bytes, count: int | None) -> None:
    assert routable(body) == count
