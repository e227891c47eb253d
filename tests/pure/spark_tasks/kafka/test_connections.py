"""Coroutines on the IO thread that no thread waits for, and the timers of its loop."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import re
import socket
import socketserver
import ssl
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, FindCoordinatorResponse

from heeler.worker.logs import ConnectFormatter, log_context
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.connections import Connections, Deadline, Loop, Manager
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.recovery import RecoveringManager
from spark_tasks.kafka.security.tls import Tls
from tests.rigs.serving import Certificates, make_certificates
from tests.rigs.support import wait_until


@pytest.fixture
def connections():
    made = Connections({"bootstrap_servers": ["127.0.0.1:1"]})
    yield made
    made.close()


async def coroutine():
    raise TypeError("a defect")


def function():
    raise TypeError("a defect")


@pytest.mark.parametrize("started", [function, coroutine])
def test_a_defect_is_logged_and_the_thread_continues(connections, caplog, started):
    connections.start(started)
    wait_until(lambda: "TypeError: a defect" in caplog.text)
    done = threading.Event()
    connections.start(done.set)
    assert done.wait(10)


def test_coroutines_cancelled_by_close_are_not_logged_as_defects(connections, caplog):
    begun = threading.Event()

    async def long():
        begun.set()
        await connections.sleep(60_000)

    with caplog.at_level(logging.INFO, "spark_tasks"):
        connections.start(long)
        assert begun.wait(10)
        connections.close()
    assert [record for record in caplog.records if record.name.startswith("spark_tasks")] == []


def test_coordinators_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker, and its executor processes, see the transactional ids of all tasks that have ever run."""
    managers, asked = [], []

    class Seen(Manager):
        def __init__(self, *arguments: Any, **configs: Any) -> None:
            super().__init__(*arguments, **configs)
            managers.append(self)

    async def answer(request: FindCoordinatorRequest, _node: object) -> FindCoordinatorResponse:
        asked.append(request.key)
        return FindCoordinatorResponse(error_code=0, node_id=1, host="here", port=1, version=3)

    monkeypatch.setattr("spark_tasks.kafka.connections.Manager", Seen)
    monkeypatch.setattr("spark_tasks.kafka.connections.MAX_COORDINATORS", 3)
    connections = Connections({"bootstrap_servers": ["127.0.0.1:1"]})
    monkeypatch.setattr(connections, "send", answer)
    for name in ("a", "b", "c", "a", "c", "d", "a"):
        assert connections.run(connections.coordinator, name) == "coordinator-1"
    connections.close()
    assert asked == ["a", "b", "c", "d", "a"], "at most three are known"
    assert {managers[0].cluster.get_coordinator(name, CoordinatorType.TRANSACTION) for name in asked} == {None}


@pytest.mark.parametrize("kind", [Manager, RecoveringManager])
def test_pauses_grow_if_connections_are_accepted_and_closed_at_once(kind: type[KafkaConnectionManager]) -> None:
    """As by a proxy whose broker is down. There was no pause at all."""

    class Closing(socketserver.BaseRequestHandler):
        """Closes each connection at once."""

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Closing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        loop = Loop()
        manager = kind(loop, bootstrap_servers=[f"127.0.0.1:{server.server_address[1]}"], reconnect_backoff_ms=100,
                       socket_connection_setup_timeout_max_ms=1_000_000)
        [node] = manager.cluster.bootstrap_brokers()
        timeouts = []
        for _ in range(3):
            wait_until(lambda: loop.poll(timeout_ms=5) is None and manager.connection_delay(node.node_id) == 0)
            failed = manager.get_connection(node.node_id).init_future.failed
            wait_until(lambda failed=failed: loop.poll(timeout_ms=5) is None and failed())
            wait_until(lambda: loop.poll(timeout_ms=5) is None and manager.connection_delay(node.node_id) > 0)
            timeouts.append(manager.socket_connection_setup_timeout_ms(node.node_id))
        server.shutdown()
    assert timeouts == sorted(set(timeouts)), "they grow with each failure, as the pauses do"


def test_idle_connections_are_looked_for_again_and_again() -> None:
    loop = Loop()
    manager = Manager(loop, bootstrap_servers=["127.0.0.1:1"], connections_max_idle_ms=1)
    looked: list[int] = []

    def none_used() -> list[object]:
        looked.append(1)
        return []

    manager.least_used_connections = none_used
    wait_until(lambda: loop.poll(timeout_ms=5) is None and len(looked) > 2)
    manager.close()
    loop.close()


def test_a_closed_manager_is_released():
    """At once, not when connections.max.idle.ms have passed: a worker has hundreds of members in that time."""
    loop = Loop()
    manager = Manager(loop, bootstrap_servers=["127.0.0.1:1"])
    let_go = weakref.ref(manager)
    manager.close()
    del manager

    def gone() -> bool:
        loop.poll(timeout_ms=5)
        gc.collect()
        return let_go() is None

    wait_until(gone, 20)
    loop.close()


