"""Translates Java's regular expressions to those of the library `regex`, which knows nested sets, intersections and
Unicode properties. What has no translation is an error, and never another expression.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, cast

import regex

from spark_tasks.java.regex_sets import members, same_letter

_SHORT: Final = {
    "d": "0-9", "w": "a-zA-Z0-9_", "s": r"\x20\t-\r", "v": r"\n-\r\x85\u2028\u2029",
    "h": r"\x20\t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
}  # fmt: skip
_CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_WORD: Final = "[a-zA-Z0-9_]"
_LINE: Final = r"[\n\r\x85\u2028\u2029]"
_INSIDE_CRLF: Final = r"(?<=\r)(?=\n)"
_BOUNDARY: Final = rf"(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD})"
_END: Final = rf"(?:(?!{_INSIDE_CRLF})(?=(?:\r\n|{_LINE})?\Z))"
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_NAME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9]*)>")
_NAMED: Final = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
_COUNTS: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?(\})?")
_OCTAL: Final = re.compile("[0-3][0-7]{2}|[0-7]{1,2}")
_FLAGS: Final = re.compile("([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_LAST_INT: Final = 2**31 - 1


@lru_cache(maxsize=200)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Compiles a Java pattern. Raises re.error. Use `fullmatch` instead of Java's `matches`."""
    try:
        compiled = regex.compile(_Translator(pattern).translated(), regex.V1)
    except (regex.error, OverflowError) as error:
        raise re.error(str(error), pattern) from None
    return cast("re.Pattern[str]", compiled)  # the library's patterns have the methods of Python's


