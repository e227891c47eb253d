"""Sending requests to Kafka's brokers: an IO thread, and the connections of kafka-python's connection manager."""

from __future__ import annotations

import heapq
import logging
import selectors
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, Final, TypeVar
from weakref import WeakMethod

import kafka.errors as protocol
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import create_connection
from kafka.net.selector import NetworkSelector, Task, TaskState
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataResponse
from typing_extensions import override

from spark_tasks.backoff import doubled
from spark_tasks.kafka.errors import tls_refusal
from spark_tasks.kafka.recovery import PausingManager, RecoveringManager
from spark_tasks.kafka.transports import TcpTransport, TlsTransport

_logger = logging.getLogger(__name__)

T = TypeVar("T")
Send = Callable[[Any], Awaitable[Any]]  # sends a request, and returns the response

# More than any fetch response, but less than 0x48545450: "HTTP", the start of an HTTP server's response, as a length.
_MAX_RESPONSE_BYTES: Final = 1 << 30
_SLOW_STEP_SECONDS: Final = 5.0  # on a busy machine, copying a large fetch response takes seconds
_REFUSALS: Final = (
    protocol.SaslAuthenticationFailedError, protocol.UnsupportedSaslMechanismError, protocol.IllegalSaslStateError,
)  # fmt: skip
_THROTTLE_STEP_S: Final = 0.005
_MIN_SWEEP: Final = 64  # cancelled timers
MAX_COORDINATORS: Final = 5_000
UNBOUNDED_IN_FLIGHT: Final = 10_000  # callers limit their requests themselves; the library's default is too low


class _OwnTask(Task):  # type: ignore[misc]
    """A task of the loop that runs in the context (PEP 567) of its creation. So lines that the library logs on the
    loop's thread name the connector and task for which it works; of a shared connection, those that opened it.
    """

    def __init__(self, coro: Any) -> None:
        super().__init__(coro)
        self._context = copy_context()

    def __call__(self, arg: Any = None) -> Any:
        return self._context.run(super().__call__, arg)


def _own(task: Any) -> Task:
    return task if isinstance(task, Task) else _OwnTask(task)


class Loop(NetworkSelector):  # type: ignore[misc]
    """The library's event loop with faster timers. Each request has a timer, which its response cancels. The library
    searches all timers for it, which took most of the thread's time with hundreds of clients. Here a cancelled timer
    stays in the heap until it is due, or until more than half of the heap is cancelled.
    """

    _scheduled: list[tuple[float, Any]]
    _cancelled = 0  # timers that are still in the heap

    def call_at(self, when: float, task: Any) -> Task:
        """Runs a task at a time (time.monotonic)."""
        return super().call_at(when, _own(task))

    def call_later(self, delay: float, task: Any) -> Task:
        """Runs a task after some seconds."""
        return super().call_later(delay, _own(task))

    def call_soon(self, task: Any) -> Task:
        """Runs a task in the next step."""
        return super().call_soon(_own(task))

    def _unschedule(self, task: Any) -> None:
        task.scheduled_at, task.state = None, TaskState.UNSCHEDULED
        self._cancelled += 1
        if self._cancelled > _MIN_SWEEP and self._cancelled * 2 > len(self._scheduled):
            self._scheduled = [entry for entry in self._scheduled if entry[1].scheduled_at == entry[0]]
            heapq.heapify(self._scheduled)
            self._cancelled = 0

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        """Registers a new socket without the two system calls by which the library checks if it is registered."""
        if fileobj in self._selector.get_map():
            super().register_event(fileobj, event, _own(task))
        else:
            task = _own(task)
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
        """Returns when the next timer is due (time.monotonic). Drops cancelled timers before it."""
        while self._scheduled:
            when, task = self._scheduled[0]
            if task.scheduled_at == when:
                return when
            heapq.heappop(self._scheduled)
            self._cancelled -= 1
        return None


