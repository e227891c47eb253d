"""Source offsets are matched by meaning and written under the bytes that the topic knows."""

from __future__ import annotations

import pytest

from storage.ids import ConnectorName
from storage.log.record import LogRecord
from storage.offsets.fold import OffsetState, fold, merge, records_for
from tests.rigs.internal_records import log_of

C = ConnectorName("c")
AB, BA = b'["c",{"a":1,"b":"x"}]', b'["c",{"b":"x","a":1}]'


def state_of(*pairs: tuple[bytes, bytes | None]) -> OffsetState:
    return fold(OffsetState(), log_of(pairs))


def test_offsets_are_kept_by_connector() -> None:
    state = state_of((AB, b'{"pos":1}'), (b'["d",{"f":"x"}]', b'{"pos":2}'), (AB, b'{"pos":3}'))
    assert list(state.offsets(C).values()) == [({"a": 1, "b": "x"}, {"pos": 3})]
    assert list(state.offsets(ConnectorName("d")).values()) == [({"f": "x"}, {"pos": 2})]
    assert state.offsets(ConnectorName("e")) == {}


def test_the_key_bytes_of_existing_records_are_reused() -> None:
    state = state_of((b'[ "c" , {"a" : 1,"b":"x"}]', b'{"pos":1}'))
    assert records_for(state, C, [({"b": "x", "a": 1}, {"pos": 2})]) == [(b'[ "c" , {"a" : 1,"b":"x"}]', b'{"pos":2}')]
    gone = fold(state, [LogRecord(0, 9, 9, b'[ "c" , {"a" : 1,"b":"x"}]', None)])
    assert gone.offsets(C) == {}
    assert records_for(gone, C, [({"b": "x", "a": 1}, {"pos": 2})])[0][0] == b'[ "c" , {"a" : 1,"b":"x"}]'


def test_new_keys_are_written_as_given() -> None:
    assert records_for(OffsetState(), C, [({"b": "x", "a": 1.0}, {"p": 1e10}), ({"z": None}, None)]) == [
        (b'["c",{"b":"x","a":1.0}]', b'{"p":1.0E10}'),
        (b'["c",{"z":null}]', None),
    ]


def test_the_last_of_equal_partitions_is_written() -> None:
    assert records_for(OffsetState(), C, [({"a": 1}, {"p": 1}), ({"a": 1}, None)]) == [(b'["c",{"a":1}]', None)]


def test_partitions_with_different_types_are_different() -> None:
    state = state_of((b'["c",{"a":1}]', b"1"), (b'["c",{"a":1.0}]', b"1"), (b'["c",{"a":true}]', b"1"),
                     (b'["c",{"a":"1"}]', b"1"))
    assert len(state.connectors[C]) == 4


@pytest.mark.parametrize("newest", [b'{"at":"new"}', None])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_a_key_that_has_moved_to_a_new_partition_has_its_newest_value(
    order: tuple[int, ...], newest: bytes | None
) -> None:
    # The topic has got more partitions. Within one of them the offset decides, whatever the clocks of the writers.
    records = [LogRecord(0, 5, 3000, AB, b'{"at":"first"}'), LogRecord(0, 6, 1000, AB, b'{"at":"old"}'),
               LogRecord(1, 0, 2000, AB, newest)]
    state = fold(OffsetState(), [records[n] for n in order])
    assert [offset for _, offset in state.offsets(C).values()] == ([] if newest is None else [{"at": "new"}])


def test_earlier_states_do_not_change() -> None:
    before = state_of((AB, b'{"p":1}'))
    after = fold(before, [LogRecord(0, 9, 9, AB, b'{"p":2}')])
    assert [[offset for _, offset in s.offsets(C).values()] for s in (before, after)] == [[{"p": 1}], [{"p": 2}]]


@pytest.mark.parametrize("first", [AB, BA])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_partitions_with_different_key_bytes_are_merged(first: bytes, order: tuple[int, int]) -> None:
    # They lie in different partitions of the topic, so they are read in any order: the timestamp decides.
    second = BA if first == AB else AB
    both = [LogRecord(0, 50, 100, first, b'{"p":1}'), LogRecord(1, 3, 200, second, b'{"p":2}')]
    state = fold(OffsetState(), [both[n] for n in order])
    assert [offset for _, offset in state.offsets(C).values()] == [{"p": 2}]
    written = records_for(state, C, [({"a": 1, "b": "x"}, {"p": 3})])
    assert written == [(first, None), (second, b'{"p":3}')]
    state = fold(state, [LogRecord(n, 100, 300, k, v) for n, (k, v) in enumerate(written)])
    assert records_for(state, C, [({"a": 1, "b": "x"}, None)]) == [(second, None)]


def test_a_tombstone_removes_only_its_own_key() -> None:
    state = state_of((AB, b'{"p":1}'), (BA, b'{"p":2}'))
    assert [o for _, o in fold(state, [LogRecord(0, 9, 9, BA, None)]).offsets(C).values()] == [{"p": 1}]
    assert [o for _, o in fold(state, [LogRecord(0, 9, 9, AB, None)]).offsets(C).values()] == [{"p": 2}]


@pytest.mark.parametrize(
    "key", [None, b"", b"{", b"null", b"{}", b'"c"', b'["c"]', b'["c",{},1]', b"[1,{}]", b'["c",null]', b'["c",[]]']
)
def test_malformed_keys_are_ignored(key: bytes | None) -> None:
    assert fold(OffsetState(), [LogRecord(0, 0, 0, key, b"{}")]) == OffsetState()


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"5", b"null"])
def test_values_that_are_not_offsets_are_skipped_but_can_be_reset(value: bytes) -> None:
    state = state_of((AB, value), (b'["c",{"z":1}]', b'{"p":1}'))
    assert list(state.offsets(C).values()) == [({"z": 1}, {"p": 1})]
    assert state.partitions(C) == [{"a": 1, "b": "x"}, {"z": 1}]


def test_a_connectors_own_topic_takes_precedence() -> None:
    worker = state_of((AB, b'{"p":1}'), (b'["c",{"w":1}]', b'{"p":2}'))
    own = state_of((BA, b'{"p":10}'), (b'["c",{"o":1}]', b'{"p":20}'), (b'["c",{"w":1}]', None))
    assert merge(worker, own, C) == [({"b": "x", "a": 1}, {"p": 10}), ({"w": 1}, {"p": 2}), ({"o": 1}, {"p": 20})]


def test_older_snapshots_do_not_change() -> None:
    before = state_of((AB, b'{"p":1}'))
    fold(before, log_of([(AB, b'{"p":2}'), (b'["c",{"z":1}]', b'{"p":1}')]))
    assert list(before.offsets(C).values()) == [({"a": 1, "b": "x"}, {"p": 1})]


def test_values_that_json_cannot_represent_are_refused() -> None:
    with pytest.raises(TypeError):
        records_for(OffsetState(), C, [({"a": object()}, {})])
