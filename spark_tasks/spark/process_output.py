"""Filters the output of the processes that a worker starts: masks secrets, and shortens the stack traces of rejected
connections to Spark's ports and of accumulators.

Spark logs a stack trace of thirty lines for each connection that does not use its protocol or its secret. Of each such
event only the first line and the exception are kept, at most a few times per minute. Lines that appear at each start of
Spark, and the interruption of its threads at its end, are logged at DEBUG. All other lines pass unchanged, up to a
limit: to filter them takes the worker's CPU time.
"""

from __future__ import annotations

import logging
import math
import re
import select
import sys
import threading
import time
from contextlib import suppress
from typing import IO

from spark_tasks.config.masking import Secrets, process_secrets
from spark_tasks.process.log_lines import FormattingFilter, LineFormatter
from spark_tasks.process.rate_limited_log import RateLimitedLog

_MAX_LINE_BYTES = 1 << 16
BYTES_PER_S = 1 << 20  # of output, in the long run; a MiB takes 50 ms to filter
BURST_BYTES = 8 << 20
REPORT_S = 60.0  # how often it is reported that there was more
FIRST_REPORT_S = 1.0  # after its beginning, so that the report of a short burst has all of it
EXCEPTION_S = 0.2  # after the line of its event, an exception follows sooner
_LAYOUT = "[%(asctime)s] %(connect_level)s %(message)s (%(name)s:%(lineno)d)"
_HEAD = r"\S+ \S+ (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
_OTHER = re.compile(_HEAD + r"\S+: ")
_EVENT = re.compile(_HEAD + r"(?:[\w$.]+\.)?(Transport\w+|(?>\w*?Auth)\w*Handler|(?>\w*?(?:Sasl|Channel))\w*+|"
                            r"DAGScheduler(?=: Failed to update accumulator )): .*")
_TRACE = re.compile(r"\s+(?:at |\.\.\. \d|Suppressed: )|Caused by: ")
_EXCEPTION = re.compile(r"(?:[\w$]+\.)+[\w$]+(?:: .*)?")
_INTERRUPTED = "java.nio.channels.ClosedByInterruptException"  # Spark interrupts its threads only to end them
_START = re.compile(  # lines at every start of a JVM and of Spark, which no setting disables
    r"Picked up _?JAVA_\w*OPTIONS: |WARNING: Using incubator modules: |Using Spark's default log4j profile: |"
    r"Setting (?:default log|Spark log) level to |To adjust logging level use |"
    + _HEAD + r"(?:Utils: (?:Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP )|"
              r"NativeCodeLoader: Unable to load native-hadoop library )")
_FORMATTED = FormattingFilter()
_logger = logging.getLogger(__name__)


class SparkOutput:
    """Filters the lines of one stream."""

    def __init__(self, limited: RateLimitedLog | None = None) -> None:
        self._limited = limited or RateLimitedLog()
        self._inside = False  # an event, of which only the first line and the exception are written
        self.held = ""  # the first line of the event, while the exception may follow

    def take(self, line: str) -> str:
        """Takes the next line, with its line end, and returns the text to write now. May hold the line back, and return
        an earlier one.
        """
        text = line.rstrip("\r\n")
        if self._inside and not _OTHER.match(text):
            if text == _INTERRUPTED:
                _logger.debug("Spark: %s: %s", self.held, text)
                self.held = ""
                return ""
            exception = _EXCEPTION.fullmatch(text) is not None
            if exception or _TRACE.match(text):
                return self._held_line(f": {text}") if exception and self.held else self.rest()
        out = self.rest()
        if _START.match(text):
            self._inside = False
            _logger.debug("Spark: %s", text)
            return out
        event = _EVENT.fullmatch(text)
        self._inside = event is not None
        if event is None:
            return out + line
        suppressed = self._limited.suppressed(event[1])
        if suppressed is not None:
            self.held = text + (f" ({suppressed} similar lines were suppressed)" if suppressed else "")
        return out

    def rest(self) -> str:
        """Returns the line that is held back, for writing when no more lines follow, or ""."""
        return self._held_line("") if self.held else ""

    def _held_line(self, more: str) -> str:
        held, self.held = self.held, ""
        return f"{held}{more}\n"


