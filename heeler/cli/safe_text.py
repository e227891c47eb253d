"""Makes text from elsewhere safe for a terminal: characters that could move the cursor, change the title or hide other
characters are shown as escapes.
"""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 2000  # the most characters of a message
# C0 without tab and line feed, DEL, C1, bidirectional controls, invisible characters, lone surrogates
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_BREAKS = re.compile("[\t\n]")


def safe(text: Any) -> str:
    r"""The text in one line: unsafe characters are written as \x1b or \u202e, tabs and line feeds too."""
    return _BREAKS.sub(_escaped, safe_lines(str(text)))


def safe_lines(text: str) -> str:
    """Like `safe`, but keeps line feeds and tabs: for stack traces."""
    return _UNSAFE.sub(_escaped, text.replace("\r\n", "\n"))


def safe_message(text: str) -> str:
    """Like `safe_lines`, but truncated: an error's message may be a page of HTML."""
    return safe_lines(text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)")


def safe_json(text: str) -> str:
    """JSON or quoted YAML with unsafe characters written as escapes, which do not change its meaning."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def unsafe(text: str) -> bool:
    """Whether the text contains unsafe characters."""
    return _UNSAFE.search(text) is not None


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
