"""Which process the kernel's OOM killer ends when the machine's memory is full."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_INCREASE = 300  # thousandths of the memory, which the kernel adds to what the process uses
_MAX = 1000


def raise_oom_score(pid: int) -> None:
    """Makes the OOM killer choose this process before its worker, which runs all connectors and may be the largest of
    many processes. Linux only. To be called once for each process; its children inherit it.
    """
    score = Path(f"/proc/{pid}/oom_score_adj")
    with suppress(OSError, ValueError):  # it has ended, or a sandbox does not have the file
        score.write_text(str(min(int(score.read_text()) + _INCREASE, _MAX)))
