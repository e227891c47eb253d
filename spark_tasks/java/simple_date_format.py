"""Java's SimpleDateFormat in UTC and English, for the patterns of TimestampConverter and TimestampRouter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from spark_tasks.java.calendar import DAY, date_of, day_of, week_of, weekday

_LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
HALVES = ("AM", "PM")
_ERAS = ("BC", "AD")
_NUMBER = re.compile(r"-?\d+")
_NOT_A_NUMBER = "NaN"  # Java reads it as 0
_ZONE = re.compile(r"(?:GMT|UTC|Z)?(?:([+-])(\d{1,2}):?(\d{2})?)?")

Piece = tuple[str, int]  # a letter and the number of its repetitions, or a literal text and 0


@lru_cache(maxsize=100)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """Returns the parts of a pattern. Raises ValueError with Java's message."""
    parts: list[Piece] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            parts.append((text, 0))
        elif char.isascii() and char.isalpha():
            if char not in _LETTERS:
                raise ValueError(f"Illegal pattern character '{char}'")
            end = at
            while end < len(pattern) and pattern[end] == char:
                end += 1
            parts.append((char, end - at))
            at = end
        else:
            parts.append((char, 0))
            at += 1
    if any(letter == "X" and count > 3 for letter, count in parts):
        raise ValueError("invalid ISO 8601 format: length=4")
    return tuple(parts)


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at : at + 2] == "''":
        return "'", at + 2
    text, at = "", at + 1
    while True:
        end = pattern.find("'", at)
        if end < 0:
            raise ValueError("Unterminated quote")
        text += pattern[at:end]
        if pattern[end : end + 2] != "''":
            return text, end + 1
        text, at = text + "'", end + 2


def format_millis(pattern: str, millis: int) -> str:
    """Returns the text for milliseconds since the epoch."""
    day, rest = divmod(millis, DAY)
    fields = _Fields(day, rest)
    return "".join(text if not count else fields.text(text, count) for text, count in pieces(pattern))


class _Fields:
    """The numbers for the letters of a pattern. `day`: since the epoch. `rest`: ms since midnight."""

    def __init__(self, day: int, rest: int) -> None:
        year, month, day_of_month = date_of(day)
        hour = rest // 3_600_000
        start = day_of(year, 1, 1)
        era_year = year if year > 0 else 1 - year
        next_start = day_of(year + 1, 1, 1)
        in_next = day >= next_start - weekday(next_start)
        of_week = weekday(day)
        self._numbers = {
            "G": year > 0, "M": month, "L": month, "E": of_week, "a": hour // 12, "y": era_year,
            "Y": era_year + in_next, "d": day_of_month, "D": day - start + 1, "H": hour, "k": hour or 24,
            "K": hour % 12, "h": hour % 12 or 12, "m": rest // 60_000 % 60, "s": rest // 1000 % 60, "S": rest % 1000,
            "w": 1 if in_next else week_of(day, start), "W": week_of(day, day - day_of_month + 1),
            "F": (day_of_month - 1) // 7 + 1, "u": of_week or 7,
        }  # fmt: skip

    def text(self, letter: str, count: int) -> str:
        return text_of(letter, count, self._numbers.get(letter, 0))


def text_of(letter: str, count: int, number: int) -> str:  # noqa: PLR0911 - a table of letters
    """Returns the text of a number for a piece of the pattern. Days of the week count from 0 for Sunday."""
    match letter:
        case "G":
            return _ERAS[number]
        case "y" | "Y" if count == 2:
            return f"{number % 100:02d}"
        case "M" | "L" if count > 2:
            return MONTHS[number - 1][: 3 if count == 3 else None]
        case "E":
            return DAYS[number][: 3 if count < 4 else None]
        case "a":
            return HALVES[number]
        case "z":
            return "UTC" if count < 4 else "Coordinated Universal Time"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
        case _:
            return str(number).zfill(count)


def parse_millis(pattern: str, text: str) -> int:
    """Parses a text and returns milliseconds since the epoch. Ignores text after the date. Raises ValueError if the
    text does not match the pattern.
    """
    return _Parser(pieces(pattern), text).millis()


