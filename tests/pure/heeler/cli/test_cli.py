"""The command line, without Kafka."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

import heeler
from heeler.__main__ import run as command
from heeler.cli.client.brokers import broker_properties
from heeler.cli.client.rest_client import RestError
from heeler.cli.console.terminal import ProgressLines, errors_without_trace, interrupting_signals
from heeler.cli.main import main
from heeler.embedded_kafka.jars import Step
from spark_tasks.kafka.errors import KafkaUnavailableError
from tests.rigs.support import wait_until


def run(*arguments, **kw):
    return CliRunner().invoke(main, arguments, catch_exceptions=False, **kw)


def test_version_and_help_are_printed():
    assert run("--version").output == "heeler, version 0.1.0\n"
    assert [c for c in ("broker", "demo", "topics", "worker") if c not in run("-h").output] == []


class InterruptingImports:
    """Ctrl-C comes while a module is imported."""

    def find_spec(self, name, *_):
        raise KeyboardInterrupt(name)


def test_ctrl_c_before_the_command_line_is_imported(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("heeler.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [InterruptingImports()])
    with pytest.raises(SystemExit) as end:
        command()
    assert end.value.code == 130


@pytest.mark.integration  # a process of its own
def test_a_bad_worker_file_is_reported_without_a_trace_and_logged_in_the_workers_format(tmp_path):
    file = tmp_path / "w.properties"
    file.write_text("group.id=g\nheeler.log.format=json\nsession.timeout.ms=soon\n")
    command = [sys.executable, "-m", "heeler", "worker"]  # not in this process: a worker forks
    result = subprocess.run([*command, str(file), "--override", "heartbeat.interval.ms=later"], capture_output=True,
                            text=True, timeout=60, check=False)
    assert result.returncode == 2
    for text in ("heeler: ", "session.timeout.ms", "soon", "heartbeat.interval.ms", "later", "bootstrap.servers"):
        assert text in result.stderr
    assert "Traceback" not in result.stderr
    [line] = map(json.loads, result.stdout.splitlines())
    assert (line["level"], line["message"]) == (
        "ERROR", f"The worker cannot start: The worker file {file} has invalid settings:")
    assert "session.timeout.ms" in line["stack"]
    assert "soon" in line["stack"]


@pytest.mark.integration  # a process of its own
def test_a_worker_without_kafka_logs_why_it_cannot_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    topics = [f"{kind}.storage.topic={kind}" for kind in ("config", "offset", "status")]
    converters = [f"{kind}.converter=org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")]
    file = tmp_path / "w.properties"
    file.write_text("\n".join([f"bootstrap.servers=127.0.0.1:{port}", "group.id=g", "listeners=http://127.0.0.1:0",
                               "default.api.timeout.ms=500", *topics, *converters]))
    result = subprocess.run([sys.executable, "-m", "heeler", "worker", str(file)], capture_output=True, text=True,
                            timeout=100, check=False)
    assert result.returncode == 1
    assert f"] ERROR The worker cannot start: Failed to connect to and describe Kafka cluster at 127.0.0.1:{port}" in (
        result.stdout)
    assert "worker stopped" not in result.stdout, "it had not started"


def test_a_workers_refusal_is_reported_without_a_trace(capsys):
    with pytest.raises(SystemExit) as end, errors_without_trace():
        raise RestError(400, "no such class")
    assert (end.value.code, capsys.readouterr().err) == (5, "heeler: HTTP 400: no such class\n")


def test_the_broker_reports_why_it_cannot_start(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("HEELER_CACHE", str(tmp_path))  # told before anything is fetched
        result = run("broker", "--port", str(port))
    assert (result.exit_code, result.stderr.split(".")[0]) == (2, "heeler: Port %d on 127" % port)  # noqa: UP031
    (tmp_path / "mine").write_text("")
    result = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert result.exit_code == 2
    assert "contains other files" in result.stderr
    assert sorted(x.name for x in tmp_path.iterdir()) == ["mine"]


def test_the_end_of_the_terminal_ends_a_program_unless_nohup_started_it():
    before = signal.getsignal(signal.SIGHUP)
    try:
        for handler, expected in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
            signal.signal(signal.SIGHUP, handler)
            ended = False
            try:
                with interrupting_signals():
                    os.kill(os.getpid(), signal.SIGHUP)
            except KeyboardInterrupt:
                ended = True
            assert (ended, signal.getsignal(signal.SIGHUP)) == (expected, handler)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_one_bar_or_one_line(terminal):
    out = io.StringIO()
    with ProgressLines(Console(file=out, force_terminal=terminal, width=100)) as show:
        show("fetching it once [about 45 MB]")
        for n in range(1, 47):
            show(Step(f"a[{n}].jar", n, 46))
    said = out.getvalue()
    assert said.startswith("fetching it once [about 45 MB]\n")
    assert ("46/46" in said) == terminal
    assert said.count("\n") == (2 if terminal else 1)
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == terminal, "the cursor is there again"


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("where", "words"), [
    ("heeler.doctor.machine.java", ("doctor",)),
    ("heeler.cli.client.rest_client.ConnectClient.call", ("connectors", "list")),
    ("spark_tasks.kafka.cluster.KafkaCluster.partitions", ("topics", "read", "t")),
])
def test_after_ctrl_c_the_exit_code_is_the_shells(monkeypatch, where, words):
    monkeypatch.setattr(where, interrupted)
    done = run(*words)
    assert (done.exit_code, done.output) == (130, "")


@pytest.mark.parametrize(("answer", "code", "said"), [(b"\x03", 130, b""), (b"n\n", 1, b"Aborted!")])
def test_the_answer_to_a_question_determines_the_exit_code(answer, code, said):
    control, terminal = pty.openpty()
    command = [sys.executable, "-m", "heeler", "connectors", "delete", "c", "--url", "http://127.0.0.1:1"]
    name = os.ttyname(terminal)  # the first one that a session opens is where its Ctrl-C comes from
    shell = ["sh", "-c", f'exec "$@" <{name} >{name} 2>&1', "sh", *command]
    with subprocess.Popen(shell, start_new_session=True) as asking:
        output = b""
        while b"Delete c?" not in output:
            output += os.read(control, 1000)
        # In the moment before it reads, Python would look at the signal only after the read.
        status = Path(f"/proc/{asking.pid}/stat")
        wait_until(lambda: status.read_text().rpartition(")")[2].split()[0] == "S", 30, "it waits for the answer")
        os.write(control, answer)
        assert asking.wait(30) == code
        output = os.read(control, 1000)
    os.close(terminal)
    os.close(control)
    assert said in output
    assert b"Traceback" not in output


def test_an_unavailable_kafka_exits_with_code_3(monkeypatch):
    def away(*_, **__):
        raise KafkaUnavailableError("finding the partitions of t: no node")

    monkeypatch.setattr("spark_tasks.kafka.cluster.KafkaCluster.partitions", away)
    done = run("topics", "read", "t")
    assert done.exit_code == 3
    assert done.stderr.startswith("heeler: Kafka does not respond.")
    assert "--bootstrap-servers" in done.stderr


def test_a_file_with_brokers_and_security_is_enough_to_read_topics(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    assert '"bootstrap.servers"' in run("topics", "read", "t", "--worker-config", str(file)).stderr
    file.write_text("security.protocol=SSL\nbootstrap.servers=a:1\n")
    found = broker_properties(None, file)
    assert (found["bootstrap.servers"], found["security.protocol"]) == ("a:1", "SSL")


def test_topics_are_not_read_with_an_isolation_level_that_does_not_exist(tmp_path):
    """It meant read_uncommitted, so that records of aborted transactions were shown."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nconsumer.isolation.level=committed\n")
    done = run("topics", "read", "t", "--worker-config", str(file))
    assert done.stderr == ("heeler: Invalid value committed for configuration isolation.level: must be one of "
                           "read_uncommitted, read_committed\n")
    assert done.exit_code == 2


