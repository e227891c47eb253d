"""A member of a group of any type, by kafka-python's BaseCoordinator: joins, heartbeats, leaves.

The library provides the requests, their error handling and the heartbeat loop. Its poll-driven join loop is not used:
the member's owner calls the methods under "for the owner". Everything runs on the client's IO thread, except methods
that are marked "Any thread". The methods raise ConnectErrors, except `ask` and `ask_coordinator`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import kafka.errors as protocol
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.net.wakeup_notifier import WakeupNotifier
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID, HeartbeatRequest
from kafka.structs import MemberState
from typing_extensions import override

from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.kafka.client_config import DEFAULTS
from spark_tasks.kafka.client_metrics import ClientMetrics
from spark_tasks.kafka.errors import KafkaRefusedError, KafkaUnavailableError, join_refusal
from spark_tasks.kafka.io_future import IoFuture
from spark_tasks.kafka.recovery import RecoveringManager

_logger = logging.getLogger(__name__)

_SETTLING_S: Final = 3.0  # a rebalance is often followed by another one: heartbeats are frequent for this long
_SETTLING_INTERVAL_S: Final = 0.1
_CLIENT_DEFAULTS: Final = {
    **DEFAULTS,
    "receive_message_max_bytes": 100_000_000,  # the leader receives the metadata of all members
}
_CHANGED: Final = (
    protocol.MemberIdRequiredError, protocol.RebalanceInProgressError, protocol.IllegalGenerationError,
    protocol.UnknownMemberIdError,
)  # fmt: skip
_AWAY: Final = (
    protocol.NotCoordinatorError, protocol.CoordinatorLoadInProgressError, protocol.CoordinatorNotAvailableError,
    protocol.KafkaConnectionError, protocol.NodeNotReadyError,
)  # fmt: skip


class GroupChangedError(RetriableError):
    """The group has changed during the join, or the broker requires that the member joins with an id: join again at
    once.
    """


class CoordinatorAwayError(KafkaUnavailableError):
    """The group's coordinator is not available, which is usual while a group is new, or brokers start."""


