"""Source tasks against a real broker; executors are threads here, Spark is in test_engine and the worker's tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.spark.context import SparkLostError
from tests.rigs.support import Sleeper, wait_until
from tests.rigs.task_rigs import SourceRig

pytestmark = pytest.mark.integration

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def rig(source: SourceRig) -> SourceRig:
    return source


def numbers(count: int, start: int = 0, stream: int = 0) -> list[str]:
    return [f"{stream}:{n}" for n in range(start, start + count)]


def test_a_source_reads_in_order_writes_offsets_and_resumes(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(2500)
    loop = rig.start()
    loop.await_records(2500)
    loop.stop()
    assert rig.records() == {0: numbers(2500)}
    assert rig.offsets.written == [({"stream": "0"}, {"at": at}) for at in (1000, 2000, 2500)]
    assert rig.notes.recorded("commits") == [[{"0": at}] for at in (1000, 2000, 2500)]
    assert set(rig.used) == {rig.topic}
    rig.limit(2600)
    rig.start().await_records(100)
    assert rig.records() == {0: numbers(2600)}


def test_new_data_is_found_promptly_and_an_idle_task_runs_no_jobs(rig: SourceRig) -> None:
    rig.make_topic(1)
    loop = rig.start()
    wait_until(lambda: loop.runs > 10)
    assert rig.engine.jobs == 0
    for n in range(10):
        rig.limit(n + 1)
        loop.await_records(n + 1, within=5)
    assert rig.engine.jobs == 10


def test_source_partitions_run_in_parallel_and_each_keeps_its_order(rig: SourceRig) -> None:
    rig.make_topic(3)
    rig.limit(3000)
    loop = rig.start(streams="4", rows="500")
    loop.await_records(12_000)
    for values in rig.records().values():
        for stream in range(4):
            mine = [v for v in values if v.startswith(f"{stream}:")]
            assert mine in ([], numbers(3000, stream=stream)), "one key is in one partition, in order"
    assert rig.offsets.read() == [({"stream": str(n)}, {"at": 3000}) for n in range(4)]


@pytest.mark.parametrize("how", ["reader", "spark"])
def test_a_lost_batch_is_repeated_from_the_last_offsets(rig: SourceRig, how: str) -> None:
    rig.make_topic(1)
    rig.limit(3000)
    if how == "spark":
        rig.engine.lose.append(SparkLostError("the executor died"))
    rig.start(retry="busy" if how == "reader" else "").await_records(3000)
    assert rig.records() == {0: numbers(3000)}, "nothing had been written before the failure"


def test_a_batch_interrupted_by_a_suspension_is_repeated_alone(rig: SourceRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker may run the task by then: the next batch must not be written twice, and no offsets are written."""
    sleeper = Sleeper(monkeypatch, "spark_tasks.sources.delivery")
    rig.worker["session.timeout.ms"] = "60000"
    rig.make_topic(1)
    rig.limit(3000)
    rig.engine.free.clear()
    loop = rig.start()
    wait_until(lambda: rig.engine.jobs == 1)
    sleeper.wake()
    sleeper.pulse.beat()
    rig.engine.free.set()
    loop.await_records(3000)
    assert rig.records() == {0: numbers(1000) + numbers(3000)}
    assert rig.offsets.written == [({"stream": "0"}, {"at": at}) for at in (1000, 2000, 3000)]


