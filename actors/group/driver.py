"""Decides when to join, wait and leave: what a consumer's poll loop does, as one coroutine on the IO thread.

It finds the coordinator, asks the herder whether the join may begin (JoinPreparing, answered by AllowJoin while
heartbeats continue), joins, reports Joined, and sleeps until something wakes it. Public methods may be called from any
thread; only close() blocks.

- A lost membership is reported once (CoordinatorLost) and always followed by a new join: the coordinator could not be
  found for a heartbeat interval, the session expired, or the group continued without this worker.
- The poll timeout of KIP-62 applies to the herder: alive() reports that it still runs. If the herder is silent for
  `rebalance_timeout_ms`, or does not answer JoinPreparing for that long, the membership ends until it responds again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from actors.assignment.codec import CodecError
from actors.assignment.protocol import Allocation, Protocol
from actors.group.coordinator import GroupCoordinator, GroupSettings
from actors.messages.events import CoordinatorLost, Joined, JoinPreparing
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.group_member import CoordinatorAwayError, GroupChangedError, JoinRefusedError
from spark_tasks.kafka.io_future import IoFuture
from storage.config.state import ClusterConfigState

_logger = logging.getLogger(__name__)

GroupEvent = JoinPreparing | Joined | CoordinatorLost
NewCoordinator = Callable[[GroupSettings, Callable[[], ClusterConfigState], Callable[[str], None]], GroupCoordinator]
"""The constructor of a driver's coordinator, with GroupCoordinator's parameters."""

_RETRY_S = 1.0  # after an error that another attempt is unlikely to resolve


class GroupDriver:
    """One worker's membership. `tell` takes events on the IO thread: it must neither block nor raise."""

    def __init__(
        self, settings: GroupSettings, snapshot: Callable[[], ClusterConfigState], tell: Callable[[GroupEvent], None],
        coordinator: NewCoordinator = GroupCoordinator,
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._coordinator = coordinator(settings, snapshot, self._lose)
        self._wanted = False  # between join() and leave()
        self._closing = False
        self._joined = False  # Joined was reported to the herder, and CoordinatorLost has not been since
        self._losses = 0
        self._refusal = ""  # the last one that was logged: each is logged once
        self._permission: IoFuture | None = None  # completed by AllowJoin with what is owned, or with None
        self._owned: Allocation | None = None  # set while the herder's permission to join is valid
        self._alive_at: float | None = None  # None: not supervised before the first alive()

    # ------------------------------------------------------------ from any thread
    def start(self) -> None:
        """Starts the IO thread and connects; the group is not joined before join()."""
        self._coordinator.start(self._drive)

    def join(self) -> None:
        """Joins the group and stays a member until leave()."""
        self._coordinator.post(self._begin_membership)

    def allow(self, owned: Allocation) -> None:
        """Answers a JoinPreparing, once: the join may begin, and `owned` is what this worker runs."""
        self._coordinator.post(self._answer, owned)

    def rejoin(self, caught_up: int | None = None) -> None:
        """Starts another rebalance, or one more after the rebalance in progress. `caught_up`: see RequestRejoin."""
        self._coordinator.post(self._rejoin, caught_up)

    def leave(self, reason: str) -> None:
        """Leaves at once and stays out until join(). CoordinatorLost is not reported."""
        self._coordinator.post(self._stay_out, reason, self._settings.heartbeat_interval_ms)

    def alive(self) -> None:
        """The herder still runs. The first call starts its supervision. RuntimeError if the IO thread has died."""
        self._coordinator.check_thread()
        was_silent = not self._remaining_s()
        self._alive_at = time.monotonic()
        if was_silent:
            self._coordinator.wake()

    def close(self, timeout_ms: int = 3000) -> None:
        """Leaves the group within the timeout, and ends the IO thread. Blocks."""
        if not self._closing:
            self._closing = True
            self._coordinator.finish(lambda: self._stay_out("the worker is stopping", timeout_ms))

    # ------------------------------------------------------------ on the IO thread
    def _begin_membership(self) -> None:
        self._wanted = True
        self._coordinator.request_rejoin()

    def _rejoin(self, caught_up: int | None) -> None:
        if caught_up is not None:
            self._coordinator.caught_up(caught_up)
        self._coordinator.rejoin()

    def _answer(self, owned: Allocation | None) -> None:
        permission, self._permission = self._permission, None
        if permission is not None:
            permission.success(owned)

    async def _stay_out(self, reason: str, timeout_ms: int) -> None:
        self._wanted = self._joined = False
        self._owned = None
        self._answer(None)
        await self._coordinator.leave(reason, timeout_ms)

    async def _drive(self) -> None:
        while not self._closing:
            try:
                await self._step()
            except GroupChangedError as error:
                _logger.debug("Joining the group %s again: %s", self._settings.group_id, error)
            except RetriableError as error:
                # A warning about all connections reports those that fail.
                level = logging.DEBUG if isinstance(error, CoordinatorAwayError) else logging.INFO
                _logger.log(level, "Joining the group %s failed; retrying: %s", self._settings.group_id, error)
                await self._coordinator.sleep(self._settings.retry_backoff_ms / 1000)
            except (JoinRefusedError, CodecError) as error:
                why = str(error)
                if why != self._refusal:
                    _logger.error("Could not join the group %s: %s", self._settings.group_id, why)  # noqa: TRY400
                self._refusal = why
                self._lose(why)
                await self._coordinator.sleep(_RETRY_S)
            except Exception:  # if the driver ended, the worker would be out of its group unnoticed
                _logger.exception("Internal error in the group member of %s", self._settings.group_id)
                await self._coordinator.sleep(_RETRY_S)

    async def _step(self) -> None:
        """Does the most urgent thing; `_drive` then calls this again."""
        coordinator = self._coordinator
        if not self._wanted or coordinator.leaving:
            if not coordinator.leaving:
                await coordinator.find_coordinator()  # so that the first join, soon after the start, is quick
            await coordinator.sleep()
        elif self._remaining_s() == 0:
            await self._give_up(f"the herder has not responded for {self._settings.rebalance_timeout_ms} ms")
            await coordinator.sleep()
        elif not await coordinator.find_coordinator():
            self._lose(f"the coordinator could not be found for {self._settings.heartbeat_interval_ms} ms")
        elif not coordinator.need_rejoin():
            await coordinator.sleep(self._remaining_s())
        elif self._owned is None:
            await self._ask_herder()
        else:
            await self._join(self._owned)

    async def _ask_herder(self) -> None:
        permission = self._permission = IoFuture()
        losses = self._losses
        self._tell(JoinPreparing(eager=self._coordinator.protocol is Protocol.EAGER))
        if not await self._coordinator.completed(permission, self._settings.rebalance_timeout_ms):
            await self._give_up(f"the herder was not ready to join within {self._settings.rebalance_timeout_ms} ms")
            # Only one JoinPreparing at a time, so that a late AllowJoin cannot be taken for the reply to the next one.
            await permission
        if losses == self._losses and self._wanted:
            self._owned = permission.value

    async def _join(self, owned: Allocation) -> None:
        membership = await self._coordinator.join(owned)
        if not self._wanted:
            return
        if self._owned is None:
            # The previous membership was lost meanwhile, and with it the work that we claimed.
            self._coordinator.request_rejoin()
            return
        self._owned = None
        self._joined = True
        self._refusal = ""
        self._tell(Joined(membership))

    def _remaining_s(self) -> float | None:
        """Seconds for which the herder may stay silent; 0 if that was too long, None if it is not supervised."""
        if self._alive_at is None:
            return None
        return max(0.0, self._alive_at + self._settings.rebalance_timeout_ms / 1000 - time.monotonic())

    async def _give_up(self, reason: str) -> None:
        _logger.error("Leaving the group %s: %s", self._settings.group_id, reason)
        self._lose(reason)
        await self._coordinator.leave(reason, self._settings.heartbeat_interval_ms)

    def _lose(self, reason: str) -> None:
        """The membership that the herder knows of is over, and so is its permission to join."""
        self._owned = None
        if self._joined:
            _logger.debug("Lost membership in the group %s: %s", self._settings.group_id, reason)
            self._joined = False
            self._losses += 1
            self._coordinator.request_rejoin()
            self._tell(CoordinatorLost(reason))
