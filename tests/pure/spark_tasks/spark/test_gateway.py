"""Waiting for a standalone cluster's master before a JVM is started, and ending a JVM that starts."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from heeler.embedded_kafka.ports import free_port
from spark_tasks.config.masking import process_secrets
from spark_tasks.spark import gateway
from spark_tasks.spark.gateway import SparkStartError, await_master, launch
from spark_tasks.spark.master import SparkMaster
from spark_tasks.spark.process_output import pass_on
from tests.rigs.support import wait_until
from tests.rigs.workers import wait_gone


@pytest.mark.parametrize("master", ["local[4]", "yarn", "k8s://https://127.0.0.1:1"])
def test_only_a_standalone_master_is_waited_for(master: str) -> None:
    await_master(SparkMaster.parse(master), threading.Event())


def test_one_available_spark_master_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        await_master(SparkMaster.parse(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}"), threading.Event())


def test_an_unavailable_or_invalid_spark_master_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "MASTER_TIMEOUT_S", 0)
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(SparkStartError, match=rf"^No Spark master responded at {master} within 0 s: start it"):
        await_master(SparkMaster.parse(master), threading.Event())
    with pytest.raises(SparkStartError, match=r"^Invalid value h:p in spark\.master: must be HOST:PORT$"):
        await_master(SparkMaster.parse("spark://h:p"), threading.Event())


def test_the_wait_for_a_spark_master_can_be_stopped() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(SparkStartError, match="was stopped while it waited"):
        await_master(SparkMaster.parse(f"spark://127.0.0.1:{free_port()}"), stop)


def test_sparks_output_is_masked_and_always_drained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process_secrets().add("c", ["of-the-gateway-test"])
    pass_on(io.BytesIO(b"ERROR of-the-gateway-test\nnot \xff text\nno end"))
    assert capsys.readouterr().err == "ERROR [hidden]\nnot \ufffd text\nno end"

    def closed(_: str) -> int:
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr("sys.stderr.write", closed)
    output = io.BytesIO(b"one\ntwo\n")
    pass_on(output)  # Spark must not wait for a reader
    assert output.closed


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize("script", ["cat", "sleep 60", "trap '' TERM; echo on; while :; do sleep 1; done"],
                         ids=["heeds the end of its input", "heeds a signal", "heeds nothing"])
def test_a_starting_jvm_is_ended_even_if_it_ignores_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\necho $* > {tmp_path}/arguments; echo $$ > {tmp_path}/pid\n{script}\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(gateway, "END_S", 0.3)
    stop = threading.Event()
    folder = tmp_path / "private"
    folder.mkdir()

    def soon() -> None:
        wait_until((tmp_path / "pid").exists)
        stop.set()

    threading.Thread(target=soon).start()
    with pytest.raises(SparkStartError, match="was stopped while it was starting"):
        launch({"spark.my.secret": "s3cr3t"}, stop, folder)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert "s3cr3t" not in (tmp_path / "arguments").read_text()
    assert list(folder.iterdir()) == []


ORPHANED = """
import sys, threading
from pathlib import Path
from spark_tasks.spark import gateway
gateway.ORPHAN_S = 0
gateway.launch({}, threading.Event(), Path(sys.argv[1]))
"""


@pytest.mark.integration  # processes of their own
def test_a_jvm_that_starts_does_not_outlive_a_worker_that_is_killed(tmp_path: Path) -> None:
    """Even if it ignores the end of its input and signals: the folder of its connection file no longer exists."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\ntrap '' TERM HUP\necho $$ > {tmp_path}/pid\nwhile :; do sleep 1; done\n")
    submit.chmod(0o755)
    folder = tmp_path / "private"
    folder.mkdir()
    worker = subprocess.Popen([sys.executable, "-c", ORPHANED, str(folder)],
                              env={**os.environ, "SPARK_HOME": str(tmp_path)})
    try:
        jvm = psutil.Process(int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())))
        wait_until(lambda: any("heeler-watch" in child.cmdline() for child in psutil.Process(worker.pid).children()))
    finally:
        worker.kill()
        worker.wait()
    wait_gone([jvm])
