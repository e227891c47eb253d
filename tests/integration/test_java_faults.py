"""Java plugins that hang, fill the heap or end their JVM, and JVMs that are killed or stopped."""

from __future__ import annotations

import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spark_tasks.host_frames import message
from tests.rigs.java_connectors import (
    FILE_SOURCE,
    SLOW_S,
    counting,
    jvm,
    lines_of,
    notes,
    noting,
    numbers,
    offsets,
    wait_notes,
    wait_offset,
    worker_with_jars,
)
from tests.rigs.scrape import metrics
from tests.rigs.support import wait_until
from tests.rigs.workers import has_ended, shared, wait_gone

pytestmark = pytest.mark.integration


ANSWER_S, SILENCE_S = 4, 8
STUCK = "heeler.tests.StuckSource"
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
SECRET = "s3cr3t-of-the-vault"  # noqa: S105 - a test's


@pytest.fixture(scope="module")
def stuck(tmp_path_factory):
    """Its content names the method in which StuckSource hangs."""
    return tmp_path_factory.mktemp("stuck") / "where"


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """What the config provider in a jar writes of itself."""
    return tmp_path_factory.mktemp("vault") / "journal"


@pytest.fixture(scope="module")
def java_worker(kafka, stuck, journal, tmp_path_factory):
    vault = {"class": "heeler.tests.Vault", "param_journal": journal, "param_records": 7, "param_unlock": SECRET,
             "param_header": "set X-Vault: open"}
    with worker_with_jars(kafka, tmp_path_factory.mktemp("java"), "java-faults", f"-Dheeler.stuck={stuck}",
                          java_plugins_answer_timeout_ms=str(1000 * ANSWER_S),
                          java_plugins_silence_timeout_ms=str(1000 * SILENCE_S),
                          java_plugins_prefer=f"{FILE_SOURCE},{FILE_PROVIDER}",
                          config_providers="vault,kafkas", config_providers_kafkas_class=FILE_PROVIDER,
                          response_http_headers_config="${vault:rest:header}",
                          **{f"config_providers_vault_{key}": str(value) for key, value in vault.items()}) as rig:
        yield rig


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


@pytest.mark.parametrize("mode", ["hang", "hang-start", "hang-connector", "hang-stop"])
def test_a_hung_task_is_abandoned_and_blocks_no_others(rig, topic_name, mode):
    rig.create(topic_name, counting(topic_name, mode))
    if mode in {"hang", "hang-stop"}:
        rig.wait_records(topic_name, 5)
    other = f"{topic_name}-other"
    rig.create(other, counting(other), ["RUNNING", "RUNNING"])
    rig.delete(topic_name)
    rig.wait_records(other, 10)


def test_the_end_of_the_host_is_detected_and_its_tasks_continue(rig, topic_name):
    """Killed, and ended by a plugin, which becomes FAILED, while the others continue after their offsets, each record
    once.
    """
    file = lines_of(rig, topic_name)
    first = jvm(rig)
    first.kill()
    with file.open("a") as out:
        out.write("two\n")
    wait_offset(rig, topic_name, {"position": 8})
    assert first.pid != jvm(rig).pid
    assert "the Java plugin host has ended (exit code 137)" in story(rig, topic_name)
    assert "RESTARTING" in story(rig, topic_name)
    bad = f"{topic_name}-exit"
    rig.create(bad, counting(bad, "exit"))
    rig.wait_states(bad, ["FAILED", "FAILED"], SLOW_S)
    trace = rig.call("GET", f"/connectors/{bad}/status")["tasks"][0]["trace"]
    assert "the plugin called System.exit" in trace
    assert "heeler.tests.ModeSource$Counting.poll" in trace
    with file.open("a") as out:
        out.write("three\n")
    wait_offset(rig, topic_name, {"position": 14})
    assert [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()] == ["one", "two", "three"]
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])


