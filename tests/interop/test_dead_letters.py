"""Dead letters beside a Java worker: the same bad records, byte for byte the same letters (but for the stack trace)
from a sink of heeler's, and from Kafka's own on heeler, which also writes the same file and commits the same offsets.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from heeler.embedded_kafka.jars import resolve
from heeler.java_host.runtime import JavaRuntime
from spark_tasks.plugins import Kind, Plugins, discovery
from spark_tasks.runners import Runners
from tests.rigs.jar_sets import CONNECT
from tests.rigs.java_jars import compile_into
from tests.rigs.java_settings import java_settings
from tests.rigs.java_worker import JavaWorker
from tests.rigs.support import wait_until
from tests.rigs.task_plugins import Folder
from tests.rigs.tasks import Loop, MemoryOffsets, ThreadEngine, context_of
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

C = "org.apache.kafka.connect."
JSON = C + "json.JsonConverter"
NOTES = "tests.rigs.task_plugins.NotesConnector"
FILE_SINK = C + "file.FileStreamSinkConnector"
T = C + "transforms."
LONG = (7).to_bytes(8, "big")
ENVELOPE = {"schema": {"type": "int32", "optional": False}, "payload": 5}
RECORDS = [  # key, value, headers; of the bad ones, what is bad
    (LONG, b'{"a":"1","b":{"c":1}}', [("h", b"5")]),
    (LONG, b"{oops", [("kept", b"1"), ("kept", None)]),
    (b"seven", b'{"a":"1"}', []),
    (None, b'{"a":"x","b":{"c":1}}', []),
    (LONG, b'{"a":"1","b":"\xff"}', []),
    (LONG, b"5", []),
    (LONG, b"[1]", []),
    (LONG, b'{"a":"1"}', [("h", b"{")]),
    (None, b'{"a":[1],"b":{"c":1}}', []),
    (LONG, b'{"a":"9999999999","b":{"c":1}}', []),
    (b"seven", b"{oops", [("h", b"{")]),
    (LONG, b'{"a":"2","b":{"c":2}}', []),
    (LONG, None, []),
]
TYPED = [
    (None, json.dumps(ENVELOPE).encode(), []),
    (None, b'{"a":1}', []),
    (None, b"7", []),
    (None, json.dumps({**ENVELOPE, "payload": None}).encode(), []),
    (None, json.dumps({**ENVELOPE, "payload": "x"}).encode(), []),
    (None, json.dumps({"schema": {"type": "nonsense"}, "payload": 1}).encode(), []),
    (None, json.dumps({"schema": {}, "payload": 1}).encode(), []),
    (None, json.dumps({**ENVELOPE, "more": 1}).encode(), []),
]
D = C + "data."
DECIMALS = {"type": "bytes", "name": D + "Decimal", "parameters": {"scale": "2"}}
FIELD = {"field": "a", "type": "int32"}
MAP = {"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}
TYPED += [(None, json.dumps({"schema": schema, "payload": payload}).encode(), []) for schema, payload in (
    ({"type": "bytes"}, "!!!!"), (DECIMALS, "1.234"), (DECIMALS, True),
    ({"type": "bytes", "name": D + "Decimal"}, "AQ=="),
    ({"type": "int32", "name": D + "Date"}, "5"), ({"type": "int32", "name": D + "Date"}, 2**31),
    ({"type": "int32", "name": D + "Date", "default": "5"}, None),
    ({"type": "int32", "name": D + "Time"}, [5]), ({"type": "int64", "name": D + "Timestamp"}, 1.5),
    ({"type": "int32", "name": D + "Time"}, -5), (MAP, [[1, 2, 3]]), (MAP, [[1, 2], 1]), (MAP, {"1": 2}),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, [["a", 1]]),
    ({"type": "struct", "fields": [FIELD]}, {}), ({"type": "struct", "fields": [FIELD]}, [1]),
    ({"type": "array", "items": {"type": "struct", "fields": [FIELD]}}, [{"a": 1}, {}]),
    ({"type": "struct", "fields": [1]}, {}), ({"type": "struct", "fields": [{"field": "", "type": "int32"}]}, {"": 1}),
    ({"type": "struct", "fields": [FIELD, FIELD]}, {"a": 1}),
)]
SCHEMALESS = {
    "key.converter": C + "converters.LongConverter", "value.converter": JSON, "value.converter.schemas.enable": "false",
    "header.converter": JSON, "header.converter.schemas.enable": "false",
    "transforms": "cast,part", "transforms.cast.type": T + "Cast$Value", "transforms.cast.spec": "a:int32",
    "transforms.part.type": T + "HoistField$Value", "transforms.part.field": "h",
    "predicates": "dead", "predicates.dead.type": T + "predicates.RecordIsTombstone",
    "transforms.cast.predicate": "dead", "transforms.cast.negate": "true",
}
WITH_SCHEMAS = {"key.converter": C + "storage.StringConverter", "value.converter": JSON}
WITH_PREDICATE = {
    "key.converter": C + "storage.StringConverter", "value.converter": C + "storage.StringConverter",
    "transforms": "part", "transforms.part.type": T + "HoistField$Value", "transforms.part.field": "h",
    "transforms.part.predicate": "doubt", "predicates": "doubt", "predicates.doubt.type": "heeler.tests.Doubtful",
}
CASES = {"predicate": (WITH_PREDICATE, [(None, value, []) for value in (b"a?", b"b", b"-", b"c?")]),
         "schemaless": (SCHEMALESS, RECORDS), "typed": (WITH_SCHEMAS, TYPED)}


@pytest.fixture
def rig(broker, tmp_path, worker_properties):
    """A Java worker, and a function that runs a task of heeler's."""
    jars = tmp_path / "jars"
    (jars / "file").mkdir(parents=True)
    (jars / "mode").mkdir()
    shutil.copy(next(resolve(CONNECT).glob("connect-file-*.jar")), jars / "file")
    compile_into(jars / "mode" / "mode.jar")
    java = JavaWorker(tmp_path, {**worker_properties, "offset.flush.interval.ms": "500", "plugin.path": str(jars)})
    java.start()
    worker = {"bootstrap.servers": broker.bootstrap_servers, "key.converter": JSON, "value.converter": JSON,
              "offset.flush.interval.ms": "500"}
    host = JavaRuntime(java_settings({"java.plugins.prefer": FILE_SINK}), [str(jars)])
    notes = discovery.Found(NOTES, Kind.CONNECTOR, NOTES.replace(".Notes", ":Notes"), "classpath")
    engine = ThreadEngine()
    runners = Runners(Plugins(installed=[*discovery.installed(), notes], others=host.found), engine)
    loops = []

    def run(config):
        loop = Loop()
        context = context_of(engine, worker, config, loop.wake, offsets=MemoryOffsets())
        loops.append(loop.start(runners.make(context)))
        return loop

    try:
        yield java, run
    finally:
        for loop in loops:
            loop.stop()
        runners.close()
        host.close()
        java.close()