class OutputBudget:
    """How much output may be written: BYTES_PER_S, and BURST_BYTES at once. Beyond it, `takes` counts what is dropped.
    All processes of a parent share it, but a process that waited until its output was read would delay its tasks.
    """

    def __init__(self) -> None:
        self._left = float(BURST_BYTES)
        self._at = time.monotonic()
        self._dropped = [0, 0]  # lines and bytes
        self._reported_at = -math.inf
        self._due_at = math.inf

    def takes(self, piece: bytes) -> bool:
        """Whether a piece of output may be written."""
        now = time.monotonic()
        self._left = min(BURST_BYTES, self._left + (now - self._at) * BYTES_PER_S)
        self._at = now
        if self._left > 0:
            self._left -= len(piece)
            return True
        self.drop(piece)
        return False

    def drop(self, piece: bytes) -> None:
        """Counts output that is not written."""
        if not self._dropped[1]:
            self._due_at = max(self._at + FIRST_REPORT_S, self._reported_at + REPORT_S)
        self._dropped[0] += piece.count(b"\n")
        self._dropped[1] += len(piece)

    @property
    def due_s(self) -> float:
        """In how many seconds `report` is to be called; infinite if nothing was dropped since the last report."""
        return self._due_at - time.monotonic() if self._dropped[1] else math.inf

    def report(self) -> None:
        """Logs what was dropped since the last report, if any."""
        self._reported_at = time.monotonic()
        (lines, size), self._dropped = self._dropped, [0, 0]
        if size:
            _logger.warning("Executor processes or Spark print more than %d KiB/s: %d lines (%.1f MiB) were dropped",
                            BYTES_PER_S >> 10, lines, size / (1 << 20))


def pump(output: IO[bytes] | None, name: str) -> None:
    """Starts a thread with this name that runs `pass_on`."""
    assert output is not None  # noqa: S101 - Popen opens a pipe
    threading.Thread(target=pass_on, args=(output,), name=name, daemon=True).start()


def log_as_the_worker() -> None:
    """Formats warnings as the worker does. Called in Python processes that a worker has started."""
    if logging.lastResort is not None:  # the handler that writes warnings to standard error without a configuration
        logging.lastResort.setFormatter(LineFormatter(_LAYOUT))
        logging.lastResort.addFilter(_FORMATTED)


def pass_on(output: IO[bytes]) -> None:
    """Writes the output of Spark or of executor processes to standard error, filtered and without secrets, until it
    ends. Drops whole lines of more than an OutputBudget.
    """
    secrets, passed, begun, budget, inside = process_secrets(), SparkOutput(), b"", OutputBudget(), False
    with output:
        while piece := _next(output, budget):
            if not budget.takes(piece):
                budget.drop(begun)
                begun, inside = b"", True
                continue
            if inside:  # the rest of a line whose beginning was dropped
                rest, end, piece = piece.partition(b"\n")
                budget.drop(rest + end)
                inside = not end
            *lines, begun = (begun + piece).split(b"\n")
            if len(begun) > _MAX_LINE_BYTES:
                lines, begun = [*lines, begun], b""
            _write(secrets, "".join(passed.take(f"{line.decode(errors='replace')}\n") for line in lines))
            if passed.held and not _more(output, EXCEPTION_S):
                _write(secrets, passed.rest())
        _write(secrets, passed.take(begun.decode(errors="replace")) + passed.rest())
        budget.report()


def _write(secrets: Secrets, text: str) -> None:
    with suppress(OSError, ValueError):  # standard error is closed
        sys.stderr.write(secrets.mask(text))
        sys.stderr.flush()


def _next(output: IO[bytes], budget: OutputBudget) -> bytes:
    """The next piece of output, b"" at its end. Reports in time what was dropped, also if nothing follows."""
    while (due_s := budget.due_s) < math.inf and (due_s <= 0 or not _more(output, due_s)):
        budget.report()
    return output.read1(_MAX_LINE_BYTES)  # type: ignore[attr-defined, no-any-return]


def _more(output: IO[bytes], timeout_s: float) -> bool:
    """Returns whether more output, or its end, arrives in time."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
