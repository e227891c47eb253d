"""A process in the place of a JVM."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from heeler.java_host import process
from heeler.java_host.process import HostProcess
from spark_tasks.host_frames import HostGoneError
from spark_tasks.process.log_levels import LONGEST_NAME
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration  # processes of their own

ENOUGH = 20  # connections; more than any backlog of the simulated JVM
SUSPENDED = """
import os, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1] + "/new")
server.listen(1)
os.rename(sys.argv[1] + "/new", sys.argv[1] + "/socket")
time.sleep(600)
"""


@pytest.mark.timeout(60)
def test_a_jvm_that_accepts_no_more_connections_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection attempt that waited would block the lock of the hosts, which whoever ends a suspended JVM needs."""
    monkeypatch.setattr(process, "CONNECT_S", 0.05)

    def command(folder: Path) -> list[str]:
        return [sys.executable, "-c", SUSPENDED, str(folder)]

    host = HostProcess(command, "Java plugin host")
    opened = []
    try:
        with pytest.raises(HostGoneError, match="refuses connections"):
            opened += [host.connect() for _ in range(ENOUGH)]
    finally:
        with suppress(OSError):
            host.close()


@pytest.mark.timeout(60)
def test_a_connection_that_waits_for_others_is_made() -> None:
    """Many tasks may start at the same time; the JVM accepts them one after the other."""
    slow = SUSPENDED.replace("time.sleep(600)", "kept = []\nwhile True:\n    time.sleep(0.05)\n    "
                                                "kept.append(server.accept())")

    host = HostProcess(lambda folder: [sys.executable, "-c", slow, str(folder)], "Java plugin host")
    try:
        for opened in [host.connect() for _ in range(ENOUGH)]:
            assert opened.gettimeout() is None
            opened.close()
    finally:
        host.close()


@pytest.mark.timeout(60)
def test_output_without_line_ends_is_logged_in_pieces(caplog: pytest.LogCaptureFixture) -> None:
    """Such as dots that show progress: they were kept in the worker's memory until the JVM ended."""
    caplog.set_level("INFO")
    endless = SUSPENDED.replace("time.sleep(600)", 'print("." * 200_000, end="", flush=True)\ntime.sleep(600)')
    host = HostProcess(lambda folder: [sys.executable, "-c", endless, str(folder)], "Java plugin host")
    try:
        wait_until(lambda: sum(record.getMessage().count(".") for record in caplog.records) >= 2 * 65_536)
    finally:
        host.close()


@pytest.mark.timeout(60)
def test_a_logger_with_a_name_that_is_too_long_is_not_created(caplog: pytest.LogCaptureFixture) -> None:
    """Python keeps each prefix of a name that ends before a dot, for ever."""
    caplog.set_level("INFO")
    lines = [f"[WARN] {'heeler.test.' + 'x' * more} - said" for more in (LONGEST_NAME - 12, LONGEST_NAME - 11)]
    saying = SUSPENDED.replace("time.sleep(600)", f"print({lines[0]!r}, {lines[1]!r}, sep=chr(10), flush=True)\n"
                                                  "time.sleep(600)")
    host = HostProcess(lambda folder: [sys.executable, "-c", saying, str(folder)], "Java plugin host")
    try:
        wait_until(lambda: sum(record.levelname == "WARNING" for record in caplog.records) == 2)
    finally:
        host.close()
    said = [(record.name, record.getMessage()) for record in caplog.records if record.levelname == "WARNING"]
    assert said == [("heeler.test." + "x" * (LONGEST_NAME - 12), "said"),
                    ("heeler.java", lines[1].removeprefix("[WARN] "))]