def letters(broker, topic, count):
    """What is in the topic, by the offset of the original, without the stack traces."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count} letters: {found}"
        assert message.error() is None, message.error()
        headers = message.headers()
        trace = dict(headers).get("__connect.errors.exception.stacktrace")
        assert trace
        named = [(name, None if name.endswith(".stacktrace") else value) for name, value in headers]
        found.append((message.key(), message.value(), message.timestamp(), named))
    consumer.close()
    return found


def by_offset(found):
    return {int(dict(letter[3])["__connect.errors.offset"]): letter for letter in found}


def test_dead_letters_equal_javas(broker, tmp_path, rig):
    java, run = rig
    kafka, producer = Kafka(broker.bootstrap_servers), Producer({"bootstrap.servers": broker.bootstrap_servers})
    for case, (config, records) in CASES.items():
        name = f"{case}-{uuid.uuid4().hex[:8]}"
        topic = kafka.create(name)
        for number, (key, value, headers) in enumerate(records):
            producer.produce(topic, value, key, partition=0, headers=headers, timestamp=1_700_000_000_000 + number)
        producer.flush(20)
        (tmp_path / case).mkdir()
        common = {
            "topics": topic, **config, "errors.tolerance": "all", "errors.log.enable": "true",
            "errors.log.include.messages": "true", "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }  # fmt: skip
        out = tmp_path / f"{case}.txt"
        java.rest.put_config(name, {**common, "connector.class": "FileStreamSink", "file": str(out),
                                    "errors.deadletterqueue.topic.name": f"{name}-java"})
        loop = run({**common, "name": name, "connector.class": NOTES, "folder": str(tmp_path / case),
                    "errors.deadletterqueue.topic.name": f"{name}-heeler",
                    "consumer.override.group.id": f"{name}-heeler"})
        jar = tmp_path / f"{case}-jar.txt"
        run({**common, "name": name, "connector.class": FILE_SINK, "task.class": C + "file.FileStreamSinkTask",
             "file": str(jar), "errors.deadletterqueue.topic.name": f"{name}-jar",
             "consumer.override.group.id": f"{name}-jar"})
        loop.await_records(len(records), 60)
        notes = Folder(str(tmp_path / case))
        good = [value for *_, values in notes.recorded("writes") for value in values]
        wait_until(lambda out=out, good=good: out.exists() and len(out.read_text().splitlines()) == len(good), 60,
                   f"{len(good)} good records from Java")
        bad = len(records) - len(good)
        assert bad > len(records) / 2
        theirs, ours, jars = (by_offset(letters(broker, f"{name}-{who}", bad)) for who in ("java", "heeler", "jar"))
        assert ours == theirs
        assert jars == theirs
        end = {(topic, 0): len(records)}
        for group in (f"connect-{name}", f"{name}-jar"):
            wait_until(lambda group=group, end=end: kafka.committed(group) == end, 60, f"the offsets of {group}")
        assert jar.read_text() == out.read_text()


def topics(broker):
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=20).topics)


@pytest.mark.parametrize(("factor", "words"), [("2", "replication factor"), ("-1", None)])
def test_the_queues_replication_factor_is_handled_as_by_java(broker, tmp_path, rig, factor, words):
    """One broker: 2 replicas are too many, which fails the task at its start; -1 is the broker's default."""
    java, run = rig
    kafka, name = Kafka(broker.bootstrap_servers), f"factor-{uuid.uuid4().hex[:8]}"
    topic = kafka.create(name)
    config = {"topics": topic, "errors.tolerance": "all", "errors.deadletterqueue.topic.replication.factor": factor}
    java.rest.put_config(name, {**config, "connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"),
                                "errors.deadletterqueue.topic.name": f"{name}-java"})
    wanted = "RUNNING" if words is None else "FAILED"

    def ended():
        listed = java.rest.call("GET", "/connectors?expand=status")
        tasks = listed[name]["status"]["tasks"] if name in listed else []
        return tasks and tasks[0]["state"] == wanted and tasks[0]

    task = wait_until(ended, 90, f"Java's task to be {wanted}")
    loop = run({**config, "name": name, "connector.class": NOTES, "folder": str(tmp_path),
                "errors.deadletterqueue.topic.name": f"{name}-heeler", "consumer.override.group.id": f"{name}-heeler"})
    if words is None:
        wait_until(lambda: {f"{name}-java", f"{name}-heeler"} <= topics(broker), 60, "both queues")
        return
    ours = loop.await_error(60)
    start = "Could not initialize dead letter queue with topic="
    assert f"ConnectException: {start}{name}-java" in task["trace"]
    assert str(ours).startswith(f"{start}{name}-heeler: ")
    assert type(ours).java_class == "org.apache.kafka.connect.errors.ConnectException"
    assert words in task["trace"].lower()
    assert words in str(ours).lower()
    assert not {f"{name}-java", f"{name}-heeler"} & topics(broker)


