"""Threads that may hang without keeping the process alive."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Any

import pytest

from actors.herder.effects import FenceProducers, SendTaskConfigs
from actors.messages.correlation_ids import OpId
from actors.messages.requests import GetOffsets
from actors.peers.leader_client import LeaderClient
from actors.peers.producer_fencing import ProducerFencing
from actors.stores.offset_requests import OffsetRequests
from actors.ticker import Ticker
from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.errors import ConnectError
from storage.config.state import ClusterConfigState
from storage.config.view import ConfigView
from storage.daemon_pool import DaemonPool
from storage.ids import ConnectorName
from tests.rigs.support import no_thread

C = ConnectorName("c")


def test_all_calls_run_and_no_more_at_once_than_allowed():
    pool, together = DaemonPool(3, "test"), threading.Barrier(3)
    lock, running, max_running = threading.Lock(), 0, 0

    def work(number):
        nonlocal running, max_running
        with lock:
            running += 1
            max_running = max(max_running, running)
        together.wait(10)  # passes only when three are here
        with lock:
            running -= 1
        return number

    futures = [pool.submit(work, number) for number in range(9)]
    assert [future.result(10) for future in futures] == list(range(9))
    assert max_running == 3


def test_an_error_is_in_its_future_and_the_thread_continues():
    pool = DaemonPool(1, "test")
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(10)
    assert pool.submit(lambda: 5).result(10) == 5


def test_close_drops_calls_that_have_not_started_and_does_not_wait():
    pool, begun, go_on = DaemonPool(1, "test"), threading.Event(), threading.Event()

    def hang():
        begun.set()
        return go_on.wait(10)

    hanging, waiting = pool.submit(hang), pool.submit(lambda: 5)
    assert begun.wait(10)
    pool.close()
    for dropped in (waiting, pool.submit(lambda: 6)):
        with pytest.raises(CancelledError):
            dropped.result(0)
    go_on.set()
    assert hanging.result(10)


def test_a_pool_whose_thread_could_not_be_started_works_later(monkeypatch):
    pool = DaemonPool(1, "test")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(lambda: 4)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.try_submit(lambda: 4).result(0)
    assert pool.try_submit(lambda: 5).result(10) == 5
    assert pool.submit(lambda: 5).result(10) == 5


def ask_for_offsets(hang):
    configs = ConfigView()
    configs.config = ClusterConfigState(connector_configs={C: {}})
    OffsetRequests(None, None, configs, hang, None, None).start(GetOffsets(C), lambda *_: None)


def fence_producers(hang):
    ProducerFencing(WorkerClients(), hang, lambda _: None, Ticker()).start(FenceProducers(OpId(1), C, {}, ("id",)))


def send_task_configs(hang):
    client = LeaderClient(lambda _: None, "HmacSHA256", hang)
    client.send(SendTaskConfigs(OpId(1), "https://leader:1/", C, (), None))


@pytest.mark.parametrize("begin", [ask_for_offsets, fence_producers, send_task_configs])
def test_a_call_that_hangs_does_not_keep_the_process_alive(begin):
    """At its end Python waits for all threads that are not daemons."""
    daemons: SimpleQueue[bool] = SimpleQueue()

    def hang(*_: Any):
        daemons.put(threading.current_thread().daemon)
        raise ConnectError("enough")

    begin(hang)
    assert daemons.get(timeout=30)
