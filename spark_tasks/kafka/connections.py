"""The only module that uses kafka-python's connection manager: its IO thread, its connections and sending."""

from __future__ import annotations

import heapq
import logging
import selectors
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import kafka.errors as protocol
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector, Task, TaskState
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataResponse

from spark_tasks.backoff import doubled

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_RECEIVE_BYTES: Final = 256 * 1024
_RECEIVE_AT_ONCE: Final = 4 * 1024 * 1024
_JOINED_BYTES: Final = 64 * 1024
# A response may be as large as one fetch, but smaller than the length that an HTTP server's "HTTP" would read as.
_LARGEST_RESPONSE: Final = 1 << 30
_SLOW_STEP_SECONDS: Final = 5.0  # copying a large fetch on a busy machine deserves no warning
_REFUSALS: Final = (
    protocol.SaslAuthenticationFailedError, protocol.UnsupportedSaslMechanismError, protocol.IllegalSaslStateError,
)  # fmt: skip
_LEAST_SWEPT: Final = 64
UNBOUNDED_IN_FLIGHT: Final = 10_000  # callers limit their requests themselves; the library would refuse more


class Loop(NetworkSelector):  # type: ignore[misc]
    """Cancels a timer without looking for it among all others: each request has one that is cancelled by its answer,
    and with hundreds of clients on a loop the library's search took most of the time of the thread.
    """

    _scheduled: list[tuple[float, Any]]
    _cancelled = 0  # timers that are in the heap still

    def _unschedule(self, task: Any) -> None:
        task.scheduled_at, task.state = None, TaskState.UNSCHEDULED
        self._cancelled += 1
        if self._cancelled > _LEAST_SWEPT and self._cancelled * 2 > len(self._scheduled):
            self._scheduled = [entry for entry in self._scheduled if entry[1].scheduled_at == entry[0]]
            heapq.heapify(self._scheduled)
            self._cancelled = 0

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        """Avoids two system calls with which the library checks that a new socket is not registered yet."""
        if fileobj in self._selector.get_map():
            super().register_event(fileobj, event, task)
        else:
            task = task if isinstance(task, Task) else Task(task)
            pair = (task, None) if event == selectors.EVENT_READ else (None, task)
            self._selector.register(fileobj, event, pair)

    def _schedule_tasks(self) -> None:
        now = time.monotonic()
        while (when := self._next_timer()) is not None and when <= now:
            _, task = heapq.heappop(self._scheduled)
            task.scheduled_at = None
            self._add_ready_task(task)

    def _next_scheduled_timeout(self, now: float) -> float | None:
        when = self._next_timer()
        return None if when is None else when - now

    def _next_timer(self) -> float | None:
        """When the next timer is due that is not cancelled."""
        while self._scheduled:
            when, task = self._scheduled[0]
            if task.scheduled_at == when:
                return when
            heapq.heappop(self._scheduled)
            self._cancelled -= 1
        return None


class TcpTransport(KafkaTCPTransport):  # type: ignore[misc]
    """Reads in large pieces, and writes all that waits at once: each system call gives the GIL away. The library reads
    4 KiB at a time, and before each write it asks the selector whether there is room, of which there is nearly always.
    """

    async def _write_to_sock(self) -> None:
        if len(self._write_buffer) > 1 and sum(map(len, self._write_buffer)) <= _JOINED_BYTES:
            waiting = b"".join(self._write_buffer)
            self._write_buffer.clear()
            self._write_buffer.append(waiting)
        if self._write_buffer and not self._closed:
            sent, error = self._sock_send()
            if error is not None:
                self._writing = False
                self.abort(error=error)
                return
            if sent:
                self.last_write = time.monotonic()
        await super()._write_to_sock()  # what is left, and the end

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        pieces: list[bytes] = []
        size = 0
        while size < _RECEIVE_AT_ONCE:
            try:
                piece = self._sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return _before_the_end(b"".join(pieces), protocol.KafkaConnectionError(error))
            if not piece:
                return _before_the_end(b"".join(pieces), protocol.KafkaConnectionError("socket disconnected"))
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), None


class TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """Does not lose what comes just before the end."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        return _before_the_end(*super()._sock_recv())


def _before_the_end(data: bytes, error: Exception | None) -> tuple[bytes, Exception | None]:
    """The library drops what comes with an error: the reason why a broker refuses a login, after which it closes the
    connection. The next call meets the end again.
    """
    return data, None if data else error


class Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Raises the error where a login or a certificate is refused. The library does not report it: it tries again until
    the timeout, and then reports only the timeout.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options, proxy = self.config["socket_options"], self.config["proxy_url"]
        sock = await create_connection(self._net, node.host, node.port, options, proxy_url=proxy, timeout_at=timeout_at)
        if not self.ssl_enabled:
            return TcpTransport(self._net, sock, host=node.host)
        settings = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
        transport = TlsTransport(self._net, sock, host=node.host, **settings)
        try:
            await transport.handshake()
        except Exception as error:  # whatever the other side sent
            raise protocol.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    def close_idle_connections(self) -> None:
        """Unlike the library's, ends with the manager: the library's timer keeps closed managers alive."""
        if not getattr(self, "closed", False):  # not set yet when the first one is set up
            super().close_idle_connections()

    async def _connect(self, node: Any, conn: Any, *arguments: Any, **keywords: Any) -> None:
        await super()._connect(node, conn, *arguments, **keywords)
        error = conn.init_future.exception if conn.init_future.failed() else None
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            error = protocol.SaslAuthenticationFailedError(f"the broker's certificate is not trusted: {error}")
        if isinstance(error, protocol.UnsupportedSaslMechanismError):
            error = type(error)(f"the broker does not support the SASL mechanism {self.config['sasl_mechanism']}")
        if isinstance(error, _REFUSALS):
            self._auth_failures[node.node_id] = error

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Raise the error once; at the next attempt the credentials may be right."""
        error = self._auth_failures.pop(node_id, None)
        if error is not None:
            raise error


