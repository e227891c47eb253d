"""Dead letters of sources that are replayed: through the repaired pipeline, or as they were to be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from spark_tasks.spark.context import SparkLostError
from tests.rigs.exactly_once_tasks import OnceRig
from tests.rigs.replays import tolerant
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SourceRig
from tests.rigs.tasks import Loop
from tests.rigs.topic_reader import letters, read_topic

pytestmark = pytest.mark.integration

TRANSFORMS = "org.apache.kafka.connect.transforms."
CAST = {"transforms": "cast", "transforms.cast.type": TRANSFORMS + "Cast$Value", "transforms.cast.spec": "int32"}
BAD = [f"0:{n}" for n in range(5)]
GOOD = [str(n) for n in range(5, 10)]


def replayed(loop: Loop, **body: Any) -> Mapping[str, Any]:
    """The end of a replay that the loop's task runs."""
    states: list[Mapping[str, Any]] = []
    loop.order(lambda runner: states.append(runner.replay(body)))  # type: ignore[attr-defined]

    def over() -> bool:
        loop.order(lambda runner: states.append(runner.replay(None)))  # type: ignore[attr-defined]
        return bool(states) and states[-1]["state"] != "RUNNING"

    wait_until(over, 60, "the end of the replay")
    return states[-1]


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_records_and_progress_of_a_replay_are_in_one_transaction(once: OnceRig, boundary: str) -> None:
    dead = f"{once.topic}-dead"
    options = {
        **tolerant(dead), "plain.from": "5", "commit.every": "5",
        "transaction.boundary": boundary, "transaction.boundary.interval.ms": "100",
    }  # fmt: skip
    once.limit(10)
    broken = once.start(**options, **CAST)
    wait_until(lambda: once.values() == GOOD, 60, "the records that can be cast")
    wait_until(lambda: len(letters(once.bootstrap, dead)) == 5, 60, "the letters of the others")
    again = replayed(broken)
    assert (again["state"], again["replayed"], again["refused_again"]) == ("DONE", 5, 5)
    assert len(letters(once.bootstrap, dead)) == 10
    broken.stop()

    once.engine.lose_answers = [SparkLostError("the answer of the split is lost")]
    repaired = once.start(**options)
    failed = replayed(repaired)
    assert failed["state"] == "FAILED"
    assert "the answer of the split is lost" in failed["error"]
    assert once.values() == GOOD, "what the split had written is aborted"
    done = replayed(repaired)
    assert (done["state"], done["replayed"], done["not_replayable"]) == ("DONE", 5, 0)
    assert once.values() == [*GOOD, *BAD]
    assert replayed(repaired)["replayed"] == 0
    once.limit(11)
    wait_until(lambda: once.values()[10:] == (["10"] if boundary != "connector" else []), 60, "the source's own record")
    repaired.stop()
    assert once.values(committed=False).count("0:0") == 2, "once aborted, once committed"
    [progress] = [offset for partition, offset in once.offsets() if partition.get("heeler.dead.letters") == dead]
    assert progress["offset"] > 10
    assert len(letters(once.bootstrap, dead)) == 10, "nothing was refused"


def test_records_that_kafka_refused_are_replayed_as_they_were_to_be_written(source: SourceRig) -> None:
    """Partition 3 does not exist at first. The letter of the invalid topic, and that of partition -5, stay bad."""
    source.make_topic(1)
    source.limit(10)
    dead = f"dead-{source.name}"
    loop = source.start(**tolerant(dead), lost="yes")
    loop.await_records(7, 60)
    wait_until(lambda: len(letters(source.bootstrap, dead)) == 3, 60, "the letters")
    dry = replayed(loop, dry_run=True)
    assert (dry["scanned"], dry["would_replay"], dry["not_replayable"]) == (3, 1, 2)
    [done] = source.admin.create_partitions([NewPartitions(source.topic, 4)]).values()
    done.result(20)
    wait_until(lambda: len(source.admin.list_topics(source.topic, timeout=20).topics[source.topic].partitions) == 4)
    assert replayed(loop)["replayed"] == 1
    assert source.records()[3] == ["0:4"]
    [message] = [one for one in read_topic(source.bootstrap, source.topic) if one.partition() == 3]
    assert message.headers() is None
    assert [p for p, _ in source.offsets.written if "heeler.dead.letters" in p] == [
        {"heeler.dead.letters": dead, "partition": 0}]
    loop.stop()
    again = source.start(**tolerant(dead), lost="yes")
    assert replayed(again)["replayed"] == 0
    source.limit(11)
    again.await_records(1, 60)
