"""Warming up: every part works; a failure would be visible only in the log."""

from __future__ import annotations

import pytest

from spark_tasks.spark.warm import warm_up


def test_warm_up_logs_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    warm_up()
    assert caplog.text == ""
