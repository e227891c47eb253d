"""Java plugins on a real worker: what REST shows of them, Kafka's own sources, and one that misbehaves."""

from __future__ import annotations

import json
import re

import pytest

from heeler.cli.client.rest_client import RestError
from tests.golden import validate_jar
from tests.rigs.connector_states import states_of
from tests.rigs.java_connectors import FILE_SOURCE, MODE, SLOW_S, counting, jvm, numbers, offsets, wait_offset
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, shared

pytestmark = pytest.mark.integration

MODES = ("count", "exit", "hang", "spin", "hang-start", "hang-stop", "hang-connector", "throw", "refused",
         "refused-by-sql", "unavailable", "memory", "leak", "leak-aside", "overflow", "measure", "retry", "raise",
         "reconfigure", "mixed", "gaps", "untimed", "forget", "transactions")


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


def test_java_plugins_are_listed_described_and_validated(rig):
    shown = {p["class"]: p for p in rig.call("GET", "/connector-plugins?connectorsOnly=false")}
    assert shown[MODE] == {"class": MODE, "type": "source", "version": "7.1"}
    assert shown[FILE_SOURCE]["version"] == "4.3.1"
    of_json = shown[JSON]
    assert (of_json["runtime"], of_json["passed_over"][0]["runtime"]) == ("heeler", "java")
    assert of_json["passed_over"][0]["location"].endswith("/json")
    assert (shown[FILE_SOURCE]["runtime"], shown[FILE_SOURCE]["passed_over"]) == (
        "java", [{"runtime": "heeler", "location": "classpath"}])
    log = rig.process.log.read_text()
    assert "broken.jar: " in log
    assert f"{JSON}: heeler's own plugin is used" in log  # since nobody prefers Java's
    keys = {k["name"]: k for k in rig.call("GET", "/connector-plugins/ModeSource/config")}
    assert keys["mode"]["default_value"] == "count"
    assert keys["records"]["type"] == "INT"
    assert "tasks.max" in keys

    def errors(**config):
        answer = rig.call("PUT", f"/connector-plugins/{config['connector.class']}/config/validate", config)
        return {c["value"]["name"]: c["value"]["errors"] for c in answer["configs"] if c["value"]["errors"]}

    assert errors(**counting("t", "nonsense", name="n", records="many")) == {
        "mode": [f"Invalid value nonsense for configuration mode: String must be one of: {', '.join(MODES)}"],
        "records": ["Invalid value many for configuration records: Not a number of type INT"],
    }
    passing = {"transforms": "p", "transforms.p.type": "heeler.tests.Measured$Pass"}
    assert errors(**counting("t", name="n", **passing)) == {}
    assert errors(**counting("t", name="n", **passing, **{"transforms.p.which": "none"})) == {
        "transforms.p.which": ["Invalid value none for configuration which: String must be one of: all, some"]}
    mark, then = {"transforms.m.type": "MarkOne"}, {"transforms.p.type": "heeler.tests.Measured$Pass"}
    assert errors(**counting("t", name="n", transforms="p,m", **mark, **then)) == {}
    behind = errors(**counting("t", name="n", transforms="m,p", **mark, **then))
    assert ["comes after the Python plugin pieces_one.MarkOne" in m for m in behind["transforms.p.type"]] == [True]


def test_recommenders_and_validation_of_java_plugins_answer_as_on_a_java_worker(rig):
    answers = validate_jar.answers()
    assert validate_jar.keys(rig.rest) == answers.pop("keys")
    assert set(answers) == set(validate_jar.CASES)
    differences = {}
    for case, theirs in answers.items():
        ours = validate_jar.ask(rig.rest, case)
        assert ours.keys() == theirs.keys(), (case, ours, theirs)
        differences |= {(case, key): (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]}
    assert differences == {}


