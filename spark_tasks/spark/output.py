"""Filters the output of the processes that a worker starts: secrets are masked, and a rejected connection to one of
Spark's ports takes one line instead of thirty.

Spark logs a stack trace for each connection without its protocol or its secret. Of such events, the first line and the
exception are kept, a few times a minute at most. Lines of each start of Spark are logged at DEBUG; everything else
passes unchanged.
"""

from __future__ import annotations

import logging
import re
import select
import sys
import threading
from contextlib import suppress
from typing import IO

from spark_tasks.config.masking import Secrets, process_secrets
from spark_tasks.process.log_lines import LineFormatter
from spark_tasks.process.rate_limited_log import RateLimitedLog

_LONGEST_LINE = 1 << 16
_LAYOUT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s:%(lineno)d)"
_HEAD = r"\S+ \S+ (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
_OTHER = re.compile(_HEAD + r"\S+: ")
_EVENT = re.compile(_HEAD + r"(?:[\w$.]+\.)?(Transport\w+|\w*Auth\w*Handler|\w*Sasl\w*|\w*Channel\w*): .*")
_TRACE = re.compile(r"\s+(?:at |\.\.\. \d|Suppressed: )|Caused by: ")
_EXCEPTION = re.compile(r"(?:[\w$]+\.)+[\w$]+(?:: .*)?")
_START = re.compile(  # lines of every start of a JVM and of Spark, which cannot be disabled
    r"Picked up _?JAVA_\w*OPTIONS: |WARNING: Using incubator modules: |Using Spark's default log4j profile: |"
    r"Setting (?:default log|Spark log) level to |To adjust logging level use |"
    + _HEAD + r"(?:Utils: (?:Your hostname, .* resolves to a loopback address|Set SPARK_LOCAL_IP )|"
              r"NativeCodeLoader: Unable to load native-hadoop library )")
_log = logging.getLogger(__name__)


class SparkOutput:
    """Filters the lines of one stream, each with its line end."""

    def __init__(self, limited: RateLimitedLog | None = None) -> None:
        self._limited = limited or RateLimitedLog()
        self._inside = False  # in an event, of which only the first line and the exception are written
        self.held = ""  # its first line, as long as the exception may follow

    def take(self, line: str) -> str:
        """The text to write now: of this line, and of a line that was held back."""
        text = line.rstrip("\r\n")
        if self._inside and not _OTHER.match(text):
            exception = _EXCEPTION.fullmatch(text) is not None
            if exception or _TRACE.match(text):
                return self._held_line(f": {text}") if exception and self.held else self.rest()
        out = self.rest()
        if _START.match(text):
            self._inside = False
            _log.debug("Spark says: %s", text)
            return out
        event = _EVENT.fullmatch(text)
        self._inside = event is not None
        if event is None:
            return out + line
        suppressed = self._limited.suppressed(event[1])
        if suppressed is not None:
            self.held = text + (f" ({suppressed} more such lines were left out)" if suppressed else "")
        return out

    def rest(self) -> str:
        """The line that was held back, to be written if nothing follows."""
        return self._held_line("") if self.held else ""

    def _held_line(self, more: str) -> str:
        held, self.held = self.held, ""
        return f"{held}{more}\n"


def pump(output: IO[bytes] | None, name: str) -> None:
    """Start a thread of that name that passes the output on until it ends."""
    assert output is not None  # noqa: S101 - a pipe was asked for
    threading.Thread(target=pass_on, args=(output,), name=name, daemon=True).start()


def log_as_the_worker() -> None:
    """Called in a Python process that a worker started: makes its warnings look like the worker's own."""
    if logging.lastResort is not None:  # it writes warnings to standard error where logging is not set up
        logging.lastResort.setFormatter(LineFormatter(_LAYOUT))


def pass_on(output: IO[bytes]) -> None:
    """Write the output of Spark or of executor processes to standard error, filtered and without secrets."""
    secrets, passed, begun = process_secrets(), SparkOutput(), b""
    with output:
        while piece := output.read1(_LONGEST_LINE):  # type: ignore[attr-defined]
            *lines, begun = (begun + piece).split(b"\n")
            if len(begun) > _LONGEST_LINE:
                lines, begun = [*lines, begun], b""
            _write(secrets, "".join(passed.take(f"{line.decode(errors='replace')}\n") for line in lines))
            if passed.held and not _more(output):
                _write(secrets, passed.rest())
        _write(secrets, passed.take(begun.decode(errors="replace")) + passed.rest())


def _write(secrets: Secrets, text: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more
        sys.stderr.write(secrets.mask(text))
        sys.stderr.flush()


def _more(output: IO[bytes]) -> bool:
    """Whether more output comes within 0.2 s: an exception follows the line that it is about."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    return bool(poll.poll(200))
