"""The number of a task, from a connector's configuration to its task."""

from __future__ import annotations

from spark_tasks.connectors.numbered_tasks import TaskNumber, numbered


def test_each_task_has_its_number_beside_the_connectors_settings() -> None:
    configs = [dict(config) for config in numbered("files", {"path": "p"}, 2)]
    assert [TaskNumber.taken("files", config) for config in configs] == [TaskNumber(0, 2), TaskNumber(1, 2)]
    assert configs == [{"path": "p"}] * 2


def test_a_configuration_without_a_number_is_that_of_the_only_task() -> None:
    assert TaskNumber.taken("files", {"path": "p"}) == TaskNumber(0, 1)