def test_the_names_for_plugin_authors():
    from heeler import ConfigDef, SourceConnector
    from spark_tasks.config import definition as config_def
    from spark_tasks.plugins import api

    assert SourceConnector is api.SourceConnector
    assert ConfigDef is config_def.ConfigDef
    assert all(getattr(heeler, name) for name in heeler.__all__)
    assert set(heeler.__all__) <= set(dir(heeler))
    with pytest.raises(AttributeError, match="no attribute Sheep"):
        _ = heeler.Sheep


def test_the_command_line_imports_nothing_heavy():
    program = (
        "import sys, heeler.cli.main, heeler.worker.config, heeler.worker.logs\n"
        "sys.exit(', '.join(sorted({'pyspark', 'numba', 'numpy', 'pyarrow', 'kafka', 'flask', 'rich', 'pandas'} "
        "& set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") or done.stderr.strip() == ""


def test_help_imports_no_slow_libraries():
    """The command line starts fast: HTTP, YAML, rich and PySpark are imported only by commands that need them."""
    code = ("import sys; from heeler.cli.main import main\n"
            "try: main(['--help'])\nexcept SystemExit: pass\n"
            "slow = {'rich', 'urllib3', 'yaml', 'marshmallow', 'pyspark', 'pyarrow', 'kafka', 'numba', 'asyncio'}\n"
            "assert not slow & set(sys.modules), slow & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
