"""Java's GregorianCalendar in UTC: Julian before 15 October 1582, and lenient with fields that are out of range."""

from __future__ import annotations

DAY = 86_400_000
CUTOVER = -141_427  # the first Gregorian day, counted from 1970-01-01
_MONTH_STARTS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


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
