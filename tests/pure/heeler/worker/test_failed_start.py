"""The line about why a worker cannot start."""

from __future__ import annotations

import pytest

from heeler.worker.failed_start import failures_logged, log_failure
from spark_tasks.errors import ConfigError, ConnectError


@pytest.mark.parametrize(("error", "line", "below"), [
    (ConnectError("no Kafka"), "no Kafka", ""),
    (ConfigError("invalid settings:\na is b"), "invalid settings: a is b", ""),
    (ConfigError("invalid settings:\na is b\nc is d"), "invalid settings:", "a is b\nc is d"),
    (ConfigError("no class\nAdvice."), "no class", "Advice."),
])
def test_the_cause_is_in_the_line_and_a_list_is_below(
    error: ConnectError, line: str, below: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)), failures_logged():
        raise error
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", f"The worker cannot start: {line}")
    assert vars(record)["below"] == below


def test_an_error_after_the_start_is_not_called_one_of_the_start(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(ConnectError("no Kafka"), started=True)
    assert [record.getMessage() for record in caplog.records] == ["The worker failed: no Kafka"]