# ---------------------------------------------------------------- timers
FAR_S = 3600.0


@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from(["", "cancelled", "put off"])), max_size=30))
def test_timers_run_in_order_unless_they_are_cancelled_or_put_off(timers: list[tuple[int, str]]) -> None:
    loop, ran, now = Loop(), [], time.monotonic()
    try:
        made: list[tuple[Any, str]] = []
        for number, (due, fate) in enumerate(timers):
            task = loop.call_at(now + due * FAR_S, lambda number=number: ran.append(number))
            made.append((task, fate))
        for task, fate in made:
            if fate == "cancelled":
                loop.cancel(task)
                loop.cancel(task)
            elif fate:
                loop.reschedule(now + FAR_S, task)
        loop.poll(timeout_ms=0)
        due = [number for number, (at, fate) in enumerate(timers) if at <= 0 and not fate]
        assert sorted(ran) == due
        assert [timers[number][0] for number in ran] == sorted(timers[number][0] for number in due)
        for task, fate in made:
            if fate == "put off":
                loop.reschedule(now, task)
        ran.clear()
        loop.poll(timeout_ms=0)
        assert sorted(ran) == [number for number, (_, fate) in enumerate(timers) if fate == "put off"]
    finally:
        loop.close()


def test_cancelled_timers_are_removed() -> None:
    loop = Loop()
    try:
        kept = loop.call_later(FAR_S, lambda: None)
        for _ in range(10_000):
            loop.cancel(loop.call_later(2 * FAR_S, lambda: None))
        scheduled = re.search(r"scheduled=(\d+)", str(loop))
        assert scheduled is not None
        assert int(scheduled[1]) < 200
        loop.cancel(kept)
    finally:
        loop.close()


def test_log_lines_of_the_loop_name_the_task_it_works_for() -> None:
    loop, lines = Loop(), []
    formatter, log = ConnectFormatter(), logging.getLogger("kafka.coordinator")

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(re.sub(r"^\[[^]]*\] | \(.*", "", formatter.format(record)))

    async def work(name: str) -> None:
        log.error("%s", name)
        loop.call_later(0.001, lambda: log.error("%s, later", name))
        await loop.sleep(0.01)
        log.error("%s, at last", name)

    handler = Collect()
    log.addHandler(handler)
    loop.start()
    try:
        for task in (0, 1):
            with log_context("orders", task):
                loop.run(work, f"task {task}")
        loop.run(work, "none")
    finally:
        loop.stop()
        loop.close()
        log.removeHandler(handler)
    expected = (("[orders|task-0] ", "task 0"), ("[orders|task-1] ", "task 1"), ("", "none"))
    assert lines == [f"ERROR {about}{name}{when}" for about, name in expected for when in ("", ", later", ", at last")]


@contextlib.contextmanager
def tls_listener(own: Certificates, version: ssl.TLSVersion) -> Iterator[int]:
    """The port of a listener that accepts only clients with its own certificate, and never answers them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.pem)
    context.load_verify_locations(own.certificate)
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, version

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), context.wrap_socket(self.request, server_side=True) as secured:
                while secured.recv(1000):
                    pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("with_certificate", [False, True])
def test_a_broker_that_refuses_the_certificate_of_a_client_is_not_asked_again(tmp_path, version, with_certificate):
    """As in Kafka's clients: it was retried forever."""
    own, other = make_certificates(tmp_path / "own"), make_certificates(tmp_path / "other")
    mine = {"chain": other.pem, "key": other.pem} if with_certificate else {}
    with tls_listener(own, version) as port:
        made = Connections({"bootstrap_servers": [f"127.0.0.1:{port}"], "security_protocol": "SSL",
                            "ssl_context": Tls(trusted=own.certificate, **mine)})
        try:
            with pytest.raises(SaslAuthenticationFailedError, match=r"refuses the TLS connection.*keystore.*ALERT"):
                made.run(made.bootstrap, 60_000)
        finally:
            made.close()


def test_each_caller_that_waits_for_the_brokers_has_its_own_limit() -> None:
    """They share an attempt, which a server may accept and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = KafkaCluster({"bootstrap_servers": [f"127.0.0.1:{silent.getsockname()[1]}"]})
        begun = threading.Event()

        async def patient() -> None:
            begun.set()
            await cluster.find_leader("t", 0, Deadline(math.inf))

        cluster.io.start(patient)
        assert begun.wait(20)
        with pytest.raises(KafkaUnavailableError):
            cluster.partitions("t", timeout_ms=200)
        cluster.close()
