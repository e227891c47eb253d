"""When changed configurations take effect, and which are delayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.errors import BadRequestError, NotFoundError, RebalanceNeededError
from actors.herder import core
from actors.herder.config_changes import ITEMS_PER_MS, MIN_PAUSE_MS
from actors.herder.effects import Delegate, Effect, Reply, SetLoggerLevel, SetTimer, StartInstance, StopInstance, Timer
from actors.herder.events import Event, Loaded, RequestReceived, TimerFired
from actors.herder.instance import Instance, RestartCause
from actors.herder.own_requests import Restart
from actors.herder.standing import Follower, Joining, Phase, Resolved, member_of
from actors.herder.state import AutomaticRestarts, HerderSettings, HerderState, Queued
from actors.messages.commands import ReadConfigToEnd, RequestRejoin
from actors.messages.correlation_ids import Epoch, RequestId
from actors.messages.events import ConfigChanged, ConfigOpDone, Joined, JoinPreparing
from actors.messages.requests import (
    AlterOffsets,
    GetConnector,
    Request,
    RestartConnectorAndTasks,
    RestartTask,
)
from spark_tasks.errors import ConnectError
from storage.config.state import (
    ClusterConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, WorkerId
from storage.status.state import Status, StatusState

C = ConnectorName("c")
SETTINGS = HerderSettings(WorkerId("me:1"), "g")
MANY = MIN_PAUSE_MS * ITEMS_PER_MS


def configs(count: int, offset: int, *more: ConnectorName) -> ClusterConfigState:
    names = [*(ConnectorName(f"c{n}") for n in range(count)), *more]
    return ClusterConfigState(offset=offset, connector_configs={name: {"name": name} for name in names})


def membership(offset: int, assigned: Allocation) -> Membership:
    return Membership(7, "me", Protocol.SESSIONED, Assignment("me", "http://me/", offset, assigned))


def step(state: HerderState, payload: object, now: int) -> tuple[HerderState, list[Effect]]:
    state, effects = core.step(state, Event(payload, now, StatusState(), "test"))  # type: ignore[arg-type]
    return state, list(effects)


def settled(count: int) -> HerderState:
    config = configs(count, 1)
    return HerderState(SETTINGS, Resolved(member_of(membership(1, Allocation()), None)), store=config, config=config,
                       settled_ms=1000)


def changed(state: HerderState, now: int) -> tuple[HerderState, list[Effect]]:
    count = len(state.config.connector_configs)
    return step(state, ConfigChanged(configs(count, 2, C), (ConnectorUpdated(C),)), now)


@pytest.mark.parametrize(("count", "now"), [(3, 1000), (MANY - 1, 1001), (MANY, 1000 + MIN_PAUSE_MS), (MANY, 900)])
def test_a_new_connector_causes_a_rebalance_at_once(count: int, now: int) -> None:
    """Even if the clock was set back."""
    state, effects = changed(settled(count), now)
    assert state.phase is Phase.JOINING
    assert any(isinstance(effect, RequestRejoin) for effect in effects)


def test_with_thousands_of_connectors_requests_are_served_between_two_rebalances() -> None:
    state, effects = changed(settled(MANY), 1010)
    due = 1000 + MIN_PAUSE_MS
    assert [e for e in effects if isinstance(e, SetTimer)] == [SetTimer((Timer.POSTPONED_REBALANCE, ""), due)]
    assert state.phase is Phase.RESOLVED
    state, effects = step(state, RequestReceived(RequestId(1), GetConnector(C), None), 1020)
    assert [(e.error, e.value.name) for e in effects if isinstance(e, Reply)] == [(None, C)], "it is there already"
    assert not any(isinstance(effect, RequestRejoin) for effect in effects)
    state, effects = step(state, TimerFired((Timer.POSTPONED_REBALANCE, "")), due)
    assert state.phase is Phase.JOINING
    assert sum(isinstance(effect, RequestRejoin) for effect in effects) == 1


def test_a_rebalance_that_was_postponed_by_another_one_is_requested_later() -> None:
    """Also if nothing else happens: its own timer may have fired during the other one."""
    task = ConnectorTaskId(C, 0)

    def config(offset: int, value: str) -> ClusterConfigState:
        return replace(configs(MANY, offset, C), task_counts={C: 1}, task_configs={task: {"v": value}})

    mine, old = Allocation((), (task,)), config(1, "old")
    state = HerderState(SETTINGS, Joining(member_of(membership(1, Allocation()), None)), store=old, config=old,
                        allocation=mine, announced=mine, instances={task: Instance(Epoch(1), State.RUNNING)}, counter=1)
    state, _ = step(state, ConfigChanged(config(5, "new"), (TasksUpdated(C, (task,)),)), 10)
    state, effects = step(state, Joined(membership(5, Allocation())), 20)
    timers = [e for e in effects if isinstance(e, SetTimer) and e.key == (Timer.POSTPONED_REBALANCE, "")]
    assert len(timers) == 1
    _, effects = step(state, TimerFired(timers[0].key), timers[0].at_ms)
    assert [e.item for e in effects if isinstance(e, StopInstance)] == [task]
    assert any(isinstance(e, RequestRejoin) for e in effects)


# ---------------------------------------------------------------- requests while a rebalance is postponed
T = ConnectorTaskId(C, 0)
FAILED_TASK = Restart(T, Epoch(2), RestartCause.AFTER_FAILURE)


def stopped(offset: int, target: TargetState = TargetState.STOPPED, tasks: int = 0, more: int = MANY
            ) -> ClusterConfigState:
    """A snapshot of a group with many connectors, one of which is stopped."""
    return replace(configs(more, offset, C), target_states={C: target}, task_counts={C: tasks},
                   task_configs={T: {"v": str(offset)}})


def running(config: ClusterConfigState) -> HerderState:
    """A leader that runs the connector and its task."""
    mine = Allocation((C,), (T,))
    return HerderState(SETTINGS, Resolved(member_of(membership(config.offset, Allocation()), None)), store=config,
                       config=config, allocation=mine, announced=mine, settled_ms=1000, counter=2,
                       instances={C: Instance(Epoch(1), State.RUNNING), T: Instance(Epoch(2), State.RUNNING)})


def test_offsets_are_altered_only_when_a_postponed_rebalance_has_stopped_the_tasks() -> None:
    """A source's task would overwrite them when it commits its last batch."""
    state = running(stopped(1, TargetState.STARTED, 1))
    state, _ = step(state, ConfigChanged(stopped(3), (TasksUpdated(C, ()), TargetStateChanged(C))), 1010)
    state, effects = step(state, RequestReceived(RequestId(1), AlterOffsets(C, None), None), 1020)
    assert not any(isinstance(e, Delegate | ReadConfigToEnd | Reply) for e in effects)
    state, _ = step(state, TimerFired((Timer.POSTPONED_REBALANCE, "")), 1000 + MIN_PAUSE_MS)
    revoked = replace(membership(3, Allocation()).assignment, revoked=Allocation((), (T,)))
    state, effects = step(state, Joined(replace(membership(3, Allocation()), assignment=revoked)), 1100)
    assert [e.item for e in effects if isinstance(e, StopInstance)] == [T]
    assert not any(isinstance(e, ReadConfigToEnd) for e in effects)


