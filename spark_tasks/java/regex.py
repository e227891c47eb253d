"""Translates Java's regular expressions to Python's, as far as connector configurations use them."""

from __future__ import annotations

import re

_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F", "Space": r"\s",
}
_TOKENS = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\p\{(?P<posix>\w+)\}|\(\?<(?P<group>[A-Za-z]\w*)>|\\k<(?P<back>[A-Za-z]\w*)>"
    r"|\\z|\\h|\\.|(?P<open>\[\^?)|(?P<close>\])",
    re.DOTALL,
)


def compile_java(pattern: str) -> re.Pattern[str]:
    r"""Compiles a Java pattern. Translates named groups, `\Q...\E`, POSIX classes, `\z` and `\h`.

    Raises re.error with Python's message. Use `fullmatch` in place of Java's `matches`.
    """
    depth = 0

    def translate(match: re.Match[str]) -> str:
        nonlocal depth
        text = match[0]
        if match["quoted"] is not None:
            return re.escape(match["quoted"])
        if match["posix"] is not None:
            if match["posix"] not in _POSIX:
                raise re.error(f"unknown character class {text}", pattern, match.start())
            return _POSIX[match["posix"]] if depth else f"[{_POSIX[match['posix']]}]"
        if match["group"] is not None:
            return f"(?P<{match['group']}>"
        if match["back"] is not None:
            return f"(?P={match['back']})"
        if match["open"] is not None:
            depth += 1
        elif match["close"] is not None:
            depth = max(0, depth - 1)
        elif text == r"\z":
            return r"\Z"
        elif text == r"\h":
            return r" \t" if depth else r"[ \t]"
        return text

    return re.compile(_TOKENS.sub(translate, pattern))
