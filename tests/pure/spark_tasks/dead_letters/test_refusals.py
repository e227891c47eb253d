"""Letters and log lines; tests/interop/test_dead_letters.py holds them beside Java's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters import refusals as module
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import NO_RECORD, NONE_REFUSED, Original, Refusals, Refused, reported
from spark_tasks.errors import DataError, ToleranceExceededError
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.records.decode import decode
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.pipeline.errors.failures import FailedStage, Failure
from tests.golden.records import BATCHES


def original(offset=7, timestamp=5, headers=(("h", b"1"), ("h", None))):
    columns = [[offset], [timestamp], [b"k"], [b"v"], [list(headers)]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)]
    return Original("t", pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA), 3, offset)


FAILURE = Failure(FailedStage.VALUE_CONVERTER, "a.B", DataError("wrong"), "value of record t-3, offset 7: wrong", 0)


def sent(refusals):
    topics, found = [], []
    refusals.send(lambda topic, raw, _: (topics.append(topic), found.extend(raw.to_pylist())))
    return topics, found


def test_a_dead_letter_has_the_record_and_headers_about_its_error():
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True))
    refusals.add(FAILURE, original())
    topics, [letter] = sent(refusals)
    assert topics == ["dead"]
    assert (letter["key"], letter["value"], letter["timestamp"]) == (b"k", b"v", 5)
    pairs = [(pair["key"], pair["value"]) for pair in letter["headers"]]
    assert pairs[:2] == [("h", b"1"), ("h", None)]
    prefix = "__connect.errors."
    assert pairs[2:-1] == [
        (prefix + "topic", b"t"), (prefix + "partition", b"3"), (prefix + "offset", b"7"),
        (prefix + "connector.name", b"c"), (prefix + "task.id", b"2"), (prefix + "stage", b"VALUE_CONVERTER"),
        (prefix + "class.name", b"a.B"),
        (prefix + "exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        (prefix + "exception.message", b"wrong"),
    ]  # fmt: skip
    assert pairs[-1][0] == prefix + "exception.stacktrace"
    assert sent(refusals) == ([], []), "once"


@pytest.mark.parametrize(("offset", "kept"), [(None, ["h"]), (7, ["h", "heeler.letter.record"])])
def test_a_source_s_record_that_is_a_copy_of_a_letter_is_not_replayed_as_that_one(offset, kept):
    """A sink's letter names the place of its record instead, and is the whole record, as in Kafka Connect."""
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True))
    record = original(headers=(("h", b"1"), ("heeler.letter.record", b"another")))
    refusals.add(FAILURE, replace(record, offset=offset, origin=(("heeler.letter.produced", b"-1"),)))
    _, [letter] = sent(refusals)
    names = [pair["key"] for pair in letter["headers"] if not pair["key"].startswith("__connect")]
    assert names == [*kept, "heeler.letter.produced"]


def test_headers_say_only_what_is_known():
    """As Java's: a source's record has no partition and offset, an error without a text has a null message."""
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True))
    refusals.add(replace(FAILURE, error=ValueError()), Original("t", original().raw, None, None))
    [letter] = sent(refusals)[1]
    headers = {pair["key"].removeprefix("__connect.errors."): pair["value"] for pair in letter["headers"]}
    assert not headers.keys() & {"partition", "offset"}
    assert headers["exception.message"] is None


def test_a_dead_letter_contains_no_secret_of_its_connector():
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True, secrets=("s3cr3t-0815",)))
    error = DataError("cannot log in with s3cr3t-0815")
    refusals.add(Failure(FailedStage.TRANSFORMATION, "a.B", error, f"value: {error}", 0), original())
    [letter] = sent(refusals)[1]
    headers = {pair["key"]: pair["value"] for pair in letter["headers"]}
    assert headers["__connect.errors.exception.message"] == b"cannot log in with [hidden]"
    assert b"cannot log in with [hidden]" in headers["__connect.errors.exception.stacktrace"]
    assert b"s3cr3t-0815" not in b"".join(filter(None, headers.values()))


def test_an_error_of_any_size_makes_no_letter_and_no_line_too_large():
    """An error that quoted a large value took the letter's headers over the topic's limit, so that there was none."""
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True, log=True))
    error = DataError("begin" + "x" * 3_000_000 + "end")
    refusals.add(Failure(FailedStage.TRANSFORMATION, "a.B", error, f"value: {error}", 0), original())
    [letter] = sent(refusals)[1]
    assert sum(len(pair["value"] or b"") for pair in letter["headers"]) < 200_000
    said = {pair["key"]: pair["value"].decode() for pair in letter["headers"][2:]}["__connect.errors.exception.message"]
    assert (said[:5], said[-3:], "2,900,008 characters omitted" in said) == ("begin", "end", True)
    assert len(refusals.refused.lines[0]) < 20_000


