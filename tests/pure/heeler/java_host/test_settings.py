"""The settings of Java plugins' JVMs, read from a worker's properties."""

from __future__ import annotations

import pytest

from heeler.java_host.settings import JavaHostSettings
from spark_tasks.errors import ConfigError
from tests.rigs.java_settings import java_settings


def test_defaults_are_the_keys_defaults():
    assert java_settings({}) == JavaHostSettings("-Xmx1G", False, 8, 5.0, 85.0, 30.0, {}, "hybrid_warn", [])


def test_settings_are_parsed():
    assert java_settings({
        "java.plugins.jvm.options": "-Xmx2G", "java.plugins.isolation": "connector", "java.plugins.hung.max": "3",
        "java.plugins.answer.timeout.ms": "1500", "java.plugins.silence.timeout.ms": "2500", "other": "x",
        "task.shutdown.graceful.timeout.ms": "700", "plugin.discovery": "ONLY_SCAN", "java.plugins.prefer": "a.B",
    }, {"a.b": " warning", "c": "debug", "d": "none of them"}) == JavaHostSettings(
        "-Xmx2G", True, 3, 0.7, 1.5, 2.5, {"a.b": "WARN", "c": "DEBUG"}, "only_scan", ["a.B"])


@pytest.mark.parametrize(("key", "value"), [
    ("java.plugins.hung.max", "0"), ("java.plugins.answer.timeout.ms", "soon"), ("java.plugins.isolation", "task"),
    ("task.shutdown.graceful.timeout.ms", "x"),
])
def test_an_invalid_value_is_named_although_nothing_else_has_been_parsed(key, value):
    with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {key}"):
        java_settings({key: value})