def weak_call(method: Callable[[], object]) -> Callable[[], None]:
    """Returns a function that calls the method as long as its object exists, and does not keep it alive."""
    reference = WeakMethod(method)

    def call() -> None:
        if (alive := reference()) is not None:
            alive()

    return call


class Manager(PausingManager):
    """Raises an error if a login or a certificate is rejected. The library retries until the timeout, and then reports
    only the timeout.
    """

    def __init__(self, net: Any, **configs: Any) -> None:
        # The loop's timer for the next call would keep a closed manager alive for connections.max.idle.ms.
        self.close_idle_connections = weak_call(super().close_idle_connections)
        super().__init__(net, **configs)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options, proxy = self.config["socket_options"], self.config["proxy_url"]
        sock = await create_connection(self._net, node.host, node.port, options, proxy_url=proxy, timeout_at=timeout_at)
        if not self.ssl_enabled:
            return TcpTransport(self._net, sock, host=node.host)
        transport = TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await transport.handshake()
        except Exception as error:  # the other side may send anything
            raise protocol.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    @override
    async def _connect(self, node: Any, conn: Any, *arguments: Any, **keywords: Any) -> None:
        await super()._connect(node, conn, *arguments, **keywords)
        error = conn.init_future.exception if conn.init_future.failed() else None
        error = tls_refusal(error) or error
        if isinstance(error, protocol.UnsupportedSaslMechanismError):
            error = type(error)(f"the broker does not support the SASL mechanism {self.config['sasl_mechanism']}")
        if isinstance(error, _REFUSALS):
            self._auth_failures[node.node_id] = error

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Raises the error only once: at the next attempt, the broker may accept the credentials."""
        error = self._auth_failures.pop(node_id, None)
        if error is not None:
            raise error


class _ClientManager(RecoveringManager, Manager):
    """For clients that do not use Connections, which recover themselves (see `forget_brokers`)."""


def net_client(**configs: Any) -> KafkaNetClient:
    """Returns a `kafka_client` for the library's own clients that reports rejected logins."""
    net = Loop(**configs)
    return KafkaNetClient(net=net, manager=_ClientManager(net, **configs))


