"""Whether a host still responds; the test is the other end of the connection."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from heeler.java_host import liveness
from heeler.java_host.liveness import HostLiveness
from spark_tasks.host_frames import HEAD, HostGoneError, message
from tests.rigs.support import wait_until


class Process:
    """In the place of a HostProcess."""

    def __init__(self):
        self.end, self.other = socket.socketpair()
        self.end.settimeout(10)
        self.alive, self.refusals = True, 0

    def connect(self):
        self.refusals -= 1
        if self.refusals >= 0:
            raise HostGoneError("it is busy")
        return self.other

    def read(self):
        _, number, size = HEAD.unpack(self.end.recv(HEAD.size, socket.MSG_WAITALL))
        return number, json.loads(self.end.recv(size, socket.MSG_WAITALL))["op"]


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr(liveness, "EVERY_S", 0.001)
    made = Process()
    yield made
    made.alive = False
    made.end.close()
    made.other.close()


def refused(why):
    raise AssertionError(why)


def test_metrics_of_config_providers_end_with_the_host(process):
    reported = []
    HostLiveness(process, 600.0, lambda: refused("silent"), refused, lambda *more: reported.append(more))
    assert process.read() == (0, "pulse")
    for value in (1, 2):
        process.end.sendall(message(0, {"op": "metrics", "provider": "v", "values": [{"value": value}]}))
    process.alive = False
    process.end.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: reported == [("v", [{"value": 1}]), ("v", [{"value": 2}]), ("v", [])])


def test_a_host_that_is_to_be_replaced_reports_it(process):
    reported = []
    HostLiveness(process, 600.0, lambda: refused("silent"), reported.append)
    assert process.read() == (0, "pulse")
    process.end.sendall(message(process.read()[0], {"op": "retire", "why": "It is old"}))
    wait_until(lambda: reported == ["It is old"])


def test_a_host_that_no_longer_responds_is_reported_silent_once(process):
    silent = threading.Semaphore(0)
    HostLiveness(process, 0.05, silent.release, refused)
    assert process.read() == (0, "pulse")
    for number in (1, 2, 3):
        assert process.read() == (number, "ping")
        process.end.sendall(message(number, {"op": "answer"}))
    assert process.read() == (4, "ping")
    assert silent.acquire(timeout=10)
    assert not silent.acquire(blocking=False)


def test_a_host_that_is_busy_when_it_starts_is_checked_later(process):
    """It was never checked, and its config providers' metrics waited for ever."""
    process.refusals = 3
    HostLiveness(process, 600.0, lambda: refused("silent"), refused)
    assert [process.read(), process.read()] == [(0, "pulse"), (1, "ping")]


def test_a_host_that_accepts_no_connection_is_reported_silent(process):
    process.refusals, silent = 1_000_000, threading.Semaphore(0)
    HostLiveness(process, 0.02, silent.release, refused)
    assert silent.acquire(timeout=10)
    assert not silent.acquire(blocking=False)


def test_a_host_whose_connection_ends_is_checked_on_another(process):
    """It was never checked again, and could not be replaced: what it reported of a provider could not be read."""
    first = process.end
    HostLiveness(process, 600.0, lambda: refused("silent"), refused)
    assert process.read() == (0, "pulse")
    process.end, process.other = socket.socketpair()
    process.end.settimeout(10)
    first.sendall(message(0, {"op": "metrics", "values": []}))
    assert [process.read(), process.read()] == [(0, "pulse"), (1, "ping")]
    first.close()


def test_a_host_that_has_ended_is_not_reported_silent(process):
    before, silent = threading.active_count(), []
    HostLiveness(process, 600.0, lambda: silent.append(1), refused)
    assert [process.read(), process.read()] == [(0, "pulse"), (1, "ping")]
    process.alive = False
    process.end.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: threading.active_count() <= before, what="the end of its thread")
    assert silent == []
