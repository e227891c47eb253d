"""Tasks by weight (tasks.weight): the cooperative assignor in simulated groups, and the eager assignor."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.assignment import eager
from actors.assignment.protocol import MemberMetadata
from actors.assignment.weights import Weights
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId
from tests.rigs.assignment import DELAYS, NAMES, Group, check_back_at_once, histories, live, settled, small

WEIGHTS = st.sampled_from([None, None, 1, 2, 3, 10, 50])


@dataclass
class WeightedGroup(Group):
    weights: dict[str, int] = field(default_factory=dict)
    patience: int = 40

    def configure(self, name, tasks, weight=None):
        self.weights[name] = weight
        super().configure(name, tasks)
        configs = {key: {} if self.weights.get(key) is None else {"tasks.weight": str(self.weights[key])}
                   for key in self.config.connector_configs}
        self.config = ClusterConfigState(offset=self.config.offset, connector_configs=configs,
                                         task_counts=self.config.task_counts)

    def check_need(self, owned, moved, state):
        if not Weights.of(self.config):
            super().check_need(owned, moved, state)

    def check_balance(self, owned):
        weights = Weights.of(self.config)
        if not weights:
            super().check_balance(owned)
            return
        counts = [len(one.connectors) for one in owned]
        assert max(counts) - min(counts) <= 1
        totals = [weights.total(one.tasks) for one in owned]
        for (one, mine), (_, theirs) in permutations(zip(owned, totals, strict=True), 2):
            assert all(theirs + weights.weight(task) >= mine for task in one.tasks), "a move would make it better"


@given(histories(WEIGHTS), DELAYS)
def test_any_history_ends_with_all_work_assigned_once_and_balanced_by_weight(history, max_delay_ms):
    live(WeightedGroup(max_delay_ms), history)


@given(st.integers(2, 6), st.lists(st.tuples(st.integers(0, 9), WEIGHTS), max_size=6), small, st.booleans())
def test_a_returning_worker_gets_its_work_at_once(workers, tasks, index, claims):
    check_back_at_once(settled(WeightedGroup(max_delay_ms=300_000), workers, tasks), index, claims)


def test_heavy_connectors_are_on_different_workers():
    group = WeightedGroup(max_delay_ms=0)
    for _ in range(3):
        group.join()
    for name in "abc":
        group.configure(name, 1, 10)
    group.configure("d", 6)
    group.settle()
    for worker in group.workers.values():
        assert len([task for task in worker.owned.tasks if task.connector in "abc"]) == 1
        assert len(worker.owned.tasks) == 3
    counted = Group(max_delay_ms=0)
    counted.config = ClusterConfigState(offset=1, connector_configs={n: {} for n in "abcd"},
                                        task_counts={"a": 1, "b": 1, "c": 1, "d": 6})
    assert not Weights.of(counted.config)


def test_a_changed_weight_moves_as_few_tasks_as_possible():
    group = WeightedGroup(max_delay_ms=0)
    group.join()
    group.join()
    for name in "abcd":
        group.configure(name, 1)
    group.settle()
    beside = next(w for w in group.workers.values() if len(w.owned.tasks) == 2).owned.tasks
    for task in beside:
        group.configure(task.connector, 1, 10)
    before = {id_: set(worker.owned.tasks) for id_, worker in group.workers.items()}
    group.settle()
    moved = sum(len(before[id_] - set(worker.owned.tasks)) for id_, worker in group.workers.items())
    assert moved == 2, "one of the two, and a light one in its place"
    assert {sum(task in beside for task in worker.owned.tasks) for worker in group.workers.values()} == {1}


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), WEIGHTS), min_size=1, max_size=6))
def test_the_eager_assignor_assigns_by_weight(workers, tasks):
    group = WeightedGroup(max_delay_ms=0)
    for name, (count, weight) in zip(NAMES, tasks, strict=False):
        group.configure(name, count, weight)
    members = {f"m{n}": MemberMetadata(f"http://w{n}/", group.config.offset) for n in range(workers)}
    found = eager.assign(members, group.config, leader="m0")
    assert sum(len(one.assigned.items) for one in found.values()) == len(group.configured())
    assert frozenset().union(*(one.assigned.items for one in found.values())) == group.configured()
    weights = Weights.of(group.config)
    if weights:
        totals = [weights.total(one.assigned.tasks) for one in found.values()]
        assert max(totals) - min(totals) <= max(weights.heavy.values())


@pytest.mark.parametrize(("text", "weight"), [
    (None, 1), ("7", 7), (" 007 ", 7), ("1000", 1000), ("1001", 1), ("0", 1), ("-3", 1), ("1.5", 1), ("${env:W}", 1),
    ("٣", 1), ("9" * 5000, 1)])
def test_an_invalid_weight_counts_as_one(text, weight):
    config = ClusterConfigState(connector_configs={"a": {"tasks.weight": text}}, task_counts={"a": 1})
    assert Weights.of(config).weight(ConnectorTaskId("a", 0)) == weight