def net_client(**configs: Any) -> KafkaNetClient:
    """The `kafka_client` for the library's own clients, with one that reports refused logins."""
    net = Loop(**configs)
    return KafkaNetClient(net=net, manager=Manager(net, **configs))


class Connections:
    """Connections to one cluster's brokers and the thread that serves them. `send`, `sleep`, `coordinator` and
    `bootstrap` belong to coroutines on that thread; `run`, `start` and `close` to other threads.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        config = dict(settings)
        config["receive_message_max_bytes"] = _LARGEST_RESPONSE
        config["max_in_flight_requests_per_connection"] = UNBOUNDED_IN_FLIGHT
        self.request_timeout_ms = int(config.get("request_timeout_ms", 30_000))
        self._net = Loop(**config, slow_task_threshold_secs=_SLOW_STEP_SECONDS)
        self._manager = Manager(self._net, **config)
        self._coordinators: dict[str, str] = {}
        self._closing = False
        self._net.start()

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function on the IO thread and wait for its result."""
        result: T = self._net.run(function, *arguments)
        return result

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run a function or coroutine function on the IO thread; do not wait. Its error, a defect, goes to the log."""
        self._net.call_soon_with_future(function, *arguments).add_errback(self._tell_defect)

    def _tell_defect(self, error: BaseException) -> None:
        if isinstance(error, Exception) and not self._closing:
            _logger.error("Unexpected error in a task of the connections to Kafka", exc_info=error)

    @property
    def alive(self) -> bool:
        """Whether the IO thread serves requests."""
        thread = self._net._io_thread  # noqa: SLF001
        return thread is not None and thread.is_alive()

    async def bootstrap(self, timeout_ms: float) -> None:
        """Find the brokers if they are not known yet. Raises KafkaTimeoutError."""
        if not self._manager.bootstrapped:
            await self._manager.bootstrap_async(timeout_ms=timeout_ms)

    def forget_brokers(self) -> None:
        """Make the next `bootstrap` ask the bootstrap servers again (KIP-899)."""
        self._manager._bootstrap_future = None  # noqa: SLF001

    async def send(
        self, request: Any, node: int | str | None, *, lane: str = "", timeout_ms: float | None = None,
    ) -> Any:  # fmt: skip
        """The broker's response. `node` None: any broker. Requests of one lane to a broker are answered in order; each
        lane has a separate connection, so that a fetch that waits for data delays nothing else.
        """
        if node is None:
            node = self._manager.least_loaded_node()
        if node is None:
            raise protocol.NodeNotReadyError("no broker is known")
        if lane and isinstance(node, int):
            node = self._in_lane(node, lane)
        limit = self.request_timeout_ms if timeout_ms is None else min(timeout_ms, self.request_timeout_ms)
        return await self._manager.send(request, node_id=node, request_timeout_ms=max(limit, 1))

    def _in_lane(self, node: int, lane: str) -> str:
        cluster = self._manager.cluster
        broker = cluster.broker_metadata(node)
        if broker is None:
            raise protocol.UnknownBrokerIdError(node)
        name = f"{lane}-{node}"
        # The library uses such names for connections to coordinators; they survive metadata updates.
        cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(  # noqa: SLF001
            name, broker.host, broker.port, None,
        )  # fmt: skip
        return name

    async def coordinator(self, transactional_id: str) -> str:
        """The node of the transaction coordinator, which has a separate connection; looked up once. Raises the broker's
        error.
        """
        if (known := self._coordinators.get(transactional_id)) is not None:
            return known
        request = FindCoordinatorRequest(
            key=transactional_id,
            key_type=CoordinatorType.TRANSACTION.value,
            coordinator_keys=[transactional_id],
        )
        response = await self.send(request, None)
        answer = response.coordinators[0] if response.API_VERSION >= 4 else response
        node: str = self._manager.cluster.add_coordinator(answer, CoordinatorType.TRANSACTION, transactional_id)
        self._coordinators[transactional_id] = node
        return node

    def forget_coordinator(self, transactional_id: str) -> None:
        """Look the coordinator up again: it may have moved."""
        self._coordinators.pop(transactional_id, None)

    def learn(self, response: Any) -> None:
        """Take the brokers' addresses from a metadata response."""
        self._manager.cluster.update_metadata(response)

    async def sleep(self, milliseconds: float) -> None:
        """Pause this coroutine and let others run."""
        await self._net.sleep(milliseconds / 1000)

    def close(self) -> None:
        """Close all connections and end the thread. Requests in flight fail."""
        self._closing = True
        if not self.alive:
            return
        self._net.run(self._close_manager)
        self._net.close()

    async def _close_manager(self) -> None:
        self._manager.close()


class Deadline:
    """When to give up, on the monotonic clock, and how long to wait before the next attempt."""

    __slots__ = ("_at", "_largest", "_next")

    def __init__(self, timeout_ms: float, *, first_ms: float = 20, largest_ms: float = 1000) -> None:
        self._at = time.monotonic() + timeout_ms / 1000
        self._next = first_ms
        self._largest = largest_ms

    @property
    def left_ms(self) -> float:
        """Milliseconds until the deadline; negative after it."""
        return (self._at - time.monotonic()) * 1000

    def next_wait(self) -> float | None:
        """Milliseconds to wait before the next attempt, doubling; None when there is no time for one."""
        wait, self._next = self._next, doubled(self._next, 1, self._largest)
        return wait if wait < self.left_ms else None