@pytest.mark.parametrize("request_", [
    RestartTask(T), RestartConnectorAndTasks(RestartRequest(C, only_failed=False, include_tasks=True)),
])
def test_a_task_is_not_restarted_with_new_configs_while_others_have_the_old_ones(request_: Request) -> None:
    state = running(stopped(1, TargetState.STARTED, 1))
    state, _ = step(state, ConfigChanged(stopped(3, TargetState.STARTED, 1), (TasksUpdated(C, (T,)),)), 1010)
    if isinstance(request_, RestartConnectorAndTasks):
        changed_: object = ConfigChanged(state.store, (RestartRequested(request_.request),))
    else:
        changed_ = RequestReceived(RequestId(1), request_, None)
    statuses = StatusState({C: Status(C, State.RUNNING, SETTINGS.worker_id, 1)},
                           {C: {0: Status(T, State.RUNNING, SETTINGS.worker_id, 1)}}, {})
    state, effects = core.step(state, Event(changed_, 1020, statuses, "test"))  # type: ignore[arg-type]
    assert not any(isinstance(e, StopInstance) for e in effects)
    state, stops = step(state, TimerFired((Timer.POSTPONED_REBALANCE, "")), 1000 + MIN_PAUSE_MS)
    assert [e.item for e in stops if isinstance(e, StopInstance)] == [T]


@pytest.mark.parametrize("waiting", [RestartTask(T), AlterOffsets(C, None), FAILED_TASK])
def test_what_waits_for_a_postponed_rebalance_lets_others_pass(waiting: Request | Restart) -> None:
    """With a task that fails again and again, nothing was served between two rebalances."""
    state = running(stopped(1, TargetState.STARTED, 1))
    state, _ = step(state, ConfigChanged(stopped(3, TargetState.STARTED, 1), (TasksUpdated(C, (T,)),)), 1010)
    first = Queued(1015, 10, None if waiting is FAILED_TASK else RequestId(1), waiting)
    state, effects = step(replace(state, queue=(first,)), RequestReceived(RequestId(2), GetConnector(C), None), 1020)
    assert [(e.request_id, e.error) for e in effects if isinstance(e, Reply)] == [(2, None)]
    assert state.queue == (first,)


def test_a_failed_connector_is_restarted_while_a_rebalance_is_postponed() -> None:
    state = running(stopped(1, TargetState.STARTED, 1))
    state, _ = step(state, ConfigChanged(stopped(3, TargetState.STARTED, 1), (TasksUpdated(C, (T,)),)), 1010)
    failed = {**state.instances, C: Instance(Epoch(1), State.FAILED)}
    due = Queued(1020, 10, None, Restart(C, Epoch(1), RestartCause.AFTER_FAILURE))
    planned = {C: AutomaticRestarts(Epoch(1), "error", 1020)}
    state = replace(state, instances=failed, queue=(due,), automatic_restarts=planned)
    state, effects = step(state, TimerFired((Timer.QUEUE, "")), 1020)
    assert [e.item for e in effects if isinstance(e, StopInstance)] == [C]
    assert state.phase is Phase.RESOLVED


