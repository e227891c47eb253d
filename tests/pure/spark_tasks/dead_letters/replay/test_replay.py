"""Which dead letters a replay selects, how they are replayed, and how its progress is kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters import MARKER, PREFIX, DeadLetters, runs
from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.dead_letters.replay.letter_range import LetterRange, ReplayCounts, count_kind
from spark_tasks.dead_letters.replay.replay import Replay, ResumeFrom
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets, ScatteredError
from spark_tasks.dead_letters.replay.request import ReplayOrder
from spark_tasks.errors import ConfigError, ConnectError

NOTHING = np.empty(0, np.int64)


Own = tuple[tuple[str, bytes | None], ...]


def letter(at: int, *, time: int = 0, own: Own = (), **said: Any) -> dict[str, Any]:
    """A record of a queue; `said`: what Kafka Connect's headers say."""
    context = {"topic": "orders", "partition": 0, "offset": at, "connector.name": "c", "stage": "VALUE_CONVERTER",
               "exception.class.name": "a.DataException", "exception.message": "no JSON", **said}
    pairs = [(PREFIX + name, None if value is None else value if isinstance(value, bytes) else str(value).encode())
             for name, value in context.items()]
    return {"offset": at, "timestamp": time, "key": b"k", "value": b"v%d" % at, "headers": [*own, *pairs]}


def letters(*rows: dict[str, Any]) -> DeadLetters:
    columns = {f.name: pa.array([row[f.name] for row in rows], f.type) for f in RAW_SCHEMA}
    return DeadLetters.of(pa.RecordBatch.from_pydict(columns, schema=RAW_SCHEMA))


def chosen(order: dict[str, Any], *rows: dict[str, Any]) -> list[int]:
    found = letters(*rows)
    return found.raw.column("offset").filter(pa.array(ReplayOrder.of(order).takes(found))).to_pylist()


# ---------------------------------------------------------------- letters
def test_the_origin_of_a_dead_letter_is_read_from_its_last_headers() -> None:
    found = letters(letter(7, partition=3, offset=99), letter(8, own=((PREFIX + "topic", b"old"),)))
    assert found.topic.to_pylist() == ["orders", "orders"], "the newest of several counts"
    assert (found.partition.to_pylist(), found.offset.to_pylist()) == ([3, 0], [99, 8])
    assert found.whole().all()


@pytest.mark.parametrize("said", [
    {"topic": None}, {"connector.name": None}, {"partition": b"x"}, {"partition": b"-1"}, {"offset": b""},
    {"partition": 2**31}, {"offset": 2**64}, {"offset": "\u0661"}, {"partition": None},
])
def test_a_dead_letter_without_a_valid_origin_is_incomplete(said: dict[str, Any]) -> None:
    assert letters(letter(1), letter(2, **said), letter(3)).whole().tolist() == [True, False, True]


def test_undecodable_and_missing_headers_are_tolerated() -> None:
    bare = {**letter(1), "headers": None}
    found = letters(bare, letter(2, stage=b"\xff", **{"exception.message": None}), {**bare, "headers": []})
    assert found.whole().tolist() == [False, True, False]
    assert found.stage.to_pylist() == [None, "\ufffd", None]
    assert letters().whole().tolist() == []


def test_a_replayed_record_is_unchanged_except_for_its_marker() -> None:
    own = (("a", b"1"), ("a", None))
    found = letters(letter(5, offset=50, own=own, time=123), letter(6, offset=51, own=((MARKER, b"q-0-1"),)))
    [run] = runs(found, np.array([0, 1]), lambda at: b"q-0-%d" % at, ordered=False)
    assert (run.topic, run.partition, run.letters.tolist()) == ("orders", 0, [5, 6])
    first, second = run.raw.to_pylist()
    assert first == {"offset": 50, "timestamp": 123, "key": b"k", "value": b"v5", "headers": [
        {"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": MARKER, "value": b"q-0-5"}]}
    assert second["headers"] == [{"key": MARKER, "value": b"q-0-6"}]
    [bare] = runs(found, np.array([1]), lambda _: None, ordered=False)
    assert bare.raw.column("headers").to_pylist() == [None]


PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=30)


@given(PLACES, st.booleans())
def test_runs_contain_every_letter_once_with_ascending_offsets(
    places: list[tuple[str, int, int]], ordered: bool
) -> None:
    found = letters(*(letter(n, topic=t, partition=p, offset=o) for n, (t, p, o) in enumerate(places)))
    made = runs(found, np.arange(len(places)), lambda _: None, ordered=ordered)
    reported = [(n, (run.topic, run.partition, o)) for run in made
            for n, o in zip(run.letters.tolist(), run.raw.column("offset").to_pylist(), strict=True)]
    assert sorted(reported) == list(enumerate(places))
    assert all((np.diff(run.raw.column("offset").to_numpy()) > 0).all() for run in made)
    if ordered:
        assert [n for n, _ in reported] == list(range(len(places)))
    for place in set(places):  # twice the same record: in the order of the queue
        twice = [n for n, at in reported if at == place]
        assert twice == sorted(twice)


# ---------------------------------------------------------------- orders
ROWS = (letter(0, time=1000), letter(1, time=2000, topic="users", stage="TRANSFORMATION"),
        letter(2, time=3000, **{"exception.class.name": "b.Other", "exception.message": None}))


@pytest.mark.parametrize(("chose", "found"), [
    ({}, [0, 1, 2]), ({"topics": ["users", "x"]}, [1]), ({"stages": ["TRANSFORMATION"]}, [1]),
    ({"exception": "^b\\."}, [2]), ({"message": "JSON$"}, [0, 1]), ({"message": "(a+)+$"}, []),
    ({"from": 2000}, [1, 2]), ({"to": 2000}, [0]), ({"from": "1970-01-01T00:00:01Z", "to": "1970-01-01T00:00:02"}, [0]),
    ({"first_offset": 1, "last_offset": 1}, [1]), ({"topics": ["orders"], "message": "JSON", "first_offset": 1}, []),
    ({"topics": None, "partition": 5}, [0, 1, 2]), ({"last_offset": 2**63 - 1}, [0, 1, 2]),
])
def test_filters_select_dead_letters(chose: dict[str, Any], found: list[int]) -> None:
    assert chosen({"filter": chose}, *ROWS) == found


@pytest.mark.parametrize(("chose", "in_order"), [
    ({}, True), ({"last_offset": 7}, True), ({"partition": 1}, True), ({"first_offset": 0}, True),
    ({"first_offset": 1}, False), ({"topics": ["a"]}, False), ({"stages": ["TRANSFORMATION"]}, False),
    ({"exception": "a"}, False), ({"message": "a"}, False), ({"from": 0}, False), ({"to": 1}, False),
])
def test_a_filter_that_leaves_letters_between_others_is_known(chose: dict[str, Any], in_order: bool) -> None:
    """A sink that stores offsets itself would never get them."""
    assert ReplayOrder.of({"filter": chose, "limit": 5}).in_order is in_order