CAST = {"transforms.t.type": T + "Cast$Value", "transforms.t.spec": "int32"}
HEADER = {"transforms.t.type": T + "InsertHeader", "transforms.t.header": "h", "transforms.t.value.literal": "text"}
SOURCES = {  # what the two lines of a file do not survive; the first one survives "cast"
    "cast": {"transforms": "t", **CAST},
    "header": {"transforms": "t", **HEADER, "header.converter": C + "converters.IntegerConverter"},
    "value": {"value.converter": C + "converters.LongConverter"},
}


def test_errors_of_a_source_are_logged_as_by_java(broker, tmp_path, rig, caplog):
    """Task, stage, class and exception's class. The record and the exception's message have heeler's own words."""
    java, run = rig
    kafka = Kafka(broker.bootstrap_servers)
    lines = tmp_path / "lines.txt"
    lines.write_text("1\nx\n")
    log = java.folder / "java-worker.log"
    for case, config in SOURCES.items():
        name = f"{case}-{uuid.uuid4().hex[:8]}"
        common = {
            "topic": kafka.create(name), "file": str(lines), "key.converter": C + "storage.StringConverter",
            "value.converter": C + "storage.StringConverter", "errors.tolerance": "all", "errors.log.enable": "true",
            "errors.log.include.messages": "true", "tasks.max": "1", **config,
        }  # fmt: skip
        bad = 1 if case == "cast" else 2
        java.rest.put_config(name, {**common, "connector.class": "FileStreamSource"})
        theirs = wait_until(lambda name=name, bad=bad: errors_of(name, log.read_text(), bad), 60, f"{case}: Java's log")
        run({**common, "name": name, "connector.class": C + "file.FileStreamSourceConnector"})
        ours = wait_until(lambda name=name, bad=bad: errors_of(name, caplog.text, bad), 60, f"{case}: heeler's log")
        assert ours == theirs


def errors_of(task, log, count):
    """Stage, class and exception of each of a task's errors in a log; nothing while it has fewer."""
    line = rf"Error encountered in task {task}-0\. (.*?), where source record is = .*\}}\.\s([\w.]+): \w"
    found = re.findall(line, log)
    return found if len(found) >= count else None
