"""Records of a Java worker's internal topics: heeler writes the same bytes and derives the same state.

Java prints a connector's or a task's properties in the order of a hash map; only there the fields are compared
instead of the bytes. tests/golden/internal_topics/make.py makes the records.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage.config import records as config
from storage.config.fold import fold as fold_config
from storage.config.state import ClusterConfigState, RestartRequested, SessionKeyChanged
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from storage.log.java_json import loads
from storage.log.record import KeyValue, LogRecord
from storage.offsets.fold import OffsetState, records_for
from storage.offsets.fold import fold as fold_offsets
from storage.status import records as status
from storage.status.fold import fold as fold_status
from storage.status.state import StatusState

GOLDEN = Path(__file__).parents[2] / "golden" / "internal_topics"
MODES = ("plain", "exactly-once")


def records(mode: str, kind: str) -> list[LogRecord]:
    lines = (GOLDEN / f"{mode}-{kind}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    found = map(json.loads, lines)
    return [LogRecord(0, r["offset"], r["timestamp"], r["key"].encode(), r["value"] and r["value"].encode())
            for r in found]


def rest(mode: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads((GOLDEN / f"{mode}-rest.json").read_text(encoding="utf-8"))
    return view


def our_config_record(record: LogRecord) -> KeyValue:
    """The same content written by us, as far as the fold keeps what the record says."""
    assert record.key is not None
    key = record.key.decode()
    value = None if record.value is None else loads(record.value)
    state, _, changes = fold_config(ClusterConfigState(), {}, [record], started=True)
    for change in changes:
        if isinstance(change, SessionKeyChanged):
            return config.session_key(change.key)
        if isinstance(change, RestartRequested):
            return config.restart(change.request)
    if key.startswith(config.TARGET_STATE):
        name = ConnectorName(key[len(config.TARGET_STATE) :])
        return config.target_state(name, state.target_states.get(name))
    if key.startswith(config.CONNECTOR):
        name = ConnectorName(key[len(config.CONNECTOR) :])
        return config.connector_config(name, None if value is None else value["properties"])
    if key.startswith(config.TASK_COUNT):
        [(name, count)] = state.task_count_records.items()
        return config.task_count(name, count)
    if key.startswith(config.TASK):
        task = config.parse_task_id(key.removeprefix(config.TASK))
        assert task is not None
        return config.task_config(task, value["properties"])
    if key.startswith(config.COMMIT):
        return config.commit(ConnectorName(key[len(config.COMMIT) :]), value["tasks"])
    assert key.startswith(config.LOGGER), key
    return config.logger_level(key[len(config.LOGGER) :], value["level"])


@pytest.mark.parametrize("mode", MODES)
def test_config_records_are_written_as_by_java(mode: str) -> None:
    found = records(mode, "config")
    assert len(found) > 25
    for record in found:
        # The properties come in the order in which they were read from Java's bytes, so even these must be equal.
        assert our_config_record(record) == (record.key, record.value)


@pytest.mark.parametrize("mode", MODES)
def test_the_config_state_equals_the_java_workers(mode: str) -> None:
    state, _, _ = fold_config(ClusterConfigState(), {}, records(mode, "config"), started=False)
    view = rest(mode)
    assert state.offset == view["offset"]  # from the assignment that its leader gave out
    assert state.connectors() == sorted(view["connectors"])
    for name, seen in view["connectors"].items():
        assert state.connector_configs[name] == seen["config"]
        tasks = [{"id": {"connector": t.connector, "task": t.task}, "config": state.task_configs[t]}
                 for t in state.tasks(name)]
        assert tasks == seen["tasks"]
    assert state.target_states == {
        "quelle-ä-1": TargetState.STOPPED, "sink": TargetState.STARTED, "broken": TargetState.STARTED}
    assert state.inconsistent == frozenset()
    fenced = {"quelle-ä-1"} if mode == "exactly-once" else set()
    assert state.pending_fencing & {"quelle-ä-1"} == {"quelle-ä-1"} - fenced


@pytest.mark.parametrize("mode", MODES)
def test_status_records_are_written_as_by_java(mode: str) -> None:
    for record in records(mode, "status"):
        assert record.key is not None
        key = record.key.decode()
        state, removed = fold_status(StatusState(), [record])
        made = [status.status_record(s) for s in state.connectors.values()]
        made += [status.status_record(s) for tasks in state.tasks.values() for s in tasks.values()]
        made += [status.topic_record(t) for topics in state.topics.values() for t in topics.values()]
        made += [(status.status_key(item), None) for item in removed]
        if record.value is None and key.startswith(status.TOPIC):
            topic = status.parse_topic_key(key)
            assert topic is not None
            made.append((status.topic_key(*topic), None))
        assert made == [(record.key, record.value)]


@pytest.mark.parametrize("mode", MODES)
def test_the_status_state_equals_the_java_workers(mode: str) -> None:
    state, _ = fold_status(StatusState(), records(mode, "status"))
    view = rest(mode)["connectors"]
    assert sorted(state.connectors) == sorted(view)
    for name, seen in view.items():
        connector = state.connectors[name]
        shown = seen["status"]["connector"]
        assert (connector.state, connector.worker_id) == (State[shown["state"]], shown["worker_id"])
        assert connector.version == shown.get("version")
        tasks = state.tasks.get(name, {})
        assert [(n, s.state.value, s.trace, s.version) for n, s in sorted(tasks.items())] == [
            (t["id"], t["state"], t.get("trace"), t.get("version")) for t in seen["status"]["tasks"]]
        assert sorted(state.topics.get(name, {})) == sorted(seen["topics"][name]["topics"])
    assert state.tasks[ConnectorName("broken")][0].trace is not None
    assert ConnectorTaskId(ConnectorName("gone"), 0).connector not in state.tasks


@pytest.mark.parametrize("mode", MODES)
def test_offset_records_are_written_as_by_java(mode: str) -> None:
    state = OffsetState()
    for record in records(mode, "offset"):
        assert record.key is not None
        name, partition = loads(record.key)
        offset = None if record.value is None else loads(record.value)
        for known in (state, OffsetState()):
            assert records_for(known, name, [(partition, offset)]) == [(record.key, record.value)]
        state = fold_offsets(state, [record])
    shown = rest(mode)["offsets"]["offsets"]
    assert [{"partition": p, "offset": o} for p, o in state.offsets(ConnectorName("quelle-ä-1")).values()] == shown
