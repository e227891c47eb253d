"""Defects that random histories have found, each reproduced by a short test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.assignment.protocol import Allocation, Assignment, AssignmentError, Membership, Protocol
from actors.herder import core, events
from actors.herder.effects import AskTaskConfigs, Reply
from actors.herder.own_requests import Reconfigure
from actors.herder.standing import Joining, Phase
from actors.herder.state import HerderState
from actors.messages.commands import (
    ClaimWritePrivileges,
    JoinGroup,
    PutStatus,
    PutTargetState,
    PutTaskConfigSet,
    RequestRejoin,
)
from actors.messages.correlation_ids import OpId, RequestId
from actors.messages.events import ConfigOpDone, Joined, JoinPreparing, TaskReconfigurationRequested
from actors.messages.requests import HealthCheck, PutConnector, SetTargetState, StopConnectorRequest
from actors.stores.config_writes import plan
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from storage.status.state import StatusState
from tests.rigs.herder.world import World

C = ConnectorName("c")
T = ConnectorTaskId(C, 0)


def running(workers: int = 1, tasks: int = 1, **settings: object) -> World:
    """A cluster with one connector."""
    world = World(workers, tasks=tasks, settings=settings)
    world.settle()
    world.ask(world.leader, PutConnector(C, {"v": "1"}, replace=False))
    world.settle()
    world.check_at_rest()
    return world


def step(state: HerderState, payload: object, now: int = 0) -> tuple[HerderState, list[object]]:
    """One step of a core alone."""
    state, effects = core.step(state, events.Event(payload, now, StatusState(), "test"))  # type: ignore[arg-type]
    return state, [e for e in effects if type(e).__name__ != "Log"]


def membership(generation: int, *, leader: bool, failed: bool = False, offset: int = -1) -> Membership:
    error = AssignmentError.CONFIG_MISMATCH if failed else AssignmentError.NONE
    return Membership(generation, "me", Protocol.SESSIONED,
                      Assignment("me" if leader else "other", "http://other/", offset, error=error))


def test_a_member_that_left_gets_no_earlier_messages() -> None:
    world = running(unsync_backoff_ms=5000, scheduled_delay_max_ms=300_000)  # so its work goes on
    node = world.nodes["w0"]
    node.configs.held = True
    world.log.append(plan(PutTargetState(C, TargetState.PAUSED)).stages[0])
    node.member.rejoin()
    node.state, _ = step(node.state, JoinPreparing(eager=False))
    node.state, _ = step(node.state, Joined(membership(9, leader=False, offset=len(world.log))))
    assert node.state.phase is Phase.SYNCING
    [op] = node.state.ops
    node.state, _ = step(node.state, ConfigOpDone(op, TimeoutError()))
    assert node.state.phase is Phase.OUT
    for late in (JoinPreparing(eager=False), Joined(membership(10, leader=False))):
        node.state, effects = step(node.state, late)
        assert (node.state.phase, effects) == (Phase.OUT, [])
    node.state, _ = step(node.state, events.TimerFired(("join", "")))
    [op] = node.state.ops
    node.state, effects = step(node.state, ConfigOpDone(op))
    assert (node.state.phase, effects) == (Phase.JOINING, [JoinGroup()])


@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("max_delay_ms", [0, 100_000])
def test_work_of_a_worker_that_cannot_read_the_config_topic_is_taken_over(max_delay_ms: int, *, leads: bool) -> None:
    """The leader keeps a follower's for the scheduled delay; by then it has stopped. A new leader knows nothing of the
    work of the former one, which has to stop before it leaves. Later the worker comes back by itself.
    """
    world = World(2, max_delay_ms=max_delay_ms)
    world.settle()
    for n in range(2):
        world.ask("w0", PutConnector(ConnectorName(f"c{n}"), {}, replace=False))
        world.settle()
    world.check_at_rest()
    cut_off, other = sorted(world.nodes.values(), key=lambda node: (node.name == world.leader) is not leads)
    assert cut_off.running
    cut_off.configs.held = True
    if leads:
        world.ask(other.name, SetTargetState(ConnectorName("c0"), TargetState.PAUSED))
        while world.step():
            pass
        world.lose_coordinator(other.name)
    else:
        world.ask(other.name, PutConnector(ConnectorName("late"), {}, replace=False))
    until = world.now + 2 * max_delay_ms + 30_000
    while world.now < until and (world.step() or world.tick()):
        assert all(len(workers) == 1 for workers in world.where().values()), world.story()
    assert world.now >= until
    assert cut_off.state.phase is Phase.OUT
    assert not cut_off.running
    assert len(other.running) == len(world.config.connectors()) * (1 + world.tasks)
    cut_off.configs.held = False
    world.settle()
    world.check_at_rest()
    assert len(cut_off.running) >= 3


def test_followers_let_a_leader_that_cannot_read_the_config_topic_leave() -> None:
    """If they requested another rebalance before, its read would begin again, and never fail."""
    world = running(2)
    leader = world.nodes[world.leader]
    other = next(node for node in world.nodes.values() if node is not leader)
    leader.configs.held = True
    world.ask(other.name, SetTargetState(C, TargetState.PAUSED))
    while world.step():
        pass
    world.lose_coordinator(other.name)
    until, generation = world.now + leader.state.settings.sync_timeout_ms, world.broker.generation
    while world.step() or world.tick(until):
        pass
    assert (leader.state.phase, other.state.phase) == (Phase.OUT, Phase.RESOLVED)
    assert world.broker.generation == generation + 2  # the one that failed, and the one without the leader


def test_task_configs_do_not_slip_between_the_two_writes_of_a_stop() -> None:
    world = running()
    node = world.nodes["w0"]
    world.ask("w0", StopConnectorRequest(C))
    while node.state.busy is None:
        world.step()
    world.tasks = 2  # so that there are new task configs
    node.tell("test", TaskReconfigurationRequested(C, node.state.instances[C].epoch))
    world.settle()
    world.check_at_rest()
    assert world.config.target_state(C) is TargetState.STOPPED


def test_a_fenced_leader_claims_the_right_to_write_again() -> None:
    world = running(transactional_leader=True)
    world.log.owner = "a zombie"
    refused = world.ask("w0", PutConnector(C, {"v": "2"}, replace=True))
    world.settle()
    assert isinstance(world.replies[refused].error, PrivilegedWriteError)
    accepted = world.ask("w0", PutConnector(C, {"v": "2"}, replace=True))
    world.settle()
    assert world.replies[accepted].error is None
    world.check_at_rest()


def test_a_claim_that_failed_is_retried() -> None:
    state = running(transactional_leader=True).nodes["w0"].state
    state, _ = step(state, Joined(membership(9, leader=False)))
    state, effects = step(state, Joined(membership(10, leader=True)))
    [claim] = [e for e in effects if isinstance(e, ClaimWritePrivileges)]
    state, _ = step(state, ConfigOpDone(claim.op, OSError("no coordinator")), now=1000)
    state, effects = step(state, events.TimerFired(("claim", "")), now=1250)
    assert [type(e) for e in effects] == [ClaimWritePrivileges]


def test_a_suspended_worker_stops_its_work_and_writes_nothing_before_it_is_a_member_again() -> None:
    world = running(2)
    [name] = world.where()[C]
    node = world.nodes[name]
    world.suspend(name)
    world.broker.remove(node.member.id)
    world.settle()
    assert world.where()[C] == [name, next(n for n in world.nodes if n != name)]
    before = len(world.status_log)
    node.hung = False
    node.state, effects = step(node.state, events.Suspended(60_000))
    assert not [e for e in effects if isinstance(e, PutStatus)]
    assert any(isinstance(e, RequestRejoin) for e in effects)
    assert all(instance.stopping for instance in node.state.instances.values())
    for effect in effects:
        node.carry_out(effect)
    world.settle()
    world.check_at_rest()
    said = [world.status_log.view(n) for n in range(before, len(world.status_log) + 1)]
    assert all(view.connectors[C].state is State.RUNNING for view in said)


def test_late_task_configs_are_corrected_by_the_connectors_owner() -> None:
    world = running()
    world.nodes["w0"].configs.write(OpId(-1), PutTaskConfigSet(C, ({"n": "0", "v": "from long ago"},)), world.now)
    world.settle()
    world.check_at_rest()
    assert world.config.task_configs[T]["v"] == "1"


def test_a_half_written_stop_is_undone() -> None:
    world = running()
    world.nodes["w0"].configs.write(OpId(-1), PutTaskConfigSet(C, ()), world.now)
    world.settle()
    world.check_at_rest()
    assert set(world.where()) == {C, T}


def test_tasks_of_a_stopped_connector_are_removed() -> None:
    world = running()
    world.ask("w0", StopConnectorRequest(C))
    world.settle()
    world.nodes["w0"].configs.write(OpId(-1), PutTaskConfigSet(C, ({"n": "0", "v": "1"},)), world.now)
    world.settle()
    world.check_at_rest()
    assert world.config.task_count(C) == 0


def test_a_follower_of_a_failed_rebalance_waits_for_the_leader() -> None:
    world = running(2)
    node = next(n for n in world.nodes.values() if n.name != world.leader)
    state, effects = step(node.state, Joined(membership(9, leader=False, failed=True)), now=1000)
    assert state.phase is Phase.JOINING
    assert not [e for e in effects if isinstance(e, RequestRejoin)]
    state, effects = step(state, events.TimerFired(("failed rebalance", "")), now=4500)
    assert [type(e) for e in effects] == [RequestRejoin]


def test_a_worker_that_returns_in_a_failed_rebalance_does_not_write_statuses_of_what_it_claims() -> None:
    """Such a rebalance assigns nothing, and other workers may run that work by now."""
    state = running().nodes["w0"].state
    back = replace(state, standing=Joining(), instances={})
    _, effects = step(back, Joined(membership(9, leader=False, failed=True)))
    assert not [e for e in effects if isinstance(e, PutStatus)]
    _, effects = step(back, Joined(membership(9, leader=False, offset=back.config.offset)))
    said = [(e.status.id, e.status.state) for e in effects if isinstance(e, PutStatus)]
    assert said == [(C, State.UNASSIGNED), (T, State.UNASSIGNED)]


def test_a_worker_that_kept_running_outside_the_group_repeats_its_statuses() -> None:
    state = running().nodes["w0"].state
    out = replace(state, standing=Joining())
    _, effects = step(out, Joined(membership(9, leader=False, offset=out.config.offset)))
    said = {(e.status.id, e.status.state) for e in effects if isinstance(e, PutStatus)}
    assert said == {(C, State.RUNNING), (T, State.RUNNING)}


def test_what_fails_at_its_start_is_failed_although_generations_have_begun_again() -> None:
    """The last status is another worker's, from a later generation of a group that no longer exists."""
    world = World(1, seed=1)
    world.settle()
    world.ask("w0", PutConnector(C, {"v": "1"}, replace=False))
    world.settle()
    before = world.said()
    assert {status.state for status in before.values()} == {State.RUNNING}
    world.crash("w0")
    world.restart_broker(forgets=True)
    world.chances["start"] = 1.0
    world.add("w1")
    world.settle()
    assert world.broker.generation < min(status.generation for status in before.values())
    said = [(status.state, status.worker_id) for status in world.said().values()]
    assert said == [(State.FAILED, "w1")] * len(before)
    world.check_at_rest()


