"""A stream's offset to Connect's offsets and back."""

from __future__ import annotations

import json
from datetime import date
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import DataError
from spark_tasks.sources.stream_offsets import Changed, from_connect, plain, to_connect


class Plain:
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"at": 0}


class Partitioned(Plain):
    def to_source_offsets(self, offset: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [({"file": name}, {"position": at}) for name, at in offset.items()]

    def from_source_offsets(self, offsets: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
        return {p["file"]: o["position"] for p, o in offsets} or self.initialOffset()


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
OFFSETS = st.dictionaries(
    st.text(max_size=8) | st.just("stream"),
    st.recursive(SCALARS, lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5),
    min_size=1, max_size=4,
)


@given(OFFSETS, st.integers(0, 3))
def test_stream_offsets_round_trip_as_flat_maps(offset: dict[str, Any], task: int) -> None:
    written = to_connect(Plain(), task, offset)
    for partition, value in written:
        assert partition == {"task": task}
        assert all(isinstance(v, str | int | bool | None) for v in value.values())
    assert from_connect(Plain(), task, [({"task": 9}, {"at": 9}), *written]) == offset


def test_infinite_numbers_in_offsets_are_numbers_again() -> None:
    """Kafka Connect's JSON, which is that of the offsets topic, makes them texts."""
    written = to_connect(Plain(), 0, {"low": -inf, "high": 1.5})
    stored = [(partition, json.loads(json.dumps(offset), parse_constant=str)) for partition, offset in written]
    assert from_connect(Plain(), 0, stored) == {"low": -inf, "high": 1.5}


def test_without_committed_offsets_the_initial_offset_is_used() -> None:
    assert from_connect(Plain(), 1, []) == {"at": 0}
    assert from_connect(Plain(), 1, [({"task": 0}, {"at": 7})]) == {"at": 0}


def test_a_reader_may_define_its_own_source_partitions() -> None:
    written = to_connect(Partitioned(), 0, {"a": 1, "b": 2})
    assert written == [({"file": "a"}, {"position": 1}), ({"file": "b"}, {"position": 2})]
    assert from_connect(Partitioned(), 0, written) == {"a": 1, "b": 2}


def test_only_changed_offsets_are_written() -> None:
    changed = Changed()
    first = [({"file": "a"}, {"position": 1}), ({"file": "b"}, {"position": 2})]
    assert changed.of(first) == first
    changed.note(first)
    second = [({"file": "a"}, {"position": 1}), ({"file": "b"}, {"position": 3})]
    assert changed.of(second) == second[1:]


def test_the_removal_of_an_offset_is_a_change_also_of_one_that_this_task_has_not_written() -> None:
    changed = Changed()
    removal = [({"file": "a"}, None)]
    assert changed.of(removal) == removal
    changed.note(removal)
    assert changed.of(removal) == []
    assert changed.of([({"file": "a"}, {"position": 1})]) == [({"file": "a"}, {"position": 1})]


@pytest.mark.parametrize(("offset", "why"), [(5, "is a int; it must be a dict"), ({"at": date.min}, "JSON cannot")])
def test_the_error_for_an_offset_that_cannot_be_stored_says_why(offset: Any, why: str) -> None:
    with pytest.raises(DataError, match=f"an offset of Plain .*{why}"):
        plain(Plain(), offset)


def test_the_initial_offset_has_the_same_form_as_after_a_restart() -> None:
    class Numbered:
        def initialOffset(self) -> dict[Any, Any]:  # noqa: N802
            return {1: (0, 1)}

    start = from_connect(Numbered(), 0, [])
    assert start == {"1": [0, 1]}
    assert from_connect(Numbered(), 0, to_connect(Numbered(), 0, start)) == start
