"""Starts executor processes, one after the other, in a thread: Spark's JVM or the system may be slow, or hang."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from spark_tasks.spark.residents.process import Expects, Resident


class LaunchQueue:
    """Each process that is put in is started, unless it has been `removed` by then. `failed` is called, without the
    lock, with one that could not be started, and the reason.
    """

    def __init__(self, listener: Expects, lock: threading.Condition, failed: Callable[[Resident, str], None]) -> None:
        self._listener = listener
        self._lock = lock
        self._failed = failed
        self._wanted: queue.SimpleQueue[Resident | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="executors-launch", daemon=True).start()

    def put(self, resident: Resident) -> None:
        """Has this process started. Does not wait."""
        self._wanted.put(resident)

    def close(self) -> None:
        """Ends the thread."""
        self._wanted.put(None)

    def _run(self) -> None:
        while (resident := self._wanted.get()) is not None:
            with self._lock:
                if resident.removed:
                    continue
                ticket = self._listener.expect(resident.number)
            try:
                resident.launcher.launch(ticket)
            except Exception as error:  # noqa: BLE001 - Spark's, the system's
                self._failed(resident, str(error) or type(error).__name__)
