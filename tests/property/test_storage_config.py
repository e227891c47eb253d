"""The config fold, for any content of the topic: batches, replay, duplicates, compaction."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from storage.config import records as to
from storage.config.fold import Deferred, fold
from storage.config.state import ClusterConfigState, RestartRequest, SessionKey
from storage.ids import ConnectorName, ConnectorTaskId, TargetState
from storage.log.record import KeyValue, LogRecord
from tests.rigs.memory_log import MemoryTopic

NAMES = st.sampled_from([ConnectorName(n) for n in ("a", "b-1", "connector-c")])
CONFIGS = st.dictionaries(st.sampled_from("xyz"), st.text(max_size=3), max_size=2)


def task_set(connector: ConnectorName, configs: list[dict[str, str]]) -> list[KeyValue]:
    tasks = [to.task_config(ConnectorTaskId(connector, n), config) for n, config in enumerate(configs)]
    return [*tasks, to.commit(connector, len(configs))]


# What a leader writes, as one unit.
WRITES = st.one_of(
    st.builds(lambda c, config: [to.connector_config(c, config)], NAMES, CONFIGS),
    st.builds(lambda c: [to.connector_config(c, None), to.target_state(c, None)], NAMES),
    st.builds(task_set, NAMES, st.lists(CONFIGS, max_size=3)),
    st.builds(lambda c, s: [to.target_state(c, s)], NAMES, st.sampled_from(TargetState)),
    st.builds(lambda c, n: [to.task_count(c, n)], NAMES, st.integers(0, 5)),
    st.builds(lambda c, f: [to.restart(RestartRequest(c, f, True))], NAMES, st.booleans()),
    st.builds(lambda k: [to.session_key(SessionKey(k, "HmacSHA256", 1))], st.binary(max_size=4)),
)
# What else may lie there: parts of units, and nonsense.
STRAY = st.one_of(
    st.builds(lambda c, n: to.task_config(ConnectorTaskId(c, n), {}), NAMES, st.integers(0, 4)),
    st.builds(to.commit, NAMES, st.integers(0, 4)),
    st.builds(to.target_state, NAMES, st.none()),
    st.tuples(st.sampled_from([b"connector-a", b"commit-a", b"task-a-0", b"x", b""]),
              st.none() | st.binary(max_size=5)),
)
ANYTHING = st.lists(WRITES | STRAY.map(lambda r: [r]), max_size=25).map(lambda units: [r for u in units for r in u])


def at(pairs: list[KeyValue]) -> list[LogRecord]:
    return [LogRecord(0, n, 0, k, v) for n, (k, v) in enumerate(pairs)]


def replay(records: list[LogRecord]) -> ClusterConfigState:
    return fold(ClusterConfigState(), {}, records, started=False)[0]


def validate(state: ClusterConfigState) -> None:
    """What must hold of every state."""
    known = set(state.connector_configs)
    assert set(state.target_states) >= known
    assert set(state.task_counts) <= known
    assert set(state.applied_configs) <= known
    assert {task.connector for task in state.task_configs} <= known
    for connector in state.connectors():
        assert len(state.raw_task_configs(connector)) == len(state.tasks(connector))  # no KeyError: all are there
        if connector not in state.inconsistent:
            assert len(state.tasks(connector)) == state.task_count(connector)


@given(ANYTHING, st.lists(st.integers(0, 60), max_size=5))
def test_the_result_does_not_depend_on_the_batches(pairs: list[KeyValue], cuts: list[int]) -> None:
    records = at(pairs)
    state, deferred, changes = ClusterConfigState(), {}, []
    edges = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    for begin, end in itertools.pairwise(edges):
        state, deferred, new = fold(state, deferred, records[begin:end], started=True)
        changes += new
        validate(state)
    whole, whole_deferred, all_changes = fold(ClusterConfigState(), {}, records, started=True)
    assert (state, deferred, tuple(changes)) == (whole, whole_deferred, all_changes)
    assert replace(replay(records)) == whole  # whether a worker has started changes what it is told, not what is so


@given(ANYTHING, st.integers(0, 60))
def test_older_snapshots_never_change(pairs: list[KeyValue], cut: int) -> None:
    records = at(pairs)
    first: tuple[ClusterConfigState, Deferred] = fold(ClusterConfigState(), {}, records[:cut], started=True)[:2]
    before = repr(first)
    fold(*first, records[cut:], started=True)
    assert repr(first) == before


@given(ANYTHING)
def test_the_position_follows_the_last_record_that_is_valid_json(pairs: list[KeyValue]) -> None:
    readable = [n for n, (_, value) in enumerate(pairs) if replay(at([(b"any", value)])).offset == 1]
    assert replay(at(pairs)).offset == (readable[-1] + 1 if readable else -1)


@given(st.lists(st.tuples(NAMES, CONFIGS, st.lists(CONFIGS, max_size=3)), max_size=12), st.integers(0, 40))
def test_records_that_are_written_twice_change_nothing(
    updates: list[tuple[ConnectorName, dict[str, str], list[dict[str, str]]]], cut: int
) -> None:
    # A producer that got no answer repeats: whole units, in order.
    units = [[to.connector_config(c, config), *task_set(c, tasks)] for c, config, tasks in updates]
    plain = [r for unit in units for r in unit]
    twice = [r for n, unit in enumerate(units) for r in (unit + unit if n == cut % (len(units) or 1) else unit)]
    once, again = replay(at(plain)), replay(at(twice))
    ignore = {"offset": 0, "task_config_generations": {}}
    assert replace(once, **ignore) == replace(again, **ignore)


@given(st.lists(WRITES, max_size=25), st.booleans())
def test_compaction_loses_only_task_configs(units: list[list[KeyValue]], keep_tombstones: bool) -> None:
    topic = MemoryTopic("config")
    for unit in units:
        topic.append(unit)
    full = replay(topic.records())
    topic.compact(keep_tombstones)
    compacted = replay(topic.records())
    validate(compacted)
    assert compacted.connector_configs == full.connector_configs
    assert compacted.session_key == full.session_key
    for connector in full.connectors():
        # A commit can have lost some of its task configs, or, where the connector's config was written again later,
        # what it commits to. Then the connector is inconsistent or has no tasks, and makes new ones when it starts.
        if connector in compacted.task_counts and connector not in compacted.inconsistent:
            assert compacted.raw_task_configs(connector) == full.raw_task_configs(connector)
        assert compacted.target_state(connector) == full.target_state(connector)


@given(st.lists(st.tuples(NAMES, CONFIGS, st.lists(CONFIGS, min_size=1, max_size=3)), max_size=12))
def test_compaction_keeps_what_was_written_in_order(
    updates: list[tuple[ConnectorName, dict[str, str], list[dict[str, str]]]]
) -> None:
    topic = MemoryTopic("config")
    for connector, config, tasks in updates:
        topic.append([to.connector_config(connector, config)])
        topic.append(task_set(connector, tasks))
    full = replay(topic.records())
    topic.compact()
    compacted = replay(topic.records())
    ignore = {"task_config_generations": {}, "task_configs": {}}  # surplus task configs of smaller sets may be there
    assert replace(compacted, **ignore) == replace(full, **ignore)
    assert [compacted.raw_task_configs(c) for c in full.connectors()] == [
        full.raw_task_configs(c) for c in full.connectors()]
