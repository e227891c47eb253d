"""Formats log lines so that they cannot be forged, in the worker and in Spark's Python workers."""

from __future__ import annotations

import logging
import re
from typing import Final

from typing_extensions import override

from spark_tasks.errors import shortened, text_of
from spark_tasks.process.log_levels import level_name

TEXT: Final = "text"
JSON: Final = "json"
"""The formats of a worker's log."""
MAX_TEXT: Final = 200_000
"""Characters of a message, and of a stack trace. An error may quote a record of any size."""

# For a character class: control characters except the tab and the line feed, line ends, direction marks, invisible
# characters, surrogates. A terminal or pager would act on them, or hide them.
UNSAFE: Final = ("\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
                 "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f")
_UNSAFE = re.compile(f"[\n{UNSAFE}]")
_TRACES: Final = logging.Formatter()


class FormattingFilter(logging.Filter):
    """Formats the message and the stack trace of every record, and lets it pass. A plugin's `__str__` may wait for a
    thread that is logging. Filters of a handler run before its lock is taken, formatters while it is held.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """True. The record has a message without arguments, and the text of its stack trace."""
        try:
            text = record.getMessage()
        except Exception as error:  # noqa: BLE001 - wrong arguments of a plugin's line, or its `__str__` raises
            template = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            text = f"{template} (the arguments of this line cannot be shown: {text_of(error)})"
        record.msg, record.args = text, None
        if record.exc_info and not record.exc_text:  # formatters use this text if it is set
            try:
                record.exc_text = _TRACES.formatException(record.exc_info)
            except Exception as error:  # noqa: BLE001 - attributes of a plugin's error may raise
                record.exc_text = f"The stack trace cannot be shown: {text_of(error)}"
        return True


class LineFormatter(logging.Formatter):
    """Formats a record as one line. A traceback, or the text `below` in `extra`, follows in indented lines.
    `connect_level` in a layout is Kafka Connect's name of the level.

    Names, values and plugins' messages may contain any characters. Those that end a line, move the cursor or change the
    writing direction become escape sequences. So every line that does not start with a space was logged by heeler.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, and the indented lines below it."""
        record.message = shortened(record.getMessage(), MAX_TEXT)
        record.asctime = self.formatTime(record)
        record.connect_level = level_name(record.levelno)
        lines = [escaped(self.formatMessage(record))]
        # A filter may have formatted the traceback already, without secrets.
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        for block in filter(None, (text_below(record), trace, record.stack_info)):
            lines += [f"    {escaped(line)}".rstrip() for line in shortened(block, MAX_TEXT).split("\n")]
        return "\n".join(lines)


def text_below(record: logging.LogRecord) -> str | None:
    """Returns the text `below` in a record's `extra`, unless a plugin uses the same word for something else."""
    below: object = getattr(record, "below", None)
    return below if isinstance(below, str) else None


def escaped(text: str) -> str:
    """Returns the text on one line, with escape sequences for characters that a terminal or pager would act on."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
