"""How Spark's output about rejected connections is filtered."""

from __future__ import annotations

import io
import logging
import math
import os
import re
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.process import rate_limited_log
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.spark import process_output
from spark_tasks.spark.process_output import OutputBudget, SparkOutput, log_as_the_worker, pass_on
from tests.rigs.support import wait_until

TRACE = ["\tat org.sparkproject.guava.base.Preconditions.checkArgument(Preconditions.java:119)\n", "\t... 21 more\n"]
STRANGER = ["26/11/22 18:03:41 WARN TransportChannelHandler: Exception in connection from /127.0.0.1:49050\n",
            "java.lang.IllegalArgumentException: Too large frame: 5135603447292250188\n", *TRACE,
            "Caused by: java.io.IOException: 7\n", *TRACE]
LINE = ("26/11/22 18:03:41 WARN TransportChannelHandler: Exception in connection from /127.0.0.1:49050: "
        "java.lang.IllegalArgumentException: Too large frame: 5135603447292250188\n")
FAILURE = ["26/11/22 18:03:42 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)\n", "java.lang.Error: x\n",
           *TRACE]


def passed(lines: list[str], max_lines: int = 1000) -> str:
    output = SparkOutput(RateLimitedLog(max_lines))
    return "".join(map(output.take, lines)) + output.rest()


def test_a_rejected_connection_is_one_log_line() -> None:
    assert passed(STRANGER) == LINE
    assert passed([*STRANGER, *FAILURE, *STRANGER, "plain\n"]) == LINE + "".join(FAILURE) + LINE + "plain\n"


ACCUMULATOR = ("26/11/27 07:29:30 ERROR DAGScheduler: Failed to update accumulator 0 "
               "(org.apache.spark.api.python.PythonAccumulatorV2) for task 0")


def test_an_accumulator_at_the_end_of_spark_is_no_error() -> None:
    interrupted = "java.nio.channels.ClosedByInterruptException\n"
    assert passed([f"{ACCUMULATOR}\n", interrupted, *TRACE, "plain\n"]) == "plain\n"
    assert passed([f"{ACCUMULATOR}\n", "java.net.ConnectException: x\n", *TRACE]) == (
        f"{ACCUMULATOR}: java.net.ConnectException: x\n")


def test_a_rejected_connection_without_details() -> None:
    output = SparkOutput()
    assert output.take(STRANGER[0]) == ""
    assert output.rest() == STRANGER[0]
    assert "".join(map(output.take, [*STRANGER[1:], *FAILURE])) == "".join(FAILURE)


def test_rejected_connections_do_not_fill_the_log() -> None:
    assert passed(STRANGER * 1000, max_lines=5) == LINE * 5


@given(st.lists(st.sampled_from([*STRANGER, *FAILURE, "plain\n", "\n", "  indented\n"])))
def test_only_lines_about_rejected_connections_are_left_out(lines: list[str]) -> None:
    """An exception and a trace are left out only after a line about a rejected connection."""
    out = passed(lines)
    kept, inside = [], False
    for line in lines:
        inside = line == STRANGER[0] or (inside and line in STRANGER[1:] + FAILURE[1:])
        if not inside:
            kept.append(line)
    assert [line for line in out.splitlines(keepends=True) if "TransportChannelHandler" not in line] == kept
    assert out.count("TransportChannelHandler") == lines.count(STRANGER[0])


class Pieces(io.FileIO):
    """Output that arrives in pieces of 1000 bytes."""

    def read1(self, _size: int = -1) -> bytes:
        return super().read(1000) or b""


@pytest.fixture
def pipe() -> tuple[Pieces, io.FileIO]:
    """The two ends of a process's output."""
    read, write = os.pipe()
    return Pieces(read), io.FileIO(write, "w")


def dropped(text: str) -> int:
    return sum(int(lines) for lines in re.findall(r"(\d+) lines", text))