class JoinRefusedError(KafkaRefusedError):
    """The brokers reject the member. `unexplained`: without a reason."""

    def __init__(self, message: str, *, unexplained: bool) -> None:
        super().__init__(message)
        self.unexplained = unexplained


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A member's settings. `client` holds kafka-python's client settings, including `bootstrap_servers`.

    A member learns of a rebalance only from the response to a heartbeat, and each rebalance waits for its slowest
    member. Heartbeats are therefore sent every `notice_ms` if `heartbeat_interval_ms`, the longest allowed interval, is
    longer.
    """

    group_id: str
    client: Mapping[str, Any]
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    notice_ms: int = 500
    metrics: ClientMetrics | None = None  # the client's metrics are recorded here


@dataclass(frozen=True, slots=True)
class Round:
    """A rebalance that has completed: what the group has decided for this member. `protocol`: one of those offered."""

    generation: int
    member_id: str
    protocol: str
    assignment: bytes


class GroupMember(BaseCoordinator):  # type: ignore[misc]
    """A subclass implements `group_type`, `offers` and `assign`. `lost` is called with the reason when a membership
    ends.
    """

    group_type = ""
    """The protocol type of the group: all members have the same."""

    def __init__(self, settings: MemberSettings, lost: Callable[[str], None]) -> None:
        metrics = {"metrics": settings.metrics, "metric_group_prefix": "connect"}
        selector = {"selector": settings.metrics.selector} if settings.metrics is not None else {}
        client = {**_CLIENT_DEFAULTS, **settings.client, **metrics, **selector}
        net = NetworkSelector(**client)
        super().__init__(
            KafkaNetClient(net=net, manager=RecoveringManager(net, **client)),
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.rebalance_timeout_ms,  # also how long a rebalance waits for this member
            retry_backoff_ms=settings.retry_backoff_ms,
            **metrics,
        )
        self.heartbeat = _Heartbeat(settings, self.config)
        if settings.metrics is not None:
            self._sensors.heartbeat = self.heartbeat  # not the library's own
        self._settings = settings
        self._lost = lost
        self._wakeup = WakeupNotifier(self._net)
        self.leaving = False  # a LeaveGroup request is in flight
        self._left: Any = None  # a future that completes when that request is answered
        self._joining = False  # a JoinGroup or SyncGroup request is in flight
        self._rejoin_after_join = False  # a rejoin was requested after the running join had sent our metadata
        self._thread: threading.Thread | None = None  # the IO thread, once it runs

    # ------------------------------------------------------------ for subclasses
    def offers(self) -> list[tuple[str, bytes]]:
        """Returns the protocols that this member offers, with its metadata; called when a JoinGroup request is
        built.
        """
        raise NotImplementedError

    def assign(self, protocol: str, leader: str, metadata: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Returns the assignment of each member, if this one leads the group. `metadata`: by member id."""
        raise NotImplementedError

    @property
    def generation_id(self) -> int:
        """The generation of the group that this member belongs to, or -1."""
        return int(self._generation.generation_id)

    async def complete_round(self) -> Round:
        """Joins and syncs once; heartbeats pause until `begin_generation`. Raises GroupChangedError, RetriableError,
        JoinRefusedError, and the errors of `offers` and `assign`.
        """
        self._maybe_start_heartbeat_loop()
        self._disable_heartbeat()
        self._joining = True
        try:
            with self._translated():
                assignment = await self._do_join_and_sync_async()
        except Exception:
            if self._settings.metrics is not None:
                self._settings.metrics.failed()
            raise
        finally:
            self._joining = False
        generation = self._generation
        return Round(generation.generation_id, generation.member_id, generation.protocol, assignment)

    def begin_generation(self) -> None:
        """Accepts the assignment of the last round: the member is part of the group, and sends heartbeats."""
        self.rejoin_needed = self._rejoin_after_join
        self.state = MemberState.STABLE
        self._enable_heartbeat()

    async def ask(self, request: Any) -> Any:
        """Sends a request to any broker. Raises kafka.errors.KafkaError, as group_queries expects."""
        return await self._manager.send(request, request_timeout_ms=self._settings.session_timeout_ms)

    async def ask_coordinator(self, request: Any) -> Any:
        """Sends a request to the group's coordinator. Raises kafka.errors.KafkaError, as group_queries expects."""
        return await self._manager.send(request, node_id=self.coordinator_id)

    # ------------------------------------------------------------ for the owner
    def start(self, drive: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Starts the IO thread, and `drive` on it. Any thread."""
        self._net.start()
        self.post(self._begin, drive)

    async def _begin(self, drive: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._thread = threading.current_thread()
        await drive()

    def post(self, function: Callable[..., Any], *args: object) -> None:
        """Runs a function or coroutine function soon on the IO thread; its error is logged. Any thread."""
        self._manager.call_soon(function, *args).add_errback(_report)

    def check_thread(self) -> None:
        """RuntimeError if the IO thread has died, which ends the membership without any other notice. Any thread."""
        if self._thread is not None and not self._thread.is_alive():
            raise RuntimeError(f"the thread of the member of group {self.group_id} has died")

    def wake(self) -> None:
        """Ends the owner's sleep, or its next one. Any thread."""
        self._wakeup.notify()

    async def sleep(self, seconds: float | None = None) -> None:
        """Sleeps until wake(), or until the time has passed."""
        await self._wakeup(seconds)

    async def completed(self, future: IoFuture, timeout_ms: int) -> bool:
        """Waits for a future; False if it was not completed in time."""
        try:
            await self._manager.wait_for(future, timeout_ms)
        except protocol.KafkaTimeoutError:
            return False
        return True

    async def find_coordinator(self) -> bool:
        """Whether the coordinator is known, or can be found within a heartbeat interval. Bootstraps first."""
        with self._translated():
            if not self._manager.bootstrapped:
                await self._manager.bootstrap_async()
            return not self.coordinator_unknown() or bool(
                await self.ensure_coordinator_ready_async(self._settings.heartbeat_interval_ms)
            )

    @override
    def need_rejoin(self) -> bool:
        """Whether a rebalance has been requested, or this member belongs to no generation."""
        return bool(super().need_rejoin())

    @override
    def request_rejoin(self) -> None:
        """Requests a rebalance, as the response to a heartbeat or a SyncGroup does that says that there is one."""
        super().request_rejoin()
        self.wake()

    def rejoin(self) -> None:
        """Requests another rebalance, or one more after the rebalance in progress."""
        self._rejoin_after_join = True
        self.request_rejoin()

    async def leave(self, reason: str, timeout_ms: int) -> None:
        """Sends LeaveGroup, so that the others rebalance at once; if it fails (logged), the session has to expire."""
        if self._left is not None:
            await self._left  # a second request would be rejected as one of an unknown member
            return
        left = self._left = IoFuture()
        self.leaving = True
        try:
            if self._joining and self.coordinator_id is not None:
                # A broker answers a connection's requests one by one, and the JoinGroup waits for other members.
                self._manager.close(self.coordinator_id)
            with self._translated():
                await self.maybe_leave_group_async(reason, timeout_ms)
        finally:
            self.leaving = False
            self._left = None
            left.success(None)
            self.wake()

    def finish(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `leave`, then closes connections and ends the IO thread. Blocks; any thread but the IO thread."""

        async def last() -> None:
            self._close_heartbeat()
            await leave()
            self._manager.close()

        try:
            self._net.run(last)
        except (protocol.KafkaError, ConnectError) as error:
            _logger.warning("Could not leave the group %s cleanly: %s", self.group_id, error)
        finally:
            self._client.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _CHANGED as error:
            raise GroupChangedError(type(error).__name__) from error
        except _AWAY as error:
            raise CoordinatorAwayError(str(error)) from error
        except protocol.RetriableError as error:
            raise KafkaUnavailableError(str(error)) from error
        except protocol.KafkaError as error:
            why = join_refusal(error, self.group_id, self._settings.session_timeout_ms)
            raise JoinRefusedError(why, unexplained=isinstance(error, protocol.UnknownError)) from error

    # ------------------------------------------------------------ what the library calls
    @override
    def protocol_type(self) -> str:
        """The group's type."""
        return self.group_type

    @override
    def group_protocols(self) -> list[tuple[str, bytes]]:
        """The offers, when a JoinGroup request is built."""
        self._rejoin_after_join = False
        return self.offers()

    @override
    def _perform_assignment(self, leader_id: str, protocol: str, members: list[Any]) -> Mapping[str, bytes]:
        return self.assign(protocol, leader_id, {member.member_id: member.metadata for member in members})

    @override
    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        """The worker is no longer a member, or only of a generation that is over."""
        member = not self._generation.is_lost()
        super().reset_generation(member_id)
        if member and not self.leaving:
            self._lost("the group rebalanced without this worker")
        self.wake()

    @override
    def coordinator_dead(self, error: object) -> None:
        """The coordinator has to be looked up again."""
        super().coordinator_dead(error)
        if self._heartbeat_enabled and self.heartbeat.session_timeout_expired():
            self._lost("the session expired")
        self.wake()

    @override
    async def _send_heartbeat_request(self) -> None:
        """Differs from the library's: it has the session timeout, and ignores responses to a former generation."""
        if self.coordinator_unknown():
            raise protocol.CoordinatorNotAvailableError(self.coordinator_id)
        generation, node, sent = self._generation, self.coordinator_id, time.monotonic()
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=None,
        )
        limit_ms = self._settings.session_timeout_ms
        try:
            response = await self._manager.send(request, node_id=node, request_timeout_ms=limit_ms)
        except protocol.KafkaError as error:
            self._failed_request(node, request, error)
            raise
        if generation is not self._generation:
            return
        if (time.monotonic() - sent) * 1000 > limit_ms:
            # The process was suspended; the response is old, and our work may have been assigned to others since.
            self._lost("the session expired while this process was suspended")
        self._handle_heartbeat_response(response, sent)


class _Heartbeat(Heartbeat):  # type: ignore[misc]
    """Heartbeats as described in MemberSettings; the owner handles the poll timeout."""

    def __init__(self, settings: MemberSettings, config: dict[str, Any]) -> None:
        super().__init__(**config)
        self._retry_s = settings.retry_backoff_ms / 1000
        self._interval_s = min(settings.heartbeat_interval_ms, settings.notice_ms) / 1000

    @override
    def time_to_next_heartbeat(self) -> float:
        now = time.monotonic()
        interval = self._retry_s if self.heartbeat_failed else self._interval_s
        if now - self.last_reset < _SETTLING_S:
            interval = min(interval, _SETTLING_INTERVAL_S)
        return float(max(0.0, interval - (now - max(self.last_send, self.last_reset))))

    @override
    def poll_timeout_expired(self) -> bool:
        return False


def _report(error: BaseException) -> None:
    """Logs the error of a posted function. GeneratorExit is not an error: the function waited when the IO loop
    ended.
    """
    if not isinstance(error, GeneratorExit):
        _logger.error("Internal error in a group member", exc_info=error)
