"""What a process restores before another connector's split, and what makes it end instead."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from spark_tasks.spark.residents.leftovers import Leftovers


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = signal.getsignal(signal.SIGPIPE), socket.getdefaulttimeout(), sys.getrecursionlimit()
    switch_s, collects, folder, umask = sys.getswitchinterval(), gc.isenabled(), Path.cwd(), os.umask(0o077)
    os.umask(umask)
    yield
    signal.signal(signal.SIGPIPE, before[0])
    socket.setdefaulttimeout(before[1])
    sys.setrecursionlimit(before[2])
    sys.setswitchinterval(switch_s)
    (gc.enable if collects else gc.disable)()
    os.chdir(folder)
    os.umask(umask)
    monkeypatch.undo()
    time.tzset()


def test_what_belongs_to_a_split_is_restored(tmp_path: Path) -> None:
    folder, umask, leftovers = Path.cwd(), os.umask(0o022), Leftovers()
    os.chdir(tmp_path)
    os.umask(umask)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60.0)
    assert leftovers.undo()
    assert (Path.cwd(), os.umask(umask), signal.getitimer(signal.ITIMER_VIRTUAL)[0]) == (folder, 0o022, 0.0)


def set_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    del os.environ["TZ"]


def state() -> tuple[object, ...]:
    return (os.environ.get("NLS_LANG"), time.tzname, sys.getrecursionlimit(), socket.getdefaulttimeout(),
            signal.getsignal(signal.SIGPIPE), gc.isenabled(), sys.getswitchinterval())


@pytest.mark.parametrize("import_module", [
    partial(os.environ.__setitem__, "NLS_LANG", "GERMAN"), set_zone, partial(sys.setrecursionlimit, 20_000),
    partial(socket.setdefaulttimeout, 7.0), partial(signal.signal, signal.SIGPIPE, signal.SIG_DFL), gc.disable,
    partial(sys.setswitchinterval, 0.01),
])
def test_what_a_module_has_set_up_stays(
    import_module: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is not imported again: its connector would run without it when it comes back."""
    for name in ("NLS_LANG", "TZ"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    leftovers = Leftovers()
    assert leftovers.undo()
    import_module()
    before = state()
    assert leftovers.undo()
    assert state() == before
