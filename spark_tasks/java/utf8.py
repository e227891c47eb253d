"""Decodes invalid UTF-8 as Java does."""

from __future__ import annotations

import re
from typing import Final

_SURROGATES: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def decoded(text: bytes) -> str:
    """Returns the text, with U+FFFD in place of invalid bytes. For Java, the bytes of an encoded surrogate are one
    error; for Python, each of them is.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        return _SURROGATES.sub(_REPLACEMENT, text).decode("utf-8", "replace")
