"""A worker whose Java connectors each have a JVM; the metrics of Java plugins."""

from __future__ import annotations

import re

import pytest

from tests.rigs.java_connectors import FILE_SOURCE, SLOW_S, counting, jvms, lines_of, wait_offset
from tests.rigs.java_jars import plugin_folder
from tests.rigs.scrape import get, metrics
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, PLUGINS, Rig, running_worker, wait_gone

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def isolating_worker(kafka, tmp_path_factory):
    folder = plugin_folder(tmp_path_factory.mktemp("jars"))
    more = {"plugin_path": f"{PLUGINS},{folder}", "java_plugins_prefer": FILE_SOURCE, "offset_flush_interval_ms": "500",
            "java_plugins_isolation": "connector", "java_plugins_jvm_options": "-Xmx64M -XX:TieredStopAtLevel=1"}
    with running_worker(kafka, tmp_path_factory.mktemp("worker"), "java-hosts", **more, **PATIENT) as rig:
        yield rig


@pytest.fixture
def rig(isolating_worker, tmp_path):
    own = Rig(isolating_worker.process, isolating_worker.kafka, tmp_path)
    yield own
    own.tidy()


def test_a_plugin_that_leaks_or_ends_its_jvm_harms_no_other_connector(rig, topic_name):
    """One plugin fills the heap, another calls System.exit; all other connectors continue in their own JVM."""
    file = lines_of(rig, topic_name)
    before = set(jvms(rig))
    leaks, exits = f"{topic_name}-leak", f"{topic_name}-exit"
    rig.create(leaks, counting(leaks, "leak"))
    rig.wait_states(leaks, ["RUNNING", "FAILED"], SLOW_S)
    trace = rig.call("GET", f"/connectors/{leaks}/status")["tasks"][0]["trace"]
    assert "java.lang.OutOfMemoryError: Java heap space" in trace
    story = lambda: str(rig.call("GET", f"/connectors/{leaks}/story"))  # noqa: E731
    wait_until(lambda: "the Java plugin host is being replaced (its heap is full)" in story(), SLOW_S, "a free heap")
    moved = lambda: set(re.findall(r"(\S+) continues in another Java plugin host", rig.process.log.read_text()))  # noqa: E731
    wait_until(lambda: leaks in moved(), SLOW_S, "what leaks to go on")
    leaking = set(jvms(rig)) - before
    rig.create(exits, counting(exits, "exit"))
    rig.wait_states(exits, ["FAILED", "FAILED"], SLOW_S)
    assert "the plugin called System.exit" in rig.call("GET", f"/connectors/{exits}/status")["tasks"][0]["trace"]
    rig.delete(leaks)
    wait_gone(leaking)  # which is what gives the memory back
    with file.open("a") as out:
        out.write("two\n")
    wait_offset(rig, topic_name, {"position": 8})
    wait_until(lambda: set(jvms(rig)) == before, what="the end of all other JVMs")
    assert not {topic_name, f"{topic_name}-0"} & moved()


def test_metrics_of_java_plugins_in_a_python_connector(rig, topic_name):
    """KIP-877: metrics of a transform that its executors run in the host, in addition to the connector's own."""
    file = rig.folder / f"{topic_name}.txt"
    file.write_text("a\nb\nc\n")
    rig.create(topic_name, {"connector.class": "FileStreamSource", "file": str(file), "topic": topic_name,
                            "transforms": "pass", "transforms.pass.type": "heeler.tests.Measured$Pass"},
               ["RUNNING", "RUNNING"])
    labels = (topic_name, "0", "pass")

    def measured(name):
        return metrics(rig).get((f"heeler_plugin_{name}", *labels))

    wait_until(lambda: (measured("passed"), measured("taken_total")) == (3, 3), SLOW_S, "the figures of 3 records")
    with file.open("a") as more:
        more.write("d\n")
    wait_until(lambda: measured("taken_total") == 4, SLOW_S, "the figures of 4 records, in whatever executor")
    rig.delete(topic_name)
    assert topic_name not in get(rig, "/metrics")[2]


def test_metrics_of_java_plugins(rig, topic_name):
    """KIP-877: of a connector, a task, a transform, a converter; a gauge that throws is left out."""
    rig.create(topic_name, counting(topic_name, "measure", transforms="pass", **{
        "transforms.pass.type": "heeler.tests.Measured$Pass", "value.converter": "heeler.tests.Measured$Longs"}))
    wanted = {
        ("heeler_plugin_open_files", topic_name, 'a"b'): 3,
        ("heeler_plugin_polled_total", topic_name, "0"): 10,
        ("heeler_plugin_state", topic_name, "counting", "0"): 1,
        ("heeler_plugin_passed", topic_name, "0", "pass"): 10,
        ("heeler_plugin_taken_total", topic_name, "0", "pass"): 10,
        ("heeler_plugin_converted", topic_name, "value", "0"): 10,
    }

    def measured():
        assert {k: v for k, v in metrics(rig).items() if k[0].startswith("heeler_plugin") and topic_name in k} == wanted
        return True

    wait_until(measured, SLOW_S, "the figures of 10 records")
    page = get(rig, "/metrics")[2]
    assert "# HELP heeler_plugin_polled_total Records polled.\n# TYPE heeler_plugin_polled_total counter" in page
    complaint = f"connector {topic_name}: the metric bad has no value: java.lang.IllegalStateException: no value"
    assert complaint in rig.process.log.read_text()
    rig.delete(topic_name)
    assert topic_name not in get(rig, "/metrics")[2]