@pytest.mark.parametrize(("body", "words"), [
    ({"dryrun": True}, "unknown member dryrun"), ({"dry_run": "yes"}, "dry_run must be true or false"),
    ({"keeps_no_offsets": 1}, "keeps_no_offsets must be true or false"),
    ({"limit": 0}, "limit must be"), ({"limit": True}, "limit must be"), ({"limit": 1.5}, "limit must be"),
    ({"limit": 2**63}, "limit must be"), ({"filter": []}, "filter must be an object"),
    ({"filter": {"topic": ["a"]}}, "unknown member topic"), ({"filter": {"topics": "a"}}, "topics must be a list"),
    ({"filter": {"topics": []}}, "topics must be a list"), ({"filter": {"topics": [1]}}, "topics must be a list"),
    ({"filter": {"stages": ["PUT"]}}, "the unknown stage PUT; valid"), ({"filter": {"exception": "("}}, "not a valid"),
    ({"filter": {"exception": "a{1001}"}}, "not a valid"), ({"filter": {"message": "x" * 1001}}, "at most 1000"),
    ({"filter": {"message": ""}}, "at most 1000"), ({"filter": {"message": "\ud800"}}, "surrogate"),
    ({"filter": {"from": "today"}}, "from must be a time"), ({"filter": {"to": -1}}, "to must be"),
    ({"filter": {"from": 10, "to": 10}}, r"to \(10\) must be later than from \(10\)"),
    ({"filter": {"first_offset": 5, "last_offset": 3}}, r"last_offset \(3\) must not be less than first_offset \(5\)"),
    ({"filter": {"from": {}}}, "from must be"), ({"filter": {"partition": "0"}}, "partition must be"),
])
def test_invalid_replay_orders_are_refused(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ReplayOrder.of(body)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3), max_leaves=5)
KEYS = st.sampled_from(["topics", "stages", "exception", "message", "from", "to", "partition", "first_offset", "x"])


@given(st.dictionaries(st.sampled_from(["dry_run", "values", "limit", "keeps_no_offsets", "y"]), JSON),
       st.dictionaries(KEYS, JSON) | JSON)
def test_any_order_is_accepted_or_refused_with_a_message(body: dict[str, Any], chose: Any) -> None:
    try:
        order = ReplayOrder.of({**body, "filter": chose})
    except ConfigError:
        return
    order.takes(letters(*ROWS))


# ---------------------------------------------------------------- what is done
OFFSETS = st.integers(0, 60)
STEPS = st.lists(st.tuples(OFFSETS, OFFSETS, st.sets(OFFSETS, max_size=20)), max_size=6)


@given(OFFSETS, STEPS)
def test_replayed_offsets_survive_the_metadata(low: int, steps: list[tuple[int, int, set[int]]]) -> None:
    done, known = ReplayedOffsets.of(low, ""), set(range(low))
    for start, size, left in steps:
        missing = sorted(n for n in left if start <= n < start + size)
        done = done.after(start, start + size, np.array(missing, np.int64))
        known |= set(range(start, start + size)) - set(missing)
    every = np.arange(130)
    assert set(every[done.covers(every)].tolist()) == known
    assert ReplayedOffsets.of(done.low, done.metadata()) == done
    edges = [done.low, *(edge for span in done.spans for edge in span)]
    assert edges == sorted(set(edges)), "no span is empty or touches another one: metadata has little room"
    assert done.low == next(n for n in range(200) if n not in known), "what is left of the queue begins there"


def test_without_a_filter_the_metadata_is_empty() -> None:
    assert ReplayedOffsets().after(0, 10**12, NOTHING) == ReplayedOffsets(10**12)
    assert ReplayedOffsets(10**12).metadata() == ""


@pytest.mark.parametrize("note", ["", "of somebody else", "heeler-replay:", "heeler-replay:!!", "heeler-replay:AAAA",
                                  "heeler-replay:eJz7/////w8ABfkB/g=="])
def test_invalid_metadata_is_ignored(note: str) -> None:
    assert ReplayedOffsets.of(5, note) == ReplayedOffsets(5)


@given(st.sets(st.integers(0, 2**63 - 1), min_size=3, max_size=31))
@example({0, 128, 128 + 128**2})
def test_offsets_of_any_size_survive_the_metadata(edges: set[int]) -> None:
    low, *others = sorted(edges)
    done = ReplayedOffsets(low, tuple(zip(others[::2], others[1::2], strict=False)))
    assert ReplayedOffsets.of(low, done.metadata()) == done


def test_offsets_that_kafka_does_not_have_are_ignored() -> None:
    largest = ReplayedOffsets(5, ((2**63 - 2, 2**63 - 1),))
    assert ReplayedOffsets.of(5, largest.metadata()) == largest
    assert ReplayedOffsets.of(5, ReplayedOffsets(5, ((2**63 - 1, 2**63),)).metadata()) == ReplayedOffsets(5)


