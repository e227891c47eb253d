"""Runs functions that may hang in threads of their own, for callers that must not hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger(__name__)


class BackgroundCall:
    """Runs a function in a thread of its own, at most once at a time. Its owner calls `begin` in one thread only."""

    def __init__(self, name: str, function: Callable[..., None]) -> None:
        self._name = name
        self._function = function
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether the last run has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, *arguments: Any) -> None:
        """Starts a run, unless the previous one has not ended. Does not wait. Raises RuntimeError if the system has no
        thread left.
        """
        if not self.busy:
            thread = threading.Thread(target=self._run, args=arguments, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def _run(self, *arguments: Any) -> None:
        try:
            self._function(*arguments)
        except Exception:  # the next run may succeed
            _logger.exception("%s failed", self._name)
