r"""The sets that `\p{...}` names in Java, written for the library `regex`, and letters that differ in case alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import regex

_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-\/\:-\@\[-\`\{-\~", "Graph": r"!-\~", "Print": r"\x20-\~", "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1f\x7f", "XDigit": "0-9a-fA-F", "Space": r"\x20\t-\r", "L1": r"\x00-\xff",
    "all": r"\x00-\U0010ffff", "LC": r"\p{Lu}\p{Ll}\p{Lt}", "LD": r"\p{L}\p{Nd}", "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}", "javaTitleCase": r"\p{Lt}", "javaAlphabetic": r"\p{Alphabetic}",
    "javaIdeographic": r"\p{Ideographic}", "javaDigit": r"\p{Nd}", "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}", "javaSpaceChar": r"\p{Z}", "javaISOControl": r"\x00-\x1f\x7f-\x9f",
    "javaWhitespace": r"\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000",
}  # fmt: skip
_BINARY: Final = {
    "ALPHABETIC": r"\p{Alphabetic}", "IDEOGRAPHIC": r"\p{Ideographic}", "LETTER": r"\p{L}",
    "LOWERCASE": r"\p{Lowercase}", "UPPERCASE": r"\p{Uppercase}", "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{White_Space}", "WHITESPACE": r"\p{White_Space}", "CONTROL": r"\p{Cc}", "PUNCTUATION": r"\p{P}",
    "DIGIT": r"\p{Nd}", "ALNUM": r"\p{Alphabetic}\p{Nd}", "ASSIGNED": r"\P{Cn}",
    "WORD": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}",
}  # fmt: skip
_CASED: Final = frozenset({"Lu", "Ll", "Lt", "LOWERCASE", "UPPERCASE", "TITLECASE", "javaLowerCase", "javaUpperCase",
                           "javaTitleCase"})  # fmt: skip
_CASES: Final = r"\p{Lu}\p{Ll}\p{Lt}"
_CATEGORY: Final = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|Z[slp]?|C[cfosn]?|P[dsecoif]?|S[mcko]?")


def members(name: str, *, ignore_case: bool) -> str | None:
    """Returns the members of a set, or None for a name that is unknown."""
    found = _members(name, ignore_case)
    if found is not None:
        try:
            regex.compile(f"[{found}]", regex.V1)
        except regex.error:
            return None
    return found


def _members(name: str, ignore_case: bool) -> str | None:
    kind, equals, value = name.rpartition("=")
    match kind.lower():
        case "sc" | "script":
            return rf"\p{{Script={value}}}"
        case "blk" | "block":
            return rf"\p{{Block={value}}}"
        case "gc" | "general_category":
            return _category(value, ignore_case)
        case "" if not equals:
            return _plain(name, ignore_case)
    return None


def _plain(name: str, ignore_case: bool) -> str | None:
    if name.startswith("In"):
        return rf"\p{{Block={name[2:]}}}"
    if not name.startswith("Is"):
        return _category(name, ignore_case)
    binary = name[2:].upper()
    if binary in _BINARY:
        return _CASES if ignore_case and binary in _CASED else _BINARY[binary]
    return _category(name[2:], ignore_case) or rf"\p{{Script={name[2:]}}}"


def _category(name: str, ignore_case: bool) -> str | None:
    if ignore_case and name in _CASED:
        return _CASES
    if ignore_case and name in ("Lower", "Upper"):
        return "a-zA-Z"
    if _CATEGORY.fullmatch(name):
        return rf"\p{{{name}}}"
    return _POSIX.get(name)


def same_letter(code: int) -> Sequence[int]:
    """Returns the characters that Java takes for this one if it ignores case."""
    return _same_letters().get(_folded(code), (code,))


def _folded(code: int) -> str:
    char = chr(code)
    upper = char.upper() if len(char.upper()) == 1 else char
    return upper.lower() if len(upper.lower()) == 1 else upper


@lru_cache(maxsize=1)
def _same_letters() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for code in range(0x1_E944):
        if chr(code).isalpha():
            found.setdefault(_folded(code), []).append(code)
    return found