def test_a_jvm_ends_with_the_shell_that_guards_it_and_its_tasks_continue(rig, topic_name):
    file = lines_of(rig, topic_name)
    first = jvm(rig)
    first.parent().kill()
    wait_until(lambda: has_ended(first), 5, "the end of the JVM: in milliseconds, on a machine with nothing else to do")
    with file.open("a") as out:
        out.write("two\n")
    wait_offset(rig, topic_name, {"position": 8})
    assert first.pid != jvm(rig).pid
    assert "the Java plugin host has ended (exit code 137)" in story(rig, topic_name)
    assert [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()] == ["one", "two"]
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])


def test_a_host_with_too_many_hung_threads_is_replaced_cleanly(rig, topic_name):
    """Its tasks stop as usual, and continue in the next one: no record is missing or duplicate."""
    file, sunk, hung = rig.folder / "lines", f"{topic_name}-sink", f"{topic_name}-hung"
    file.write_text("one\n")
    rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name,
                            "exactly.once.support": "required"}, ["RUNNING", "RUNNING"])
    rig.kafka.create(sunk)
    rig.kafka.send(sunk, ["a"])
    rig.create(sunk, noting(rig, sunk), ["RUNNING", "RUNNING"])
    wait_notes(rig, "put 0 0 a")
    wait_offset(rig, topic_name, {"position": 4})
    first = jvm(rig)
    (rig.folder / "once").touch()
    rig.create(hung, counting(hung, "hang", once=str(rig.folder / "once"), **{"tasks.max": "10"}), ["RUNNING"] * 11)
    rig.wait_records(hung, 5)
    rig.delete(hung)
    wait_gone([first])
    with file.open("a") as out:
        out.write("two\n")
    rig.kafka.send(sunk, ["b"])
    wait_offset(rig, topic_name, {"position": 8})
    wait_notes(rig, "put 0 1 b")
    assert notes(rig) == ["start true", "open [0] true", "put 0 0 a", "close [0]", "stop",
                          "start true", "open [0] true", "put 0 1 b"]
    assert [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()] == ["one", "two"]
    log = rig.process.log.read_text()
    assert "Replacing the Java plugin host: too many threads hang in it; its tasks continue in a new one" in log
    for name in (topic_name, sunk):
        rig.wait_states(name, ["RUNNING", "RUNNING"])
    assert jvm(rig).pid != first.pid


def story(rig, name):
    return str(rig.call("GET", f"/connectors/{name}/story"))


def test_a_jvm_that_does_not_respond_is_ended(rig, topic_name):
    """It is suspended here, with the same effect as endless garbage collection: its tasks continue in a new one."""
    file = lines_of(rig, topic_name)
    first = jvm(rig)
    first.suspend()
    with file.open("a") as out:
        out.write("two\n")
    wait_offset(rig, topic_name, {"position": 8})
    wait_gone([first])
    assert f"has ended (it has not responded for {SILENCE_S} s" in story(rig, topic_name)
    assert "RESTARTING" in story(rig, topic_name)
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])


def test_an_out_of_memory_error_in_a_plugins_own_thread_ends_the_jvm(rig, topic_name):
    """A plugin's own thread ends for lack of memory, and its task waits for it: all continue in a new JVM."""
    other = f"{topic_name}-other"
    file, once = lines_of(rig, other), rig.folder / "once"
    once.touch()
    rig.create(topic_name, counting(topic_name, "leak-aside", once=str(once)))
    wait_until(lambda: not once.exists(), SLOW_S, "the leak")
    wait_until(lambda: numbers(rig, topic_name) == list(range(10)), SLOW_S, "all records, each once")
    with file.open("a") as out:
        out.write("two\n")
    wait_offset(rig, other, {"position": 8})
    for name in (topic_name, other):
        assert "the Java plugin host has ended (its heap was full)" in story(rig, name)
        rig.wait_states(name, ["RUNNING", "RUNNING"])