@pytest.mark.parametrize(("read", "error"), [
    (stopped(3, more=1), None), (stopped(3, TargetState.STARTED, more=1), BadRequestError),
    (stopped(3, tasks=1, more=1), BadRequestError), (configs(1, 3), NotFoundError), (None, ConnectError),
])
def test_the_config_topic_is_read_before_offsets_are_altered(
        read: ClusterConfigState | None, error: type[Exception] | None) -> None:
    """Another worker may have resumed the connector."""
    config = stopped(1, more=1)
    state = HerderState(SETTINGS, Resolved(member_of(membership(1, Allocation()), None)), store=config, config=config)
    state, effects = step(state, RequestReceived(RequestId(1), AlterOffsets(C, None), None), 10)
    [reading] = [e for e in effects if isinstance(e, ReadConfigToEnd)]
    if read is not None:
        state, _ = step(state, ConfigChanged(read, ()), 20)
    state, effects = step(state, ConfigOpDone(reading.op, TimeoutError() if read is None else None), 30)
    assert [type(e.error) for e in effects if isinstance(e, Reply)] == [error] * (error is not None)
    assert [e.request_id for e in effects if isinstance(e, Delegate)] == [1] * (error is None)


def test_offsets_are_not_altered_if_a_rebalance_has_begun_meanwhile() -> None:
    config = stopped(1, more=1)
    state = HerderState(SETTINGS, Resolved(member_of(membership(1, Allocation()), None)), store=config, config=config)
    state, effects = step(state, RequestReceived(RequestId(1), AlterOffsets(C, None), None), 10)
    [reading] = [e for e in effects if isinstance(e, ReadConfigToEnd)]
    state, _ = step(state, JoinPreparing(eager=False), 20)
    state, effects = step(state, ConfigOpDone(reading.op), 30)
    assert [type(e.error) for e in effects if isinstance(e, Reply)] == [RebalanceNeededError]


def test_a_connector_created_during_a_rebalance_is_not_started_twice() -> None:
    """Its configuration was read while the rebalance was going on."""
    state = HerderState(SETTINGS, Joining(), store=configs(0, 1), config=configs(0, 1))
    state, _ = step(state, ConfigChanged(configs(0, 5, C), (ConnectorUpdated(C),)), 10)
    state, effects = step(state, Joined(membership(5, Allocation((C,)))), 20)
    assert [e.item for e in effects if isinstance(e, StartInstance)] == [C]
    assert not any(isinstance(e, StopInstance) for e in effects)
    assert state.phase is Phase.RESOLVED


def test_a_task_of_a_connector_that_was_created_again_gets_its_new_config() -> None:
    """Even if this worker reads the new task configs only when it has forgotten the old ones, and the leader, which has
    read them before the rebalance, leaves the task here.
    """
    task = ConnectorTaskId(C, 0)

    def config(offset: int, value: str, *, tasks: bool = True) -> ClusterConfigState:
        return ClusterConfigState(offset, connector_configs={C: {"v": value}}, task_counts={C: 1} if tasks else {},
                                  task_configs={task: {"v": value}} if tasks else {})

    def follower(offset: int) -> Membership:
        return Membership(offset, "me", Protocol.SESSIONED, Assignment("other", "http://other/", offset))

    mine, old = Allocation((), (task,)), config(3, "old")
    state = HerderState(SETTINGS, Resolved(Follower(follower(3))), store=old, config=old, allocation=mine,
                        announced=mine, instances={task: Instance(Epoch(1), State.RUNNING)}, counter=1)
    state, _ = step(state, ConfigChanged(config(5, "new", tasks=False), (ConnectorRemoved(C), ConnectorUpdated(C))), 10)
    state, _ = step(state, JoinPreparing(eager=False), 20)
    state, _ = step(state, ConfigChanged(config(7, "new"), (TasksUpdated(C, (task,)),)), 30)
    state, effects = step(state, Joined(follower(7)), 40)
    assert [e.item for e in effects if isinstance(e, StopInstance)] == [task]


def test_a_log_level_for_all_workers_is_set_at_once() -> None:
    state, effects = step(settled(1), ConfigChanged(configs(1, 2), (LoggerLevelChanged("a.b", "DEBUG"),)), 2000)
    assert effects == [SetLoggerLevel("a.b", "DEBUG")]
    assert state.phase is Phase.RESOLVED


def test_what_is_read_just_before_the_stores_are_ready_is_not_forgotten() -> None:
    """The worker would never reach the group's config offset: nothing repeats what has been read."""
    state, _ = step(HerderState(SETTINGS), ConfigChanged(configs(1, 5, C), (ConnectorUpdated(C),)), 10)
    state, _ = step(state, Loaded(configs(1, 4)), 20)
    state, effects = step(state, Joined(membership(5, Allocation((C,)))), 30)
    assert [e.item for e in effects if isinstance(e, StartInstance)] == [C]
    assert state.phase is Phase.RESOLVED