def test_a_java_file_source_runs_with_java_transforms_and_converters(rig, topic_name):
    """Pause, resume, restart and delete; offsets are written as by Java."""
    file = rig.folder / "lines"
    file.write_text("one\ntwo\n")
    config = {
        "connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name, "transforms": "hoist,add",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.add.static.field": "from", "transforms.add.static.value": "file",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    }
    rig.create(topic_name, config, ["RUNNING", "RUNNING"])
    rig.wait_records(topic_name, 2)
    rig.call("PUT", f"/connectors/{topic_name}/pause")
    rig.wait_states(topic_name, ["PAUSED", "PAUSED"])
    with file.open("a") as out:
        out.write("three\n")
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"position": 14})
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
    with file.open("a") as out:
        out.write("four\n")
    wait_offset(rig, topic_name, {"position": 19})
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
    found = [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()]
    assert found == [f'{{"line":"{line}","from":"file"}}' for line in ("one", "two", "three", "four")]
    rig.delete(topic_name)


def test_log_lines_of_plugins_have_their_names(rig, topic_name):
    """Lines have the class name, the connector and the task; `PUT /admin/loggers` takes effect in the JVM."""
    file = rig.folder / "lines"
    file.write_text("one\n")
    there = lambda line: bool(re.search(line, rig.process.log.read_text()))  # noqa: E731
    package = "org.apache.kafka.connect.file"
    rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name},
               ["RUNNING", "RUNNING"])
    begun = rf"INFO \[{topic_name}\|worker\] Starting file source connector reading from {file} \({FILE_SOURCE}:"
    wait_until(lambda: there(begun), what="the connector's line")
    opened = rf"DEBUG \[{topic_name}\|task-0\] Opened {file} for reading \({package}.FileStreamSourceTask:"
    assert not there(opened)
    try:
        rig.call("PUT", f"/admin/loggers/{package}", {"level": "DEBUG"})

        def reopened():
            rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
            rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
            return there(opened)

        wait_until(reopened, SLOW_S, "the task's line")
    finally:
        rig.call("PUT", f"/admin/loggers/{package}", {"level": "INFO"})
    rig.create(f"{topic_name}-print", counting(topic_name), ["RUNNING", "RUNNING"])
    printed = rf"INFO \[{topic_name}-print\|task-0\] printed by the plugin: {topic_name}-print \(heeler.java:"
    wait_until(lambda: there(printed), what="what it prints")
    wait_until(lambda: there(rf"INFO \[{topic_name}-print\|task-0\] in two lines \(heeler.java:"), what="all of it")


def test_records_keep_keys_headers_timestamps_and_offsets_their_numbers(rig, topic_name):
    rig.kafka.create(topic_name, partitions=3)
    rig.create(topic_name, counting(topic_name, "retry", records="30", tell="yes"), ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 30})
    found = rig.kafka.messages(topic_name)
    rows = sorted((int.from_bytes(m.value(), "big"), m.key().decode(), m.timestamp()[1]) for m in found)
    assert rows == [(n, f"k{n}", 1000 + n) for n in range(30)]
    commits = {f"committed {m.key().decode()} at {topic_name}-{m.partition()}@{m.offset()} of {m.timestamp()[1]}, "
               f"{len(m.key())}+8" for m in found}
    wait_until(lambda: commits <= set(re.findall(r"committed k.*\+8", rig.process.log.read_text())), what="commits")
    assert all([name for name, _ in m.headers()] == ["confirmed"] for m in found)
    tracked = rig.call("GET", f"/connectors/{topic_name}/topics")[topic_name]["topics"]
    assert tracked == [topic_name]

    def printed(line):
        about = "task-0" if line.startswith("commit") else "worker"
        return f"[{topic_name}|{about}] {line} (heeler.java" in rig.process.log.read_text()

    assert printed("the connector knows null")
    wait_until(lambda: printed("commit after 30"), what="commit")
    rig.call("POST", f"/connectors/{topic_name}/restart")
    wait_until(lambda: printed(f"the connector knows {{next={9007199254740993 + 30}}}"), what="the connector's offsets")


