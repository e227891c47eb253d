"""What fits into the record of a group."""

from __future__ import annotations

import pytest

from actors.assignment.codec import encode_assignment
from actors.assignment.protocol import Allocation, Assignment, Protocol
from actors.assignment.record_size import fitting
from storage.ids import ConnectorName, ConnectorTaskId, ItemId

A, B, LONG = (ConnectorName(name) for name in ("a", "b", "c" * 500))
ITEMS: tuple[ItemId, ...] = (A, LONG, *(ConnectorTaskId(name, n) for name in (A, B, LONG) for n in range(100)))


def size(items: frozenset[ItemId]) -> int:
    return len(encode_assignment(Assignment("", "", 0, Allocation.of(items)), Protocol.SESSIONED))


@pytest.mark.parametrize("excess", [-5, 0, 1, 4, 5, 399, 400, 401, 500, 1500, 2000, 10**6])
def test_what_remains_is_smaller_by_the_excess_and_not_empty(excess: int) -> None:
    kept = fitting(ITEMS, excess)
    assert kept
    assert kept <= set(ITEMS)
    saved = size(frozenset(ITEMS)) - size(kept)
    assert saved >= excess or len(kept) == 1
    assert excess > 0 or kept == set(ITEMS)
