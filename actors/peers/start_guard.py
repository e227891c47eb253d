"""The checks of an exactly-once source task before and after it initializes its producer (StartGuard in
spark_tasks/task.py, KIP-618).

They run in the task's own thread, which waits for the herder's answers; stopping the task cancels them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from actors.errors import ConflictError, NotFoundError, NotLeaderError, RequestRefusedError
from actors.messages.requests import Ask, FenceZombies, Request, VerifyTaskStart
from actors.peers.leader_client import LeaderClient
from spark_tasks.errors import ConnectError, StartCancelledError
from spark_tasks.futures import complete, ended, fail
from spark_tasks.kafka.connections import Deadline
from spark_tasks.task import StartGuard
from storage.config.view import ConfigView
from storage.ids import ConnectorTaskId

_logger = logging.getLogger(__name__)

RETRY_FOR_S = 60.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
_POLL_S = 0.25
# During a rebalance, a leader may not know yet that it leads, a connector may be too new, a key may have been rotated.
_RETRIABLE = (403, 404, 409, 503)


class _Reply:
    """The `reply` of an Ask, which the herder completes."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def set(self, value: Any = None) -> None:
        complete(self.future, value)

    def set_exception(self, info: tuple[Any, BaseException, Any]) -> None:
        fail(self.future, info[1])


@dataclass(frozen=True, slots=True)
class Peers:
    """The parts of the worker that a guard uses: the herder, the leader's client, the configs with the session key."""

    tell: Callable[[Any], None]
    leader: LeaderClient
    configs: ConfigView


class HerderGuard(StartGuard):
    """The checks of one task. `generation`: of the task configs that the task was started with."""

    def __init__(self, peers: Peers, task: ConnectorTaskId, generation: int) -> None:
        self._peers = peers
        self._task = task
        self._generation = generation
        self._cancelled = threading.Event()

    @override
    def fence(self) -> None:
        """Transient errors are retried for a minute."""
        self._retrying(f"Failed to perform a round of zombie fencing for task {self._task}", self._fence)

    @override
    def verify(self) -> None:
        self._retrying(f"Failed to perform the preflight check of task {self._task}", self._verify)

    @override
    def cancel(self) -> None:
        self._cancelled.set()

    def _retrying(self, failure: str, attempt: Callable[[], None]) -> None:
        deadline = Deadline(RETRY_FOR_S * 1000, first_ms=FIRST_WAIT_S * 1000, largest_ms=LONGEST_WAIT_S * 1000)
        while True:
            try:
                attempt()
            except StartCancelledError:
                raise
            except (ConnectError, OSError) as error:
                retriable = not isinstance(error, ConnectError) or isinstance(error, (ConflictError, NotFoundError))
                retriable = retriable or (isinstance(error, RequestRefusedError) and error.status in _RETRIABLE)
                wait_ms = deadline.next_wait() if retriable else None
                if wait_ms is None:
                    raise ConnectError(f"{failure}: {error}") from error
                _logger.info("%s, trying again: %s", failure, error)
            else:
                return
            if self._cancelled.wait(wait_ms / 1000):
                raise StartCancelledError(f"The start of task {self._task} was cancelled")

    def _fence(self) -> None:
        connector = self._task.connector
        try:
            self._ask(FenceZombies(connector, None, local=True))
        except NotLeaderError as error:
            if error.url is None:
                raise ConflictError("no leader is known") from error
            key = self._peers.configs.config.session_key
            self._wait(self._peers.leader.fence(error.url, connector, self._generation, key))

    def _verify(self) -> None:
        self._ask(VerifyTaskStart(self._task, self._generation))

    def _ask(self, request: Request) -> None:
        reply = _Reply()
        self._peers.tell(Ask(request, reply))
        self._wait(reply.future)

    def _wait(self, answer: Future[Any]) -> None:
        while not self._cancelled.is_set():
            if ended(answer, _POLL_S):
                answer.result()
                return
        raise StartCancelledError(f"The start of task {self._task} was cancelled")