class Connections:
    """Connections to the brokers of one cluster, and their IO thread. Call `send`, `sleep`, `coordinator` and
    `bootstrap` from coroutines on that thread; `run`, `start` and `close` from other threads.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        config = dict(settings)
        config["receive_message_max_bytes"] = _MAX_RESPONSE_BYTES
        config["max_in_flight_requests_per_connection"] = UNBOUNDED_IN_FLIGHT
        self.request_timeout_ms = int(config.get("request_timeout_ms", 30_000))
        self._net = Loop(**config, slow_task_threshold_secs=_SLOW_STEP_SECONDS)
        self._manager = Manager(self._net, **config)
        servers = config.get("bootstrap_servers", "")
        self._servers = servers if isinstance(servers, str) else ", ".join(servers)
        self._coordinators: dict[tuple[CoordinatorType, str], str] = {}
        self._closing = False
        self._net.start()

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Runs a coroutine function on the IO thread and waits for its result."""
        result: T = self._net.run(function, *arguments)
        return result

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Runs a function or coroutine function on the IO thread without waiting for it. Logs its error."""
        self._net.call_soon_with_future(function, *arguments).add_errback(self._log_defect)

    def _log_defect(self, error: BaseException) -> None:
        if isinstance(error, Exception) and not self._closing:
            _logger.error("Unexpected error in a task of the connections to Kafka", exc_info=error)

    @property
    def alive(self) -> bool:
        """Whether the IO thread serves requests."""
        thread = self._net._io_thread  # noqa: SLF001
        return thread is not None and thread.is_alive()

    async def bootstrap(self, timeout_ms: float) -> None:
        """Finds the brokers if they are not known yet. Raises KafkaTimeoutError, after a request's timeout at most."""
        # All callers share an attempt, which a server may accept and never answer, but each has its own limit.
        if not self._manager.bootstrapped:
            attempt = self._manager.bootstrap_async(timeout_ms=self.request_timeout_ms)
            limit_ms = min(timeout_ms, self.request_timeout_ms)
            try:
                await self._manager.wait_for(attempt, limit_ms)
            except protocol.KafkaTimeoutError as error:
                raise protocol.KafkaTimeoutError(
                    f"no broker at {self._servers} has answered within {limit_ms:.0f} ms") from error

    def forget_brokers(self) -> None:
        """Makes the next `bootstrap` ask the bootstrap servers again (KIP-899)."""
        self._manager._bootstrap_future = None  # noqa: SLF001

    async def send(
        self, request: Any, node: int | str | None, *, lane: str = "", timeout_ms: float | None = None,
        wait_ms: float | None = None,
    ) -> Any:  # fmt: skip
        """Sends a request and returns the response. `node`: the broker; None means any. `lane`: requests with different
        lanes use separate connections. A broker handles the requests of a connection in order, so a fetch that waits
        for records would delay the requests behind it. `timeout_ms`: after this, the connection is closed; `wait_ms`:
        after this, KafkaTimeoutError is raised, and the connection stays open for others.
        """
        if node is None:
            node = self._manager.least_loaded_node()
        if node is None:
            raise protocol.NodeNotReadyError("no broker is known")
        if lane and isinstance(node, int):
            node = self._in_lane(node, lane)
        while (pause_s := self._throttled_s(node)) > 0:
            await self._net.sleep(pause_s)
        limit = self.request_timeout_ms if timeout_ms is None else min(timeout_ms, self.request_timeout_ms)
        response = self._manager.send(request, node_id=node, request_timeout_ms=max(limit, 1))
        return await (response if wait_ms is None else self._manager.wait_for(response, wait_ms))

    def _throttled_s(self, node: int | str) -> float:
        """Returns for how many seconds the broker accepts no requests on the connection, because a response said that a
        quota was exceeded (KIP-219). The library would refuse to send them.
        """
        connection = self._manager._conns.get(node)  # noqa: SLF001
        if connection is None or "throttle" not in connection.paused:
            return 0.0
        return max(float(connection._throttle_time) - time.monotonic(), _THROTTLE_STEP_S)  # noqa: SLF001

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

    async def coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.TRANSACTION) -> str:
        """Returns the node name of the coordinator of a transactional id or a group, to which there is a separate
        connection. Cached until `forget_coordinator`. Raises the broker's error.
        """
        if (known := self._coordinators.get((kind, key))) is not None:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind.value, coordinator_keys=[key])
        response = await self.send(request, None)
        coordinator = response.coordinators[0] if response.API_VERSION >= 4 else response
        cluster = self._manager.cluster
        node: str = cluster.add_coordinator(coordinator, kind, key)
        cluster._coordinators.clear()  # noqa: SLF001 - the library would keep each id for good, and nothing reads it
        if len(self._coordinators) >= MAX_COORDINATORS:  # most are of tasks that have ended
            self._coordinators.clear()
        self._coordinators[kind, key] = node
        return node

    def forget_coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.TRANSACTION) -> None:
        """Makes the next `coordinator` look the coordinator up again, because it may have moved."""
        self._coordinators.pop((kind, key), None)

    def update_metadata(self, response: Any) -> None:
        """Stores the brokers' addresses from a metadata response."""
        self._manager.cluster.update_metadata(response)

    async def sleep(self, milliseconds: float) -> None:
        """Suspends this coroutine while others run."""
        await self._net.sleep(milliseconds / 1000)

    def close(self) -> None:
        """Closes all connections and ends the thread. Requests in flight fail."""
        self._closing = True
        if not self.alive:
            return
        self._net.run(self._close_manager)
        self._net.close()

    async def _close_manager(self) -> None:
        self._manager.close()


class Deadline:
    """A deadline on the monotonic clock, with the backoff between attempts until then."""

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
        """Returns the milliseconds to wait before the next attempt, and doubles them for the next call. Returns None if
        the deadline comes first.
        """
        wait, self._next = self._next, doubled(self._next, 1, self._largest)
        return wait if wait < self.left_ms else None
