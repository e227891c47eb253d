"""Waiting for a standalone cluster's master before a JVM is started, and ending a JVM that starts."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from heeler.embedded_kafka.ports import free_port
from spark_tasks.spark import gateway
from spark_tasks.spark.gateway import SparkStartError, await_master, launch
from tests.rigs.support import wait_until


@pytest.mark.parametrize("master", ["local[4]", "yarn", "k8s://https://127.0.0.1:1"])
def test_only_a_standalone_master_is_waited_for(master: str) -> None:
    await_master(master, threading.Event())


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        await_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}", threading.Event())


def test_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "MASTER_PATIENCE_S", 0)
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(SparkStartError, match=rf"^No Spark master answered at {master} within 0 s: start it"):
        await_master(master, threading.Event())
    with pytest.raises(SparkStartError, match=r"^Invalid value h:p in spark\.master: must be HOST:PORT$"):
        await_master("spark://h:p", threading.Event())


def test_the_wait_can_be_cut_short() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(SparkStartError, match="was stopped while it waited"):
        await_master(f"spark://127.0.0.1:{free_port()}", stop)


@pytest.mark.parametrize("script", ["cat", "sleep 60", "trap '' TERM; echo on; while :; do sleep 1; done"],
                         ids=["heeds the end of its input", "heeds a signal", "heeds nothing"])
def test_a_jvm_that_starts_is_ended_whatever_it_heeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\necho $* > {tmp_path}/arguments; echo $$ > {tmp_path}/pid\n{script}\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(gateway, "_END_S", 0.3)
    stop = threading.Event()
    folder = tmp_path / "private"
    folder.mkdir()

    def soon() -> None:
        wait_until((tmp_path / "pid").exists)
        stop.set()

    threading.Thread(target=soon).start()
    with pytest.raises(SparkStartError, match="was stopped while it started"):
        launch({"spark.my.secret": "s3cr3t"}, stop, folder)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert "s3cr3t" not in (tmp_path / "arguments").read_text()
    assert list(folder.iterdir()) == []
