"""An executor process that belongs to a task until the task gives it up: no other split runs there (ADR 0058)."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import TypeVar

from typing_extensions import override

from spark_tasks.errors import plugin_code
from spark_tasks.spark.context import ExecutorEndedError
from spark_tasks.spark.executor import value_of
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.batches import outcome_of
from spark_tasks.spark.residents.endings import ending
from spark_tasks.spark.residents.process import Resident
from spark_tasks.task import OwnProcess, Split

T = TypeVar("T")
ENDING_S = 0.2  # how long the process may take to end after its connections have


class ResidentOwnProcess(OwnProcess):
    """`let_go` takes it from the processes of the worker, and kills it if the second argument is true; `where` returns
    its stacks.
    """

    def __init__(
        self, resident: Resident, task: str, connector: str, max_answer_bytes: int,
        let_go: Callable[[Resident, bool], None], where: Callable[[Resident], str],
    ) -> None:
        self._resident = resident
        self._task = task
        self._connector = connector
        self._max_answer_bytes = max_answer_bytes
        self._let_go = let_go
        self._where = where
        self._one_at_a_time = threading.Lock()

    @property
    @override
    def ended(self) -> bool:
        return self._resident.removed

    @override
    def run(self, split: Split[T]) -> T:
        with plugin_code():
            payload = pickle.dumps(split, pickle.HIGHEST_PROTOCOL)
        with self._one_at_a_time:
            answer = self._exchange(payload)
        value: T = value_of(outcome_of(answer, self._task))
        return value

    def _exchange(self, payload: bytes) -> bytes | bytearray | memoryview:
        resident, line = self._resident, self._resident.line
        if line is None or resident.removed:
            raise ExecutorEndedError(f"the process of {self._task} {resident.killed or 'has ended'}")
        try:
            wire.send(line.work, resident.frame_of(payload, self._connector))
            answer = wire.receive(line.work, self._max_answer_bytes)
        except Exception as error:
            how = resident.killed or ending(line.pid, ENDING_S, error)
            self._let_go(resident, True)
            raise ExecutorEndedError(f"the process of {self._task} {how}") from error
        resident.connector = self._connector
        _, result = wire.parted(answer)
        if not result:
            self._let_go(resident, True)
            raise ExecutorEndedError(f"the process of {self._task} has to be replaced, as another connector has left "
                                     "something there")
        return result

    @override
    def where(self) -> str:
        return self._where(self._resident)

    @override
    def kill(self) -> None:
        self._let_go(self._resident, True)

    @override
    def close(self) -> None:
        self._let_go(self._resident, False)
