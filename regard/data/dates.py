"""The date-normalisation corpus: dates as people write them, and the ISO way ("3rd of May, 1998" to "1998-05-03").

Every spelling has one reading: between slashes the month comes before the day, between dots the day before the month,
a year in front is followed by month and day; two digits of a year are those of 1969 to 2068 (POSIX).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from random import Random

from regard.errors import UsageProblem

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
SHORT_YEARS = range(1969, 2069)  # those that two digits can name
DAYS = range(FIRST.toordinal(), LAST.toordinal() + 1)

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
TEENS = (
    "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth",
    "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
ORDINALS = (*UNITS, *TEENS, "twentieth", *(f"twenty-{unit}" for unit in UNITS), "thirtieth", "thirty-first")

SPELLINGS = (
    "{d} {month} {yyyy}", "{d} {mon} {yyyy}", "{dd} {month} {yyyy}", "{nth} {month} {yyyy}", "{nth} of {month} {yyyy}",
    "the {nth} of {month}, {yyyy}", "the {nth} of {month} {yyyy}", "the {ordinal} of {month}, {yyyy}",
    "{ordinal} of {month} {yyyy}", "{month} {d}, {yyyy}", "{month} {nth}, {yyyy}", "{month} {nth} {yyyy}",
    "{month} the {nth}, {yyyy}", "{month} the {ordinal}, {yyyy}", "{mon} {d}, {yyyy}", "{mon}. {d}, {yyyy}",
    "{d}. {month} {yyyy}", "{yyyy} {month} {d}", "{yyyy}, {month} {nth}",
    "{weekday}, {d} {month} {yyyy}", "{weekday}, {month} {d}, {yyyy}", "{weekday} the {nth} of {month}, {yyyy}",
    "{weekday}, {month} {nth} {yyyy}", "{wkd}, {d} {mon} {yyyy}", "{wkd} {mon} {dd} {yyyy}",
    "{dd}.{mm}.{yyyy}", "{d}.{m}.{yyyy}", "{mm}/{dd}/{yyyy}", "{m}/{d}/{yyyy}", "{dd}-{mon}-{yyyy}",
    "{yyyy}-{mm}-{dd}", "{yyyy}/{mm}/{dd}", "{yyyy}.{mm}.{dd}", "{yyyy}{mm}{dd}",
)  # fmt: skip
SHORT_SPELLINGS = (
    "{d} {month} {yy}", "{d} {mon} '{yy}", "{month} {d}, {yy}", "{mon} {nth}, '{yy}", "the {nth} of {month}, '{yy}",
    "{wkd}, {d} {mon} {yy}", "{dd}.{mm}.{yy}", "{d}.{m}.{yy}", "{mm}/{dd}/{yy}", "{m}/{d}/{yy}", "{dd}-{mon}-{yy}",
)  # fmt: skip
CASES = (str, str, str.lower, str.upper)  # half of them as they are

Corpus = tuple[list[str], list[str]]  # spellings, and the same dates the ISO way


def dates(count: int, seed: int) -> Corpus:
    """So many different dates, each in a spelling drawn by chance."""
    return split_dates(count, 0, 0, seed)[0]


def split_dates(train: int, dev: int, test: int, seed: int) -> tuple[Corpus, Corpus, Corpus]:
    """Three corpora that have no date in common."""
    count = train + dev + test
    if count > len(DAYS):
        raise UsageProblem(f"{count:,} dates were asked for, and there are {len(DAYS):,} from {FIRST} to {LAST}")
    random = Random(seed)
    days = [date.fromordinal(number) for number in random.sample(DAYS, count)]
    first, second, third = days[:train], days[train : train + dev], days[train + dev :]
    return _corpus(first, random), _corpus(second, random), _corpus(third, random)


def _corpus(days: Sequence[date], random: Random) -> Corpus:
    return [spell(day, random) for day in days], [day.isoformat() for day in days]


def spell(day: date, random: Random) -> str:
    spellings = SPELLINGS + SHORT_SPELLINGS if day.year in SHORT_YEARS else SPELLINGS
    return random.choice(CASES)(random.choice(spellings).format(**fields(day)))


def fields(day: date) -> dict[str, str]:
    """All that a spelling can be made of; not by strftime, which follows the locale."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    return {
        "d": f"{day.day}", "dd": f"{day.day:02}", "nth": nth(day.day), "ordinal": ORDINALS[day.day - 1],
        "m": f"{day.month}", "mm": f"{day.month:02}", "month": month, "mon": month[:3],
        "yyyy": f"{day.year}", "yy": f"{day.year % 100:02}", "weekday": weekday, "wkd": weekday[:3],
    }  # fmt: skip


def nth(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number in (11, 12, 13) else endings.get(number % 10, 'th')}"
