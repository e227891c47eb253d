"""Where transactions end, by the configurations of worker and connector."""

from __future__ import annotations

import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.plugins.api import TransactionSignal
from spark_tasks.sources.boundaries import Boundary, BoundaryKind


def boundary(usual_ms: int = 60_000, timeout_ms: int = 60_000, **connector: str) -> Boundary:
    named = {f"transaction.{key.replace('_', '.')}": value for key, value in connector.items()}
    return Boundary.configured(named, usual_ms, timeout_ms)


def test_the_interval_is_the_connectors_or_workers_within_the_transaction_timeout() -> None:
    assert boundary() == Boundary(BoundaryKind.POLL, 40_000)
    assert boundary(2000).interval_ms == 2000
    assert boundary(2000, boundary_interval_ms="500").interval_ms == 500
    assert boundary(timeout_ms=9000, boundary_interval_ms="8000").interval_ms == 6000


def test_an_interval_of_0_which_validation_permits_ends_a_transaction_with_each_batch() -> None:
    always = boundary(boundary="Interval", boundary_interval_ms="0")
    assert always.ends(0.0, "commit")
    assert always.due_ms(0.0) == 0


@pytest.mark.parametrize(("kind", "open_ms", "signal", "ends"), [
    ("poll", 0.0, "commit", True), ("interval", 499.0, "commit", False), ("interval", 500.0, "commit", True),
    ("connector", 9999.0, "continue", False), ("connector", 0.0, "commit", True), ("connector", 0.0, "abort", True),
])
def test_when_a_transaction_ends(kind: str, open_ms: float, signal: TransactionSignal, ends: bool) -> None:
    made = boundary(boundary=kind, boundary_interval_ms="500")
    assert made.ends(open_ms, signal) is ends
    assert made.due_ms(open_ms) == {"poll": 0.0, "interval": 500.0 - open_ms, "connector": None}[kind]
    assert made.ends_with_the_task is (kind != "connector")


@pytest.mark.parametrize(("key", "value"), [("boundary", "batch"), ("boundary_interval_ms", "-1")])
def test_an_invalid_boundary_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"Invalid value {value} for configuration transaction\.boundary"):
        boundary(**{key: value})