def test_a_failure_that_is_not_retriable_fails_the_task(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(10)
    error = rig.start(fail="no permission").await_error()
    assert str(error) == "no permission"
    assert "in read" in str(error.__cause__), "the executor's trace is in the task's"
    assert rig.offsets.written == []
    assert rig.values() == []


def test_a_timeout_of_the_reader_fails_the_task(rig: SourceRig) -> None:
    """concurrent.futures raises the same class when a batch has not ended."""
    rig.make_topic(1)
    rig.limit(10)
    assert str(rig.start(late="the service is slow").await_error()) == "the service is slow"


def test_a_failing_plan_fails_the_task(rig: SourceRig) -> None:
    assert str(rig.start(**{"fail.latest": "gone"}).await_error()) == "gone"


def test_offsets_that_cannot_be_written_fail_the_task_and_the_batch_is_repeated(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(10)
    write, rig.offsets.begin_write = rig.offsets.begin_write, _refuse
    error = rig.start().await_error()
    assert str(error) == "the offsets topic is gone"
    assert rig.metrics.commits == {"done": 0, "failed": 1, "skipped": 0}
    rig.offsets.begin_write = write
    rig.start().await_records(10)
    assert rig.records() == {0: numbers(10) * 2}, "at least once"


def _refuse(_offsets: Any) -> None:
    raise ConnectError("the offsets topic is gone")


@pytest.mark.parametrize("close", [False, True])
def test_offsets_that_cannot_be_written_for_a_while_are_written_later_without_their_records(
    rig: SourceRig, close: bool
) -> None:
    """As in Kafka Connect; the batch was repeated. The last attempt is made when the task stops."""
    rig.make_topic(1)
    rig.limit(2500)
    refusals = []

    def refuse(_offsets: Any) -> None:
        refusals.append(None)
        raise RetriableError("the offsets topic has no leader")

    write, rig.offsets.begin_write = rig.offsets.begin_write, refuse
    loop = rig.start()
    wait_until(lambda: len(refusals) > 2, 60, "some attempts")
    assert rig.offsets.written == []
    assert len(rig.values()) <= 2000, "one batch, and perhaps the next one, which ran meanwhile"
    rig.offsets.begin_write = write
    if close:
        loop.stop()
    wait_until(lambda: rig.offsets.written, 30, "the offsets")
    if close:
        assert rig.offsets.read() == [({"stream": "0"}, {"at": len(rig.values())})]
        loop = rig.start()
    wait_until(lambda: rig.offsets.read() == [({"stream": "0"}, {"at": 2500})], 30, "all offsets")
    assert rig.records() == {0: numbers(2500)}
    assert [end["0"] for (end,) in rig.notes.recorded("commits")][-1] == 2500
    assert rig.metrics.commits["done"] >= 1


def test_pause_finishes_the_batch_and_resume_continues(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(100)
    loop = rig.start(slow="0.5")
    wait_until((rig.notes.path / "slow.once").exists)
    paused = []
    loop.order(lambda runner: paused.append(runner.pause()))
    wait_until(lambda: paused)
    assert rig.offsets.read() == [({"stream": "0"}, {"at": 100})], "the batch in flight was finished"
    rig.limit(200)
    runs = loop.runs
    loop.wake()
    wait_until(lambda: loop.runs > runs)
    assert len(rig.values()) == 100
    loop.order(lambda runner: runner.resume())
    wait_until(lambda: rig.offsets.read() == [({"stream": "0"}, {"at": 200})])
    assert rig.records() == {0: numbers(200)}


def test_stop_finishes_the_batch_in_flight(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(100)
    loop = rig.start(slow="0.5")
    wait_until((rig.notes.path / "slow.once").exists)
    loop.stop()
    assert rig.offsets.read() == [({"stream": "0"}, {"at": 100})]
    assert rig.records() == {0: numbers(100)}


def test_stop_withdraws_a_batch_that_waits_for_spark(rig: SourceRig) -> None:
    rig.engine.free.clear()
    rig.limit(10)
    loop = rig.start()
    wait_until(lambda: rig.engine.jobs == 1)
    loop.stop()
    assert loop.error is None
    assert rig.offsets.written == []


def test_cancel_abandons_a_hanging_batch(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(10)
    loop = rig.start(slow="15")
    wait_until((rig.notes.path / "slow.once").exists)
    loop.runner.cancel()
    assert isinstance(loop.await_error(within=10), ConnectError), "long before the batch would have ended"
    assert rig.offsets.written == []


def test_a_simple_reader_of_rows(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(250)
    loop = rig.start(**{
        "connector.class": "tests.rigs.task_plugins.SimpleConnector", "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    })
    loop.await_records(250)
    assert [json.loads(v) for v in rig.records()[0]] == [{"n": n, "text": f"t{n}"} for n in range(250)]
    wait_until(lambda: rig.offsets.read() == [({"task": 0}, {"n": 250})])
    wait_until(lambda: loop.idle_ms > 0, what="a batch that found nothing")
    written, jobs, runs = len(rig.offsets.written), rig.engine.jobs, loop.runs
    wait_until(lambda: loop.runs > runs + 10)
    assert len(rig.offsets.written) == written, "nothing new, nothing written"
    assert rig.engine.jobs == jobs, "an idle task has no jobs"
    rig.limit(300)
    loop.await_records(300)
    assert rig.engine.jobs > jobs


def test_topics_are_created_with_the_connectors_settings(rig: SourceRig) -> None:
    rig.limit(10)
    loop = rig.start(**{
        "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1",
        "topic.creation.default.retention.ms": "123456",
    })
    loop.await_records(10)
    assert set(rig.records()) == {0, 1, 2}
    (config,) = rig.admin.describe_configs([ConfigResource(ResourceType.TOPIC, rig.topic)]).values()
    assert config.result(20)["retention.ms"].value == "123456"


def test_brokers_create_topics_if_the_connector_has_no_settings_for_them(rig: SourceRig) -> None:
    rig.limit(10)
    rig.start().await_records(10)
    assert sorted(rig.values(), key=lambda v: int(v[2:])) == numbers(10)


def test_producer_overrides_apply_to_a_source(rig: SourceRig) -> None:
    rig.make_topic(1)
    rig.limit(10)
    loop = rig.start(**{"producer.override.acks": "1", "producer.override.compression.type": "lz4"})
    loop.await_records(10)
    assert rig.records() == {0: numbers(10)}
    loop.stop()
    rig.limit(20)
    error = rig.start(**{"producer.override.max.request.size": "70"}).await_error()
    assert "more than the 70 of the producer's max.request.size" in str(error)
    assert "producer.override.max.request.size" in str(error)
