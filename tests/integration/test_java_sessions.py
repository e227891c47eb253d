"""Sessions of Java tasks in a real JVM, without a worker."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress

import pytest

from spark_tasks.host_frames import Batch, HostGoneError
from spark_tasks.sources.boundaries import Boundary, BoundaryKind
from tests.rigs.java_source_tasks import scripted_source
from tests.rigs.lone_host import LoneTask, noting, noting_partition, running_host, scripted
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration

FOREVER = {"errors.retry.timeout": "-1"}
DEAD = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
LETTERS = {"order": {"letters": {"headers": True, "mostBytes": 10_000}}}
CAST = {"transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with running_host(tmp_path_factory.mktemp("jars")) as running:
        yield running


@pytest.fixture(autouse=True)
def no_tasks_left():
    yield
    while LoneTask.made:
        LoneTask.made.pop().connection.close()


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_record_whose_conversion_is_retried_at_a_stop_is_polled_again(host, tmp_path, tolerance):
    """Kafka's own code reports it as bad, and so did the host: the offset was committed, and the record lost."""
    task = scripted(host, tmp_path / "notes", "one@1|two@2 down@3 four@4", **FOREVER, **{"errors.tolerance": tolerance})
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    assert task.event().raw.column("value").to_pylist() == [b"one"]
    wait_until(lambda: "down" in task.noted())
    task.connection.tell("stop")
    assert task.until("drained") == [(["two"], ['{"o":2}'], None, True), "drained"]
    task.connection.tell("finish")
    assert task.until("stopped") == ["stopped"]


def reads(task, op, **fields):
    """Whether the host reads messages: more of them than fit into the socket can be sent."""
    def send():
        with suppress(HostGoneError):  # the test has failed
            for _ in range(1000):
                task.connection.tell(op, **fields, filler="-" * 4096)

    sender = threading.Thread(target=send)
    sender.start()
    sender.join(10)
    return not sender.is_alive()


def test_the_host_reads_while_a_dead_letter_waits_for_the_worker(host, tmp_path):
    """It waited for the letter, and the worker, whose messages were not read, for the host: for good."""
    task = noting_partition(host, tmp_path / "notes", **DEAD)
    task.listens.clear()
    task.give(*["bad".ljust(1 << 20)] * 8)
    wait_until(lambda: "put 0 0 bad" in task.noted())
    assert reads(task, "letters", number=1)
    task.listens.set()
    *letters, end = task.until("done")
    assert ([value.strip() for values, *_ in letters for value in values], end) == (["bad"] * 8, "done")


