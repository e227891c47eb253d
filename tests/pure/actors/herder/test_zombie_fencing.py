"""Exactly-once sources over herder cores (KIP-618): no history lets an older generation of tasks write after a newer
one has started. Leaders pause and come back, two lead at once, tasks start late or do not notice that they are stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.errors import BadRequestError, ConflictError, NotFoundError, RebalanceNeededError
from actors.herder.events import ProducersFenced
from actors.herder.fencing_state import FencingChecked
from actors.herder.standing import Leader, Resolved
from actors.herder.state import HerderState
from actors.messages.commands import PutTaskConfigSet
from actors.messages.requests import FenceZombies, PutConnector, RestartTask, StopConnectorRequest, VerifyTaskStart
from actors.stores.config_writes import plan
from spark_tasks.errors import ConnectError
from storage.ids import ConnectorName, ConnectorTaskId, TargetState
from tests.rigs.herder import histories
from tests.rigs.herder.exactly_once import OnceWorld
from tests.rigs.herder.node import Node

C = ConnectorName("c")
workers = st.integers(0, 2)


class Histories(RuleBasedStateMachine):
    """Actions of users, and failures; the seed determines who takes the next step."""

    @initialize(seed=st.integers(0, 10**6), notice=st.sampled_from((0.0, 0.5, 1.0)))
    def begin(self, seed: int, notice: float) -> None:
        self.world = OnceWorld(3, seed=seed, notice=notice, chances={"write": 0.02, "publish": 0.05})
        self.version = 0
        self.world.settle()
        self.change(0, 2)
        self.world.settle()

    @rule(worker=workers, tasks=st.integers(1, 4))
    def change(self, worker: int, tasks: int) -> None:
        self.version += 1
        config = {"v": str(self.version), "tasks.max": str(tasks)}
        self._ask(worker, PutConnector(C, config, replace=True, initial_state=TargetState.STARTED))

    @rule(worker=workers)
    def stop(self, worker: int) -> None:
        self._ask(worker, StopConnectorRequest(C))

    @rule(worker=workers, task=st.integers(0, 3))
    def restart(self, worker: int, task: int) -> None:
        self._ask(worker, RestartTask(ConnectorTaskId(C, task)))

    def _ask(self, worker: int, request: Any) -> None:
        living = self.world.living()
        self.world.post(living[worker % len(living)].name, request, None, lambda _: None)

    @rule(steps=st.sampled_from((1, 3, 10, 40, 200)))
    def go_on(self, steps: int) -> None:
        self.world.more_data()
        for _ in range(steps):
            self.world.step() or self.world.tick()

    @rule()
    def settle(self) -> None:
        """Long enough for sessions to expire: others take over what those had that hang."""
        self.world.more_data()
        self.world.settle()

    @rule(worker=workers, first=st.integers(1, 4), second=st.integers(1, 4))
    def change_again_before_the_producers_are_fenced(self, worker: int, first: int, second: int) -> None:
        self.world.fencing_held = True
        for tasks in (first, second):
            self.change(worker, tasks)
            self.settle()
        self.world.fencing_held = False

    @rule(worker=workers, expelled=st.booleans())
    def suspend(self, worker: int, expelled: bool) -> None:
        living = [n for n in self.world.living() if not n.hung]
        if len(living) > 1:
            node = living[worker % len(living)]
            node.hung = True  # it wakes up without noticing: harder than the real one, which does
            if expelled:
                self.world.broker.remove(node.member.id)

    @rule(worker=workers)
    def resume(self, worker: int) -> None:
        hung = [n for n in self.world.living() if n.hung]
        if hung:
            hung[worker % len(hung)].hung = False

    @rule(worker=workers, expelled=st.booleans())
    def lose_the_coordinator(self, worker: int, expelled: bool) -> None:
        living = self.world.living()
        self.world.lose_coordinator(living[worker % len(living)].name, expelled=expelled)

    @rule(worker=workers)
    def kill_and_start(self, worker: int) -> None:
        living = self.world.living()
        if len(living) > 1:
            name = living[worker % len(living)].name
            self.world.crash(name)
            self.world.add(name)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            histories.calm_down(self.world)
            for node in self.world.living():
                node.hung = False
            self.settle()
            self.settle()  # whoever has not noticed that it was replaced tries once more to commit


TestHistories = pytest.mark.timeout(300)(Histories.TestCase)
TestHistories.settings = settings(max_examples=settings().max_examples // 6, stateful_step_count=30)


# ---------------------------------------------------------------- one step after the other
def world_of(tasks: int, workers: int = 1, notice: float = 1.0) -> OnceWorld:
    world = OnceWorld(workers, seed=1, notice=notice)
    world.settle()
    put(world, tasks, "1")
    world.settle()
    return world


def put(world: OnceWorld, tasks: int, version: str) -> None:
    config = {"v": version, "tasks.max": str(tasks)}
    world.post(world.leader, PutConnector(C, config, replace=True), None, lambda _: None)


def fence(world: OnceWorld) -> Exception | None:
    number = world.ask(world.leader, FenceZombies(C, None))
    world.settle()
    return world.replies[number].error


def test_a_connectors_first_tasks_need_no_fencing_but_a_task_count_record() -> None:
    world = world_of(3)
    assert world.config.task_count_records == {C: 3}
    assert world.config.pending_fencing == frozenset()
    assert set(world.epochs.values()) == {1}
    assert world.committed > 0


@pytest.mark.parametrize(("before", "after", "fenced"), [(3, 2, 3), (1, 1, 0), (1, 2, 1), (2, 1, 2)])
def test_all_former_producers_are_fenced(before: int, after: int, fenced: int) -> None:
    world = world_of(before)
    epochs = dict(world.epochs)
    put(world, after, "2")
    world.settle()
    assert world.config.task_count_records == {C: after}
    rounds = sum(world.epochs.values()) - sum(epochs.values()) - after  # each new task initializes its own
    assert rounds == fenced


def test_fencing_without_producers_to_fence() -> None:
    world = world_of(2)
    before = dict(world.epochs)
    assert fence(world) is None
    assert world.epochs == before


def test_fencing_is_refused_for_unknown_connectors_sinks_and_by_followers() -> None:
    world = world_of(2, workers=2)
    number = world.ask(world.leader, FenceZombies(ConnectorName("nobody"), None))
    world.settle()
    assert isinstance(world.replies[number].error, NotFoundError)
    node = world.nodes[world.leader]
    settings_ = node.state.settings
    node.state = replace(node.state, settings=replace(settings_, connector_type=lambda _: "sink"))
    assert isinstance(fence(world), BadRequestError)
    node.state = replace(node.state, settings=settings_)
    follower = next(n for n in world.nodes if n != world.leader)
    number = world.ask(follower, FenceZombies(C, None))
    world.settle()
    assert world.replies[number].error.url == f"http://{world.leader}/"  # type: ignore[union-attr]


def test_a_class_that_has_not_been_imported_yet_is_taken_for_a_source() -> None:
    """The leader may not run this connector, and must not wait for the import; tasks of sinks ask for no fencing."""
    world = world_of(2)
    node = world.nodes[world.leader]
    node.state = replace(node.state, settings=replace(node.state.settings, connector_type=lambda _: "unknown"))
    assert fence(world) is None


def test_new_task_configs_during_a_fencing_are_a_conflict() -> None:
    world = world_of(3)
    world.random = None
    put(world, 2, "2")
    while not world.rounds:
        assert world.step() or world.tick()
    put(world, 4, "3")
    outcome: list[Exception | None] = []
    world.post(world.leader, FenceZombies(C, None), None, outcome.append)
    held = list(world.rounds)
    world.rounds.clear()
    while world.config.task_count(C) != 4:
        assert super(OnceWorld, world).step() or world.tick()
    world.rounds += held
    world.settle()
    assert world.config.task_count_records == {C: 4}
    assert any(isinstance(r.error, ConflictError) for r in world.replies.values())


def up_to_the_check() -> tuple[OnceWorld, Node]:
    """A leader that reads, after a round, whether it may record the number of the new tasks, two instead of three."""
    world = world_of(3)
    world.random = None
    node = world.nodes[world.leader]
    put(world, 2, "2")
    while not any(isinstance(then, FencingChecked) for then in node.state.ops.values()):
        assert world.step() or world.tick()
    return world, node


def with_another_claim(state: HerderState) -> HerderState:
    standing = state.standing
    assert isinstance(standing, Resolved)
    assert isinstance(standing.member, Leader)
    assert standing.member.claim is not None
    return replace(state, standing=Resolved(replace(standing.member, claim=standing.member.claim + 1)))


def test_a_check_fails_if_the_right_to_write_was_lost_meanwhile() -> None:
    """Somebody else may have written task configs between the two: what was read before does not count."""
    world, node = up_to_the_check()
    node.state = with_another_claim(node.state)
    before = world.config.task_count_records
    while node.state.fencings:
        assert world.step() or world.tick()
    assert world.config.task_count_records == before
    conflicts = [r.error for r in world.replies.values() if isinstance(r.error, ConflictError)]
    assert "lost the right to write" in str(conflicts[-1])


def test_producers_that_cannot_be_fenced_fail_the_start_and_nothing_is_recorded() -> None:
    world = world_of(3)
    put(world, 2, "2")
    world.fencing_held = True
    world.settle()
    [(node, op, _)] = world.rounds
    world.rounds.clear()
    node.tell("fencing", ProducersFenced(op, ConnectError("not authorized")))
    world.settle()
    failed = [r.error for r in world.replies.values() if r.error is not None]
    assert [(type(error), str(error)) for error in failed] == [
        (ConnectError, "Failed to fence the producers of former tasks of connector c: not authorized")] * 2
    assert world.config.task_count_records == {C: 3}
    world.fencing_held = False
    assert fence(world) is None, "a restarted task begins another round"
    assert world.config.task_count_records == {C: 2}


def test_a_task_count_record_that_cannot_be_written_is_written_when_the_right_is_claimed_again() -> None:
    """The fencing fails, as in Kafka Connect; tasks request another one."""
    world, node = up_to_the_check()
    world.log.owner = "a zombie"
    while node.state.fencings or not world.replies or node.state.busy is not None:
        assert world.step() or world.tick()
    assert world.config.task_count_records == {C: 3}
    conflicts = [str(r.error) for r in world.replies.values() if isinstance(r.error, ConflictError)]
    assert conflicts == ["Failed to write a task count record: fenced"] * 2
    world.settle()
    assert world.config.task_count_records == {C: 2}
    assert {t.phase for t in world.sources if t.generation == 1} == {"run"}


@pytest.mark.parametrize("phase", ["init", "verify"])
def test_a_task_suspended_before_or_after_its_producer_exists_writes_nothing(phase: str) -> None:
    """When it resumes, it does not know that other workers run newer task configs."""
    world = world_of(2, notice=0.0)
    put(world, 2, "2")
    while not (late := [t for t in world.sources if t.phase == phase and t.generation == 1]):
        assert world.step() or world.tick()
    late[0].asleep = True
    put(world, 1, "3")
    world.settle()
    assert world.started == {C: 2}
    late[0].asleep = False
    world.settle()
    assert (late[0].phase, late[0].commits) == ("over", 0)


def test_a_task_without_a_task_count_record_is_refused() -> None:
    world = world_of(2)
    put(world, 2, "2")
    world.fencing_held = True
    world.settle()
    number = world.ask(world.leader, VerifyTaskStart(ConnectorTaskId(C, 0), 1))
    world.settle()
    assert "no task count record after the latest task configs" in str(world.replies[number].error)


@pytest.mark.parametrize(("tasks", "error"), [(1, NotFoundError), (2, RebalanceNeededError)])
def test_a_restart_that_finds_new_task_configs(tasks: int, error: type[Exception]) -> None:
    """The task was removed, or a rebalance that will start it is pending."""
    world = world_of(2)
    world.random = None
    node = world.nodes[world.leader]
    number = world.ask(node.name, RestartTask(ConnectorTaskId(C, 1)))
    written = PutTaskConfigSet(C, tuple({"n": str(n), "v": "new"} for n in range(tasks)))
    for stage in plan(written).stages:
        world.log.append(stage)
    world.settle()
    assert type(world.replies[number].error) is error


def test_a_task_of_an_older_generation_is_refused() -> None:
    world = world_of(2)
    put(world, 2, "2")
    world.settle()
    number = world.ask(world.leader, VerifyTaskStart(ConnectorTaskId(C, 0), 0))
    world.settle()
    assert "has already generated a new set of task configs" in str(world.replies[number].error)
    number = world.ask(world.leader, VerifyTaskStart(ConnectorTaskId(C, 0), 1))
    world.settle()
    assert world.replies[number].error is None


def test_a_task_of_another_worker_is_refused() -> None:
    world = world_of(2, workers=2)
    away = next((node, task) for task in (0, 1) for node in world.nodes
                if ConnectorTaskId(C, task) not in world.nodes[node].running)
    number = world.ask(away[0], VerifyTaskStart(ConnectorTaskId(C, away[1]), 0))
    world.settle()
    assert "has already been revoked" in str(world.replies[number].error)


def test_a_restart_that_cannot_read_the_config_topic() -> None:
    world = world_of(1)
    world.nodes[world.leader].configs.held = True
    world.log.append(())
    world.log.append(((b"logger-cluster-x", b'{"level":"INFO"}'),))
    number = world.ask(world.leader, RestartTask(ConnectorTaskId(C, 0)))
    world.settle()
    error = world.replies[number].error
    assert isinstance(error, ConnectError)
    assert "could not read to the end of the config topic" in str(error)


def test_a_fencing_that_cannot_read_the_config_topic_may_be_repeated() -> None:
    world = world_of(1)
    world.nodes[world.leader].configs.held = True
    world.log.append(())
    world.log.append(((b"logger-cluster-x", b'{"level":"INFO"}'),))
    error = fence(world)
    assert isinstance(error, ConflictError)
    assert "Failed to read to end of config topic" in str(error)
