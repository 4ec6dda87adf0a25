"""A first port for a demo whose every listener is free, below the range from which the kernel gives ports away."""

from __future__ import annotations

import os

from global_ingress.demo.regions import layout
from global_ingress.demo.run import ports_in_use


def free_base_port(regions: int = 4) -> int:
    # Runs beside each other start their search at different places.
    start = 20000 + (os.getpid() * 40) % 6000
    for base in range(start, start + 6000, 10):
        if ports_in_use(layout(regions, base)) is None:
            return base
    raise AssertionError("no free ports")