def test_letters_of_any_total_size_are_written_in_parts():
    """A batch of Arrow with more than 2 GiB of headers cannot be created."""
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True))
    error = DataError("x" * 100_000)
    for offset in range(700, 0, -1):
        refusals.add(replace(FAILURE, error=error), original(offset))
    written = []
    refusals.send(lambda _topic, raw, _: written.append((raw.nbytes, raw.column("offset").to_pylist())))
    assert max(size for size, _ in written) <= 32 * 1024 * 1024 + 700 * 1000
    assert len(written) == 3
    assert [offset for _, offsets in written for offset in offsets] == list(range(1, 701))
    assert refusals.refused.letters == 700


def test_letters_are_full_when_they_need_much_memory_and_may_be_sent_in_parts_by_offset():
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True))
    error = DataError("x" * 100_000)
    offset = 0
    while not refusals.full:
        offset += 1
        refusals.add(replace(FAILURE, error=error), original(offset))
    assert 280 < offset < 330, "32 MiB"
    parts = []
    for before in (100, None, None):
        refusals.send(lambda _topic, raw, _: parts.append(raw.column("offset").to_pylist()), before)
        assert not refusals.full
    assert parts == [list(range(1, 100)), list(range(100, offset + 1))]


def test_there_are_enough_letters_for_a_batch_though_they_need_little_memory():
    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead"), 3)
    for offset in range(3):
        assert not refusals.enough
        refusals.add(FAILURE, original(offset))
    assert (refusals.enough, refusals.full) == (True, False)
    refusals.drop({0, 5})
    assert not refusals.enough


def test_an_error_without_a_text_is_a_bad_record_too():
    class WordlessError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    refusals = Refusals(ErrorHandling("c", 2, tolerant=True, queue="dead", with_headers=True, log=True))
    refusals.add(replace(FAILURE, error=WordlessError()), original())
    [letter] = sent(refusals)[1]
    headers = {pair["key"]: pair["value"] for pair in letter["headers"]}
    assert headers["__connect.errors.exception.message"] == b"its message cannot be shown"


def test_without_context_headers_a_dead_letter_is_the_original_record():
    refusals = Refusals(ErrorHandling(tolerant=True, queue="dead"))
    refusals.add(FAILURE, original())
    [letter] = sent(refusals)[1]
    assert [pair["key"] for pair in letter["headers"]] == ["h", "h"]


def test_with_tolerance_none_the_error_is_raised_and_the_record_has_a_letter():
    refusals = Refusals(ErrorHandling(queue="dead"))
    with pytest.raises(ToleranceExceededError, match="Tolerance exceeded in error handler: value of rec") as reported:
        refusals.add(FAILURE, original())
    assert reported.value.__cause__ is FAILURE.error
    assert len(sent(refusals)[1]) == 1


def test_bad_records_are_logged_as_by_java():
    refusals = Refusals(ErrorHandling("c", 0, tolerant=True, log=True, log_records=True))
    refusals.add(FAILURE, original())
    refusals.add(FAILURE, original(timestamp=-1))
    assert refusals.refused.count == 2
    assert refusals.refused.lines[0] == (
        "Error encountered in task c-0. Executing stage 'VALUE_CONVERTER' with class 'a.B', where consumed record is "
        "{topic='t', partition=3, offset=7, timestamp=5, timestampType=CreateTime}. "
        "org.apache.kafka.connect.errors.DataException: wrong"
    )
    assert "offset=7}." in refusals.refused.lines[1]
    refusals.add(FAILURE, original(timestamp=0))
    assert "offset=7, timestamp=0, timestampType=CreateTime}." in refusals.refused.lines[2]
    stamped = decode(BATCHES["append-time"]).records.slice(1, 1)
    refusals.add(FAILURE, replace(original(), raw=stamped))
    assert ", timestampType=LogAppendTime}." in refusals.refused.lines[3]
    quiet = Refusals(ErrorHandling(tolerant=True))
    quiet.add(FAILURE, original())
    assert quiet.refused.lines == ()
    assert sent(quiet) == ([], [])


