"""The reading rules of the config topic, one by one."""

from __future__ import annotations

import pytest

from storage.config import records as to
from storage.config.fold import Deferred, fold
from storage.config.state import (
    ClusterConfigState,
    ConfigChange,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    SessionKey,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import ConnectorName, ConnectorTaskId, TargetState
from storage.log.record import KeyValue
from tests.rigs.internal_records import log_of, raw

A, B = ConnectorName("a"), ConnectorName("b-1")
KEY = SessionKey(b"secret", "HmacSHA256", 1_700_000_000_000)


def task(connector: ConnectorName, number: int, mark: str = "") -> KeyValue:
    return to.task_config(ConnectorTaskId(connector, number), {"task": f"{number}{mark}"})


class Topic:
    """Folds in what it is given and remembers the changes."""

    def __init__(self, *, started: bool = True) -> None:
        self.state = ClusterConfigState()
        self.deferred: Deferred = {}
        self.started = started
        self.next = 0

    def add(self, *pairs: KeyValue) -> list[ConfigChange]:
        records = log_of(pairs, self.next)
        self.next += len(records)
        self.state, self.deferred, changes = fold(self.state, self.deferred, records, started=self.started)
        return list(changes)


@pytest.fixture
def topic() -> Topic:
    return Topic()


def test_a_new_connector_is_started(topic: Topic) -> None:
    assert topic.add(to.connector_config(A, {"k": "v"})) == [ConnectorUpdated(A)]
    assert topic.state.connector_configs == {A: {"k": "v"}}
    assert topic.state.target_state(A) is TargetState.STARTED
    assert topic.state.offset == 1
    assert topic.state.tasks(A) == []


def test_a_target_state_before_the_config_is_kept_without_a_change_event(topic: Topic) -> None:
    changes = topic.add(to.target_state(A, TargetState.PAUSED), to.connector_config(A, {}))
    assert changes == [ConnectorUpdated(A)]
    assert topic.state.target_state(A) is TargetState.PAUSED


def test_target_states_are_read_and_report_changes(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}))
    assert topic.add(to.target_state(A, TargetState.STARTED)) == []  # as it was
    assert topic.add(to.target_state(A, TargetState.STOPPED)) == [TargetStateChanged(A)]
    assert topic.state.target_state(A) is TargetState.STOPPED
    assert topic.add(raw("target-state-a", {"state": "PAUSED"})) == [TargetStateChanged(A)]  # before KIP-875
    assert topic.add(raw("target-state-a", {"state": "STARTED", "state.v2": 7})) == [TargetStateChanged(A)]
    assert topic.add(raw("target-state-a", {"state": "PAUSED", "state.v2": "NAPPING"})) == []  # state.v2 has the word
    assert topic.add(raw("target-state-a", {"state": 1}), raw("target-state-a", [1]), raw("target-state-a", "x")) == []
    assert topic.state.target_state(A) is TargetState.STARTED


def test_a_removed_target_state_is_started_again_while_there_is_a_config(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}), *(to.target_state(name, TargetState.PAUSED) for name in (A, B)))
    assert topic.add(to.target_state(A, None), to.target_state(B, None)) == []
    assert topic.state.target_states == {A: TargetState.STARTED}


def test_task_configs_count_after_their_commit(topic: Topic) -> None:
    topic.add(to.connector_config(A, {"v": "1"}))
    assert topic.add(task(A, 0), task(A, 1)) == []
    assert topic.state.task_configs == {}
    tasks = (ConnectorTaskId(A, 0), ConnectorTaskId(A, 1))
    assert topic.add(to.commit(A, 2)) == [TasksUpdated(A, tasks)]
    assert topic.state.tasks(A) == list(tasks)
    assert topic.state.raw_task_configs(A) == [{"task": "0"}, {"task": "1"}]
    assert topic.state.task_config_generations == {A: 0}
    assert topic.state.applied_configs == {A: {"v": "1"}}
    assert topic.state.pending_fencing == {A}
    topic.add(task(A, 0, "x"), to.commit(A, 1))
    assert topic.state.raw_task_configs(A) == [{"task": "0x"}]
    assert topic.state.task_config_generations == {A: 1}


