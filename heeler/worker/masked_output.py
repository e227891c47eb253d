"""What the worker writes, without what it keeps to itself: lines of its log, and what plugins print."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from spark_tasks.config.masking import process_secrets

_TRACES = logging.Formatter()


class MaskingFilter(logging.Filter):
    """Lets every record pass, masked, whatever formatter comes after it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True."""
        secrets = process_secrets()
        text = record.getMessage()
        masked = secrets.mask(text)
        if masked != text:
            record.msg, record.args = masked, None
        if record.exc_text:  # a handler before this one has made it, for itself
            record.exc_text = secrets.mask(record.exc_text)
        elif record.exc_info:
            trace = _TRACES.formatException(record.exc_info)
            masked = secrets.mask(trace)
            if masked != trace:
                record.exc_text = masked  # a formatter takes it instead of making one
        if record.stack_info:
            record.stack_info = secrets.mask(record.stack_info)
        if below := getattr(record, "below", None):
            record.below = secrets.mask(below)
        return True


class MaskedStream:
    """A text stream before another one; each text that is written is masked by itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Answers the length of the text as it was given."""
        self._stream.write(process_secrets().mask(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, each masked by itself."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_output() -> None:
    """Have all that this process prints from now on masked."""
    sys.stdout = cast("TextIO", MaskedStream(sys.stdout))
    sys.stderr = cast("TextIO", MaskedStream(sys.stderr))
