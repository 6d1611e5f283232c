"""Cells of CSV and TSV are what the programs that wrote them meant."""

import csv
import io
import os
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.table import read_table
from regard.errors import Problem


def write(folder, name: str, text: str):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def spreadsheet(rows, **options) -> str:
    written = io.StringIO()
    csv.writer(written, delimiter="\t", lineterminator="\n", **options).writerows(rows)
    return written.getvalue()


def read_quietly(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_table(path, **options)


TWEETS = [("tweet", "label"), ('He said "x"', "OFF"), ("plain, with a comma", "NOT"), ('"all quoted"', "NOT")]


def test_tsv_as_pandas_writes_it_is_unquoted_and_counted(tmp_path):
    rows = [*TWEETS, ("two\nlines", "OFF"), ("a\ttab", "NOT")]
    path = write(tmp_path, "a.tsv", spreadsheet(rows))
    with pytest.warns(UserWarning, match=r"a\.tsv: 4 of 6 rows have cells in quotes, as spreadsheets and pandas"):
        table = read_table(path)
    assert table.rows == rows[1:]
    assert [table.place(row).split()[-1] for row in range(5)] == ["2", "3", "4", "5", "7"]


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_tsv_with_quotes_around_every_cell(tmp_path, quoting):
    rows = [("text", "label"), ("fine", "pos"), ("bad", "neg")]
    with pytest.warns(UserWarning, match="3 of 3 rows"):
        table = read_table(write(tmp_path, "a.tsv", spreadsheet(rows, quoting=quoting)))
    assert table.names == rows[0] and table.rows == rows[1:]


def test_excel_quotes_cells_with_commas(tmp_path):
    path = write(tmp_path, "a.tsv", 'text\tlabel\n"well, well"\t1\nfine\t0\n"no, no"\t0\n')
    with pytest.warns(UserWarning, match="2 of 4 rows"):
        assert read_table(path).rows == [("well, well", "1"), ("fine", "0"), ("no, no", "0")]


@pytest.mark.parametrize(
    "text",
    [
        'text\tlabel\n" an open one\t1\nclosed" elsewhere\t0\n',
        'text\tlabel\n"a title"\t1\nplain, with a comma\t0\n',  # nothing here needed quotes
        'text\tlabel\n"one, two"\t1\nthree, four\t0\n',
        'text\tlabel\nthe 5" screen\t1\nfine\t0\n',
        'text\tlabel\n"so" he said\t1\n"fine\t0\n',
    ],
)
def test_quotes_that_are_text_stay(tmp_path, text):
    table = read_quietly(write(tmp_path, "a.tsv", text), header=True)
    assert table.rows == [tuple(line.split("\t")) for line in text.splitlines()[1:]]


def test_a_file_that_mixes_both_loses_only_what_is_certain(tmp_path):
    text = 'text\tlabel\n"He said ""x"""\t1\nthe 5" screen\t0\n"a title"\t0\n'
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        table = read_table(write(tmp_path, "a.tsv", text))
    assert table.rows == [('He said "x"', "1"), ('the 5" screen', "0"), ('"a title"', "0")]


cells = st.text(st.sampled_from('ab",\t\n '), max_size=6)


@given(st.lists(st.tuples(cells, st.sampled_from(["0", "1"])), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_pandas_writes_is_read(tmp_path, rows):
    rows = [('say "so"', "0"), *rows]  # the quotes inside show how the file is written
    path = write(tmp_path, "a.tsv", spreadsheet([("text", "label"), *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_table(path, header=True)
    assert table.rows == rows


@pytest.mark.parametrize(
    "text",
    [
        "text;label\na fine, long film;1\nbad;0\n",
        "sep=;\ntext;label\na fine, long film;1\nbad;0\n",
        'text\tlabel\n"a fine, long film"\t1\nbad\t0\n',
    ],
)
def test_csv_with_other_separators(tmp_path, text):
    with pytest.warns(UserWarning, match=r"a\.csv: (semicolons|tabs) separate the columns"):
        table = read_table(write(tmp_path, "a.csv", text))
    assert (table.names, table.rows) == (("text", "label"), [("a fine, long film", "1"), ("bad", "0")])
    assert table.place(0).endswith(f"line {2 + text.startswith('sep')}")


def test_commas_separate_csv_where_they_can(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\none; two,1\n" + '"a, b; c\nd",0\n' * 30)
    assert len(read_quietly(path)) == 31
    with pytest.raises(Problem, match="line 3 has 1 columns where 2"):
        read_quietly(write(tmp_path, "b.csv", "text,label\na,1\nb\n"))


@pytest.mark.parametrize(
    "name, changed",
    [("glue/MRPC/train.tsv.xz", 0), ("glue/CoLA/train.tsv.xz", 0), ("glue/RTE/train.tsv.xz", 0), ("sst2/dev.tsv", 0),
     ("glue/QQP/subset.tsv.xz", 824), ("agnews-partial/test.tsv.xz", 278)],
)  # fmt: skip
def test_real_quotes(name, changed):
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table = read_table(Path(os.environ["REGARD_DATA"]) / name, skip_bad=1)
    assert [f"{changed:,} of" in str(one.message) for one in told] == [True] * bool(changed)
    if changed:
        assert not any(cell.startswith('"') and '""' in cell for row in table.rows for cell in row)