def test_a_connector_is_inconsistent_from_an_incomplete_commit_to_a_complete_one(topic: Topic) -> None:
    topic.add(to.connector_config(A, {"v": "1"}), task(A, 0), to.commit(A, 1), to.connector_config(A, {"v": "2"}))
    assert topic.add(task(A, 1), to.commit(A, 2)) == [TasksUpdated(A, ())]
    assert topic.state.inconsistent == {A}
    assert topic.state.tasks(A) == []
    assert topic.state.task_count(A) == 2
    assert topic.state.applied_configs == {A: {"v": "1"}}
    topic.add(task(A, 0), to.commit(A, 2))  # the task 1 that was waiting is gone
    assert topic.state.inconsistent == {A}
    topic.add(task(A, 0), task(A, 1), task(A, 7), to.commit(A, 2))  # one too many is all right
    assert topic.state.inconsistent == frozenset()
    assert topic.state.tasks(A) == [ConnectorTaskId(A, 0), ConnectorTaskId(A, 1)]
    assert topic.state.applied_configs == {A: {"v": "2"}}


def test_an_empty_task_set_is_consistent(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}))
    assert topic.add(to.commit(A, 0)) == [TasksUpdated(A, ())]
    assert topic.state.tasks(A) == []
    assert topic.state.task_counts == {A: 0}
    assert topic.state.inconsistent == frozenset()
    topic.add(to.commit(A, 0))
    assert topic.state.task_config_generations == {}, "as in Java, it counts only task configs"


def test_a_commit_without_connector_is_dropped(topic: Topic) -> None:
    # Deleted, and compaction has removed both the config and its tombstone.
    assert topic.add(task(A, 0), to.commit(A, 1)) == []
    assert (topic.state.task_counts, topic.state.task_configs, topic.state.pending_fencing) == ({}, {}, frozenset())
    topic.add(to.connector_config(A, {}), to.commit(A, 1))
    assert topic.state.inconsistent == {A}


def test_deletion_removes_everything_except_what_fencing_needs(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}), task(A, 0), to.commit(A, 1), to.task_count(A, 1), task(A, 0))
    topic.add(to.connector_config(B, {}), task(B, 0), to.commit(B, 1))
    assert topic.add(to.connector_config(A, None), to.target_state(A, None)) == [ConnectorRemoved(A)]
    state = topic.state
    assert state.connectors() == [B]
    assert (state.task_counts, state.applied_configs) == ({B: 1}, {B: {}})
    assert state.target_states == {B: TargetState.STARTED}
    assert list(state.task_configs) == [ConnectorTaskId(B, 0)]
    assert state.task_count_records == {A: 1}
    topic.add(to.connector_config(A, {}), to.commit(A, 1))  # the task config from before does not count
    assert topic.state.inconsistent == {A}


def test_a_connector_may_be_deleted_and_created_again_within_a_batch(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}), task(A, 0), task(A, 1), to.connector_config(A, None),
              to.connector_config(A, {}), task(A, 0, "x"), to.commit(A, 1))
    assert topic.state.raw_task_configs(A) == [{"task": "0x"}]
    assert list(topic.state.task_configs) == [ConnectorTaskId(A, 0)]


def test_fencing_is_pending_from_a_commit_to_the_task_count_record(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}), task(A, 0), to.commit(A, 1))
    assert topic.add(to.task_count(A, 3)) == []
    assert (topic.state.pending_fencing, topic.state.task_count_records) == (frozenset(), {A: 3})
    topic.add(to.commit(A, 0))
    assert topic.state.pending_fencing == {A}


def test_restarts_and_logger_levels_are_for_workers_that_have_started() -> None:
    pairs = [to.restart(RestartRequest(B, only_failed=True, include_tasks=False)), to.logger_level("org.x", "DEBUG")]
    early, late = Topic(started=False), Topic()
    assert early.add(*pairs, to.connector_config(A, {}), to.session_key(KEY)) == []
    assert early.state.connectors() == [A]
    assert late.add(*pairs) == [
        RestartRequested(RestartRequest(B, only_failed=True, include_tasks=False)),
        LoggerLevelChanged("org.x", "DEBUG"),
    ]
    assert late.add(raw("restart-connector-a", {"only-failed": "yes"})) == [
        RestartRequested(RestartRequest(A, only_failed=False, include_tasks=False))
    ]
    assert late.add(raw("restart-connector-a", None), raw("restart-connector-a", 1)) == []
    assert late.add(raw("logger-cluster-x", None), raw("logger-cluster-x", {"level": 1})) == []
    assert late.add(raw("logger-x", {"level": "DEBUG"})) == [], "another kind of key"


