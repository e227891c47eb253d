"""`heeler demo` as a user runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import psutil
import pyarrow.dataset
import pytest

from heeler.cli.support.flights import PARTITIONS
from spark_tasks.connectors.parquet.file_names import parse
from tests.rigs.support import wait_until
from tests.rigs.workers import leftovers, wait_gone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

FLIGHTS = 336_776
DONE_S = 300.0  # as long as the demo itself is patient


# What an operator reads of a worker that starts, runs two connectors and stops: a line for each thing that happened.
SIZES = r"(nothing|\d+ (connector|task)s?( and \d+ tasks?)?)"
MOVED = rf"{SIZES}( \([^()]+\))?"  # with their names
SHARE = f"assigned {MOVED}, revoked {MOVED}, now running {SIZES}"
HAPPENED = (
    r"REST listens on \S+", r"Created topic \S+ for .*",
    r"heeler worker \S+ of group \S+ started: version \S+, Kafka cluster \S+ at \S+",
    r"Joined group at generation \d+ with protocol sessioned as leader: " + SHARE + r"(; workers: \S+)?",
    r"Connector (created|deleted)", r"Task configurations changed: \d+ tasks?", r"(Connector|Task) (started|stopped)",
    r"Created topic \S+ with \d+ partitions", r"Columns inferred from .*",
    r"Spark started in [\d.]+ s with \d+ slots", r"Stopping: .*", r"heeler worker stopped",
)
TOLD = re.compile(r"\[[-0-9]{10} [0-9:,]{12}\] INFO (\[\S+\|\S+\] )?"  # when, and about whom
                  rf"({'|'.join(HAPPENED)})"
                  r"( \[\w+#\d+\])? \([\w.]+:\d+\)")  # because of what, and from where in the code


class Demo:
    """A demo that runs in a folder of its own."""

    def __init__(self, folder, *options):
        self.folder = folder / "here"
        self.folder.mkdir()
        self.results = self.folder / "heeler-demo"
        self.output = folder / "said"
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "heeler", "demo", *options], cwd=self.folder, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True)

    def said(self):
        return self.output.read_text()

    def wait_for(self, file, text):
        """Until it is in the file; the demo must not end before."""

        def there():
            assert self.process.poll() is None, self.said()
            return file.exists() and text in file.read_text()

        wait_until(there, DONE_S, f"{text} in {file}", longest_pause=0.01)

    def rows(self):
        return pyarrow.dataset.dataset(self.results / "parquet", format="parquet", exclude_invalid_files=True)

    def interrupted(self):
        """Ctrl-C; the exit code, once all that it has started is gone."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        assert len(family) >= 2, family
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        wait_gone(family)
        return code


@pytest.fixture
def demo(tmp_path, temporary, monkeypatch):
    """Starts it; nothing of it is left in the end but what is in `results`."""
    monkeypatch.setenv("COLUMNS", "400")  # so that the table breaks no path
    started = []

    def start(*options):
        started.append(Demo(tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(10)
    assert leftovers(temporary) == []


def test_the_counts_of_the_demo_agree(demo):
    """It starts its own Kafka. Only the results remain, at the paths that the table shows."""
    run = demo()
    assert run.process.wait(DONE_S) == 0, run.said()
    assert "Everything agrees." in run.said()
    assert f"{FLIGHTS:,}" in run.said()
    for lies in (run.results / "csv" / "flights.csv", run.results / "parquet"):
        assert str(lies) in run.said()
    assert [f.name for f in run.folder.iterdir()] == ["heeler-demo"]
    assert sorted(f.name for f in run.results.iterdir()) == ["csv", "parquet", "worker.log", "worker.properties"]
    assert run.rows().count_rows() == FLIGHTS
    files = [parse(file.name) for file in (run.results / "parquet").glob("*.parquet")]
    assert {file.partition for file in files if file} == set(range(PARTITIONS))
    assert {"year", "carrier", "arr_delay"} <= set(run.rows().schema.names)
    reported = (run.results / "worker.log").read_text().splitlines()
    assert [line for line in reported if not TOLD.fullmatch(line)] == []
    assert sum("Connector started" in line for line in reported) == 2
    assert sum("Task started" in line for line in reported) >= 2


@pytest.mark.nightly
def test_demo_with_keep_runs_until_ctrl_c_and_leaves_nothing(demo, broker):
    """The commands that it prints work while it runs; Ctrl-C ends it and removes everything."""
    run = demo("--keep", "--bootstrap-servers", broker.bootstrap_servers)
    run.wait_for(run.output, "more.csv")
    assert "Everything agrees." in run.said()
    lines = re.findall(r"^  ((?:curl|head) .*)$", run.said(), re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        command = line.replace("curl ", "curl --fail-with-body -sS ", 1)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, line + done.stdout + done.stderr
    wait_until(lambda: run.rows().count_rows() == FLIGHTS + 99, 60, "the rows of the new file")
    assert run.process.poll() is None
    assert run.interrupted() == 0
    assert list(run.folder.iterdir()) == []


def test_an_interrupted_demo_leaves_nothing(demo, broker):
    """It is interrupted while it works: neither results nor anything else remains."""
    run = demo("--bootstrap-servers", broker.bootstrap_servers)
    run.wait_for(run.results / "worker.log", "Connector created")
    assert run.interrupted() == 130  # as a shell says of what Ctrl-C ended
    assert "Everything agrees." not in run.said()
    assert "Traceback" not in run.said()
    assert list(run.folder.iterdir()) == []


def test_demo_without_kafka_exits_with_code_2(demo):
    """It prints a clear message and leaves no files."""
    run = demo("--bootstrap-servers", "127.0.0.1:1")
    assert run.process.wait(120) == 2
    assert "No Kafka broker responds at 127.0.0.1:1. Check --bootstrap-servers" in run.said()
    assert "Traceback" not in run.said()
    assert list(run.folder.iterdir()) == []
