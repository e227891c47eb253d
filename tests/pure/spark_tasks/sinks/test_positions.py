"""Where a sink task continues if the log ends before its position."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.watcher import EndWatcher
from spark_tasks.sinks.positions import Positions, SinkAheadError
from tests.rigs.support import wait_until

TP = ("t", 0)


class Watcher:
    """Knows the ends of the one partition, which begins at 3."""

    def __init__(self, high: int, stable: int) -> None:
        self.known = {"read_uncommitted": high, "read_committed": stable}
        self.requested: dict[Isolation, int] = {}  # the ends that brokers know by now
        self.cluster = SimpleNamespace(offsets_by_now=lambda *_, **__: {TP: 3})

    def ends(self, partitions: Any, isolation: Isolation) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.known[isolation])

    def refresh(self, partitions: Any, isolation: Isolation, **_: Any) -> dict[Any, int]:
        self.known |= self.requested
        return self.ends(partitions, isolation)

    def known_end(self, _: Any, isolation: Isolation) -> int:
        return self.known[isolation]

    def fetched(self, _: Any, offset: int) -> tuple[bytes, int]:
        return (b"data", self.held) if offset < self.held else (b"", -1)

    held = 70


def positions(watcher: Any, resume_from: Any = None, isolation: Isolation = "read_committed") -> Positions:
    made = Positions(watcher, isolation, "earliest", resume_from)
    made.assign(frozenset([TP]), lambda _: {TP: 60})
    return made


def test_a_position_inside_an_open_transaction_waits_for_its_end() -> None:
    """It was read while isolation.level was read_uncommitted."""
    watcher = Watcher(70, 50)
    reading = positions(watcher)
    assert reading.ranges(100) == []
    assert reading.at() == {TP: 60}
    watcher.known["read_committed"] = 70
    assert reading.ranges(100) == [(TP, 60, 70)]


def test_a_planned_range_is_extended_by_new_records_and_never_shortened() -> None:
    watcher = Watcher(70, 70)
    reading = positions(watcher)
    [(tp, start, end)] = reading.ranges(100)
    watcher.known["read_committed"] = 90
    assert reading.end_by_now(tp, start, end, 100) == 90
    assert reading.end_by_now(tp, start, end, 25) == 85, "a split has its limit"
    watcher.known["read_committed"] = 65
    assert reading.end_by_now(tp, start, end, 100) == 70, "the executor finds out that the log was cut off"
    watcher.known["read_committed"] = -1
    assert reading.end_by_now(tp, start, end, 100) == 70, "nobody knows where it ends"


def test_a_task_sleeps_while_a_transaction_is_open_before_its_position() -> None:
    log = Watcher(70, 50)
    cluster: Any = SimpleNamespace(offsets_by_now=lambda wanted, _, isolation, **__: log.ends(wanted, isolation))
    cluster.io = SimpleNamespace(start=lambda _: None)
    watcher = EndWatcher(cluster)
    reading = positions(watcher)
    assert reading.ranges(100) == []
    assert watcher.arm("task", reading.at(), "read_committed", lambda: None)
    log.known = {"read_uncommitted": 50, "read_committed": 50}
    watcher.refresh([TP], "read_uncommitted")
    assert not watcher.arm("task", reading.at(), "read_committed", lambda: None), "the log was cut off"


def test_a_truncated_log_is_read_according_to_the_reset_policy() -> None:
    reading = positions(Watcher(50, 50))
    reading.ranges(100)
    assert reading.ranges(100) == [(TP, 3, 50)]


def test_after_a_failed_batch_the_ends_are_requested() -> None:
    """The log may have lost records after this position, for which the batch waited in vain."""
    watcher = Watcher(70, 70)
    watcher.requested = {"read_committed": 65}
    reading = positions(watcher)
    assert reading.ranges(100) == [(TP, 60, 70)]
    reading.recheck()
    assert reading.ranges(100) == [(TP, 60, 65)]


def test_a_sink_that_stores_offsets_determines_the_position_also_after_a_failed_batch() -> None:
    """It may have written a part of that batch; what is committed does not matter."""
    held = 62
    reading = positions(Watcher(70, 70), lambda *_: held)
    assert reading.ranges(100) == [(TP, 62, 70)]
    held = 65
    assert reading.ranges(100) == [(TP, 62, 70)], "it is asked only if there is doubt"
    reading.recheck()
    assert reading.ranges(100) == [(TP, 65, 70)]
    empty = positions(Watcher(70, 70), lambda *_: None)
    assert empty.ranges(100) == [(TP, 60, 70)]
    empty.recheck()
    assert empty.ranges(100) == [(TP, 60, 70)]


def test_where_uncommitted_partitions_began_is_committed_with_the_first_batch() -> None:
    """Otherwise latest would skip what arrives in idle partitions while the task restarts or the group rebalances."""
    read, idle = ("t", 0), ("t", 1)
    watcher: Any = Watcher(50, 50)
    latest = {read: 70, idle: 50}
    watcher.cluster = SimpleNamespace(offsets_by_now=lambda wanted, *_, **__: {tp: latest[tp] for tp in wanted})
    reading = Positions(watcher, "read_committed", "latest", None)
    reading.assign(frozenset([read, idle]), lambda _: {read: 60})
    assert (reading.at(), reading.take_starts(), reading.take_starts()) == ({read: 60, idle: 50}, {idle: 50}, {})
    latest[idle] = 55  # records have arrived
    reading.forget()  # the commit was refused
    assert (reading.known(), reading.take_starts()) == ({read: 60, idle: 50}, {idle: 50})
    reading.assign(frozenset([read, idle]), lambda _: {read: 60})
    assert reading.at() == {read: 60, idle: 50}
    reading.assign(frozenset([read]), lambda _: {read: 60})
    assert reading.take_starts() == {}, "of a partition that another member may have"
    reading.assign(frozenset([read, idle]), lambda _: {read: 60})
    reading.out_of_range(*idle, 80, 90)
    assert (reading.at(), reading.take_starts()) == ({read: 60, idle: 90}, {idle: 90})


def test_reading_may_start_a_duration_ago(monkeypatch) -> None:
    """KIP-1106: at the first record that is not older; at the end if all are."""
    asked = []
    old, young = ("t", 0), ("t", 1)

    def offsets(partitions: Any, which: Any, isolation: Isolation, timeout_ms: float) -> dict[Any, int]:
        asked.append((partitions, which))
        return {tp: 50 if which == "latest" else -1 if tp == old else 7 for tp in partitions}

    monkeypatch.setattr("spark_tasks.sinks.positions.time.time", lambda: 10_000.5)
    watcher: Any = Watcher(50, 50)
    watcher.cluster = SimpleNamespace(offsets_by_now=offsets)
    reading = Positions(watcher, "read_committed", timedelta(hours=1), None)
    reading.assign(frozenset([old, young]), lambda _: {})
    assert reading.at() == {old: 50, young: 7}
    assert asked == [([old, young], 6_400_500), ([old], "latest")]
    reading.advance(young, 90)
    reading.out_of_range(*young, 3, 50)
    assert reading.at() == {old: 50, young: 7}


def test_partitions_without_a_leader_do_not_delay_the_others() -> None:
    led, lost, fresh = ("t", 0), ("t", 1), ("t", 2)
    watcher: Any = Watcher(70, 70)
    leads = {led}
    ends = watcher.ends
    watcher.ends = lambda wanted, isolation: ends([tp for tp in wanted if tp in leads], isolation)
    watcher.cluster = SimpleNamespace(
        offsets_by_now=lambda wanted, *_, **__: dict.fromkeys([tp for tp in wanted if tp in leads], 3))
    reading = Positions(watcher, "read_uncommitted", "earliest", None)
    reading.assign(frozenset([led, lost, fresh]), lambda wanted: {tp: 60 for tp in wanted if tp != fresh})
    assert reading.ranges(100) == [(led, 60, 70)]
    assert reading.take_starts() == {}
    leads |= {lost, fresh}
    wait_until(lambda: sorted(reading.ranges(100)) == [(led, 60, 70), (lost, 60, 70), (fresh, 3, 70)], 20, "the rest")
    assert reading.take_starts() == {fresh: 3}


def test_a_sink_whose_offsets_exceed_the_log_fails() -> None:
    """It would mistake the records of the new topic for those that it has already written."""
    def ahead(*_: Any) -> int:
        return 60

    with pytest.raises(SinkAheadError, match=r"holds t-0 up to offset 59, but its log ends before offset 50"):
        positions(Watcher(50, 50), ahead).ranges(100)
    behind = positions(Watcher(70, 70), lambda *_: 1)
    behind.out_of_range(*TP, 3, 70)
    assert behind.ranges(100) == [(TP, 3, 70)], "records that were deleted before it had them"


def test_the_lag_is_the_distance_to_the_end() -> None:
    watcher = Watcher(70, 70)
    reading = positions(watcher)
    assert reading.lags() == {TP: 0}, "nothing is known of the end"
    reading.ranges(5)
    assert reading.lags() == {TP: 10}
    reading.advance(TP, 65)
    assert reading.lags() == {TP: 5}
    watcher.known["read_committed"] = 90
    reading.refresh_ends()
    assert reading.lags() == {TP: 25}


def test_fetched_records_are_planned_without_a_request() -> None:
    reading = positions(Watcher(70, 70))
    assert reading.fetched_ranges(100) == [(TP, 60, 70, b"data")]
    assert reading.lags() == {TP: 10}
    reading.advance(TP, 70)
    assert reading.fetched_ranges(100) == []


@pytest.mark.parametrize(
    ("held", "end", "limit"),
    [(60, 70, 100), (65, 70, 100), (70, 70, 5), (70, 50, 100), (70, -1, 100), (80, 70, 100)],
    ids=["not fetched", "not all are fetched", "too many", "truncated", "unknown end", "after the end"],
)
def test_what_needs_more_than_the_fetched_records_is_not_planned(held: int, end: int, limit: int) -> None:
    watcher = Watcher(70, 70)
    reading = positions(watcher)
    watcher.held, watcher.known = held, {"read_committed": end}
    assert reading.fetched_ranges(limit) is None


def test_nothing_is_planned_while_a_position_is_not_known() -> None:
    reading = positions(Watcher(70, 70))
    reading.forget()
    assert reading.fetched_ranges(100) is None
    failed = positions(Watcher(70, 70), lambda *_: 60)
    failed.recheck()
    assert failed.fetched_ranges(100) is None
