"""Source offsets: any spelling of keys, any order of the topic's partitions, compaction."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storage.ids import ConnectorName
from storage.log.java_json import dumps
from storage.log.record import LogRecord
from storage.offsets.fold import OffsetState, fold, records_for
from storage.offsets.records import identity
from tests.rigs.memory_log import MemoryTopic

C = ConnectorName("c")
PRIMITIVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3) | st.floats(
    allow_nan=False, allow_infinity=False)
PARTITIONS = st.dictionaries(st.sampled_from("abc"), PRIMITIVES, min_size=1, max_size=3)
OFFSETS = st.none() | st.dictionaries(st.sampled_from("xy"), PRIMITIVES, max_size=2)


def spelled(partition: dict[str, Any], seed: int) -> bytes:
    fields = list(partition.items())
    random.Random(seed).shuffle(fields)
    return dumps(["c", dict(fields)])


@given(PARTITIONS, st.integers(0, 9), st.integers(0, 9))
def test_the_order_of_fields_does_not_matter(partition: dict[str, Any], one: int, two: int) -> None:
    keys = [json.loads(spelled(partition, seed))[1] for seed in (one, two)]
    assert identity(keys[0]) == identity(keys[1]) == identity(partition)


@given(st.lists(st.tuples(PARTITIONS, st.integers(0, 3), OFFSETS), max_size=20), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_the_order_of_topic_partitions(
    writes: list[tuple[dict[str, Any], int, dict[str, Any] | None]], chance: random.Random
) -> None:
    topic = MemoryTopic("offsets", partitions=3)
    clock = iter(range(10**6))
    records = []
    for partition, seed, offset in writes:
        key = spelled(partition, seed)
        [at] = topic.append([(key, None if offset is None else dumps(offset))])
        records.append(LogRecord(at.partition, at.offset, next(clock), key, None if offset is None else dumps(offset)))
    by_partition = [[r for r in records if r.partition == n] for n in range(3)]
    mixed = []
    while any(by_partition):
        mixed.append(chance.choice([p for p in by_partition if p]).pop(0))
    assert fold(OffsetState(), mixed).offsets(C) == fold(OffsetState(), records).offsets(C)


@given(st.lists(st.lists(st.tuples(PARTITIONS, OFFSETS), max_size=4), max_size=8), st.booleans())
def test_what_is_written_is_read_and_survives_compaction(
    commits: list[list[tuple[dict[str, Any], dict[str, Any] | None]]], keep_tombstones: bool
) -> None:
    clock = iter(range(10**6))
    topic = MemoryTopic("offsets", partitions=2, clock=lambda: next(clock))
    state, expected, seen = OffsetState(), {}, 0
    for commit in commits:
        topic.append(records_for(state, C, commit))
        everything = sorted(topic.records(), key=lambda r: r.timestamp)
        state, seen = fold(state, everything[seen:]), len(everything)
        expected.update((identity(p), o) for p, o in commit)
    wanted = {name: offset for name, offset in expected.items() if offset is not None}
    assert {name: offset for name, (_, offset) in state.offsets(C).items()} == wanted
    topic.compact(keep_tombstones)
    compacted = fold(OffsetState(), topic.records())
    assert {name: offset for name, (_, offset) in compacted.offsets(C).items()} == wanted
    topic.append(records_for(compacted, C, [(p, None) for p in compacted.partitions(C)]))
    assert fold(OffsetState(), topic.records()).offsets(C) == {}