def test_the_host_reads_while_a_tick_waits_for_the_worker(host, tmp_path):
    task = noting_partition(host, tmp_path / "notes", **DEAD)
    task.listens.clear()
    task.give("one", "flood".ljust(1 << 20))
    wait_until(lambda: "put 0 1 flood" in task.noted())
    time.sleep(1.5)  # until the next tick, which nobody sees
    assert reads(task, "resume")
    task.listens.set()
    assert [task.event().number for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_sinks_record_whose_conversion_is_retried_at_a_stop_is_read_again(host, tmp_path, tolerance):
    """It was also written to the dead letter queue."""
    task = noting_partition(host, tmp_path / "notes", **FOREVER,
                            **{"errors.tolerance": tolerance, "errors.deadletterqueue.topic.name": "dead"})
    task.give("one", "down", "three")
    wait_until(lambda: "down" in task.noted())
    task.connection.tell("stop")
    assert task.until("stopped") == [("commit", [["t", 0, 1, ""]]), "stopped"]
    noted = [note for note in task.noted() if note != "down"]
    assert noted == ["start true", "open [0] true", "put 0 0 one", "close [0]", "stop"]


def test_a_poll_with_a_bad_record_ends_with_a_part_that_says_so(host, tmp_path):
    """With exactly-once delivery, the worker does not commit it: the others may have the same offset. What was polled
    before is in frames of its own.
    """
    task = scripted(host, tmp_path / "notes", "a@1|b@2|c@3|d@4|one@7 two@7 bad@7 four@7")
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    *before, part, end = task.until("failed")
    assert (part, end) == ((["one", "two"], ['{"o":7}'], None, True), "failed")
    assert [value for values, _, _, more in before for value in values if not more] == ["a", "b", "c", "d"]


def test_a_poll_whose_first_record_is_bad_adds_nothing_to_those_before(host, tmp_path):
    task = scripted(host, tmp_path / "notes", "a@1|b@2|c@3|bad@7 two@7")
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    *before, end = task.until("failed")
    assert end == "failed"
    assert [value for values, _, _, more in before for value in values if not more] == ["a", "b", "c"]


def calls_of(task):
    """The calls of its plugin: by method, whether it waits for data, and the stack."""
    return {call["method"]: (call["waits"], call["stack"]) for call in task.connection.ask("where")["calls"]}


def test_the_calls_of_a_plugin_are_told_until_they_return(host, tmp_path):
    """A poll that sleeps may wait for data; its thread is as that of one that hangs."""
    task = scripted(host, tmp_path / "notes", "one@1|gate two@2", own={"starts": "gate"})
    [(method, (waits, stack))] = wait_until(lambda: calls_of(task)).items()
    assert (method, waits) == ("start", False)
    assert "heeler.tests.Script$Scripted.start(Script.java:" in stack
    (tmp_path / "notes.open").touch()
    assert task.until("returned") == ["returned"]
    (tmp_path / "notes.open").unlink()
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    assert task.event().raw.column("value").to_pylist() == [b"one"]
    waits, stack = wait_until(lambda: calls_of(task).get("poll"))
    assert waits
    assert stack.startswith('"task c-0" TIMED_WAITING')
    assert "heeler.tests.Script$Scripted.poll(Script.java:" in stack
    (tmp_path / "notes.open").touch()
    assert task.until("returned") == ["returned"]
    two = next(event for event in iter(task.event, None) if isinstance(event, Batch))
    assert two.raw.column("value").to_pylist() == [b"two"]


@pytest.mark.parametrize(("poll", "method", "state"), [
    ("spin", "poll", '"task c-0" RUNNABLE'),
    ("deadlock", "poll", 'which "the other one" holds (a deadlock)'),
    ("stuck@1", "a transform or converter", '"task c-0" TIMED_WAITING'),
])
def test_a_plugin_that_does_not_wait_for_data_is_told_apart(host, tmp_path, poll, method, state):
    task = scripted(host, tmp_path / "notes", poll)
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    stacks = wait_until(lambda: [s for n, (w, s) in calls_of(task).items()
                                 if n == method and not w and state in s.split("\n")[0]])
    assert "heeler.tests.Script$" in stacks[0]
    (tmp_path / "notes.open").touch()


def test_a_put_does_not_wait_for_data(host, tmp_path):
    task = noting_partition(host, tmp_path / "notes")
    task.give("hang")
    waits, stack = wait_until(lambda: calls_of(task).get("put"))
    assert not waits
    assert "heeler.tests.NoteSink$Noting.put(NoteSink.java:" in stack


def test_an_exception_in_commit_record_ends_only_that_call(host, tmp_path):
    """It ended all later calls of commitRecord and commit."""
    task = scripted(host, tmp_path / "notes", "one@1|two@2|three@3", own={"throws": "commitRecord commit"})
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    frames = [task.event()]
    while '"o":3' not in frames[-1].offsets[0][1]:
        frames.append(task.event())
    calls = ["commitRecord one", "commitRecord two", "commitRecord three", "commit"]
    task.acknowledge(*frames)
    wait_until(lambda: [note for note in task.noted() if note.startswith("commit")] == calls)
    task.acknowledge()
    wait_until(lambda: [note for note in task.noted() if note.startswith("commit")] == [*calls, "commit"])


def test_a_transaction_ends_in_a_poll_without_records(host, tmp_path):
    """They stayed open until the next record, or until Kafka aborted them."""
    polls = "one@1|commit null|two@2|abort retry|three@3|commit"
    task = scripted(host, tmp_path / "notes", polls, boundaries=True)
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    ends: list[tuple[list[bytes], str]] = [([], "")]
    while len(ends) < 4:
        frame = task.event()
        ends[-1][0].extend(frame.raw.column("value").to_pylist())
        if frame.signal is not None:
            ends[-1:] = [(ends[-1][0], frame.signal), ([], "")]
    assert ends[:3] == [([b"one"], "commit"), ([b"two"], "abort"), ([b"three"], "commit")]


def test_a_transaction_that_ends_after_the_last_poll_is_committed(host, tmp_path):
    task = scripted(host, tmp_path / "notes", "one@1", boundaries=True, own={"commits": "transaction"})
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    frame = task.event()
    wait_until(lambda: "poll" in task.noted())
    task.connection.tell("pause")
    task.acknowledge(frame)
    wait_until(lambda: "commit" in task.noted())
    task.connection.tell("stop")
    assert task.until("drained") == [([], [], "commit", False), "drained"]


def test_an_exception_in_stop_is_only_logged(host, tmp_path):
    """It failed a task that was stopped, and replaced the error of one that had failed."""
    task = scripted(host, tmp_path / "notes", "throw", own={"throws": "stop"})
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    failed = task.event()
    assert "told to throw" in failed["message"]
    assert "in stop" not in failed["message"] + failed["trace"]
    task = scripted(host, tmp_path / "other", "one@1", own={"throws": "stop"})
    assert task.until("started") == ["started"]
    for op in ("stop", "finish"):
        task.connection.tell(op)
    assert task.until("stopped") == ["drained", "stopped"]
    assert task.noted() == ["stop"]


def test_what_a_plugin_reports_is_cut_before_it_is_sent(host, tmp_path):
    """An exception of any size, and any number of metrics a second, were read and parsed by the worker."""
    task = scripted(host, tmp_path / "notes", "shout", own={"metrics": "2000"})
    wait_until(lambda: len(found := task.metrics()) == 1001 and len(str(found)) < 1_000_000)
    task.connection.tell("resume")
    while (failed := task.event())["op"] != "failed":
        pass
    assert failed["message"].startswith("told to shout!!!")
    assert max(len(failed["message"]), len(failed["trace"])) < 201_000


def test_a_plugin_whose_offset_cannot_be_written_has_stopped_before_the_task_fails(host, tmp_path):
    """The next instance could run beside it."""
    task = scripted(host, tmp_path / "notes", "one@unknown|gate")
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    wait_until(lambda: len(task.noted()) == 2)  # it is polled again, or stopped already
    (tmp_path / "notes.open").touch()
    assert task.until("failed") == ["failed"]
    assert task.noted()[-1] == "stop"


def test_a_plugin_may_read_offsets_in_commit(host, tmp_path):
    """The thread that reads the worker's messages waited for the answer, which it had to read."""
    task = scripted(host, tmp_path / "notes", "one@1", own={"commits": "read"})
    task.offsets = [('{"p":1}', '{"o":1}')]
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    task.acknowledge(task.event())
    wait_until(lambda: "{o=1}" in task.noted())
    for op in ("stop", "finish"):
        task.connection.tell(op)
    assert task.until("stopped") == ["drained", "stopped"]


def test_a_commit_that_hangs_delays_no_stop_and_counts_as_hung(host, tmp_path, caplog):
    """One that ends when it is interrupted does not, and is the last call: its thread waited for ever."""
    for how in ("wait", "hang"):
        task = scripted(host, tmp_path / how, "one@1|two@2", own={"commits": how})
        assert task.until("started") == ["started"]
        task.connection.tell("resume")
        task.acknowledge(task.event())
        wait_until(lambda task=task: "commit" in task.noted())
        task.acknowledge()
        task.connection.tell("stop")
        assert task.until("drained")[-1] == "drained"
        task.connection.close()
    hangs = "Thread 'commits of task c-0' hangs after its connection was closed; threads that hang in this host: "
    wait_until(lambda: hangs in caplog.text)
    assert caplog.text.count(hangs) == 1
    assert (tmp_path / "wait").read_text().splitlines().count("commit") == 1


def test_acknowledgements_that_come_during_a_commit_are_followed_by_one(host, tmp_path):
    """Each had one of its own, which a stop waited for: of up to a hundred."""
    task = scripted(host, tmp_path / "notes", "one@1", own={"commits": "gate"})
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    task.acknowledge(task.event())
    wait_until(lambda: "commit" in task.noted())
    for _ in range(50):
        task.acknowledge()
    for op in ("stop", "finish"):
        task.connection.tell(op)
    assert task.until("drained") == ["drained"]
    (tmp_path / "notes.open").touch()
    assert task.until("stopped") == ["stopped"]
    assert task.noted() == ["poll", "commitRecord one", "commit", "commit", "stop"]


def test_a_poll_of_large_records_is_sent_in_small_frames(host, tmp_path):
    """Up to 500 were one frame, whatever their size."""
    task = scripted(host, tmp_path / "notes", " ".join(f"#3000000@{n}" for n in range(6)))
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    frames = [task.event()]
    while frames[-1].more:
        frames.append(task.event())
    assert sum(len(frame.raw) for frame in frames) == 6
    assert max(len(frame.raw) for frame in frames) <= 3


def test_large_records_leave_other_tasks_their_memory(host, tmp_path):
    """Each task kept buffers for the largest frames that it had sent."""
    for number in range(8):
        task = scripted(host, tmp_path / str(number), "|".join(f"#10000000@{n}" for n in range(1, 4)))
        assert task.until("started") == ["started"]
        task.connection.tell("resume")
        offset = 0
        while offset < 3:
            frame = task.event()
            offset = json.loads(frame.offsets[0][1])["o"]
            task.acknowledge(frame)  # until then, the host has the records


LARGE_POLL = " ".join(f"#4000000@{n}" for n in range(1, 11))  # more than a task keeps, and than waits for Kafka


@pytest.mark.parametrize("boundary", [None, Boundary(BoundaryKind.POLL)])
def test_a_source_whose_large_poll_waits_for_kafka_stops_in_order(host, tmp_path, monkeypatch, boundary):
    """One step waited for all of it: the task was abandoned."""
    with scripted_source(monkeypatch, host, tmp_path / "notes", LARGE_POLL, boundary) as rig:
        assert rig.broker.asked.wait(60)
        rig.loop.stop()
        assert (rig.kafka.committed, rig.kafka.aborts, rig.loop.error) == ([], 1, None)
    assert (tmp_path / "notes").read_text().splitlines() == ["poll", "stop"]


def test_a_large_poll_that_has_waited_for_kafka_is_committed_as_a_whole(host, tmp_path, monkeypatch):
    with scripted_source(monkeypatch, host, tmp_path / "notes", f"{LARGE_POLL}|one@11") as rig:
        assert rig.broker.asked.wait(60)
        paused = []
        rig.loop.order(lambda runner: paused.append(runner.pause()))
        wait_until(lambda: paused)
        assert rig.kafka.committed == []
        rig.broker.speak()
        rig.loop.await_records(10)
        rig.loop.order(lambda runner: runner.resume())
        rig.loop.await_records(11)
    assert [offsets for _, offsets in rig.kafka.committed] == [[({"p": 1}, {"o": 10})], [({"p": 1}, {"o": 11})]]


def test_fields_that_are_not_set_have_their_defaults_in_the_workers_part_of_the_chain(host, tmp_path):
    """Such a record failed the task. A default of an optional field is the converter's affair."""
    task = scripted(host, tmp_path / "notes", "struct@1", converted=["value"])
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    (value,) = task.event().cut.raw.column("value").to_pylist()
    assert json.loads(value) == {"list": [{"v": 5, "o": None}], "text": "none"}


def test_partitions_that_the_plugin_has_paused_stay_paused_when_they_are_opened_again(host, tmp_path):
    """As in Kafka Connect: a rebalance resumed them."""
    task = noting_partition(host, tmp_path / "notes")
    task.give("hold 0", "two")
    assert task.until("at")[-1] == "at"
    task.connection.tell("close", lost=False)
    assert task.until("closed")[-2:] == [("commit", [["t", 0, 1, ""]]), "closed"]
    task.connection.tell("open", places=[("t", 0, 1)], generation=2, member="me")
    assert task.event() == {"op": "at", "places": [["t", 0, -1]]}
    assert task.until("opened") == ["opened"]


def test_a_partition_that_the_plugin_has_paused_is_resumed_if_it_was_taken_from_the_task(host, tmp_path):
    """As in Kafka Connect: if the task was without partitions meanwhile, it got no record of this one any more."""
    task = noting_partition(host, tmp_path / "notes")
    task.give("hold 0", "two")
    assert task.until("at")[-1] == "at"
    task.connection.tell("close", lost=False)
    assert task.until("closed")[-1] == "closed"
    for places in ([], [("t", 0, 1)]):
        task.connection.tell("open", places=places, generation=2, member="me")
        assert task.until("opened") == ["opened"]
    wait_until(lambda: task.noted()[-1].startswith("open"))
    task.give("hold 0", "two")
    wait_until(lambda: task.noted()[-3:] == ["close [0]", "open [0] true", "put 0 1 two"])


def test_a_sinks_offset_is_committed_with_its_metadata(host, tmp_path):
    task = noting_partition(host, tmp_path / "notes", own={"metadata": "why"})
    task.give("commit")
    assert ("commit", [["t", 0, 1, "why"]]) in task.until("commit")


def test_a_sink_without_partitions_is_not_asked_what_to_commit(host, tmp_path):
    task = noting(host, tmp_path / "notes", flush=1)
    for _ in range(50):  # each takes about as long
        task.connection.tell("close", lost=False)
        assert task.until("closed") == ["closed"]
    assert task.noted() == ["start true"]


TYPED = {
    "from": ["map", ["of", "file"]], "at": ["map", ["position", ["int64", 2**60]]], "topic": "t", "partition": 3,
    "timestamp": 7, "key": [None],
    "value": [["map", ["text", "x"], ["none", None], ["yes", True], ["a", ["int8", -1]], ["b", ["int16", 2]],
               ["c", ["int32", 3]], ["d", ["int64", 4]], ["e", ["float32", "NaN"]], ["f", ["float64", "1.5"]],
               ["g", ["bytes", "AQI="]], ["h", ["buffer", "AQI="]], ["i", ["decimal", "ew==", 2]],
               ["j", ["date", 1000]], ["k", ["list", ["int32", 1], ["list"], ["map", [["int32", 1], "one"]]]]]],
    "headers": [["h", ["1", '{"type":"int8","optional":false}']], ["h", [["int32", 5]]],
                ["none", [None, '{"type":"string","optional":true}']]]}
STRUCT = {**TYPED, "topic": None, "partition": None, "timestamp": None, "from": None, "at": None, "headers": [],
          "value": ['{"n":1,"d":"ew==","f":"NaN","o":null}', json.dumps(
              {"type": "struct", "fields": [
                  {"type": "int64", "optional": False, "field": "n"},
                  {"type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
                   "parameters": {"scale": "2"}, "field": "d"},
                  {"type": "double", "optional": False, "field": "f"},
                  {"type": "string", "optional": True, "default": "x", "field": "o"}],
               "optional": False, "name": "acme.Pair"}, separators=(",", ":"))]}


def test_the_record_in_a_letter_of_a_source_keeps_its_types_and_schemas(host, tmp_path):
    """A replay reads the records, which Cast refuses, and writes letters of them again."""
    task = LoneTask(host, "replay", tmp_path / "notes", "heeler.tests.Script$Scripted", **CAST, **DEAD, **LETTERS)
    task.connection.tell("convert", number=4, records=[(n, json.dumps(one)) for n, one in enumerate((TYPED, STRUCT))])
    frame = task.event()
    assert isinstance(frame, Batch), frame
    assert (frame.number, len(frame.raw), len(frame.letters)) == (4, 0, 2)
    found = [{pair["key"]: pair["value"] for pair in row} for row in frame.letters.column("headers").to_pylist()]
    assert [json.loads(one["heeler.letter.java.record"]) for one in found] == [TYPED, STRUCT]
    assert frame.letters.column("timestamp")[0].as_py() == 7
    small = LoneTask(host, "replay", tmp_path / "notes", "heeler.tests.Script$Scripted", **CAST, **DEAD,
                     order={"letters": {"headers": True, "mostBytes": 500}})
    small.connection.tell("convert", number=0, records=[(0, json.dumps(TYPED))])
    (row,) = small.event().letters.column("headers").to_pylist()
    names = [pair["key"] for pair in row]
    assert "__connect.errors.stage" in names
    assert "heeler.letter.java.record" not in names, "the letter would be too large with it"


@pytest.mark.parametrize(("wrong", "why"), [
    ({"key": [["no type", 1]]}, "cannot be read: unknown type"),
    ({"topic": None}, "cannot be converted: the source record has no topic"),
    ({"timestamp": -5}, "cannot be converted: Invalid record timestamp -5"),
    ({"partition": -5}, "cannot be converted: a record for topic t has the invalid partition -5")])
def test_a_letter_whose_record_fails_a_replay_is_named(host, tmp_path, wrong, why):
    """So a filter can leave it out."""
    task = LoneTask(host, "replay", tmp_path / "notes", "heeler.tests.Script$Scripted", **DEAD, **LETTERS)
    task.connection.tell("convert", number=0, records=[(17, json.dumps({**TYPED, "value": ["good"], **wrong}))])
    event = task.event()
    assert event["op"] == "failed"
    assert f"dead letter at offset 17 {why}" in event["message"]


def test_a_letter_of_a_copied_letter_has_only_headers_of_its_own_record(host, tmp_path):
    """A replay took the record of the other letter."""
    task = LoneTask(host, "replay", tmp_path / "notes", "heeler.tests.Script$Scripted", **DEAD, **LETTERS)
    others = [[f"heeler.letter.{name}", ["another"]] for name in ("record", "java.record", "produced")]
    copied = {**TYPED, "value": ["bad"], "headers": [["h", ["mine"]], *others]}
    task.connection.tell("convert", number=0, records=[(0, json.dumps(copied))])
    (row,) = task.event().letters.column("headers").to_pylist()
    own = [(pair["key"], pair["value"]) for pair in row if not pair["key"].startswith("__connect.errors.")]
    assert [key for key, _ in own] == ["h", "heeler.letter.java.record"]
    assert json.loads(own[1][1]) == copied


def polling(host, notes, polls, **more):
    """A source with a dead letter queue, which polls this."""
    order = {"boundaries": False, "converted": None, **LETTERS["order"]}
    task = LoneTask(host, "source", notes, "heeler.tests.Script$Scripted", order=order, own={"polls": polls},
                    **DEAD, **more)
    assert task.until("started") == ["started"]
    task.connection.tell("resume")
    return task


def test_a_bad_record_whose_value_contains_itself_has_a_letter(host, tmp_path):
    """Its text has no end. The task failed, although errors are tolerated."""
    frame = polling(host, tmp_path / "notes", "loop@1 two@2").event()
    assert isinstance(frame, Batch), frame
    assert (frame.raw.column("value").to_pylist(), frame.letters.column("value").to_pylist()) == ([b"two"], [None])


def test_a_poll_of_large_bad_records_is_sent_in_small_frames(host, tmp_path):
    """Letters had no size: 500 were converted at once."""
    task = polling(host, tmp_path / "notes", " ".join(f"#3000000@{n}" for n in range(6)), **CAST)
    frames = [task.event()]
    while frames[-1].more:
        frames.append(task.event())
    assert sum(len(frame.letters) for frame in frames) == 6
    assert max(len(frame.letters) for frame in frames) <= 3
