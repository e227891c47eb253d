"""Compilation ahead of time: every part works; a failure would be visible only in the log."""

from __future__ import annotations

import pytest

from spark_tasks.spark.warm import compile_all, warm_up


def test_warm_up_logs_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    warm_up()
    compile_all()
    assert caplog.text == ""
