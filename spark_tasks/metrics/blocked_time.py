"""How long a thread has been blocked: neither running nor waiting for a CPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")  # Linux: ns on a CPU, ns of waiting for one, turns
_S: Final = 1e-9


def blocked_clock() -> float:
    """Returns the seconds for which this thread has been blocked, plus a constant: only differences have a meaning. On
    systems other than Linux, the time in which it waited for a CPU counts as well.
    """
    now = time.perf_counter()
    try:
        ran, ready, _ = SCHEDSTAT.read_text().split()
    except (OSError, ValueError):
        return now - time.thread_time()
    return now - (int(ran) + int(ready)) * _S