def _unquoted(pattern: str) -> str:
    r"""Replaces `\Q...\E` by escapes, as Java does first of all."""

    def escaped(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        # a digit must not continue a reference before the quotation
        return "".join(f"\\x{ord(c):02x}" if c.isascii() and not c.isalpha() else c for c in match[1])

    return _QUOTED.sub(escaped, pattern)


def _literal(code: int) -> str:
    if code < 128 and chr(code).isalnum():
        return chr(code)
    return f"\\U{code:08x}"


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._text = pattern, _unquoted(pattern)
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._names: list[str] = []
        self._groups = 0
        self._references: list[int] = []

    def _error(self, message: str, ahead: int = 0) -> re.error:  # `ahead`: where Java sees it, from here
        return re.error(message, self._pattern, max(min(self._at + ahead, len(self._pattern)), 0))

    def _peek(self) -> str:
        """Returns the next character, after white space and comments if these are ignored; empty at the end."""
        while "x" in self._flags and self._at < len(self._text):
            char = self._text[self._at]
            if char == "#":
                while self._at < len(self._text) and self._text[self._at] not in "\n\r\x85\u2028\u2029":
                    self._at += 1
            elif char in " \t\n\x0b\f\r":
                self._at += 1
            else:
                break
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def translated(self) -> str:
        """Returns the pattern for `regex`, with its version 1. Raises re.error."""
        out: list[str] = []
        outside: list[tuple[frozenset[str], str]] = []  # for each open group, the flags before it and its beginning
        while char := self._peek():
            self._at += 1
            match char:
                case "(":
                    before = self._flags
                    opened = self._open()
                    out.append(opened)
                    if opened:
                        outside.append((before, opened))
                    continue
                case ")":
                    if not outside:
                        raise self._error("Unmatched closing ')'")
                    self._flags, _ = outside.pop()
                    out.append(")")
                case "|":
                    out.append("|")
                    continue
                case "*" | "+" | "?":
                    raise self._error(f"Dangling meta character '{char}'", -1)
                case _:
                    out.append(self._atom(char))
            behind = any(opened in ("(?<=", "(?<!") for _, opened in outside)
            if behind and out[-1].startswith(r"\g"):
                raise self._error("Look-behind group does not have an obvious maximum length")
            out.append(self._quantifier(behind=behind, group=char == ")"))
        if outside:
            raise self._error("Unclosed group")
        absent = {number for number in self._references if number > self._groups}
        return "".join("(?!)" if one in {rf"\g<{number}>" for number in absent} else one for one in out)

    def _open(self) -> str:
        """Returns the beginning of a group; nothing for flags that hold until the end of the group around them."""
        if not self._take("?"):
            self._groups += 1
            return "("
        for kind in (":", "=", "!", ">", "<=", "<!"):
            if self._take(kind):
                return f"(?{kind}"
        if self._take("<"):
            return self._open_named()
        match = _FLAGS.match(self._text, self._at)
        if match is None:
            raise self._error("Unknown inline modifier")
        if "U" in match[1]:
            raise self._error("The flag U is not supported")
        self._at = match.end()
        self._flags = (self._flags | set(match[1])) - set(match[2] or "")
        return "(?:" if match[3] == ":" else ""

    def _open_named(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._error("capturing group name does not start with a Latin letter, or has no trailing '>'")
        if match[1] in self._names:
            raise self._error(f"Named capturing group <{match[1]}> is already defined")
        self._at = match.end()
        self._names.append(match[1])
        self._groups += 1
        return f"(?P<{match[1]}>"

    def _quantifier(self, *, behind: bool, group: bool) -> str:
        char = self._peek()
        if not char or char not in "*+?{":
            return ""
        if char == "{":
            match = _COUNTS.match(self._text, self._at)
            if match is None or match[4] is None:
                words = "Unclosed counted closure" if match else "Illegal repetition"
                raise self._error(words, match.end() - self._at if match else 1)
            least, most = int(match[1]), int(match[3] or _LAST_INT) if match[2] else int(match[1])
            if not least <= most <= _LAST_INT:
                raise self._error("Illegal repetition range", match.end() - 1 - self._at)
            self._at, found, endless = match.end(), match[0], bool(match[2] and not match[3])
        else:
            self._at, found, endless = self._at + 1, char, char != "?"
        kind = self._peek()
        if kind and kind in "?+":
            self._at += 1
            found += kind
        if behind and endless and group:
            raise self._error("Look-behind group does not have an obvious maximum length")
        following = self._peek()
        if following and following in "*+?{":
            raise self._error(f"Dangling meta character '{following}'")
        return found

    def _atom(self, char: str) -> str:  # noqa: PLR0911 - a table of characters
        lines = "d" not in self._flags
        match char:
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case "{":
                raise self._error("Illegal repetition")
            case ".":
                if "s" in self._flags:
                    return r"[\x00-\U0010ffff]"
                return f"[^{_LINE[1:]}" if lines else r"[^\n]"
            case "^" if "m" not in self._flags:
                return r"(?:\A)"
            case "^":
                begin = rf"(?<={_LINE})(?!{_INSIDE_CRLF})" if lines else r"(?<=\n)"
                return rf"(?:(?!\Z)(?:\A|{begin}))"
            case "$" if "m" not in self._flags:
                return _END if lines else r"(?:(?=\n?\Z))"
            case "$":
                return rf"(?:(?!{_INSIDE_CRLF})(?={_LINE}|\Z))" if lines else r"(?:(?=\n|\Z))"
            case _:
                return self._single(ord(char))

    def _single(self, code: int) -> str:
        variants = self._variants(code, code)
        return f"[{variants}]" if "i" in self._flags else variants

    def _variants(self, first: int, last: int) -> str:
        """Returns the members of a set for a range of characters, with those that differ in case if case is ignored."""
        plain = _literal(first) if first == last else f"{_literal(first)}-{_literal(last)}"
        if "i" not in self._flags:
            return plain
        if "u" in self._flags:
            if last - first > 1000 and last > 127:
                raise self._error("A long range without regard to case (flags i and u) is not supported")
            return plain + "".join(_literal(code) for one in range(first, last + 1) for code in same_letter(one))
        for begin, distance in ((65, 32), (97, -32)):
            low, high = max(first, begin), min(last, begin + 25)
            if low <= high:
                plain += f"{_literal(low + distance)}-{_literal(high + distance)}"
        return plain

    def _escape(self) -> str:  # noqa: PLR0911 - a table of letters
        char = self._text[self._at : self._at + 1]
        if char in "123456789" and char:
            return self._reference()
        match char:
            case "A" | "G":  # a match begins where the search begins
                self._at += 1
                return r"(?:\A)"
            case "z":
                self._at += 1
                return r"(?:\Z)"
            case "Z":
                self._at += 1
                return _END if "d" not in self._flags else r"(?:(?=\n?\Z))"
            case "b" | "B":
                self._at += 1
                if char == "b" and self._text.startswith("{g", self._at):
                    raise self._error(r"\b{g} is not supported")
                return f"(?:{_BOUNDARY})" if char == "b" else f"(?!{_BOUNDARY})"
            case "R":
                self._at += 1
                return r"(?:\r\n|[\n-\r\x85\u2028\u2029])"
            case "X":
                self._at += 1
                return r"\X"
            case "k":
                match = _NAMED.match(self._text, self._at)
                if match is None or match[1] not in self._names:
                    raise self._error("named capturing group does not exist")
                self._at = match.end()
                return f"(?i-f:(?P={match[1]}))" if "i" in self._flags else f"(?P={match[1]})"
            case _:
                found = self._escaped()
                return f"[{found}]" if isinstance(found, str) else self._single(found)

    def _reference(self) -> str:
        number = int(self._text[self._at])
        self._at += 1
        while (char := self._text[self._at : self._at + 1]) and char in "0123456789":
            if number * 10 + int(char) > self._groups:
                break
            number, self._at = number * 10 + int(char), self._at + 1
        self._references.append(number)
        if self._groups < number and "i" in self._flags:
            raise self._error("A reference to a later group without regard to case is not supported")
        return rf"(?i-f:\g<{number}>)" if "i" in self._flags else rf"\g<{number}>"

    def _escaped(self) -> int | str:  # noqa: PLR0911 - a table of letters
        """Returns the character of an escape, or the members of a set. The backslash has been read."""
        char, self._at = self._text[self._at : self._at + 1], self._at + 1
        if char in _SHORT:
            return _SHORT[char]
        if char and char.lower() in _SHORT:
            return f"[^{_SHORT[char.lower()]}]"
        match char:
            case "p" | "P":
                members = self._property()
                return members if char == "p" else f"[^{members}]"
            case "0":
                found = _OCTAL.match(self._text, self._at)
                if found is None:
                    raise self._error("Illegal octal escape sequence")
                self._at = found.end()
                return int(found[0], 8)
            case "x" | "u":
                return self._hexadecimal(char)
            case "c" if self._at < len(self._text):
                self._at += 1
                return ord(self._text[self._at - 1]) ^ 64
            case "N":
                found = re.compile(r"\{([^}]*)\}").match(self._text, self._at)
                try:
                    named = ord(unicodedata.lookup(found[1] if found else ""))
                except (KeyError, TypeError):
                    raise self._error("Illegal character name escape sequence") from None
                self._at = found.end() if found else self._at
                return named
            case _ if char in _CONTROLS:
                return _CONTROLS[char]
            case _:
                if not char or (char.isascii() and char.isalnum()):
                    raise self._error("Illegal/unsupported escape sequence")
                return ord(char)

    def _hexadecimal(self, letter: str) -> int:
        form = r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}" if letter == "x" else "([0-9a-fA-F]{4})"
        found = re.compile(form).match(self._text, self._at)
        code = int(found[1] or found[2], 16) if found else -1
        if found is None or code > 0x10FFFF:
            raise self._error("Illegal hexadecimal or Unicode escape sequence")
        self._at = found.end()
        if letter == "u" and 0xD800 <= code < 0xDC00:
            low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self._text, self._at)
            if low:
                self._at = low.end()
                return 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return code

    def _property(self) -> str:
        r"""Returns the members of a set for the name after `\p`."""
        if self._take("{"):
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._error("Unclosed character family")
            name, self._at = self._text[self._at : end], end + 1
        else:
            name, self._at = self._text[self._at : self._at + 1], self._at + 1
        found = members(name, ignore_case="i" in self._flags)
        if found is None:
            raise self._error(f"Unknown character property name {{{name}}}")
        return found

    def _set(self) -> str:
        """Returns a set, whose bracket has been read."""
        negated = self._take("^")
        members = self._union(consume=True)
        return f"[^{members}]" if negated else f"[{members}]"

    def _union(self, *, consume: bool) -> str:
        """Returns the members up to the closing bracket, which is read too if `consume`."""
        parts: list[str] = []
        while True:
            char = self._set_char()
            if char == "]" and parts:
                self._at += consume
                return "".join(parts)
            if char == "[":
                self._at += 1
                parts.append(self._set())
            elif self._text.startswith("&&", self._at):
                self._at += 2
                parts = [self._intersection(parts)]
            else:
                parts.append(self._range())

    def _intersection(self, left: list[str]) -> str:
        """Returns a set of the members that are on both sides. A sign & or the closing bracket ends the right one."""
        right: list[str] = []
        while (char := self._set_char()) not in "]&":
            if char == "[":
                self._at += 1
                right.append(self._set())
            else:
                right.append(self._union(consume=False))
        if not left or not right:
            raise self._error("Bad intersection syntax")
        if char == "&" and not self._text.startswith("&&", self._at):
            raise self._error("A sign & after an intersection is not supported")
        return f"[[{''.join(left)}]&&[{''.join(right)}]]"

    def _set_char(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("Unclosed character class", -1)
        return char

    def _range(self) -> str:
        """Returns a character, a range of them, or the members for an escape."""
        first = self._set_code()
        if isinstance(first, str):
            return first
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("[", "]", ""):
            self._at += 1
            last = self._set_code()
            if isinstance(last, str) or last < first:
                raise self._error("Illegal character range")
            return self._variants(first, last)
        return self._variants(first, first)

    def _set_code(self) -> int | str:
        char = self._set_char()
        self._at += 1
        return self._escaped() if char == "\\" else ord(char)
