"""How an engine starts Spark, its first processes, and the parents of processes. Each test has an engine of its own."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from spark_tasks.errors import ConnectError
from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.environment import OPTIONAL, needed, python_path
from spark_tasks.spark.gateway import SparkStartError
from spark_tasks.spark.lifecycle import EngineState
from spark_tasks.spark.residents import engine as residents
from spark_tasks.spark.residents import local_launcher, wire
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.listener import ExecutorListener, Line
from spark_tasks.spark.residents.local_launcher import LocalLauncher
from spark_tasks.spark.residents.local_parent import TITLE
from tests.rigs.engines import SETTINGS, START_S, errors
from tests.rigs.splits import Answer, Describe, EndGroup, Hang, IsImported
from tests.rigs.support import wait_until
from tests.rigs.workers import wait_gone

pytestmark = pytest.mark.integration


def test_a_plugin_that_signals_its_process_group_ends_only_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of all processes was ended, too, and those of other connectors."""
    arrived: SimpleQueue[Line] = SimpleQueue()
    listener, launcher = ExecutorListener(lambda _, line: arrived.put(line)), LocalLauncher(python_path(), 2)
    lines = []
    for number in (1, 2):
        launcher.launch(listener.expect(number))
        lines.append(arrived.get(timeout=START_S))
    ended, other = lines
    wire.send(ended.work, pickle.dumps(EndGroup()))
    with pytest.raises(OSError, match="the connection ended"):
        wire.receive(ended.work)
    wire.send(other.work, pickle.dumps(Answer(1)))
    assert pickle.loads(wire.receive(other.work))[0].value == 1
    assert launcher.failure(1) is None, "the parent lives"
    process = psutil.Process(other.pid)
    parent = process.parent()
    monkeypatch.setattr(local_launcher, "JOIN_S", 0.0)
    launcher.close()
    wire.send(other.work, pickle.dumps(Answer(2, seconds=0.3)))
    assert pickle.loads(wire.receive(other.work))[0].value == 2
    assert process.parent() == parent, "it waits for it, however long: a worker that is PID 1 would have to"
    for line in lines:
        line.close()
    listener.close()
    wait_gone([process, parent])


def test_optional_modules_are_imported_before_processes_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's own fork server imports them also if the first connector that needs them is created later."""
    arrived: SimpleQueue[Line] = SimpleQueue()
    listener, launcher = ExecutorListener(lambda _, line: arrived.put(line)), LocalLauncher(python_path(), 2)
    lines, found = [], []
    for number in (1, 2):
        launcher.launch(listener.expect(number))
        lines.append(arrived.get(timeout=START_S))
        wire.send(lines[-1].work, pickle.dumps(IsImported("xml.dom.pulldom")))
        found.append(pickle.loads(wire.receive(lines[-1].work))[0].value)
        monkeypatch.setitem(OPTIONAL, "pytest", ("no.such.module", "xml.dom.pulldom"))
    assert found == [False, True]
    processes = [psutil.Process(line.pid) for line in lines]
    for line in lines:
        line.close()
    launcher.close()
    listener.close()
    wait_gone(processes)
    assert "xml.dom.pulldom" in needed(), "what Spark's is told when it starts"


def test_spark_starts_after_the_configured_delay() -> None:
    """Until then, splits run in processes that the worker starts itself."""
    engine = ResidentEngine({}, replace(SETTINGS, spark_delay_s=600.0))
    engine.start()
    (found,) = engine.submit("a-0", [Describe()]).result(START_S)
    assert found["daemon"][0] == TITLE
    assert engine.state is EngineState.NEW
    engine.close()
    engine = ResidentEngine({}, replace(SETTINGS, spark_delay_s=0.1))
    engine.start()
    assert engine.submit("a-0", [Answer(1)]).result(START_S) == [1]
    wait_until(lambda: engine.state is not EngineState.NEW)
    engine.close()


