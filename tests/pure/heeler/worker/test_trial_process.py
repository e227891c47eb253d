"""Trials for REST, each in a process of its own."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from pathlib import Path

import psutil
import pytest

from actors.errors import BadRequestError, ConflictError
from heeler.worker import trial_process
from heeler.worker.trial_process import MAX_LOOK_UPS, Trials
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.config_providers import ConfigProvider
from tests.rigs.support import no_thread, wait_until
from tests.rigs.workers import wait_gone

pytestmark = pytest.mark.integration  # processes of their own
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": STRING, "value.converter": STRING}
LINES = "org.apache.kafka.connect.file.FileStream{}Connector"
LOUD = """
import os
import subprocess
import sys
import time
from heeler import source


@source("n bigint")
def Loud(options, start):
    print("this is no JSON")
    os.write(2, b"nor UTF-8: \\xff")
    if options.get("mode") == "hang":
        while True:
            pass
    if options.get("mode") == "flood":
        for _ in range(20):
            os.write(2, b"x" * 2**20)
        os.write(2, b"enough")
        os._exit(3)
    if options.get("mode") == "start":
        children = [subprocess.Popen(["sleep", "300"]).pid, os.fork()]
        if not children[1]:
            time.sleep(300)  # it has standard output
        if sys.platform == "linux":
            children.append(subprocess.Popen(["sleep", "300"], start_new_session=True).pid)
            children.append(int(subprocess.check_output("setsid sleep 300 >/dev/null 2>&1 & echo $!", shell=True)))
        with open(options["pids"], "w") as file:
            print(*children, file=file)
        if options.get("then") == "crash":
            os.kill(os.getpid(), 11)
        while options.get("then") == "hang":
            pass
    if options.get("mode") == "die":
        raise ZeroDivisionError("hunter2hunter2 of all things")
    if options.get("mode") == "score":
        return [(int(open("/proc/self/oom_score_adj").read()),)] if not start else [], {"n": 1}
    return [(1,), (2,)] if not start else [], {"n": 2}
