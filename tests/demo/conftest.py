"""Ports for tests."""

from __future__ import annotations

import pytest

from tests.demo.ports import free_base_port


@pytest.fixture
def free_base() -> int:
    return free_base_port()
