"""Which restart policy and which limit of a batch's time a connector has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heeler.worker.logs import subject
from heeler.worker.supervision import Supervision
from spark_tasks.config.restart_policy import WORKER, RestartPolicy


@pytest.mark.parametrize(("worker", "connector", "expected"), [
    ({}, {}, RestartPolicy()),
    ({"errors.restart.policy": "failed"}, {}, RestartPolicy(failed=True)),
    ({"errors.restart.policy": "all", "errors.restart.limit": "3"}, {"errors.restart.limit": "5"},
     RestartPolicy(failed=True, stalled=True, limit=5)),
    ({"errors.restart.policy": "all"}, {"errors.restart.policy": "none"}, RestartPolicy()),
    ({}, {"errors.restart.policy": "failed", "errors.restart.period.ms": "5000",
          "errors.restart.backoff.initial.ms": "0", "errors.restart.backoff.max.ms": "7"},
     RestartPolicy(failed=True, period_ms=5000, first_ms=0, longest_ms=7)),
    ({"errors.restart.policy": "failed"}, {"errors.restart.policy": "sometimes"}, RestartPolicy()),
    ({"errors.restart.policy": "failed"}, {"errors.restart.limit": "${file:x:y}"}, RestartPolicy()),
])
def test_a_connectors_restart_policy_takes_precedence(
    worker: Mapping[str, str], connector: Mapping[str, str], expected: RestartPolicy
) -> None:
    assert Supervision(WORKER.parse(worker)).restart_policy(dict(connector)) == expected


@pytest.mark.parametrize(("connector", "seconds"), [
    ({}, 9.0), ({"task.progress.timeout.ms": "1500"}, 1.5), ({"task.progress.timeout.ms": "0"}, 0.0),
    ({"task.progress.timeout.ms": None}, 9.0), ({"task.progress.timeout.ms": "soon"}, 9.0),
])
def test_a_connectors_limit_takes_precedence_if_it_is_valid(connector: dict[str, Any], seconds: float) -> None:
    assert Supervision(WORKER.parse({"task.progress.timeout.ms": "9000"})).progress_s(connector) == seconds


def test_each_connector_with_invalid_settings_is_named(caplog: pytest.LogCaptureFixture) -> None:
    supervision = Supervision(WORKER.parse({}))
    for name in ("a", "b"):
        supervision.restart_policy({"name": name, "errors.restart.limit": "0"})
        assert supervision.progress_s({"name": name, "errors.restart.limit": "0"}) == 300.0
    supervision.progress_s({"name": "c", "task.progress.timeout.ms": "-1"})
    assert [(subject(record), record.getMessage().partition(":")[0]) for record in caplog.records] == [
        (("a", None), "Not restarted automatically, because its settings for restarts and stalls are invalid"),
        (("b", None), "Not restarted automatically, because its settings for restarts and stalls are invalid"),
        (("c", None), "The worker's task.progress.timeout.ms applies")]


def test_settings_that_are_known_are_not_parsed_again() -> None:
    supervision = Supervision(WORKER.parse({}))
    first, second = (supervision.restart_policy({"name": name, "errors.restart.policy": "all"}) for name in "ab")
    assert first is second
