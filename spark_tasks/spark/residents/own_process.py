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
from spark_tasks.spark.residents.exit_description import ENDING_S, describe_end
from spark_tasks.spark.residents.process import Resident
from spark_tasks.spark.residents.process_table import ProcessTable
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.task import OwnProcess, Split

T = TypeVar("T")


class ResidentOwnProcess(OwnProcess):
    """`lock` protects `processes`; `where` returns the stacks of a process."""

    def __init__(
        self, resident: Resident, processes: ProcessTable, lock: threading.Condition, where: Callable[[Resident], str],
        task: str, connector: str, settings: ExecutorSettings,
    ) -> None:
        self._resident = resident
        self._processes = processes
        self._lock = lock
        self._where = where
        self._task = task
        self._connector = connector
        self._max_answer_bytes = settings.max_answer_bytes
        resident.owner = task

    @property
    @override
    def ended(self) -> bool:
        return self._resident.removed

    @override
    def run(self, split: Split[T]) -> T:
        with plugin_code():
            payload = pickle.dumps(split, pickle.HIGHEST_PROTOCOL)
        value: T = value_of(outcome_of(self._exchange(payload), self._task))
        return value

    def _exchange(self, payload: bytes) -> bytes | bytearray | memoryview:
        resident, line = self._resident, self._resident.line
        if line is None or resident.removed:
            raise ExecutorEndedError(f"the process of {self._task} {resident.killed or 'has ended'}")
        try:
            wire.send(line.work, resident.frame_of(payload, self._connector))
            answer = wire.receive(line.work, self._max_answer_bytes)
        except Exception as error:
            how = resident.killed or describe_end(line.pid, ENDING_S, error)
            self.kill()
            raise ExecutorEndedError(f"the process of {self._task} {how}") from error
        resident.connector = self._connector
        _, result = wire.parted(answer)
        if not result:
            self.kill()
            raise ExecutorEndedError(f"the process of {self._task} has to be replaced, as another connector has left "
                                     "something there")
        return result

    @override
    def where(self) -> str:
        return self._where(self._resident)

    @override
    def kill(self) -> None:
        with self._lock:
            self._processes.give_up(self._resident, kill=True)

    @override
    def has_left(self) -> None:
        line = self._resident.line
        how = describe_end(line.pid, ENDING_S) if line is not None else "has ended"
        with self._lock:
            if not self._resident.removed:
                self._processes.report_end(self._resident, how)
                self._processes.kill([self._resident], how)

    @override
    def close(self) -> None:
        with self._lock:
            self._processes.give_up(self._resident, kill=False)
