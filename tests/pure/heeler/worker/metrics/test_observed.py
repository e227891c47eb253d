"""The metrics derived from a herder in any history of a cluster: exact counts, and no errors."""

from __future__ import annotations

import pytest

from actors.herder.standing import Phase
from actors.herder.state import is_task
from heeler.worker.metrics.observed import Observed
from tests.rigs.herder.histories import run
from tests.rigs.herder.node import Node


@pytest.mark.parametrize("seed", [1, 4, 7, 9])
def test_counters_follow_any_history(seed, monkeypatch):
    observed: dict[int, tuple[Node, Observed]] = {}
    deliver, moment = Node.deliver, iter(range(10_000_000))

    def watched(self, payload):
        deliver(self, payload)
        seen = observed.setdefault(id(self), (self, Observed()))[1]
        seen.follow(self.state, float(next(moment)))

    monkeypatch.setattr(Node, "deliver", watched)
    world = run(seed, operations=15)
    assert sum(seen.rebalances.count for _, seen in observed.values()) >= 3
    for node, seen in observed.values():
        assert seen.instances is node.state.instances
        assert seen.tasks == sum(map(is_task, node.state.instances))
        for starts in (seen.connector_starts, seen.task_starts):
            assert starts.attempts >= starts.succeeded + starts.failed
        assert seen.rebalances.seconds >= seen.rebalances.count, "each takes a moment at least"
        if node.state.phase is Phase.RESOLVED:
            assert seen.rebalances.begun is None
        restarts = sum(sum(causes.values()) for causes in seen.restarts.values())
        assert restarts <= seen.connector_starts.attempts + seen.task_starts.attempts
    started = sum(s.task_starts.attempts + s.connector_starts.attempts for _, s in observed.values())
    assert started >= sum(map(len, world.where().values()))