def test_a_plugin_that_does_not_return_in_time_is_abandoned(rig, topic_name, stuck):
    """The caller gets an error in time, others are not affected; with too many hung threads the host is replaced."""
    config = counting(topic_name) | {
        "connector.class": STUCK, "exactly.once.support": "required", "name": topic_name}
    validate = f"/connector-plugins/{STUCK}/config/validate"
    late = f"did not return within {ANSWER_S} s (java.plugins.answer.timeout.ms)"
    with ThreadPoolExecutor(10) as pool:
        try:
            for method, asked in (("constructor", "config"), ("config", "config"), ("validate", "validate")):
                stuck.write_text(method)
                refused = pool.submit(rig.refused, "PUT", validate, config)
                other = f"{topic_name}-while-{method}"
                rig.create(other, counting(other), ["RUNNING", "RUNNING"])
                assert not refused.done()
                assert refused.result(SLOW_S).status == 500
                assert f"{STUCK}.{asked}() {late}" in str(refused.result())
                rig.delete(other)
            stuck.write_text("exactlyOnceSupport")
            found = rig.call("PUT", validate, config)["configs"]
            (error,) = [e for c in found if c["value"]["name"] == "exactly.once.support" for e in c["value"]["errors"]]
            assert f"{STUCK}.exactlyOnceSupport() {late}" in error
            stuck.write_text("exit")
            assert "the plugin called System.exit" in str(rig.refused("PUT", validate, config))
            stuck.write_text("taskConfigs")
            rig.create(topic_name, config, ["RUNNING"])
            rig.delete(topic_name)
            hung = f"Thread 'connector {topic_name}' hangs after its connection was closed"
            wait_until(lambda: hung in rig.process.log.read_text(), SLOW_S, "the hung taskConfigs")
            stuck.write_text("")
            rig.create(topic_name, config, ["RUNNING", "RUNNING"])
            rig.wait_records(topic_name, 10)
            rig.call("PUT", f"/connectors/{topic_name}/stop")
            rig.wait_states(topic_name, ["STOPPED"])
            stuck.write_text("alterOffsets")
            before = offsets(rig, topic_name)
            refused = rig.refused("DELETE", f"/connectors/{topic_name}/offsets")
            assert f"{STUCK}.alterOffsets() {late}" in str(refused)
            assert offsets(rig, topic_name) == before
            stuck.write_text("validate")
            first = jvm(rig)
            for refused in [pool.submit(rig.refused, "PUT", validate, config) for _ in range(8)]:
                assert late in str(refused.result(SLOW_S))
            wait_gone([first])
            assert "Replacing the Java plugin host: too many threads hang in it;" in rig.process.log.read_text()
        finally:
            stuck.write_text("")
    rig.call("DELETE", f"/connectors/{topic_name}/offsets")
    assert offsets(rig, topic_name) == []


