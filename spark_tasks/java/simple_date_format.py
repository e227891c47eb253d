"""Java's SimpleDateFormat in UTC and English, for the patterns of TimestampConverter and TimestampRouter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from spark_tasks.java.calendar import DAY, date_of, day_of, day_of_fields, week_of, weekday
from spark_tasks.java.zone_names import FIRST, LAST, MINUTES

_LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
HALVES = ("AM", "PM")
_ERAS = ("BC", "AD")
_NUMBER = re.compile(r"(-?\d+)(?:E(-?\d{1,4})(?!\d))?")
_NOT_A_NUMBER = "NaN"  # Java reads it as 0
_SAME = {"L": "M", "k": "H", "K": "h", "u": "E"}
_OFFSETS = {
    "X": r"([+-])([01]\d|2[0-3])()", "XX": r"([+-])([01]\d|2[0-3])([0-5]\d)", "XXX": r"([+-])([01]\d|2[0-3]):([0-5]\d)",
    "GMT": r"([+-])([01]\d|2[0-3]|\d(?!\d)):([0-5]\d)",
}  # fmt: skip
_ZONES = {form: re.compile(offset, re.ASCII) for form, offset in _OFFSETS.items()}
_SMALL = 2**31
_WEEKS = frozenset("wWFEY")
_MOST_WEEKS = 1_000_000
_UTC = ("utc", "coordinated universal time")
_ZONE_NAME = re.compile("|".join(map(re.escape, sorted(MINUTES, key=len, reverse=True))), re.IGNORECASE | re.ASCII)

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
            "Y": year + in_next, "d": day_of_month, "D": day - start + 1, "H": hour, "k": hour or 24,
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
            return f"{'-' * (number < 0)}{abs(number) % 100:02d}"
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
            return f"{'-' * (number < 0)}{abs(number):0{count}d}"


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
        self._named = False  # whether a name gave the offset
        self._two_digits = False  # whether the year may be one of the next century
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
        start = self._at
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if self._at >= len(self._text):
            raise self._fail()
        if letter in "zZX":
            self._zone(letter, count, start)
        elif is_number((letter, count)):
            self._number(letter, count, start + count if exactly else None)
        elif self._at > start:
            raise self._fail()  # Java skips blanks before numbers and zones alone
        elif letter == "G":
            self._put(letter, self._word(_ERAS))
        elif letter == "a":
            self._put(letter, self._word(HALVES))
        elif letter == "E":
            self._put(letter, self._word(DAYS, short=True) + 1)
        else:
            self._put("M", self._word(MONTHS, short=True) + 1)

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

    def _number(self, letter: str, count: int, end: int | None) -> None:
        begin = self._at
        if end is not None and end > len(self._text):
            raise self._fail()
        end = len(self._text) if end is None else end
        if self._text.startswith(_NOT_A_NUMBER, begin, end):
            self._at += len(_NOT_A_NUMBER)
            self._put(_SAME.get(letter, letter), 0)
            return
        match = _NUMBER.match(self._text, begin, end)
        if match is None:
            raise self._fail()
        self._at = match.end()
        value = int(match[1])
        if match[2] or not -_SMALL < value < _SMALL:
            value = _int_value(value, int(match[2] or 0))
        if letter in "yY" and count <= 2 and match.end() - begin == 2 and match[0].isdigit():
            self._two_digits = value == _century_start().year % 100
            value = _in_century(value)
        elif (letter == "k" and value == 24) or (letter == "h" and value == 12):
            value = 0
        elif letter == "u" and 0 < value <= 7:
            value = value % 7 + 1
        self._put(_SAME.get(letter, letter), value)

    def _zone(self, letter: str, count: int, start: int) -> None:
        at, form = self._at, letter * count if letter == "X" else "XX"
        if letter == "X":
            if self._text.startswith("Z", at):
                self._put_offset(at + 1, 0)
                return
        elif self._text[at : at + 3].upper() == "GMT":
            form, at, blank = "GMT", at + 3, at > start
            if blank or self._text[at : at + 1] not in ("+", "-"):  # after a blank, GMT is a name without an offset
                self._put_offset(at, 0)
                return
        elif self._text[at] not in "+-":
            self._zone_name()
            return
        match = _ZONES[form].match(self._text, at)
        if match is None:
            raise self._fail()
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        self._put_offset(match.end(), -minutes if match[1] == "-" else minutes)

    def _put_offset(self, end: int, minutes: int, *, named: bool = False) -> None:
        self._at, self._offset, self._named = end, minutes * 60_000, named

    def _zone_name(self) -> None:
        match = _ZONE_NAME.match(self._text, self._at)
        if match is None:
            raise self._fail()
        name, end = match[0].lower(), match.end()
        if name not in _UTC:
            if self._text[end : end + 1].isalpha():
                raise self._fail()  # a longer name
            self._put_offset(end, MINUTES[name], named=MINUTES[name] != 0)
        elif self._named:
            raise self._fail()  # Java would mix both zones
        else:
            self._at = end  # the zone of the calendar: an offset that was read before remains

    def millis(self) -> int:
        rest = ((self._hour() * 60 + self._set.get("m", 0)) * 60 + self._set.get("s", 0)) * 1000 + self._set.get("S", 0)
        more, rest = divmod(rest, DAY)
        if not (_WEEKS.isdisjoint(self._set) or self._has_exact_weeks()):
            raise self._fail()
        millis = day_of_fields(self._set, more) * DAY + rest - self._offset
        if self._two_digits and millis < _century_start().timestamp() * 1000:
            self._two_digits = False
            for letter in self._set.keys() & {"y", "Y"}:
                self._set[letter] += 100
            return self.millis()
        if self._named and not FIRST <= millis < LAST:
            raise self._fail()
        return (millis + 2**63) % 2**64 - 2**63  # wraps as a Java long does

    def _has_exact_weeks(self) -> bool:
        """Returns False for weeks whose results in Java come from overflows or the change of calendars."""
        found = self._set
        if max(map(abs, found.values())) > _MOST_WEEKS:
            return False
        return "Y" not in found or (1583 < found["Y"] <= _MOST_WEEKS and found.get("G") != 0 and "y" not in found)

    def _hour(self) -> int:
        found = self._set
        if "H" not in found:
            return found.get("h", 0) + 12 * found.get("a", 0)
        if "h" in found and "a" in found:  # the last one decides
            order = list(found)
            if max(order.index("a"), order.index("h")) > order.index("H"):
                return found["h"] + 12 * found["a"]
        return found["H"]


def _int_value(number: int, exponent: int) -> int:
    """Returns the int of what DecimalFormat parses: a Long, whose low 32 bits it has, or else a Double."""
    if exponent < 0:
        whole = abs(number) // 10**-exponent
        number = whole if number >= 0 else -whole
    else:
        number *= 10**exponent
    if -(2**63) <= number < 2**63:
        return (number + 2**31) % 2**32 - 2**31
    return max(-(2**31), min(number, 2**31 - 1))


def is_number(piece: Piece) -> bool:
    """Returns whether the piece is a number."""
    letter, count = piece
    return letter not in "GEazZX" and not (letter in "ML" and count > 2)


def _century_start() -> datetime:
    now = datetime.now(UTC)
    day = min(now.day, 28) if now.month == 2 else now.day
    return now.replace(year=now.year - 80, day=day)


def _in_century(value: int) -> int:
    """Returns the year for two digits, which is between 80 years before and 20 years after the current year."""
    start = _century_start().year
    year = start // 100 * 100 + value
    return year + 100 if year < start else year
