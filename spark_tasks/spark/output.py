"""What Spark's JVM writes, with one line for each stranger at its ports in place of thirty.

Spark warns with a trace of everybody who connects and does not speak its language or does not know its secret. Such
events keep their first line and the exception's, and are said a few times a minute; all else passes as it is.
"""

from __future__ import annotations

import re

from spark_tasks.process.seldom import Seldom

_HEAD = r"\S+ \S+ (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
_OTHER = re.compile(_HEAD + r"\S+: ")
_EVENT = re.compile(_HEAD + r"(?:[\w$.]+\.)?(Transport\w+|\w*Auth\w*Handler|\w*Sasl\w*|\w*Channel\w*): .*")
_TRACE = re.compile(r"\s+(?:at |\.\.\. \d|Suppressed: )|Caused by: ")
_EXCEPTION = re.compile(r"(?:[\w$]+\.)+[\w$]+(?:: .*)?")


class SparkOutput:
    """One stream's lines, each with its line end."""

    def __init__(self, seldom: Seldom | None = None) -> None:
        self._seldom = seldom or Seldom()
        self._inside = False  # an event, of which only the beginning is written
        self.held = ""  # that, while its exception may follow

    def take(self, line: str) -> str:
        """What is to be written now."""
        text = line.rstrip("\r\n")
        if self._inside and not _OTHER.match(text):
            exception = _EXCEPTION.fullmatch(text) is not None
            if exception or _TRACE.match(text):
                return self._told(f": {text}") if exception and self.held else self.rest()
        out = self.rest()
        event = _EVENT.fullmatch(text)
        self._inside = event is not None
        if event is None:
            return out + line
        unsaid = self._seldom.unsaid(event[1])
        if unsaid is not None:
            self.held = text + (f" ({unsaid} more such lines were left out)" if unsaid else "")
        return out

    def rest(self) -> str:
        """What was held back, where nothing more comes now."""
        return self._told("") if self.held else ""

    def _told(self, more: str) -> str:
        held, self.held = self.held, ""
        return f"{held}{more}\n"