def test_what_has_no_configuration_is_failed_although_generations_have_begun_again() -> None:
    state = running().nodes["w0"].state
    without = replace(state.config, task_configs={})
    joined = membership(1, leader=False, offset=without.offset)
    assigned = replace(joined, assignment=replace(joined.assignment, assigned=Allocation((), (T,))))
    new = replace(state, standing=Joining(), instances={}, allocation=Allocation(), announced=Allocation(),
                  config=without, store=without)
    _, effects = step(new, Joined(assigned))
    *_, last = [(e.status.id, e.status.state, e.safe) for e in effects if isinstance(e, PutStatus)]
    assert last == (T, State.FAILED, False)


def test_a_request_is_answered_once_when_the_worker_ends_during_a_write() -> None:
    world = running()
    node = world.nodes["w0"]
    stop = world.ask("w0", StopConnectorRequest(C))
    while node.state.busy is None:
        world.step()
    busy = node.state.busy
    node.state, effects = step(node.state, events.HaltRequested("test"))
    assert [e.request_id for e in effects if isinstance(e, Reply)] == [stop]
    node.state, effects = step(node.state, ConfigOpDone(busy))
    assert effects == []


def test_the_end_of_an_earlier_rebalances_read_is_not_mistaken_for_this_ones() -> None:
    state = running().nodes["w0"].state
    before = set(state.ops)
    state, _ = step(state, Joined(membership(9, leader=False, failed=True, offset=99)))
    [old] = set(state.ops) - before
    state, _ = step(state, Joined(membership(10, leader=False, offset=99)))
    [new] = set(state.ops) - before - {old}
    state, effects = step(state, ConfigOpDone(old))
    assert (state.phase, effects) == (Phase.SYNCING, [])
    state, _ = step(state, ConfigOpDone(new))
    assert state.phase is not Phase.SYNCING


def test_a_defect_in_an_operation_of_the_herder_itself_is_retried_later() -> None:
    """A connector has found that its task configs are outdated: this is retried and blocks no other work."""
    sound = running().nodes["w0"].state
    spoilt = replace(sound, config=replace(sound.config, target_states=None))  # type: ignore[arg-type]
    state, _ = step(spoilt, TaskReconfigurationRequested(C, sound.instances[C].epoch), now=1000)
    [queued] = state.queue
    assert (queued.at_ms, queued.request) == (1250, Reconfigure(C, 1, 1000))
    state, effects = step(state, events.RequestReceived(RequestId(1), HealthCheck()), now=1000)
    assert effects == [Reply(RequestId(1))]
    _, effects = step(replace(state, config=sound.config), events.TimerFired(("queue", "")), now=1250)
    assert [type(e) for e in effects] == [AskTaskConfigs]