def test_config_providers_from_jars_serve_workers_and_connectors(rig, topic_name, journal):
    """A provider compiled here and Kafka's own: for the worker's file and connectors; restarts when a value has lived
    its time; the next JVM has its own; the value itself is nowhere.
    """
    connection = http.client.HTTPConnection(rig.rest.url.removeprefix("http://"), timeout=20)
    connection.request("GET", "/connectors")
    assert connection.getresponse().getheader("X-Vault") == "open"
    connection.close()
    file = rig.folder / "lines"
    file.write_text("one\n")
    secrets = rig.folder / "secrets.properties"
    secrets.write_text(f"file={file}\n")
    rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": f"${{kafkas:{secrets}:file}}", "topic": topic_name},
               ["RUNNING", "RUNNING"])
    wait_offset(rig, topic_name, {"position": 4})
    log = rig.process.log.read_text()
    assert f"{FILE_PROVIDER}: the Java plugin in " in log
    assert "Starting file source connector reading from [hidden]" in log
    brief = f"{topic_name}-brief"
    config = counting(brief, records="${vault:all:records}", unlock="${vault:brief:unlock}",
                      mode="${vault:none:mode}")
    refused = rig.refused("POST", "/connectors", {"name": brief, "config": config})
    assert "Invalid value ${vault:none:mode} for configuration mode" in str(refused), "a key that the provider lacks"
    rig.create(brief, {**config, "mode": "count"})
    rig.wait_records(brief, 7)
    assert rig.call("GET", f"/connectors/{brief}/config")["unlock"] == "${vault:brief:unlock}"
    reads = lambda: journal.read_text().count("get brief")  # noqa: E731
    before = reads()
    wait_until(lambda: reads() >= before + 4, SLOW_S, "two restarts, of connector and task")
    rig.delete(brief)
    configured = lambda: journal.read_text().count("configured by PluginClassLoader")  # noqa: E731
    assert configured() >= 1
    before = configured()
    jvm(rig).kill()
    rig.create(f"{brief}-2", {**config, "mode": "count", "topic": f"{brief}-2", "unlock": "${vault:all:unlock}"})
    rig.wait_records(f"{brief}-2", 7, SLOW_S)
    assert configured() == before + 1
    wait_until(lambda: metrics(rig).get(("heeler_plugin_reads", "vault"), 0) >= 2, what="what the next one measures")
    topics = [rig.process.properties[f"{kind}.storage.topic"] for kind in ("status", "config", "offset")]
    reported = repr([(m.key(), m.value()) for topic in topics for m in rig.kafka.messages(topic)])
    for text in (reported, rig.process.log.read_text(), repr(rig.call("GET", "/connectors?expand=status&expand=info"))):
        assert SECRET not in text


def test_a_config_provider_that_throws_or_hangs_affects_only_its_callers(rig, topic_name, stuck):
    stuck.write_text("")
    counts = {"records": "${vault:all:records}"}
    for path, why in (
        ("sealed", "org.apache.kafka.common.config.ConfigException: the vault is sealed"),
        ("broken", "java.lang.IllegalStateException: the vault is broken"),
        ("nothing", "heeler.tests.Vault.get() returned null"),
    ):
        stuck.write_text(path)
        wrong = counting(topic_name, records=f"${{vault:{path}:records}}")
        refused = rig.refused("POST", "/connectors", {"name": topic_name, "config": wrong})
        assert refused.status == 500
        assert f"The config provider heeler.tests.Vault could not read {path}: " in str(refused)
        assert why in str(refused)
    stuck.write_text("get")
    wrong = counting(topic_name, records="${vault:stuck:records}")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(rig.refused, "PUT", "/connector-plugins/ModeSource/config/validate", {**wrong, "name": "n"})
        rig.create(f"{topic_name}-2", counting(f"{topic_name}-2", **counts))
        rig.wait_records(f"{topic_name}-2", 7)
        refused = asked.result(SLOW_S)
    assert f"heeler.tests.Vault.get() did not return within {ANSWER_S} s" in str(refused)
    stuck.write_text("")
    rig.create(topic_name, counting(topic_name, records="${vault:sealed:records}"), ["RUNNING", "RUNNING"])
    stuck.write_text("sealed")
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
    rig.wait_states(topic_name, ["FAILED", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert "the vault is sealed" in status["connector"]["trace"]
    assert "the vault is sealed" in status["tasks"][0]["trace"]
    stuck.write_text("")
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true&onlyFailed=true")
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])


def test_the_host_is_private_and_ends_with_the_worker(java_worker):
    """This test is the last one because it kills the worker."""
    host = jvm(java_worker)
    folder = host.cmdline()[host.cmdline().index("heeler.host.Host") + 1]
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as stranger:  # who does not know the secret is not answered
        stranger.connect(f"{folder}/socket")
        stranger.sendall(message(0, {"op": "hello", "secret": "guessed"}) + message(1, {"op": "plugins"}))
        answered = b""
        with suppress(ConnectionResetError):
            answered = stranger.recv(1)
        assert answered == b""
    worker = psutil.Process(java_worker.process.pid).children()[0]
    worker.kill()
    wait_gone([host, worker])
    wait_until(lambda: not Path(folder).exists(), what="the end of the host's folder")