def test_session_keys_are_read_and_invalid_ones_ignored(topic: Topic) -> None:
    assert topic.add(to.session_key(KEY)) == [SessionKeyChanged(KEY)]
    good = {"key": "c2VjcmV0", "algorithm": "HmacSHA256", "creation-timestamp": 1}
    for bad in (None, [], {}, {**good, "key": 1}, {**good, "key": "?"}, {**good, "algorithm": None},
                {**good, "creation-timestamp": 1.5}, {**good, "creation-timestamp": "1"},
                {**good, "creation-timestamp": True}):
        assert topic.add(raw("session-key", bad)) == [], bad
    assert topic.state.session_key == KEY


def test_a_connector_may_be_named_anything(topic: Topic) -> None:
    name = ConnectorName("connector-x")
    topic.add(to.connector_config(name, {}), to.target_state(name, TargetState.PAUSED))
    assert topic.state.connectors() == [name]
    assert topic.state.target_state(name) is TargetState.PAUSED
    dashed = ConnectorName("a-b-1")
    topic.add(to.connector_config(dashed, {}), task(dashed, 12), task(dashed, 0), to.commit(dashed, 1))
    assert ConnectorTaskId(dashed, 12) in topic.state.task_configs
    assert topic.add((b"connector-\xff", b'{"properties": {}}')) == [ConnectorUpdated(ConnectorName("\ufffd"))], (
        "Java decodes keys in the same way")


@pytest.mark.parametrize("key", ["task-a-0", "task-a", "task-", "task-a-x", "task-a-99999999999", "nonsense", "",
                                 "commit-a", "tasks-fencing-a", "session-key", "logger-cluster-", "session-keys"])
def test_invalid_records_change_only_the_position(topic: Topic, key: str) -> None:
    topic.add(to.connector_config(A, {}), task(A, 0), to.commit(A, 1))
    before, deferred = topic.state, topic.deferred
    values: tuple[object, ...] = (None, b"null", [], "text", 5, {}, {"properties": []}, {"properties": None})
    for number, value in enumerate(values, 4):
        assert topic.add(raw(key, value)) == [], value
        assert topic.deferred == deferred, value
        assert topic.state == ClusterConfigState(**{
            **{name: getattr(before, name) for name in ClusterConfigState.__slots__}, "offset": number}), value


def test_values_that_are_not_json_do_not_advance_the_position(topic: Topic) -> None:
    topic.add(to.connector_config(A, {}))
    assert topic.add(raw("connector-b", b"{"), raw("connector-b", b"nope")) == []
    assert topic.state.offset == 1
    topic.add(raw("whatever", None))
    assert topic.state.offset == 4
    assert ClusterConfigState().offset == -1
    name = "k" * 50_001  # Jackson's limit is 50,000 bytes
    assert topic.add(raw("connector-b", {"properties": {name: "v"}})) == []
    assert topic.state.offset == 4
    assert topic.add(raw("connector-b", {"properties": {name[1:]: "v"}})) == [ConnectorUpdated(ConnectorName("b"))]


@pytest.mark.parametrize("empty", [b"", b" \n"])
def test_an_empty_value_is_a_tombstone_as_in_java(topic: Topic, empty: bytes) -> None:
    topic.add(to.connector_config(A, {}), to.target_state(A, TargetState.PAUSED))
    assert topic.add(raw("target-state-a", empty), raw("connector-a", empty)) == [ConnectorRemoved(A)]
    assert topic.state.connectors() == []
    assert topic.state.offset == 4  # Java workers count the record, and all workers must agree


def test_values_that_are_not_strings_become_strings(topic: Topic) -> None:
    topic.add(raw("connector-a", {"properties": {"n": 1, "b": True, "f": 1.5, "l": [1], "s": "x"}}))
    assert topic.state.connector_configs[A] == {"n": "1", "b": "true", "f": "1.5", "l": "[1]", "s": "x"}


def test_older_snapshots_do_not_change(topic: Topic) -> None:
    topic.add(to.connector_config(A, {"v": "1"}), task(A, 0), to.commit(A, 1), task(A, 0, "x"))
    before, deferred = topic.state, topic.deferred
    topic.add(to.connector_config(A, {"v": "2"}), task(A, 1), to.commit(A, 2), to.connector_config(B, {}),
              to.connector_config(A, None), to.task_count(B, 1), to.commit(B, 3))
    assert before.connector_configs == {A: {"v": "1"}}
    assert before.raw_task_configs(A) == [{"task": "0"}]
    assert before.pending_fencing == {A}
    assert deferred == {A: {0: {"task": "0x"}}}
