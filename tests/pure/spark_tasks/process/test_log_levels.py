"""Names of log levels: Kafka Connect's, slf4j's and Python's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.process.log_levels import LEVELS, SLF4J, TRACE, level_name, level_number, slf4j_level


def test_names_are_kafka_connects() -> None:
    assert [level_number(name.lower()) for name in LEVELS] == list(LEVELS.values())
    assert [level_name(n) for n in (TRACE, 10, 20, 25, 30, 40, 50, 60, 1, 0)] == [
        "TRACE", "DEBUG", "INFO", "INFO", "WARN", "ERROR", "FATAL", "OFF", "ALL", "ALL",
    ]
    assert (level_number(" warning"), level_number("critical"), level_number("LOUD")) == (30, 50, None)


def test_names_are_slf4js() -> None:
    assert [slf4j_level(n) for n in LEVELS.values()] == [
        "OFF", "OFF", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "TRACE",
    ]


@given(st.integers(0, 100), st.sampled_from(sorted(SLF4J)))
def test_a_plugin_logs_exactly_what_python_would(number: int, line: str) -> None:
    passes = SLF4J[line] >= number
    level = slf4j_level(number)
    assert (level != "OFF" and SLF4J[line] >= SLF4J[level]) == passes
