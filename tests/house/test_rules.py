"""Rules I60 to I75, of letting in and of seeing, and the tests that hold each: none is without, and all are there."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest

from tests.house.tree import ROOT

LETTING_IN = "tests/service/test_b15_letting_in.py"
TLS = "tests/service/test_b17_tls.py"
LIMITS = "tests/service/test_b18_limits.py"
LEAKS = "tests/service/test_b19_leaks.py"
LOGS = "tests/service/test_b12_logs_metrics.py"
TRACES = "tests/service/test_b20_traces.py"

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "I60": (
        (LETTING_IN, "test_i60_nobody_comes_in_without_a_key"),
        (LETTING_IN, "test_i60_health_needs_no_key"),
        (LETTING_IN, "test_i60_a_key_is_for_its_models"),
        (LETTING_IN, "test_i60_the_rate_is_that_of_all_workers"),
        (LETTING_IN, "test_i60_requests_at_once_are_those_of_all_workers"),
        (LETTING_IN, "test_i60_who_shows_a_key_comes_in_and_it_goes_no_further"),
        (LETTING_IN, "test_i60_credentials_go_on_when_told_so_and_without_keys"),
        (LETTING_IN, "test_i60_keys_change_while_it_runs"),
        ("tests/proxy/carrying/test_doors.py", "test_models_by_globs"),
    ),
    "I61": (
        (TLS, "test_i61_older_versions_are_not_spoken"),
        (TLS, "test_i61_clients_show_a_certificate"),
        (TLS, "test_i61_certificates_change_and_no_connection_is_dropped"),
        (TLS, "test_i61_frontends_by_their_authority"),
        (TLS, "test_i61_the_name_that_frontends_must_have"),
        (TLS, "test_i61_we_show_a_certificate_to_frontends"),
    ),
    "I62": (
        (LIMITS, "test_i62_one_connection_too_many_is_answered_and_not_left_hanging"),
        (LIMITS, "test_i62_bodies_held_together_at_the_edge"),
        (LIMITS, "test_i62_a_head_that_drips_ends_at_its_limit_however_often_it_drips"),
        ("tests/service/test_b09_bodies.py", "test_rule_i62_bodies_together_are_bounded"),
    ),
    "I63": (
        (LEAKS, "test_i63_no_output_holds_a_secret_whatever_goes_wrong"),
        (LOGS, "test_row_110_no_body_header_query_or_key_is_ever_logged"),
        (TRACES, "test_no_secret_is_in_a_span"),
        ("tests/test_start_faults.py", "test_files_that_the_settings_name"),
    ),
    "I64": ((LIMITS, "test_i64_nothing_of_the_ingress_speaks_to_kubernetes"),),
    "I70": (
        (LOGS, "test_rule_i70_one_line_per_request_with_all_its_fields"),
        (LOGS, "test_rule_i70_refusals_have_their_line_too"),
        ("tests/proxy/carrying/test_accesslog.py", "test_what_the_writer_cannot_take_is_dropped_and_counted"),
    ),
    "I71": (
        (LOGS, "test_rule_i71_a_real_parser_reads_it"),
        (LOGS, "test_rule_i71_the_sums_are_exact"),
        (LOGS, "test_row_106_row_107_names_from_outside_make_no_series"),
    ),
    "I72": (
        (TRACES, "test_the_callers_trace_goes_on_to_the_frontend"),
        (TRACES, "test_every_try_is_a_span"),
        (TRACES, "test_of_two_tries_at_once_each_is_a_span"),
        (TRACES, "test_a_dead_collector_costs_spans_and_no_request"),
        (TRACES, "test_a_slow_collector_does_not_hold_up_the_end"),
        (LOGS, "test_row_108_without_tracing_the_callers_context_passes_untouched"),
    ),
    "I73": (
        ("tests/service/test_status_page.py", "test_the_page_and_its_headers"),
        ("tests/service/test_status_page.py", "test_in_a_browser"),
        ("tests/proxy/admin/test_status.py", "test_pools_are_the_directorys_objects_and_what_we_make_of_them"),
    ),
    "I74": (
        ("tests/proxy/admin/test_decisions.py", "test_a_record_is_found_with_reasons_in_words"),
        ("tests/proxy/admin/test_decisions.py", "test_the_line_holds_no_address_and_is_bounded"),
        ("tests/explain/test_explain.py", "test_the_models_get_their_pools_with_reasons"),
    ),
    "I75": (("tests/top/test_top.py", "test_one_that_runs_and_one_that_is_away"),),
}


@functools.cache
def named_in(path: str) -> frozenset[str]:
    return frozenset(_named(ast.parse((ROOT / path).read_text())))


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_every_rule_has_its_tests() -> None:
    assert list(RULES) == [*(f"I{n}" for n in range(60, 65)), *(f"I{n}" for n in range(70, 76))]
    assert all(RULES.values())


@pytest.mark.parametrize("rule", RULES)
def test_the_named_in_a_rule_are_there(rule: str) -> None:
    assert [f"{path}::{name}" for path, name in RULES[rule] if name not in named_in(path)] == []
