from datetime import date
from random import Random

import pytest

from regard.data.dates import CASES, SHORT_SPELLINGS, SHORT_YEARS, SPELLINGS, dates, fields, nth, spell, split_dates
from regard.errors import UsageProblem


def spelled(day: date, spelling: str) -> str:
    return spelling.format(**fields(day))


@pytest.mark.parametrize(
    "spelling, expected",
    [
        ("the {nth} of {month}, {yyyy}", "the 3rd of May, 1998"),
        ("{weekday}, {d} {month} {yyyy}", "Sunday, 3 May 1998"),
        ("{month} the {ordinal}, {yyyy}", "May the third, 1998"),
        ("{dd}.{mm}.{yyyy}", "03.05.1998"),
        ("{m}/{d}/{yy}", "5/3/98"),
    ],
)
def test_spellings(spelling, expected):
    assert spelling in SPELLINGS + SHORT_SPELLINGS
    assert spelled(date(1998, 5, 3), spelling) == expected


def test_ordinals():
    assert " ".join(nth(n) for n in range(1, 14)) == "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th 13th"
    assert " ".join(nth(n) for n in (20, 21, 22, 23, 24, 30, 31)) == "20th 21st 22nd 23rd 24th 30th 31st"
    assert [fields(date(2000, 1, n))["ordinal"] for n in (1, 20, 21, 31)] == [
        "first", "twentieth", "twenty-first", "thirty-first",
    ]  # fmt: skip


def test_every_spelling_has_one_reading():
    """Years whose last two digits are the same, years at the rule's edges, and years that look like days."""
    readings: dict[str, date] = {}
    for year in (1901, 1968, 1969, 1998, 2001, 2012, 2068, 2069, 2098):
        for number in range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()):
            day = date.fromordinal(number)
            for spelling in SPELLINGS + (SHORT_SPELLINGS if year in SHORT_YEARS else ()):
                assert readings.setdefault(spelled(day, spelling).lower(), day) == day


def test_two_digits_name_only_the_years_of_the_rule():
    short = {spelled(date(2069, 1, 1), spelling) for spelling in SHORT_SPELLINGS}
    drawn = {spell(date(2069, 1, 1), Random(seed)) for seed in range(500)}
    assert not {case(text) for text in short for case in CASES} & drawn


def test_the_corpus_is_a_function_of_the_seed():
    sources, targets = dates(2_000, seed=1)
    assert (sources, targets) == dates(2_000, seed=1) != dates(2_000, seed=2)
    assert len(set(targets)) == 2_000 and len(set(sources)) == 2_000
    years = [date.fromisoformat(target).year for target in targets]
    assert min(years) < 1910 and max(years) > 2090


def test_splits_share_no_date():
    parts = split_dates(3_000, 200, 500, seed=0)
    assert [len(sources) for sources, _ in parts] == [3_000, 200, 500]
    assert len({target for _, targets in parts for target in targets}) == 3_700


def test_more_dates_than_there_are():
    assert len(dates(73_049, 0)[0]) == 73_049
    with pytest.raises(UsageProblem, match="73,049"):
        dates(73_050, 0)
