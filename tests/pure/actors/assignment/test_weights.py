"""The work of an assignment by weight (tasks.weight). Its results are checked by tests/property."""

from __future__ import annotations

from collections import UserDict

from actors.assignment.weights import Weights
from storage.ids import ConnectorName, ConnectorTaskId

TASKS = 1000


class Counting(UserDict[ConnectorName, int]):
    """Weights that count how often one is asked for."""

    asked = 0

    def __getitem__(self, key: ConnectorName) -> int:
        self.asked += 1
        return super().__getitem__(key)


def test_half_of_very_many_tasks_move_to_a_new_worker_with_little_work() -> None:
    """The leader's IO thread, which sends its heartbeats, does this: the group must not lose it meanwhile."""
    weights = Counting({ConnectorName("heavy"): 5})
    tasks = {ConnectorTaskId(ConnectorName("heavy" if n < 10 else f"c{n % 50}"), n) for n in range(TASKS)}
    surplus = Weights(weights).surplus({"old": set(tasks), "new": set()}, {}, [], None)
    assert len(surplus["old"]) >= TASKS // 3
    assert 0 < weights.asked < 50 * TASKS