"""


def test_sources_and_sinks_are_tried_and_invalid_requests_refused(tmp_path):
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "loud.py").write_text(LOUD)
    trials = Trials({**WORKER, "plugin.path": str(plugins)}, {})
    loud = {"connector.class": "Loud", "topic": "t"}
    read, converted = trials.run(loud, None, 5)["stages"]
    assert [record["n"] for record in read["records"]] == [1, 2]
    assert [record["topic"] for record in converted["records"]] == ["t", "t"]
    sink = {"connector.class": LINES.format("Sink"), "topics": "t", "file": str(tmp_path / "out")}
    assert trials.run(sink, [{"value": "a"}], 5)["stages"][-1]["records"][0]["value"] == "a"
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadRequestError, match="connectors cannot write there"):  # as a worker would say
        trials.run({**sink, "file": str(plugins / "out")}, [{"value": "a"}], 5)
    with pytest.raises(BadRequestError, match="needs records"):
        trials.run(sink, None, 5)
    [failed] = trials.run({**loud, "mode": "die"}, None, 5)["stages"]
    assert (failed["stage"], failed["records"]) == ("read", [])
    assert failed["error"].endswith("ZeroDivisionError: hunter2hunter2 of all things")
    assert "loud.py" in failed["error"], "with its trace"
    [failed] = trials.run({**loud, "mode": "die", "a.password": "hunter2hunter2"}, None, 5)["stages"]
    assert "hunter2hunter2" not in failed["error"]


def test_a_connector_cannot_choose_the_code_that_a_worker_runs(tmp_path):
    (tmp_path / "loud.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')\n" + LOUD)
    for config in ({"connector.class": "Loud"}, {"connector.class": LINES.format("Source"), "file": str(tmp_path)}):
        with pytest.raises(BadRequestError):
            Trials(WORKER, {}).run({"topic": "t", "plugin.path": str(tmp_path), "tasks.max": "0", **config}, None, 5)
    assert not (tmp_path / "loaded").exists()


def test_a_trial_that_hangs_is_aborted_and_its_slot_is_free_again(tmp_path, monkeypatch):
    (tmp_path / "loud.py").write_text(LOUD)
    monkeypatch.setattr(trial_process, "LONGEST_S", 0.5)
    trials = Trials({**WORKER, "plugin.path": str(tmp_path)}, {})
    for _ in range(3):
        with pytest.raises(ConnectError, match="was aborted"):
            trials.run({"connector.class": "Loud", "topic": "t", "mode": "hang"}, None, 5)


def test_processes_that_a_plugin_starts_end_with_the_trial(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    pids = tmp_path / "pids"
    trials = Trials({**WORKER, "plugin.path": str(tmp_path)}, {})
    config = {"connector.class": "Loud", "topic": "t", "mode": "start", "pids": str(pids)}
    read, _converted = trials.run(config, None, 5)["stages"]
    assert [record["n"] for record in read["records"]] == [1, 2]
    wait_gone([psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))])


@pytest.mark.parametrize(("then", "error"), [("crash", "ended with 139"), ("hang", "was aborted")])
def test_processes_that_a_plugin_starts_end_however_its_trial_does(tmp_path, monkeypatch, then, error):
    (tmp_path / "loud.py").write_text(LOUD)
    pids = tmp_path / "pids"
    monkeypatch.setattr(trial_process, "LONGEST_S", 10.0)
    trials = Trials({**WORKER, "plugin.path": str(tmp_path)}, {})
    config = {"connector.class": "Loud", "topic": "t", "mode": "start", "pids": str(pids), "then": then}
    with pytest.raises(ConnectError, match=error):
        trials.run(config, None, 5)
    wait_gone([psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))])


def test_the_output_of_a_plugin_takes_no_memory_of_the_worker(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    trials = Trials({**WORKER, "plugin.path": str(tmp_path)}, {})
    tracemalloc.start()
    try:
        with pytest.raises(ConnectError, match=r"^The trial's process ended with 3: x+enough$"):
            trials.run({"connector.class": "Loud", "topic": "t", "mode": "flood"}, None, 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_a_result_takes_little_memory_of_the_worker(tmp_path, monkeypatch):
    """Each stage repeats the records."""
    monkeypatch.setattr(trial_process, "LARGEST", 2 << 20)
    sink = {"connector.class": LINES.format("Sink"), "topics": "t", "file": str(tmp_path / "out")}
    tracemalloc.start()
    try:
        with pytest.raises(ConnectError, match=r"too large: its result has more than 2 MiB.*use a smaller limit"):
            Trials(WORKER, {}).run(sink, [{"value": "x" * 2**20}] * 4, 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 14 << 20, "the request is 4 MiB"
    assert Trials(WORKER, {}).run(sink, [{"value": "x" * 2**10}], 5)["stages"]


@pytest.mark.skipif(sys.platform != "linux", reason="has no such scores")
def test_a_trial_is_ended_before_its_worker_if_memory_is_full(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    config = {"connector.class": "Loud", "topic": "t", "mode": "score"}
    read, _converted = Trials({**WORKER, "plugin.path": str(tmp_path)}, {}).run(config, None, 5)["stages"]
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert read["records"][0]["n"] == min(own + 300, 1000)


def test_the_number_of_trials_is_limited():
    with pytest.raises(ConflictError, match="are being tried"):
        Trials(WORKER, {}, max_concurrent=0).run({}, None, 5)


class Scripted(ConfigProvider):
    """A provider that calls a function for a value."""

    def __init__(self, call):
        self._call = call

    def get(self, path, keys=None):  # noqa: ARG002 - a provider's interface
        self._call()
        raise ConfigError("there is no such value")


def refusal(trials):
    """Why a trial whose configuration has a placeholder is refused."""
    with pytest.raises(ConnectError) as refused:
        trials.run({"a": "${provider:path:key}"}, None, 5)
    return str(refused.value)


def test_a_config_provider_that_exits_fails_only_its_trial():
    trials = Trials(WORKER, {"provider": Scripted(lambda: sys.exit("no credentials"))}, max_concurrent=1)
    for _ in range(2):
        assert refusal(trials) == "the plugin raised SystemExit: no credentials"


def test_config_providers_that_hang_keep_few_threads_and_no_slot():
    go_on = threading.Event()
    trials = Trials(WORKER, {"provider": Scripted(lambda: go_on.wait(10))}, max_concurrent=1, look_up_s=0)
    for _ in range(MAX_LOOK_UPS):
        assert refusal(trials).startswith("The config providers have not returned the values")
    for _ in range(3):
        assert refusal(trials).startswith("16 look-ups of config providers are still hanging, so no more are started")
    assert sum(thread.name == "trial-config" for thread in threading.enumerate()) == MAX_LOOK_UPS
    with pytest.raises(BadRequestError, match="no connector type"):
        trials.run({}, None, 5)  # without placeholders
    go_on.set()
    wait_until(lambda: not any(thread.name == "trial-config" for thread in threading.enumerate()))
    assert "no more are started" not in refusal(trials)


@pytest.mark.parametrize("config", [{}, {"a": "${provider:path:key}"}])
def test_a_trial_that_no_thread_is_left_for_keeps_no_slot(config, monkeypatch):
    trials = Trials(WORKER, {"provider": Scripted(lambda: None)}, max_concurrent=1)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(MAX_LOOK_UPS + 1):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            trials.run(config, None, 5)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
