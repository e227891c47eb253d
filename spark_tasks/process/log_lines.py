"""Formats log lines so that they cannot be forged, in the worker and in Spark's Python workers."""

from __future__ import annotations

import logging
import re

# Control characters except the tab, line ends, direction marks, invisible characters, surrogates.
_OBEYED = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
                     "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


class LineFormatter(logging.Formatter):
    """One line for each record, by the layout; below it, indented, the lines of a traceback, or of `below` in `extra`.

    Names, values and plugins' messages may contain anything: what ends a line, moves the cursor or changes the writing
    direction is shown as an escape sequence. So heeler wrote every line that does not begin with a blank.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line and its traceback."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        lines = [escaped(self.formatMessage(record))]
        # A filter may have formatted the traceback already, without secrets.
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else None)
        for block in filter(None, (getattr(record, "below", None), trace, record.stack_info)):
            lines += [f"    {escaped(line)}".rstrip() for line in block.split("\n")]
        return "\n".join(lines)


def escaped(text: str) -> str:
    """The text on one line, with escape sequences for whatever a terminal or pager would act on."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
