"""What an exactly-once source task asks before and after its producer exists (spark_tasks.task.StartGuard, KIP-618).

It runs in the task's own thread. Nobody waits for it: the herder answers at once or later, and whoever stops the task
cancels it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from actors.errors import ConflictError, NotFoundError, NotLeaderError, RequestRefusedError
from actors.messages.requests import Ask, FenceZombies, Request, VerifyTaskStart
from actors.peers.leader_client import LeaderClient
from spark_tasks.errors import ConnectError, StartCancelledError
from spark_tasks.kafka.connections import Deadline
from spark_tasks.task import StartGuard
from storage.config.view import ConfigView
from storage.ids import ConnectorTaskId

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
_LOOK_S = 0.25
# While a group settles, a leader may not know that it is one, a connector may be too new, a key may have been rotated.
_PASSING = (403, 404, 409, 503)


class _Reply:
    """What the herder completes (the `reply` of an Ask)."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None

    def set(self, _value: Any = None) -> None:
        self._done.set()

    def set_exception(self, info: tuple[Any, BaseException, Any]) -> None:
        self._error = info[1]
        self._done.set()

    def done(self) -> bool:
        return self._done.is_set()

    def result(self, timeout: float) -> None:
        if not self._done.wait(timeout):
            raise FutureTimeoutError
        if self._error is not None:
            raise self._error


@dataclass(frozen=True, slots=True)
class Herding:
    """What a guard needs of the worker: telling the herder, asking the leader, the session key."""

    tell: Callable[[Any], None]
    leader: LeaderClient
    configs: ConfigView


class HerderGuard(StartGuard):
    """Asks on behalf of one task. `generation`: of the task configs that the task was started with."""

    def __init__(self, herding: Herding, task: ConnectorTaskId, generation: int) -> None:
        self._herding = herding
        self._task = task
        self._generation = generation
        self._cancelled = threading.Event()

    @override
    def fence(self) -> None:
        """What may pass is tried again for a minute."""
        self._retrying(f"Failed to perform a round of zombie fencing for task {self._task}", self._fence)

    @override
    def verify(self) -> None:
        self._retrying(f"Failed to perform the preflight check of task {self._task}", self._verify)

    @override
    def cancel(self) -> None:
        self._cancelled.set()

    def _retrying(self, failure: str, attempt: Callable[[], None]) -> None:
        deadline = Deadline(PATIENCE_S * 1000, first_ms=FIRST_WAIT_S * 1000, largest_ms=LONGEST_WAIT_S * 1000)
        while True:
            try:
                attempt()
            except StartCancelledError:
                raise
            except (ConnectError, OSError) as error:
                passing = not isinstance(error, ConnectError) or isinstance(error, (ConflictError, NotFoundError))
                passing = passing or (isinstance(error, RequestRefusedError) and error.status in _PASSING)
                wait_ms = deadline.next_wait() if passing else None
                if wait_ms is None:
                    raise ConnectError(f"{failure}: {error}") from error
                log.info("%s, trying again: %s", failure, error)
            else:
                return
            if self._cancelled.wait(wait_ms / 1000):
                raise StartCancelledError(f"The start of task {self._task} was given up")

    def _fence(self) -> None:
        connector = self._task.connector
        try:
            self._ask(FenceZombies(connector, None, local=True))
        except NotLeaderError as error:
            if error.url is None:
                raise ConflictError("no leader is known") from error
            self._wait(self._herding.leader.fence(error.url, connector, self._herding.configs.config.session_key))

    def _verify(self) -> None:
        self._ask(VerifyTaskStart(self._task, self._generation))

    def _ask(self, request: Request) -> None:
        reply = _Reply()
        self._herding.tell(Ask(request, reply))
        self._wait(reply)

    def _wait(self, answer: _Reply | Future[None]) -> None:
        while not self._cancelled.is_set():
            try:
                answer.result(_LOOK_S)
            except FutureTimeoutError:
                if answer.done():  # the answer itself is a time-out: it may be asked again
                    raise
            else:
                return
        raise StartCancelledError(f"The start of task {self._task} was given up")