def test_metadata_that_is_too_long_for_brokers_is_refused() -> None:
    chance = np.random.default_rng(7)
    left = np.flatnonzero(chance.random(100_000) < 0.5)
    with pytest.raises(ScatteredError, match="too scattered"):
        ReplayedOffsets().after(1, 100_000, left).metadata()
    some = ReplayedOffsets().after(1, 100_000, left[::500])
    assert len(some.metadata()) < 4096


# ---------------------------------------------------------------- a queue
class OneQueue:
    """In place of Kafka: the queue has three letters."""

    def partitions(self, *_: Any, **__: Any) -> list[int]:
        return [0]

    def offsets(self, places: list[tuple[str, int]], which: str, *_: Any, **__: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 0 if which == "earliest" else 3)


def begun(committed: tuple[int, str], resume_from: ResumeFrom | None = None) -> LetterRange | None:
    """The first range of a replay of it."""
    cluster: Any = OneQueue()
    replay = Replay(ErrorHandling("c", tolerant=True, queue="q"), {}, None, resume_from)
    return replay.next_range(cluster, lambda _: committed)


@pytest.mark.parametrize("committed", [(4, ""), (5000, ""), (5000, ReplayedOffsets(5000, ((6000, 7000),)).metadata())])
def test_all_letters_of_a_queue_that_was_created_again_are_new(
    caplog: pytest.LogCaptureFixture, committed: tuple[int, str]
) -> None:
    part = begun(committed)
    assert part is not None
    assert (part.start, part.end, part.done) == (0, 3, ReplayedOffsets())
    assert f"up to offset {committed[0] - 1} of q-0, but its log ends before offset 3" in caplog.text


def test_progress_at_the_end_of_the_queue_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    assert begun((3, "")) is None
    assert not caplog.records


def test_a_sink_that_holds_more_letters_than_the_queue_has_replays_none() -> None:
    """It would take the new letters for those that it has."""
    with pytest.raises(ConnectError, match="up to offset 3, but its log ends before offset 3: the dead letter queue"):
        begun((4, ""), lambda *_: 4)
    part = begun((2, ""), lambda *_: 3)
    assert part is not None
    assert part.resume == 3


# ---------------------------------------------------------------- what the log says
@pytest.mark.parametrize(("body", "words"), [
    ({"dry_run": True, "values": True},
     "c finished (dry run): 3 letters of q read, 2 would be replayed, 0 refused again, 1 excluded by the filter"),
    ({}, "c finished: 3 letters of q read, 2 replayed, 1 refused again, 1 excluded by the filter, 0 not replayable"),
])
def test_the_log_has_the_counts_of_a_replay_and_nothing_of_records(
    caplog: pytest.LogCaptureFixture, body: dict[str, Any], words: str
) -> None:
    caplog.set_level("INFO")
    replay = Replay(ErrorHandling("c", tolerant=True, queue="q"), body, None, None)
    cluster: Any = OneQueue()
    part = replay.next_range(cluster, lambda _: None)
    assert part is not None
    refused = Refused(0 if body else 1)
    result = ReplayCounts(3, ReplayedOffsets(), 3, 2, 1, samples=({"value": "SECRET"},))
    replay.add_result(part, result, refused)
    assert replay.next_range(cluster, lambda _: None) is None
    [line] = caplog.messages
    assert words in line
    assert "SECRET" not in line


def test_the_first_hundred_kinds_are_counted_separately_and_the_others_together() -> None:
    counts: Counter[str] = Counter()
    for _ in range(2):
        for number in range(105):
            count_kind(counts, f"topic-{number}", 1)
    assert counts == {**{f"topic-{number}": 2 for number in range(100)}, "(others)": 10}
    merged = Counter({"mine": 1})
    for kind, count in counts.items():
        count_kind(merged, kind, count)
    assert len(merged) == 101
    assert merged.total() == 211
