"""The config store actor over a topic in memory: what it writes, when it responds, and how requests time out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pykka
import pytest

import actors.stores.config
from actors.messages.commands import (
    ClaimWritePrivileges,
    PutConnectorConfig,
    PutLoggerLevel,
    PutRestartRequest,
    PutSessionKey,
    PutTargetState,
    PutTaskConfigSet,
    PutTaskCountRecord,
    ReadConfigToEnd,
    RemoveConnectorConfig,
    WriteConfig,
)
from actors.messages.events import ConfigChanged, ConfigOpDone
from actors.messages.requests import Ask, SetClusterLoggerLevel
from spark_tasks.errors import ConnectError
from storage.config import records as to
from storage.config.state import (
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    SessionKey,
)
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName, ConnectorTaskId, TargetState
from storage.log.record import Position
from tests.rigs.memory_log import MemoryPrivilegedWriter, MemoryTopic, MemoryTopicLog
from tests.rigs.stores import Rig, decide, running
from tests.rigs.support import wait_until

A, B = ConnectorName("a"), ConnectorName("b")


@pytest.fixture
def rig() -> Iterator[Rig]:
    with running() as made:
        yield made


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic("configs")


def keys(topic: MemoryTopic) -> list[str]:
    return [r.key.decode() for r in topic.records() if r.key is not None]


def test_start_publishes_one_snapshot_and_no_changes(rig: Rig, topic: MemoryTopic) -> None:
    topic.append([to.connector_config(A, {"k": "v"}), to.restart(RestartRequest(A, False, False))])
    _, view = rig.config_store(MemoryTopicLog(topic))
    view.ready.result(10)
    assert view.config.offset == 2
    assert view.config.connectors() == [A]
    assert rig.said == [ConfigChanged(view.config, ())]


def test_no_config_is_visible_before_the_topic_is_read_to_its_end(rig: Rig, topic: MemoryTopic) -> None:
    topic.append([to.connector_config(A, {}), to.connector_config(B, {})])
    log = MemoryTopicLog(topic, held=True)
    ref, view = rig.config_store(log)
    log.deliver(1)
    wait_until(lambda: log.waits)
    with pytest.raises(TypeError):
        ref.ask("nothing that it knows", timeout=10)  # goes through the inbox, behind the record
    assert (view.config.offset, rig.said, view.ready.done()) == (-1, [], False)
    log.release()
    view.ready.result(10)
    assert view.config.offset == 2


def test_every_kind_of_write_is_read_back(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.config_store(MemoryTopicLog(topic))
    view.ready.result(10)
    key = SessionKey(b"k", "HmacSHA256", 5)
    request = RestartRequest(A, only_failed=True, include_tasks=True)
    for write in (
        PutConnectorConfig(A, {"x": "1"}, TargetState.PAUSED), PutTaskConfigSet(A, ({"t": "0"}, {"t": "1"})),
        PutTargetState(A, TargetState.STOPPED), PutTaskCountRecord(A, 2), PutSessionKey(key),
        PutRestartRequest(request), PutLoggerLevel("org.x", "INFO"), PutConnectorConfig(B, {}),
        PutTaskConfigSet(B, ()), RemoveConnectorConfig(B),
    ):
        assert rig.write(ref, write).error is None
        assert isinstance(rig.said[-2], ConfigChanged)  # read back before it was answered
        assert rig.said[-2].snapshot is view.config
    assert keys(topic) == [
        "target-state-a", "connector-a", "task-a-0", "task-a-1", "commit-a", "target-state-a", "tasks-fencing-a",
        "session-key", "restart-connector-a", "logger-cluster-org.x", "connector-b", "commit-b", "connector-b",
        "target-state-b"]
    state = view.config
    assert state.connector_configs == {A: {"x": "1"}}
    assert state.target_state(A) is TargetState.STOPPED
    assert state.raw_task_configs(A) == [{"t": "0"}, {"t": "1"}]
    assert (state.session_key, state.task_count_records, state.pending_fencing) == (key, {A: 2}, {B})
    changes = [change for message in rig.said if isinstance(message, ConfigChanged) for change in message.changes]
    assert RestartRequested(request) in changes
    assert LoggerLevelChanged("org.x", "INFO") in changes


def test_all_records_of_a_write_have_the_time_of_its_request(rig: Rig, topic: MemoryTopic) -> None:
    """A leader that is suspended between task configs and their commit record, and then replaced, does not write the
    latter.
    """
    log, since = MemoryTopicLog(topic), []
    send = log.send

    def send_late(key: bytes, value: bytes | None, at: float | None = None) -> Future[Position]:
        since.append(at)
        return send(key, value)

    log.send = send_late  # type: ignore[method-assign]
    ref, view = rig.config_store(log)
    view.ready.result(10)
    assert rig.write(ref, PutTaskConfigSet(A, ({"t": "0"}, {"t": "1"}))).error is None
    assert len(since) == 3
    assert since == [since[0]] * 3
    assert since[0] is not None


def test_a_write_completes_when_it_has_been_read_back(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.config_store(log)
    view.ready.result(10)
    log.hold()
    op = rig.op()
    decide(ref, WriteConfig(op, PutConnectorConfig(A, {})))
    wait_until(lambda: keys(topic) == ["connector-a"])
    assert not [m for m in rig.said if isinstance(m, ConfigOpDone)]
    log.deliver(1)
    assert rig.done(op).error is None
    assert rig.said[-2].changes == (ConnectorUpdated(A),)


def test_writes_of_one_connector_wait_for_each_other_and_others_do_not(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.config_store(log)
    view.ready.result(10)
    log.hold()
    first, second, other = rig.op(), rig.op(), rig.op()
    decide(ref, WriteConfig(first, PutConnectorConfig(A, {"n": "1"})))
    decide(ref, WriteConfig(second, PutTaskConfigSet(A, ({},))))
    decide(ref, WriteConfig(other, PutConnectorConfig(B, {})))
    wait_until(lambda: keys(topic) == ["connector-a", "connector-b"])
    log.release()
    for op in (first, second, other):
        assert rig.done(op).error is None
    assert keys(topic) == ["connector-a", "connector-b", "task-a-0", "commit-a"]


def test_a_commit_is_not_written_where_a_task_config_failed(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.config_store(MemoryTopicLog(topic))
    view.ready.result(10)
    rig.write(ref, PutConnectorConfig(A, {}))
    topic.refuse = lambda key: OSError("no leader") if key == b"task-a-1" else None
    error = rig.write(ref, PutTaskConfigSet(A, ({}, {}))).error
    assert isinstance(error, ConnectError)
    assert str(error) == "Error writing task configurations to Kafka: no leader"
    assert keys(topic) == ["connector-a", "task-a-0"]
    topic.refuse = lambda _: None
    assert rig.write(ref, PutTaskConfigSet(A, ({}, {}))).error is None
    assert view.config.tasks(A) == [ConnectorTaskId(A, 0), ConnectorTaskId(A, 1)]


def test_a_write_that_takes_too_long_fails_and_the_next_one_continues(
    rig: Rig, topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors.stores.config, "WRITE_TIMEOUT_MS", 150)
    log = MemoryTopicLog(topic)
    ref, view = rig.config_store(log)
    view.ready.result(10)
    log.hold()
    first, second = rig.op(), rig.op()
    decide(ref, WriteConfig(first, PutConnectorConfig(A, {"n": "1"})))
    error = rig.done(first).error
    assert isinstance(error, ConnectError)
    assert str(error) == "Error writing connector configuration to Kafka: no answer within 150 ms"
    monkeypatch.setattr(actors.stores.config, "WRITE_TIMEOUT_MS", 10_000)
    log.release()
    decide(ref, WriteConfig(second, PutConnectorConfig(A, {"n": "2"})))
    assert rig.done(second).error is None
    assert view.config.connector_configs == {A: {"n": "2"}}
    assert len([m for m in rig.said if isinstance(m, ConfigOpDone)]) == 2


def test_read_to_end_completes_or_times_out(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.config_store(log)
    view.ready.result(10)
    topic.append([to.connector_config(A, {})])
    op = rig.op()
    ref.tell(ReadConfigToEnd(op, 5000))
    assert rig.done(op).error is None
    assert view.config.offset == 1
    log.hold()
    topic.append([to.connector_config(B, {})])
    op = rig.op()
    ref.tell(ReadConfigToEnd(op, 100))
    assert isinstance(rig.done(op).error, TimeoutError)
    log.fail_reads(OSError("no broker"))
    op = rig.op()
    ref.tell(ReadConfigToEnd(op, 5000))
    error = rig.done(op).error
    assert isinstance(error, ConnectError)
    assert "Error trying to read to end of config log: no broker" in str(error)


def test_privileged_writes_need_a_claim(rig: Rig, topic: MemoryTopic) -> None:
    (one, view), (two, _) = (
        rig.config_store(MemoryTopicLog(topic), MemoryPrivilegedWriter(topic, "leader")) for _ in range(2))
    view.ready.result(10)

    def claim(ref: pykka.ActorRef[object]) -> None:
        op = rig.op()
        ref.tell(ClaimWritePrivileges(op))
        assert rig.done(op).error is None

    assert isinstance(rig.write(one, PutConnectorConfig(A, {})).error, PrivilegedWriteError)
    assert rig.write(one, PutTargetState(A, TargetState.PAUSED)).error is None  # anybody may
    claim(one)
    assert rig.write(one, PutConnectorConfig(A, {})).error is None
    assert rig.write(one, PutTaskConfigSet(A, ({},))).error is None
    claim(two)
    assert isinstance(rig.write(one, PutTaskCountRecord(A, 1)).error, PrivilegedWriteError)
    assert rig.write(two, PutTaskCountRecord(A, 2)).error is None
    assert isinstance(rig.write(one, PutSessionKey(SessionKey(b"", "x", 1))).error, PrivilegedWriteError)
    claim(one)
    assert rig.write(one, PutTaskCountRecord(A, 3)).error is None
    wait_until(lambda: view.config.task_count_records == {A: 3})


def test_a_worker_that_leads_again_may_write_at_once(rig: Rig, topic: MemoryTopic) -> None:
    """Another leader has fenced its first claim meanwhile, which it could only learn from a write."""
    refs = [rig.config_store(MemoryTopicLog(topic), MemoryPrivilegedWriter(topic, "leader"))[0] for _ in range(2)]
    for leader in (refs[0], refs[1], refs[0]):
        op = rig.op()
        leader.tell(ClaimWritePrivileges(op))
        assert rig.done(op).error is None
    assert rig.write(refs[0], PutConnectorConfig(A, {})).error is None


def test_without_exactly_once_a_claim_succeeds_at_once(rig: Rig, topic: MemoryTopic) -> None:
    ref, _ = rig.config_store(MemoryTopicLog(topic))
    op = rig.op()
    ref.tell(ClaimWritePrivileges(op))
    assert rig.done(op) == ConfigOpDone(op)


def test_a_logger_level_for_the_cluster_is_written_to_the_topic(rig: Rig, topic: MemoryTopic) -> None:
    ref, view = rig.config_store(MemoryTopicLog(topic))
    view.ready.result(10)
    reply = pykka.ThreadingFuture()
    ref.tell(Ask(SetClusterLoggerLevel("org.x", "DEBUG"), reply))
    assert reply.get(timeout=10) is None
    assert keys(topic) == ["logger-cluster-org.x"]
    topic.refuse = lambda _: OSError("no leader")
    reply = pykka.ThreadingFuture()
    ref.tell(Ask(SetClusterLoggerLevel("org.x", "DEBUG"), reply))
    with pytest.raises(ConnectError, match="Error writing logger level to Kafka"):
        reply.get(timeout=10)


def test_all_waiting_callers_are_notified_when_the_store_stops(rig: Rig, topic: MemoryTopic) -> None:
    log = MemoryTopicLog(topic)
    ref, view = rig.config_store(log)
    view.ready.result(10)
    log.hold()
    op = rig.op()
    decide(ref, WriteConfig(op, PutConnectorConfig(A, {})))
    wait_until(lambda: keys(topic))
    ref.stop()
    assert isinstance(rig.done(op).error, ConnectError)
