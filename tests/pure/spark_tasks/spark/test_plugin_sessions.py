"""Plugins that get PySpark's context on a worker; tests/integration/test_engine.py has a real Spark."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from spark_tasks.spark.plugin_sessions import SharedSpark


def test_a_plugin_that_gets_the_spark_context_waits_for_sharing_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "getOrCreate", classmethod(lambda _cls, conf=None: f"the context, {conf}"))
    waited: list[str] = []
    first = SharedSpark(lambda: waited.append("first"))
    second = SharedSpark(lambda: waited.append("second"))
    assert SparkContext.getOrCreate() == "the context, None"
    assert waited == ["second", "first"]
    first.close()  # not the one that came last
    assert SparkContext.getOrCreate("a conf") == "the context, a conf"
    assert waited == ["second", "first", "second"]
    second.close()
    SparkContext.getOrCreate()
    assert len(waited) == 3
