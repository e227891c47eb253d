"""The time limits of a request, including how long it waits for a rebalance to end (rest.rebalance.wait.ms)."""

from __future__ import annotations

import re
import time

from flask import request

from rest.server.keys import MAX_REBALANCE_WAIT_MS
from rest.server.settings import RestSettings
from spark_tasks.backoff import doubled

WAIT_HEADER = "X-Heeler-Rebalance-Wait-Ms"  # of a forwarded request: how much of the time is left
PAUSE_FIRST_S, PAUSE_LAST_S = 0.05, 0.5
_NUMBER = re.compile("[0-9]{1,6}")


class RequestLimits:
    """How long one request may still take, and wait for rebalances."""

    def __init__(self, settings: RestSettings) -> None:
        self._began = time.monotonic()
        self._request_s = settings.request_timeout_s
        self._wait_s: float | None = settings.rebalance_wait_s or None
        self._retries = 0
        self._forwarded = "forward" in request.args
        if self._forwarded:
            text = request.headers.get(WAIT_HEADER, "")
            self._wait_s = min(int(text) / 1000, MAX_REBALANCE_WAIT_MS / 1000) if _NUMBER.fullmatch(text) else None

    @property
    def wait_ms(self) -> int | None:
        """The time left for rebalances; None if there is no such limit."""
        if self._wait_s is None:
            return None
        return max(0, int((self._began + self._wait_s - time.monotonic()) * 1000))

    @property
    def answer_s(self) -> float:
        """The time left for the answer."""
        return max(0.0, self._began + self._request_s - time.monotonic())

    def pause(self) -> bool:
        """Waits a moment before a retry; False if the time is over, or another worker does the retries."""
        left = self.wait_ms
        if self._forwarded or not left:
            return False
        time.sleep(min(doubled(PAUSE_FIRST_S, self._retries, PAUSE_LAST_S), left / 1000))
        self._retries += 1
        return True
