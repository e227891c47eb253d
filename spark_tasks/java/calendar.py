"""Java's GregorianCalendar in UTC: Julian before 15 October 1582, and lenient with fields that are out of range."""

from __future__ import annotations

from collections.abc import Callable, Mapping

DAY = 86_400_000
CUTOVER = -141_427  # the first Gregorian day, counted from 1970-01-01
_OTHER_DATES = frozenset("DwWFEY")


def date_of(day: int) -> tuple[int, int, int]:
    """Returns year (0 is 1 BC), month and day. `day`: days since the epoch."""
    # years begin in March here, so that a leap day is the last day of its year
    if day >= CUTOVER:
        shifted = day + 719_468
        era, of_era = divmod(shifted, 146_097)
        year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
        of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        shifted = day + 719_470
        era, of_era = divmod(shifted, 1461)
        year_of_era = (of_era - of_era // 1460) // 365
        of_year = of_era - 365 * year_of_era
        year = year_of_era + era * 4
    month = (5 * of_year + 2) // 153
    return year + (month >= 10), month + (3 if month < 10 else -9), of_year - (153 * month + 2) // 5 + 1


def day_of(year: int, month: int, day: int) -> int:
    """Returns the days since the epoch of a date. Month and day may be out of range."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    start = _gregorian(year, month)
    if start + day - 1 >= CUTOVER:
        return start + day - 1
    return _julian(year, month) + day - 1


def _gregorian(year: int, month: int) -> int:
    y = year - (month <= 2)
    era, of_era = divmod(y, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _julian(year: int, month: int) -> int:
    y = year - (month <= 2)
    era, of_era = divmod(y, 4)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 1461 + of_era * 365 + of_year - 719_470


def weekday(day: int) -> int:
    """Returns the day of the week, 0 for Sunday. `day`: days since the epoch."""
    return (day + 4) % 7


def week_of(day: int, start: int) -> int:
    """Returns the number of the week (from 1) in a year or month that begins on day `start`. Weeks begin on Sunday."""
    return (day - start + weekday(start)) // 7 + 1


def day_of_fields(fields: Mapping[str, int], more: int) -> int:
    """Returns the days since the epoch for fields that may contradict each other: the one that was set last decides.

    `fields`: by the letters of SimpleDateFormat, in the order in which they were set; E counts from 1 for Sunday.
    `more`: days that the time of the day exceeds.
    """
    if _OTHER_DATES.isdisjoint(fields) and fields.get("y", 1970) > 1582 and fields.get("G") != 0:
        return day_of(fields.get("y", 1970), fields.get("M", 1), fields.get("d", 1) + more)
    stamps = {letter: at for at, letter in enumerate(fields, 1)}
    if stamps.get("Y", 0) > stamps.get("y", 0):
        return _week_date(fields) + more
    kind = _kind(stamps)
    year = fields.get("y", 1970)
    if fields.get("G") == 0:
        year = 1 - year
    gregorian = _day(fields, kind, year, _gregorian) + more
    if year > 1582 and gregorian >= CUTOVER:
        return gregorian
    julian = _day(fields, kind, year, _julian) + more
    if kind in "Dw" or gregorian < CUTOVER or (year < 1582 and julian < CUTOVER):
        return julian
    return julian if year < 1582 else gregorian


def _week_date(fields: Mapping[str, int]) -> int:
    of_week, week = fields.get("E", 1), fields.get("w", 1)
    if of_week >= 8:
        week, of_week = week + (of_week - 1) // 7, (of_week - 1) % 7 + 1
        of_week = of_week % 7 + 1
    elif of_week <= 0:
        weeks = -of_week // 7 + 1
        week, of_week = week - weeks, (of_week + 7 * weeks) % 7 + 1
    return day_of_fields({"G": fields.get("G", 1), "y": fields["Y"], "w": 1, "E": 1}, of_week - 1 + 7 * (week - 1))


def _kind(stamps: Mapping[str, int]) -> str:
    """Returns the letter of the field that decides: d or D, or a week (w or W), or a weekday of the month (F)."""

    def stamp(letter: str) -> int:
        return stamps.get(letter, 0)

    def with_weekday(letter: str) -> int:
        return max(stamp(letter), stamp("E")) if stamp(letter) and stamp("E") else 0

    of_month, of_year = stamp("d"), stamp("D")
    week, weekday_of_month, week_of_year = with_weekday("W"), with_weekday("F"), with_weekday("w")
    best = max(of_month, week, weekday_of_month, of_year, week_of_year)
    if not best:
        week, weekday_of_month, week_of_year = stamp("W"), max(stamp("F"), stamp("E")), stamp("w")
        best = max(week, weekday_of_month, week_of_year)
        if not best:
            return "d"
    if best == of_month:
        return "d"
    if (best == week and stamp("W") >= stamp("w")) or (best == weekday_of_month and stamp("F") >= stamp("w")):
        if week == weekday_of_month:
            return "W" if stamp("W") >= stamp("F") else "F"
        return "W" if best == week else "F"
    return "D" if best == of_year else "w"


def _day(fields: Mapping[str, int], kind: str, year: int, first_of: Callable[[int, int], int]) -> int:
    month = fields.get("M", 1) if kind in "dWF" else 1
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = first_of(year, month)
    if kind in "dD":
        return first + fields.get(kind, 1) - 1
    if kind == "F":
        number = fields.get("F", 1)
        if number < 0:
            number = _month_length(year, month) + 7 * (number + 1)
            return _on_or_before(first + number - 1, fields.get("E", 1))
        return _on_or_before(first + 7 * number - 1, fields.get("E", 1))
    week = _on_or_before(first, 1)
    if "E" in fields:
        week = _on_or_before(week + 6, fields["E"])
    return week + 7 * (fields[kind] - 1)


def _on_or_before(day: int, of_week: int) -> int:
    """Returns the last day with this day of the week (1 for Sunday) that is not after `day`."""
    return day - (weekday(day) - of_week + 1) % 7


def _month_length(year: int, month: int) -> int:
    first_of = _gregorian if year >= 1582 else _julian
    return first_of(year + month // 12, month % 12 + 1) - first_of(year, month)