def test_more_output_than_the_worker_can_filter_is_dropped_by_lines_and_counted(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[Pieces, io.FileIO], capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A plugin that printed in a loop used a CPU of the worker."""
    monkeypatch.setattr(process_output, "BURST_BYTES", 10_000)
    monkeypatch.setattr(process_output, "BYTES_PER_S", 1 << 10)
    now = [0.0]
    monkeypatch.setattr(process_output.time, "monotonic", lambda: now[0])
    lines = [f"line {number:05}\n" for number in range(3_000)]
    with pipe[1] as output:
        output.write("".join(lines).encode())
    pass_on(pipe[0])  # type: ignore[arg-type]
    written = capsys.readouterr().err.splitlines(keepends=True)
    assert 800 < len(written) < 1000
    assert written == lines[: len(written)]
    assert dropped(caplog.text) == 3_000 - len(written)


def test_all_of_a_short_burst_is_reported_although_nothing_follows(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[Pieces, io.FileIO], caplog: pytest.LogCaptureFixture
) -> None:
    """Only its first piece was, until the process that printed it ended."""
    monkeypatch.setattr(process_output, "BURST_BYTES", 1_000)
    monkeypatch.setattr(process_output, "BYTES_PER_S", 1)
    monkeypatch.setattr(process_output, "FIRST_REPORT_S", 0.05)
    with pipe[1] as output:
        thread = threading.Thread(target=pass_on, args=(pipe[0],))
        output.write(b"a line\n" * 3_000)
        thread.start()
        wait_until(lambda: dropped(caplog.text) > 2_500)
    thread.join(20)


def test_more_is_reported_once_a_minute(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(process_output, "BURST_BYTES", 10)
    monkeypatch.setattr(process_output, "BYTES_PER_S", 0)
    now = [0.0]
    monkeypatch.setattr(process_output.time, "monotonic", lambda: now[0])
    budget, due = OutputBudget(), []
    for at in (0.0, 0.5, 1.0, 20.0, 61.0):
        now[0] = at
        budget.takes(b"a line...\n")
        due.append(budget.due_s)
        if budget.due_s <= 0:
            budget.report()
    assert due == [math.inf, 1.0, 0.5, -18.5, 19.0]
    assert dropped(caplog.text) == 3


def test_output_passes_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_output, "BURST_BYTES", 10)
    monkeypatch.setattr(process_output, "BYTES_PER_S", 10)
    now = [0.0]
    monkeypatch.setattr(process_output.time, "monotonic", lambda: now[0])
    budget = OutputBudget()
    assert [budget.takes(bytes(10)), budget.takes(bytes(10))] == [True, False]
    now[0] = 0.1
    assert budget.takes(bytes(10))


@pytest.mark.parametrize("line", [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    'Setting default log level to "WARN".', 'Setting Spark log level to "WARN".',
    "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).",
    "26/11/23 03:08:58 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2",
    "26/11/23 03:08:58 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address",
    "26/11/23 03:09:01 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...",
    "Picked up JAVA_TOOL_OPTIONS: -Djava.io.tmpdir=/tmp/x",
])
def test_startup_lines_are_logged_at_debug(line: str, caplog: pytest.LogCaptureFixture) -> None:
    assert passed([*STRANGER, f"{line}\n", *FAILURE]) == LINE + "".join(FAILURE)
    assert caplog.messages == []
    caplog.set_level(logging.DEBUG, "spark_tasks.spark.process_output")
    assert passed([f"{line}\n"]) == ""
    assert caplog.messages == [f"Spark: {line}"]


def test_code_of_plugins_does_not_run_while_the_log_of_an_executor_process_is_locked(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for a thread that is logging."""
    written, held = io.StringIO(), []
    handler = logging.StreamHandler(written)
    monkeypatch.setattr(logging, "lastResort", handler)
    lock: Any = handler.lock

    class Argument:
        def __str__(self) -> str:
            held.append(lock._is_owned())  # noqa: SLF001 - nothing else tells
            return "you"

    log_as_the_worker()
    logging.Logger("apart from pytest's handlers").warning("hello %s", Argument())  # noqa: LOG001
    assert "WARN hello you (" in written.getvalue()
    assert held == [False]


class Clock:
    """The time module of the log."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def suppressed(limited: RateLimitedLog, kind: str, *times: float) -> list[int | None]:
    """What the log says of a line at each of these times."""
    clock, found = Clock(), list[int | None]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rate_limited_log, "time", clock)
        for clock.now in times:
            found.append(limited.suppressed(kind))
    return found


def test_suppressed_lines_are_counted() -> None:
    limited = RateLimitedLog(max_lines=2, per_s=60)
    assert suppressed(limited, "a", 0, 1, 2, 59) == [0, 0, None, None]
    assert suppressed(limited, "b", 59) == [0]
    assert suppressed(limited, "a", 60, 61, 62, 121, 122) == [2, 0, None, 1, 0]


@given(st.lists(st.floats(0, 1000), min_size=1).map(sorted))
def test_every_line_is_logged_or_counted(times: list[float]) -> None:
    said = suppressed(RateLimitedLog(max_lines=3, per_s=10), "a", *times, 10_000)
    logged = [left for left in said if left is not None]
    assert len(logged) + sum(logged) == len(times) + 1