FORKS = """
import json, os, signal, sys, psutil
from spark_tasks.spark.environment import keep_environment
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.forked_parent import end_parent, fork_parent
from spark_tasks.spark.residents.local_parent import serve
from spark_tasks.spark.residents.settings import ExecutorSettings
from tests.rigs.splits import Say, Surroundings

def children():
    return psutil.Process().children()

keep_environment()
signal.signal(signal.SIGTERM, print)
if fork_parent():
    serve()
assert len(children()) == 1
end_parent()
assert children() == [], "it was ended and waited for"
before = dict(os.environ)
if fork_parent():
    serve()
(forked,) = children()
if "dies" in sys.argv:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody can wait for it
    forked.kill()
    while forked.is_running():
        pass
os.environ["OF_A_PLUGIN"] = "yes"
found = []
for n in range(2):
    engine = ResidentEngine({}, ExecutorSettings(spark_delay_s=600.0))
    engine.start()
    found += engine.submit("a-0", [Surroundings()]).result(60)
    engine.submit("a-0", [Say(f"{n}")]).result(60)
    for parent in children():
        assert os.getpgid(parent.pid) == parent.pid, "Ctrl-C does not reach it"
    assert not fork_parent(), "this process has threads"
    engine.close()
with open("/proc/self/environ", "rb") as kept:
    print(json.dumps([before, kept.read().decode(), forked.pid, found], default=str))
"""


@pytest.mark.parametrize("arguments", [["--override", "a=b"], ["dies"]])
def test_a_forked_parents_processes_are_as_those_of_a_parent_that_is_a_program(
    tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open() as lock:
        done = subprocess.run([sys.executable, "-c", FORKS, *arguments], capture_output=True, text=True, check=False,
                              timeout=START_S, cwd=tmp_path, env={**os.environ, "PYTHONPATH": python_path()},
                              pass_fds=[lock.fileno()])
    assert done.returncode == 0, done.stderr
    before, kept, forked_pid, (first, second) = json.loads(done.stdout.splitlines()[-1])
    parents = [one.pop("parent") for one in (first, second)]
    assert (parents[0] == forked_pid, parents[1] == forked_pid) == (arguments != ["dies"], False)
    assert first == second
    assert "OPENBLAS_NUM_THREADS" in first["environment"], "libraries there have no threads"
    assert "OPENBLAS_NUM_THREADS" not in before, "but the worker's own environment is the user's"
    assert f"PYTHONPATH={python_path()}" in kept.split("\0"), "and can be read by others"
    assert sorted(re.findall("(?:printed|written|warned of) .", done.stderr)) == [
        "printed 0", "printed 1", "warned of 0", "warned of 1", "written 0", "written 1"]
    assert not re.search("Traceback|did not start", done.stderr), done.stderr


def test_spark_starts_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "QUIET_S", 1.0)
    engine = ResidentEngine({}, replace(SETTINGS, spark_delay_s=None))
    engine.start()
    assert engine.submit("a-0", [Answer(1, seconds=3.0)]).result(START_S) == [1]
    assert engine.state is EngineState.NEW
    wait_until(lambda: engine.state is not EngineState.NEW)
    engine.close()


def test_spark_starts_although_something_always_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(residents, "BUSY_S", 0.1)
    engine = ResidentEngine({}, replace(SETTINGS, spark_delay_s=None))
    engine.start()
    engine.submit("a-0", [Hang(str(tmp_path / "started"))])
    wait_until(lambda: engine.state is not EngineState.NEW)
    engine.close()


def test_batches_fail_if_spark_cannot_start(caplog: pytest.LogCaptureFixture) -> None:
    broken = SparkEngine({"spark.driver.extraJavaOptions": "-XX:MaxHeapFreeRatio=200"})
    broken.start()
    assert broken.state is EngineState.NEW, "nothing needs it yet"
    waiting = broken.submit("a-0", [Answer(1)])
    with pytest.raises(SparkStartError):
        waiting.result(START_S)
    assert broken.state is EngineState.FAILED
    assert [text.partition(":")[0] for text in errors(caplog)] == ["Spark is not available"]
    with pytest.raises(SparkStartError):
        broken.submit("a-0", [Answer(1)]).result(1)
    broken.close()


def test_a_closed_engine_refuses_batches() -> None:
    engine = SparkEngine({})
    waiting = engine.submit("a-0", [Answer(1)])
    engine.close()
    with pytest.raises(CancelledError):
        waiting.result(1)
    with pytest.raises(ConnectError, match="closed"):
        engine.submit("a-0", [Answer(1)]).result(1)
    engine.start()
    assert engine.state is EngineState.CLOSED
