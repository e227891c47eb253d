"""What counts as set up in a process, and what libraries change that does not."""

from __future__ import annotations

import decimal
import gc
import importlib
import locale
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from spark_tasks.spark.residents.set_up import SetUp


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of this process: what a test changes is restored."""
    for name in ("NLS_LANG", "TZ", "AWS_PROFILE", "KMP_INIT_AT_FORK"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for owner, attribute in ((sys, "path"), (logging.root, "handlers"), (socket, "socket"), (ssl, "SSLContext")):
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
    before, limit, zone = signal.getsignal(signal.SIGPIPE), resource.getrlimit(resource.RLIMIT_NOFILE), time.tzname
    timeout, recursion, switch_s = socket.getdefaulttimeout(), sys.getrecursionlimit(), sys.getswitchinterval()
    collects, level, folder, errors = gc.isenabled(), logging.root.level, Path.cwd(), np.geterr()
    speaks, umask = locale.setlocale(locale.LC_ALL), os.umask(0o022)
    with warnings.catch_warnings(), decimal.localcontext():
        yield
    signal.signal(signal.SIGPIPE, before)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    socket.setdefaulttimeout(timeout)
    sys.setrecursionlimit(recursion)
    sys.setswitchinterval(switch_s)
    (gc.enable if collects else gc.disable)()
    logging.root.setLevel(level)
    os.chdir(folder)
    np.seterr(**errors)
    locale.setlocale(locale.LC_ALL, speaks)
    os.umask(umask)
    monkeypatch.undo()
    time.tzset()
    assert time.tzname == zone


def set_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    del os.environ["TZ"]


def limit_files(count: int) -> None:
    """Lowers (or, as `count` is negative, raises) the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - count, hard))


def use_more_digits() -> None:
    decimal.getcontext().prec = 50


class Proxied(socket.socket):
    """Whose connections go through a proxy."""


@pytest.mark.parametrize(("import_module", "what"), [
    (partial(os.environ.__setitem__, "NLS_LANG", "GERMAN"), "environment variables (NLS_LANG)"),
    (partial(os.environ.__setitem__, "AWS_PROFILE", "of-a"), "environment variables (AWS_PROFILE)"),
    (set_zone, "the time zone"),
    (partial(locale.setlocale, locale.LC_CTYPE, "C"), "the locale"),
    (partial(signal.signal, signal.SIGPIPE, signal.SIG_DFL), "signal handlers"),
    (partial(limit_files, 1), "resource limits"),
    (gc.disable, "garbage collection"),
    (partial(socket.setdefaulttimeout, 7.0), "the default socket timeout"),
    (partial(setattr, socket, "socket", Proxied), "how connections are made"),
    (partial(sys.setrecursionlimit, 20_000), "the recursion limit"),
    (partial(sys.setswitchinterval, 0.01), "the thread switch interval"),
    (partial(sys.path.insert, 0, "/opt/vendor"), "the module search path"),
    (use_more_digits, "the decimal context"),
    (partial(np.seterr, divide="raise"), "numpy's error handling"),
    (partial(warnings.filterwarnings, "error", "of a test"), "warnings that are raised as errors"),
    (partial(logging.root.setLevel, logging.DEBUG), "the root logger"),
    (partial(os.chdir, "/"), "the working folder"),
])
def test_what_a_module_sets_up_is_found_and_stays(import_module: Callable[[], object], what: str) -> None:
    set_up = SetUp()
    assert set_up.changes() == ""
    import_module()
    assert set_up.changes() == what
    assert set_up.changes() == what, "it has not been restored"


def test_a_umask_is_found_before_a_split_of_another_connector() -> None:
    set_up = SetUp()
    os.umask(0o077)
    assert (set_up.changes(), set_up.changes(with_umask=True)) == ("", "the umask")
    assert set_up.changes() == "the umask", "once found, it is looked at after each split"
    assert os.umask(0o077) == 0o077


def test_what_cannot_be_compared_counts_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up = SetUp()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [np.zeros(2), *sys.path])
        array = set_up.changes()
    with monkeypatch.context() as patch:
        patch.delattr(sys, "stdout")
        deleted = set_up.changes()
    assert (array, deleted) == ("something that cannot be compared",) * 2
    assert set_up.changes() == ""


def test_several_changes_are_named_without_values() -> None:
    set_up = SetUp()
    for number in range(7):
        os.environ[f"A{number}"] = "secret"
    socket.setdefaulttimeout(7.0)
    found = set_up.changes()
    for number in range(7):
        del os.environ[f"A{number}"]
    assert found == ("environment variables (A0, A1, A2, A3, A4 and 2 more), the default socket timeout")
    socket.setdefaulttimeout(None)
    assert set_up.changes() == "", "what is as before does not count"


def calculate() -> None:
    decimal.Decimal(1) / decimal.Decimal(3)  # sets the flag Inexact


def use_libraries() -> None:
    for name in ("requests", "confluent_kafka.schema_registry", "pandas", "pyarrow.dataset", "datafusion", "grpc"):
        importlib.import_module(name)


@pytest.mark.parametrize("change", [
    partial(os.environ.__setitem__, "KMP_INIT_AT_FORK", "FALSE"),
    partial(warnings.simplefilter, "ignore"),
    partial(sys.path.append, "/opt/vendor"),
    partial(limit_files, -1),
    partial(locale.setlocale, locale.LC_ALL, "C.UTF-8"),
    partial(logging.getLogger("of.a.library").setLevel, logging.DEBUG),
    gc.freeze,
    calculate,
    use_libraries,
])
def test_what_libraries_change_and_hurts_nobody_does_not_count(change: Callable[[], object]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1) if hard > 0 else 1024, hard))
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    set_up = SetUp()
    change()
    assert set_up.changes() == ""