class _Parser:
    def __init__(self, found: Sequence[Piece], text: str) -> None:
        self._text = text
        self._at = 0
        self._set: dict[str, int] = {}  # in the order in which they were read
        self._offset = 0
        self._two_digits = False
        for index, (piece, count) in enumerate(found):
            if not count:
                self._literal(piece)
                continue
            numeric = index + 1 < len(found) and found[index + 1][1] > 0 and is_number(found[index + 1])
            self._field(piece, count, exactly=numeric and is_number((piece, count)))

    def _literal(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            raise ValueError(f'Unparseable date: "{self._text}"')
        self._at += len(text)

    def _fail(self) -> ValueError:
        return ValueError(f'Unparseable date: "{self._text}"')

    def _field(self, letter: str, count: int, *, exactly: bool) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if self._at >= len(self._text):
            raise self._fail()
        if letter in "zZX":
            self._zone(letter)
        elif letter == "G":
            self._put(letter, self._word(_ERAS))
        elif letter == "a":
            self._put(letter, self._word(HALVES))
        elif letter == "E":
            self._put(letter, self._word(DAYS, short=True))
        elif letter in "ML" and count > 2:
            self._put("M", self._word(MONTHS, short=True) + 1)
        else:
            self._number(letter, count, exactly=exactly)

    def _put(self, letter: str, value: int) -> None:
        self._set.pop(letter, None)
        self._set[letter] = value

    def _word(self, words: Sequence[str], *, short: bool = False) -> int:
        rest = self._text[self._at :].lower()
        known = [(len(word), index) for index, word in enumerate(words) if rest.startswith(word.lower())]
        if short:
            known += [(3, index) for index, word in enumerate(words) if rest.startswith(word[:3].lower())]
        if not known:
            raise self._fail()
        length, index = max(known, key=lambda one: one[0])
        self._at += length
        return index

    def _number(self, letter: str, count: int, *, exactly: bool) -> None:
        begin = self._at
        if exactly and begin + count > len(self._text):
            raise self._fail()
        end = begin + count if exactly else len(self._text)
        if self._text.startswith(_NOT_A_NUMBER, begin, end):
            self._at += len(_NOT_A_NUMBER)
            self._put({"L": "M", "k": "H", "K": "h", "Y": "y"}.get(letter, letter), 0)
            return
        match = _NUMBER.match(self._text, begin, end)
        if match is None:
            raise self._fail()
        self._at = match.end()
        value = _int_value(int(match[0]))
        if letter in "yY" and count <= 2 and match.end() - begin == 2 and match[0].isdigit():
            value, self._two_digits, letter = _in_century(value), True, "y"
        elif (letter == "k" and value == 24) or (letter == "h" and value == 12):
            value = 0
        self._put({"L": "M", "k": "H", "K": "h", "Y": "y"}.get(letter, letter), value)

    def _zone(self, letter: str) -> None:
        match = _ZONE.match(self._text, self._at)
        if match is None or not match[0] or (letter == "X" and match[0][:1] not in "Z+-"):
            raise self._fail()
        self._at = match.end()
        if match[1]:
            digits = int(match[2]) * 60 + int(match[3] or 0)
            self._offset = (-1 if match[1] == "-" else 1) * digits * 60_000

    def millis(self) -> int:
        found = self._set
        year = found.get("y", 1970)
        if found.get("G") == 0:
            year = 1 - year
        order = list(found)
        by_year = "D" in found and ("d" not in found or order.index("D") > order.index("d"))
        day = day_of(year, 1, found["D"]) if by_year else day_of(year, found.get("M", 1), found.get("d", 1))
        if "H" in found and not ("h" in found and order.index("h") > order.index("H")):
            hour = found["H"]
        else:
            hour = found.get("h", 0) + 12 * found.get("a", 0)
        rest = ((hour * 60 + found.get("m", 0)) * 60 + found.get("s", 0)) * 1000 + found.get("S", 0)
        millis = day * DAY + rest
        if self._two_digits and millis < _century_start().timestamp() * 1000:
            found["y"], self._two_digits = year + 100, False
            return self.millis()
        return (millis - self._offset + 2**63) % 2**64 - 2**63  # wraps as a Java long does


def _int_value(number: int) -> int:
    """Returns the int of what DecimalFormat parses: a Long, whose low 32 bits it has, or else a Double."""
    if -(2**63) <= number < 2**63:
        return (number + 2**31) % 2**32 - 2**31
    return max(-(2**31), min(number, 2**31 - 1))


def is_number(piece: Piece) -> bool:
    """Returns whether the piece is a number."""
    letter, count = piece
    return letter not in "GEazZX" and not (letter in "ML" and count > 2)


def _century_start() -> datetime:
    now = datetime.now(UTC)
    return now.replace(year=now.year - 80, day=min(now.day, 28))


def _in_century(value: int) -> int:
    """Returns the year for two digits, which is between 80 years before and 20 years after the current year."""
    start = _century_start().year
    year = start // 100 * 100 + value
    return year + 100 if year < start else year