def test_a_java_source_creates_its_topic(rig, topic_name):
    """With its settings, and once: later frames are for a topic that exists."""
    creation = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    rig.create(topic_name, {**counting(topic_name, records="30"), **creation}, ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 30})
    assert len(rig.kafka.admin.list_topics(topic_name, 30).topics[topic_name].partitions) == 3
    assert rig.process.log.read_text().count(f"Created topic {topic_name} with 3 partitions") == 1


def test_a_java_source_continues_from_altered_offsets(rig, topic_name):
    rig.create(topic_name, counting(topic_name), ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 10})
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    rig.wait_states(topic_name, ["STOPPED"])
    wanted = [{"partition": {"of": "count"}, "offset": {"next": 9007199254740993 + 8}}]
    rig.call("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": wanted})
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    wait_until(lambda: numbers(rig, topic_name)[-2:] == [8, 9] and len(numbers(rig, topic_name)) == 12,
               what="the records from the altered offset on")


def test_a_null_offset_removes_that_of_its_partition(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "forget"), ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 10})
    offsets = rig.call("GET", f"/connectors/{topic_name}/offsets")["offsets"]
    assert [entry["partition"] for entry in offsets] == [{"of": "count"}]


def test_a_connector_requests_other_tasks(rig, topic_name):
    once = {"once": str(rig.folder / "once"), "tasks.max": "2"}
    rig.create(topic_name, counting(topic_name, "reconfigure", **once), ["RUNNING", "RUNNING", "RUNNING"])


