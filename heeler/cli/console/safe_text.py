"""Makes text from elsewhere safe for a terminal: characters that could move the cursor, change the title or hide other
characters are shown as escapes.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from spark_tasks.process.log_lines import UNSAFE

LONGEST: Final = 2000  # the most characters of a message
_UNSAFE = re.compile(f"[{UNSAFE}\u200c\u200d]")  # with the invisible joiners, which make different names look alike
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
    """JSON with unsafe characters written as escapes, which do not change its meaning."""
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] > "\uffff" else _code(match), text)


def safe_yaml(text: str) -> str:
    """YAML whose strings with unsafe characters are in double quotes, with these characters written as escapes."""
    return _UNSAFE.sub(_code, text)


def unsafe(text: str) -> bool:
    """Whether the text contains unsafe characters."""
    return _UNSAFE.search(text) is not None


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else _code(match))


def _code(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
