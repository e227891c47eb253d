"""Masks secrets in everything that the worker's process writes: the lines of its log and the output of plugins."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from typing_extensions import override

from spark_tasks.config.masking import process_secrets
from spark_tasks.process.log_lines import FormattingFilter, text_below


class MaskingFilter(FormattingFilter):
    """Masks every record and lets it pass, whatever formatter follows."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """True."""
        super().filter(record)
        secrets = process_secrets()
        record.msg = secrets.mask(record.msg)
        if record.exc_text:
            record.exc_text = secrets.mask(record.exc_text)
        if record.stack_info:
            record.stack_info = secrets.mask(record.stack_info)
        if below := text_below(record):
            record.below = secrets.mask(below)
        return True


class MaskedStream:
    """A text stream in front of another one. Each written text is masked by itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the masked text. Returns the length of the original text."""
        self._stream.write(process_secrets().mask(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes the lines, each masked by itself."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_output() -> None:
    """Masks everything that this process prints from now on."""
    sys.stdout = cast("TextIO", MaskedStream(sys.stdout))
    sys.stderr = cast("TextIO", MaskedStream(sys.stderr))
