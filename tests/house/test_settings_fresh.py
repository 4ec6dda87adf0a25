"""What is made from the settings' declarations is as they say."""

from __future__ import annotations

import json
from pathlib import Path

from discovery.mcs import metrics_docs as registry_metrics_docs
from global_ingress import cli_docs
from global_ingress.proxy.admin import metrics_docs
from global_ingress.proxy.settings import docs as settings_docs

ROOT = Path(__file__).parents[2]


def test_the_settings_page_is_fresh() -> None:
    """python -m global_ingress.proxy.settings.docs > docs/settings.md"""
    assert (ROOT / "docs" / "settings.md").read_text() == settings_docs.page()


def test_the_published_schema_is_fresh() -> None:
    """global-ingress schema > examples/ingress.schema.json"""
    assert json.loads((ROOT / "examples" / "ingress.schema.json").read_text()) == settings_docs.json_schema()


def test_the_page_of_metrics_is_fresh() -> None:
    """python -m global_ingress.proxy.admin.metrics_docs > docs/metrics.md"""
    assert (ROOT / "docs" / "metrics.md").read_text() == metrics_docs.page()


def test_the_page_of_the_registrys_metrics_is_fresh() -> None:
    """python -m discovery.mcs.metrics_docs > docs/mcs/metrics.md"""
    assert (ROOT / "docs" / "mcs" / "metrics.md").read_text() == registry_metrics_docs.page()


def test_the_page_of_commands_is_fresh() -> None:
    """python -m global_ingress.cli_docs > docs/cli.md"""
    assert (ROOT / "docs" / "cli.md").read_text() == cli_docs.page()


def test_every_command_is_on_its_page() -> None:
    page = cli_docs.page()
    for command in ("check", "demo", "explain", "schema", "serve", "top", "validate"):
        assert f"## global-ingress {command}\n" in page
    assert "## global-discovery-service create-table\n" in page