@pytest.mark.parametrize(("mode", "message"), [
    ("throw", "org.apache.kafka.connect.errors.ConnectException: thrown by poll of 7.1"),
    ("memory", "java.lang.OutOfMemoryError: no heap left, says the plugin"),
    ("overflow", "java.lang.StackOverflowError"),
])
def test_a_tasks_exception_fails_only_this_task(rig, topic_name, mode, message):
    rig.create(topic_name, counting(topic_name, mode), ["RUNNING", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert message in status["tasks"][0]["trace"]
    assert "at heeler.tests.ModeSource$Counting." in status["tasks"][0]["trace"]
    assert numbers(rig, topic_name) == list(range(5))  # what was polled before is kept


@pytest.mark.parametrize(("mode", "permanent"), [("refused", True), ("refused-by-sql", True), ("unavailable", False)])
def test_refused_credentials_are_not_retried(rig, topic_name, mode, permanent):
    """As reported by errors of Kafka's clients and of JDBC drivers (SQLSTATE), whatever wraps them."""
    rig.create(topic_name, {**counting(topic_name, mode), "errors.restart.policy": "failed",
                            "errors.restart.backoff.initial.ms": "60000"}, ["RUNNING", "FAILED"])
    [task] = rig.call("GET", f"/connectors/{topic_name}/status")["tasks"]
    assert task["restarts"].get("permanent", False) is permanent
    assert ("next_attempt" in task["restarts"]) is not permanent


def test_a_bad_record_of_a_java_source_is_skipped_if_errors_are_tolerated(rig, topic_name):
    strict = f"{topic_name}-strict"
    rig.create(topic_name, counting(topic_name, "mixed", **{"errors.tolerance": "all", "errors.log.enable": "true"}))
    rig.create(strict, counting(strict, "mixed"), ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{strict}/status")["tasks"][0]["trace"]
    assert "ConnectException: Tolerance exceeded in error handler" in trace
    assert "Caused by: org.apache.kafka.connect.errors.DataException" in trace
    rig.wait_records(topic_name, 9)
    assert numbers(rig, topic_name) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert re.search(rf"Error encountered in task {topic_name}-0. Executing stage 'VALUE_CONVERTER' with class "
                     "'org.apache.kafka.connect.converters.LongConverter'", rig.process.log.read_text())

    def logged(line):
        whole = rf"ERROR \[{topic_name}\|task-0\] {line}.* \(org.apache.kafka.connect.runtime.errors.LogReporter"
        return re.search(whole, rig.process.log.read_text())

    wait_until(lambda: logged("org.apache.kafka.connect.errors.DataException") and logged(r"\tat .*LongConverter"),
               what="a stack trace with the level and logger of its message")


def test_a_timestamp_of_minus_one_is_none_and_earlier_ones_fail_the_task(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "untimed", **{"errors.tolerance": "all"}), ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{topic_name}/status")["tasks"][0]["trace"]
    assert "org.apache.kafka.common.InvalidRecordException: Invalid record timestamp -86400000" in trace
    rig.wait_records(topic_name, 6)
    times = {m.key().decode(): m.timestamp()[1] for m in rig.kafka.messages(topic_name)}
    assert times.pop("k2") > 1_750_000_000_000, "the time at which it was written"
    assert times == {f"k{n}": 1000 + n for n in (0, 1, 3, 4, 5)}


def test_a_java_source_defines_its_transaction_boundaries(rig, topic_name):
    """Records 0 to 4, 8 and 9 are committed, 5 to 7 are aborted; the offsets after the aborted ones apply (KIP-618)."""
    own = {"transaction.boundary": "connector"}
    rig.create(topic_name, counting(topic_name, "transactions", **own), ["RUNNING", "RUNNING"])
    rig.wait_records(topic_name, 7)
    assert numbers(rig, topic_name) == [0, 1, 2, 3, 4, 8, 9]
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 10})
    refused = rig.refused("POST", "/connectors", {"name": f"{topic_name}-no", "config": counting(topic_name, **own)})
    assert refused.status == 400
    assert "does not support connector-defined transaction boundaries" in str(refused)


def test_a_trial_runs_no_java_plugins_and_says_so(rig):
    def tried(**config):
        with pytest.raises(RestError) as refused:
            rig.call("POST", "/connectors/try", {"config": {"topic": "t", **config}})
        return str(refused.value)

    assert f"connector.class: {MODE} is a Java plugin. A trial runs only" in tried(**{"connector.class": MODE})
    python = {"connector.class": "datagen", "transforms": "a", "transforms.a.type": "heeler.tests.Measured$Pass"}
    assert "HTTP 400: transforms.a.type: heeler.tests.Measured$Pass is a Java plugin" in tried(**python)
    assert "value.converter: heeler.tests.Measured$Longs" in tried(**{
        "connector.class": "datagen", "value.converter": "heeler.tests.Measured$Longs"})


def test_two_versions_of_a_plugin_run_at_the_same_time(rig, topic_name):
    """KIP-891: of a connector, a transform, a converter."""
    old = {"connector.plugin.version": "[6.0,7.0)"}
    shown = [p["version"] for p in rig.call("GET", "/connector-plugins") if p["class"] == MODE]
    assert shown == ["6.0", "7.1"]
    rig.create(topic_name, counting(topic_name, "throw", **old), ["RUNNING", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert (status["connector"]["version"], status["tasks"][0]["version"]) == ("6.0", "6.0")
    assert "thrown by poll of 6.0" in status["tasks"][0]["trace"]
    refused = rig.refused("POST", "/connectors", {
        "name": f"{topic_name}-9", "config": counting(topic_name, **{"connector.plugin.version": "9.0"})})
    assert refused.status == 400
    assert f"{MODE} not found that matches the version range [9.0,9.0], available versions: [6.0, 7.1]" in str(refused)
    newest = {"transforms": "p", "transforms.p.type": "heeler.tests.Measured$Pass",
              "value.converter": "heeler.tests.Measured$Longs"}
    older = {"transforms.p.plugin.version": "6.0", "value.converter.plugin.version": "[6.0,7.0)"}
    for more, version in ((newest, "7.1"), ({**newest, **older}, "6.0")):
        name = f"{topic_name}-of-{version}"
        rig.create(name, counting(name, **more), ["RUNNING", "RUNNING"])
        for what in ("transform", "converter"):
            line = rf"\[{name}\|task-0\] a {what} of version {version} \(heeler\.java:"
            wait_until(lambda line=line: bool(re.search(line, rig.process.log.read_text())), what=line)


def test_a_class_for_a_newer_java_is_named_in_the_error(rig, topic_name):
    refused = rig.refused("POST", "/connectors", {"name": topic_name, "config": {
        "connector.class": "heeler.tests.Newer", "topic": topic_name}})
    assert refused.status == 400
    assert "/newer names plugins that cannot be loaded: heeler.tests.Newer" in str(refused)
    assert "heeler/tests/Newer has been compiled by a more recent version" in rig.process.log.read_text()


def test_a_connector_that_raises_an_error_is_failed(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "raise"))
    wait_until(lambda: states_of(rig.rest, topic_name)[:1] == ["FAILED"], what="the failure")
    assert "raised by the connector" in rig.call("GET", f"/connectors/{topic_name}/status")["connector"]["trace"]


def test_python_plugins_run_after_a_java_source(rig, topic_name):
    """A transform of Java, then one of Python, a value and a header converter of Python. `commitRecord` is told where a
    record went, and of those that Python left out; exactly once.
    """
    letters, python = f"{topic_name}-dead", "crossing."
    rig.create(topic_name, counting(topic_name, "gaps", tell="yes", **{
        "transforms": "pass,double", "transforms.pass.type": "heeler.tests.Measured$Pass",
        "transforms.double.type": f"{python}double", "value.converter": f"{python}Numbered",
        "header.converter": f"{python}Shouted", "errors.tolerance": "all", "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": letters, "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true", "exactly.once.support": "requested",
    }), ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"next": 9007199254740993 + 10})
    found = rig.kafka.messages(topic_name)
    assert [(m.key(), m.value(), m.timestamp()[1]) for m in found] == [
        (b"k%d" % n, None if n == 5 else b"#%d" % (2 * n), 1000 + n) for n in (0, 1, 3, 5, 8, 9)]
    assert all([name for name, _ in m.headers()] == ["confirmed"] for m in found)
    (six,) = rig.kafka.messages(f"{topic_name}-six")
    assert (six.key(), six.value()) == (b"k6", b"#12")
    name = "__connect.errors."
    reported = [(m.key(), h[f"{name}stage"], h[f"{name}class.name"], h[f"{name}exception.message"])
            for m in rig.kafka.messages(letters)
            for h in [{key: value.decode(errors="replace") for key, value in m.headers()}]]
    assert reported == [(b"k2", "TRANSFORMATION", f"{python}double",
                     "double raised ValueError('it is two')"),
                    (b"k7", "VALUE_CONVERTER", f"{python}Numbered", "it is fourteen")]
    wanted = {f"committed {m.key().decode()} at {m.topic()}-{m.partition()}@{m.offset()} of" for m in [*found, six]}
    wanted |= {f"left out k{n}" for n in (2, 4, 7)}
    wait_until(lambda: all(line in rig.process.log.read_text() for line in wanted), what="commitRecord")
    strict = f"{topic_name}-strict"
    rig.create(strict, counting(strict, transforms="double", **{"transforms.double.type": f"{python}double"}),
               ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{strict}/status")["tasks"][0]["trace"]
    assert "Tolerance exceeded in error handler: transforms.double (crossing.double) cannot transform record" in trace


def letters_of(rig, queue):
    """Key, value, stage, class and message of each dead letter."""
    name = "__connect.errors."
    return [(m.key(), m.value(), h[f"{name}stage"], h[f"{name}class.name"].replace("heeler.tests.Measured$", ""),
             h[f"{name}exception.message"])
            for m in rig.kafka.messages(queue)
            for h in [{key: value.decode(errors="replace") for key, value in m.headers() if value is not None}]]


def test_java_plugins_run_before_a_python_sink(rig, topic_name):
    """A Java converter and transform, then a Python transform; each part has bad records; the host is killed."""
    queue, out, java = f"{topic_name}-dead", rig.folder / "out", "heeler.tests.Measured$"
    rig.kafka.create(topic_name)
    config = {
        "connector.class": "journal.JournalSinkConnector", "topics": topic_name, "file": str(out),
        "value.converter": f"{java}Longs", "transforms": "picky,double", "transforms.picky.type": f"{java}Picky",
        "transforms.double.type": "crossing.double", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue, "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true"}
    longs = lambda *numbers: [None if n is None else n.to_bytes(8, "big") for n in numbers]  # noqa: E731
    values = [*longs(1), b"abc", *longs(2, 3, 4, None, 6)]
    rig.kafka.send(topic_name, values, [f"k{n}" for n in range(7)], headers=[("h", b"\xff")])
    rig.create(topic_name, config, ["RUNNING", "RUNNING"])
    wait_until(lambda: rig.kafka.committed(f"connect-{topic_name}") == {(topic_name, 0): 7}, SLOW_S, "the commit")

    def rows():
        found = map(json.loads, out.read_text().splitlines())
        return [(r["topic"], r["offset"], r["key"], r["value"], [h["key"] for h in r["headers"]],
                 r["headers"][0]["value"]) for r in found]

    assert rows() == [(f"{topic_name}-j{more}", offset, f"k{offset}", value, ["h", "java"], str(b"\xff"))
                      for more, offset, value in (("", 0, 2), ("", 5, None), ("-six", 6, 12))]
    assert sorted(letters_of(rig, queue)) == [
        (b"k1", b"abc", "VALUE_CONVERTER", "Longs", "Failed to deserialize long: "),
        (b"k2", *longs(2), "TRANSFORMATION", "crossing.double", "double raised ValueError('it is two')"),
        (b"k4", *longs(4), "TRANSFORMATION", "Picky", "it ends with 4")]
    jvm(rig).kill()
    rig.kafka.send(topic_name, longs(7))
    wait_until(lambda: rows()[-1][3] == 14, SLOW_S, "the record after the host's end")
    strict = f"{topic_name}-strict"
    rig.create(strict, {**config, "errors.tolerance": "none", "file": str(rig.folder / "other")}, ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{strict}/status")["tasks"][0]["trace"]
    assert f"{java}Longs cannot process record {topic_name}-0, offset 1" in trace


def test_java_plugins_run_after_a_python_source(rig, topic_name):
    """A Python transform, then a Java transform and converter; each part has bad records."""
    queue, java = f"{topic_name}-dead", "heeler.tests.Measured$"
    rig.create(topic_name, {
        "connector.class": "journal.LettersSourceConnector", "topic": topic_name, "transforms": "prefix,picky",
        "transforms.prefix.type": "crossing.prefix", "transforms.picky.type": f"{java}Picky",
        "value.converter": f"{java}Capitals", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue, "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true"}, ["RUNNING", "RUNNING"])
    wait_until(lambda: [o["n"] for o in offsets(rig, topic_name)] == [5], SLOW_S, "the last offset")
    found = rig.kafka.messages(f"{topic_name}-j")
    assert [(m.key(), m.value(), m.timestamp()[1], m.headers()) for m in found] == [
        (b"key 0", b"PY VALUE 0", 1_700_000_000_000, [("java", b"yes")]),
        (b"key 1", b"PY VALUE 1", 1_700_000_000_001, [("n", b"1"), ("n", b"\xff"), ("none", None), ("java", b"yes")])]
    assert sorted(letter[2:] for letter in letters_of(rig, queue)) == [
        ("TRANSFORMATION", "Picky", "it ends with 4"), ("VALUE_CONVERTER", "Capitals", "it ends with 2")]