def test_a_dead_letter_that_is_too_large_does_not_affect_others(caplog):
    refusals = Refusals(ErrorHandling(tolerant=True, queue="dead"))
    for offset in (1, 2, 3):
        refusals.add(FAILURE, original(offset))
    found = []

    def append(topic, raw, on_refusal):
        found.extend(raw.column("offset").to_pylist())
        on_refusal(1, RecordTooLargeError(1, 9, None, topic))

    refusals.send(append)
    assert found == [1, 2, 3]
    assert (refusals.refused.letters, refusals.refused.lost_letters) == (2, 1)
    assert "Could not produce message to dead letter queue. topic=dead" in caplog.text


def test_skipped_records_are_counted_once(caplog):
    def append(topic, raw, on_refusal):
        on_refusal(raw.column("value").to_pylist().index(b"large"), RecordTooLargeError(0, 9, None, topic))

    def large():
        one = original()
        raw = one.raw.set_column(3, "value", pa.array([b"large"], pa.binary()))
        return Original(one.topic, raw, one.partition, one.offset)

    refusals = Refusals(ErrorHandling(tolerant=True, queue="dead", log=True))
    refusals.add(FAILURE, original())
    refusals.add(FAILURE, large())
    refusals.add(Failure(FailedStage.TRANSFORMATION, "a.T", DataError("wrong"), "wrong", 0), original())
    refusals.send(append)
    metrics = TaskMetrics()
    refusals.refused.report_to(metrics, skipped=True)
    assert metrics.errors == {"convert": 2, "transform": 1}
    assert (metrics.skipped, metrics.logged, metrics.letters, metrics.lost_letters) == (3, 3, 2, 1)
    assert metrics.failures == 0
    raise_failure = TaskMetrics()
    refusals.refused.report_to(raise_failure, skipped=False)
    assert (raise_failure.errors, raise_failure.skipped, raise_failure.letters) == ({}, 0, 2)
    assert sum("Error encountered" in line for line in caplog.messages) == 6
    assert len(caplog.messages) == 7, "and one for the letter"


def test_very_many_bad_records_have_a_line_for_the_first_ones(caplog):
    refusals = Refusals(ErrorHandling(tolerant=True, log=True))
    for offset in range(1003):
        refusals.add(FAILURE, original(offset))
    refusals.refused.report_to(TaskMetrics(), skipped=True)
    assert caplog.messages[1000:] == ["3 more errors of the same split are not listed"]


@pytest.mark.parametrize(("options", "first", "later"), [
    ({}, False, False), ({"log": True}, False, False), ({"log_records": True}, False, False),
    ({"log": True, "log_records": True}, True, False), ({"queue": "dead"}, True, True),
])
def test_a_record_that_nobody_sees_is_not_needed(options, first, later):
    """To convert it for the log took most of the time of a bad record."""
    refusals = Refusals(ErrorHandling(tolerant=True, **options))
    assert refusals.needs_record is first
    for _ in range(1000):
        refusals.add(FAILURE, original() if refusals.needs_record else NO_RECORD)
    assert refusals.needs_record is later
    assert refusals.refused.count == 1000


@pytest.mark.parametrize("away", [False, True])
def test_the_bad_record_that_fails_a_source_is_logged_and_has_a_letter(monkeypatch, caplog, away):
    """The error takes the line to the worker, which logs it as the task's. It was missing there."""
    written = []

    def write(_counts, handling, raw):
        if away:
            raise KafkaUnavailableError("away")
        written.append((handling.queue, len(raw)))

    monkeypatch.setattr(module.LetterCounts, "write", write)
    refusals = Refusals(ErrorHandling("c", 3, queue="dead", log=True))
    with pytest.raises(ToleranceExceededError) as caught:
        refusals.add(FAILURE, original())
    refusals.end_source(caught.value)
    assert written == ([] if away else [("dead", 1)])
    assert "ERROR" not in caplog.text
    metrics = TaskMetrics()
    sent_on = pickle.loads(pickle.dumps(caught.value.with_traceback(None)))
    assert isinstance(sent_on, ToleranceExceededError)
    assert reported(sent_on, metrics) is sent_on
    assert "Error encountered in task c-3. Executing stage" in caplog.text
    assert ("Could not write to the dead letter queue: away" in caplog.text) is away


def test_a_report_of_nothing_is_sent_as_a_name() -> None:
    """Nearly all are; thousands a second are pickled."""
    nothing = Refusals(ErrorHandling()).refused
    pickled = pickle.dumps(nothing, pickle.HIGHEST_PROTOCOL)
    assert pickle.loads(pickled) is NONE_REFUSED
    assert len(pickled) < 80
    some = Refused(2, ("a line",), {"convert": 2}, 1, 1)
    assert pickle.loads(pickle.dumps(some)) == some
