"""How connectors and tasks are named to the queue of splits, and in the log."""

from __future__ import annotations

import pytest

from spark_tasks.spark.residents.fairness import connector_of, subject_of


@pytest.mark.parametrize(("task", "connector", "subject"), [
    ("orders-0", "orders", ("orders", 0)), ("a-1-12", "a-1", ("a-1", 12)), ("alone", "alone", "alone"),
    ("no-number", "no", "no-number"), ("a-1-connector", "a-1", "a-1"),
])
def test_a_tasks_id_has_its_connector_and_its_number(task: str, connector: str, subject: object) -> None:
    assert (connector_of(task), subject_of(task)) == (connector, subject)
