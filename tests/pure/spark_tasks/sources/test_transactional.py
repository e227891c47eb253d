"""When a transaction of a source ends, with a coordinator that notes its requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import EndTxnRequest

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.sources.boundaries import Boundary, BoundaryKind
from spark_tasks.sources.settings import TransactionSettings
from spark_tasks.sources.transactional import Transactional
from tests.rigs.tasks import MemoryOffsets

HERE = ("t", 0)


class Coordinator:
    """In place of the cluster. `ends`: for each transaction that was ended whether it was committed."""

    def __init__(self) -> None:
        self.ends: list[bool] = []

    def init_producer_id(self, *_: Any, **__: Any) -> ProducerIdentity:
        return ProducerIdentity(7, 0, "id")

    def at_coordinator(self, _id: str, attempt: Any, *_: Any, **__: Any) -> None:
        asyncio.run(attempt(self.send))

    async def send(self, request: Any) -> Any:
        assert isinstance(request, EndTxnRequest)
        self.ends.append(request.committed)
        return SimpleNamespace(error_code=0)


def used(following: int, *added: tuple[str, int]) -> Any:
    return SimpleNamespace(sequences={HERE: following}, added=frozenset(added))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def delivery(coordinator: Any) -> Transactional:
    guard: Any = SimpleNamespace(fence=lambda: None, verify=lambda: None)
    made = Transactional(
        coordinator, MemoryOffsets(), guard, TransactionSettings("id", Boundary(BoundaryKind.POLL), {}))
    made.start()
    made.lanes(1)
    made.written([used(5, HERE)])
    made.commit([])
    assert coordinator.ends == [True]
    return made


def test_a_transaction_whose_records_were_all_refused_ends(delivery: Transactional, coordinator: Coordinator) -> None:
    """It stayed open until its timeout, if the offsets did not change either, and then the task was fenced."""
    [lane] = delivery.lanes(1)
    assert (lane.added, lane.likely) == (frozenset(), {HERE})
    delivery.written([used(5, HERE)])
    delivery.commit([])
    assert coordinator.ends == [True, True]


def test_a_batch_without_records_ends_no_transaction(delivery: Transactional, coordinator: Coordinator) -> None:
    delivery.lanes(1)
    delivery.written([used(5)])
    delivery.commit([])
    assert coordinator.ends == [True]


def test_partitions_that_are_in_an_open_transaction_are_not_added_again(delivery: Transactional) -> None:
    delivery.lanes(1)
    delivery.written([used(5, HERE, ("t", 1))])
    [lane] = delivery.lanes(1)
    assert lane.added == {HERE, ("t", 1)}


def test_nothing_is_appended_to_a_transaction_that_was_given_up(
    delivery: Transactional, coordinator: Coordinator
) -> None:
    """Its end discards the records."""
    delivery.lanes(1)
    delivery.abort()
    with pytest.raises(ConnectError, match="given up"):
        delivery.lanes(1)
    delivery.recover()
    assert coordinator.ends == [True, False]
    assert len(delivery.lanes(1)) == 1


def test_offsets_are_dropped_with_the_records_of_a_transaction_that_is_aborted(coordinator: Any) -> None:
    """They were committed with the next one, whose records come after them."""
    guard: Any = SimpleNamespace(fence=lambda: None, verify=lambda: None)
    boundary = Boundary(BoundaryKind.INTERVAL, 600_000)
    made = Transactional(coordinator, MemoryOffsets(), guard, TransactionSettings("id", boundary, {}))
    made.start()
    made.abort()
    made.commit([({"p": 1}, {"n": 7})])
    made.recover()
    assert (coordinator.ends, made.open) == ([False], False)
