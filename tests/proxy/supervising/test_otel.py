"""The `OTEL_*` variables that we read ourselves: all faults at once, nothing taken for something else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_ingress.proxy.settings.faults import SettingsFault
from global_ingress.proxy.shared.routes import Sampling
from global_ingress.proxy.supervising.otel import NAMES, Otel, read_otel


@pytest.mark.parametrize(
    ("sampler", "argument", "sampling"),
    [
        ("", "", Sampling(1.0, True)),
        ("always_on", "", Sampling(1.0, False)),
        ("always_off", "", Sampling(0.0, False)),
        ("traceidratio", "0.25", Sampling(0.25, False)),
        ("traceidratio", "", Sampling(1.0, False)),
        ("parentbased_always_on", "0.5", Sampling(1.0, True)),
        ("parentbased_always_off", "", Sampling(0.0, True)),
        ("parentbased_traceidratio", "1e-3", Sampling(0.001, True)),
    ],
)
def test_samplers(sampler: str, argument: str, sampling: Sampling) -> None:
    given = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert read_otel(given).sampling == sampling


def test_what_is_not_set_has_its_default() -> None:
    assert read_otel({}) == Otel()
    assert read_otel({"OTEL_TRACES_EXPORTER": "none"}).disabled
    assert read_otel({"OTEL_SDK_DISABLED": "True"}).disabled
    assert not read_otel({"OTEL_SDK_DISABLED": "yes"}).disabled
    assert read_otel({"OTEL_BSP_SCHEDULE_DELAY": "250"}).delay == 0.25


def test_all_faults_come_at_once_with_what_is_allowed() -> None:
    wrong = {
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratios",
        "OTEL_TRACES_SAMPLER_ARG": "2",
        "OTEL_BSP_MAX_QUEUE_SIZE": "0",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "many",
        "OTEL_BSP_SCHEDULE_DELAY": "-1",
        "OTEL_TRACES_EXPORTER": "zipkin",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4317",
    }
    with pytest.raises(SettingsFault) as told:
        read_otel(wrong)
    assert {fault.file for fault in told.value.faults} == set(wrong) - {"OTEL_TRACES_SAMPLER_ARG"}
    assert "did you mean parentbased_traceidratio?" in str(told.value)
    with pytest.raises(SettingsFault, match="a ratio from 0 to 1, got '2'"):
        read_otel({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"})


VARIABLES = ("SAMPLER", "SAMPLER_ARG", "EXPORTER")


@given(
    st.dictionaries(st.sampled_from([f"OTEL_TRACES_{name}" for name in VARIABLES]), st.text() | st.sampled_from(NAMES))
)
def test_any_text_is_a_setting_or_a_fault(environment: dict[str, str]) -> None:
    with contextlib.suppress(SettingsFault):
        assert 0.0 <= read_otel(environment).sampling.ratio <= 1.0
