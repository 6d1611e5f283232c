"""Tables are read as they are found; what cannot be a row is named by file and line."""

import gzip
import json
import lzma

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.table import beside, parse_json, read_table
from regard.errors import Problem


def write(folder, name: str, text: str | bytes):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv_has_quotes_newlines_and_a_mark_in_front(tmp_path):
    path = write(tmp_path, "a.csv", '\ufefftext,label\r\n"one, ""two""\r\nthree",1\r\n\r\nfour,0\r\n')
    table = read_table(path)
    assert table.names == ("text", "label") and table.named
    assert table.rows == [('one, "two"\nthree', "1"), ("four", "0")]
    assert [table.place(0), table.place(1)] == [f"{path}, line 2", f"{path}, line 5"]


def test_tsv_has_no_quotes(tmp_path):
    table = read_table(
        write(tmp_path, "a.tsv", '\ufeffQuality\t#1 String\t#2 String\n1\t" one\ttwo\n0\tthree"\t"four\n')
    )
    assert table.names == ("Quality", "#1 String", "#2 String")
    assert table.rows == [("1", '" one', "two"), ("0", 'three"', '"four')]


@pytest.mark.parametrize("compress, suffix", [(gzip.compress, ".gz"), (lzma.compress, ".xz"), (bytes, "")])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.ndjson", "a.json", "a.txt"])
def test_kinds_alone_and_compressed(tmp_path, name, compress, suffix):
    texts = {"csv": "text,label\ngood,1\n", "json": '[\n{"text": "good",\n "label": 1}]'}
    texts |= {"tsv": "text\tlabel\ngood\t1\n", "txt": "text\tlabel\ngood\t1\n"}
    texts |= dict.fromkeys(("jsonl", "ndjson"), '{"text": "good", "label": 1}\n')
    table = read_table(write(tmp_path, name + suffix, compress(texts[name.split(".")[1]].encode())))
    assert (table.names, table.rows) == (("text", "label"), [("good", "1")])


@pytest.mark.parametrize(
    "text, named",
    [
        ("gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tIt rode.\n", False),  # a number
        ("a fine film of many words\t1\nbad\t0\n", False),
        ("It is fine.\tpositive\nIt is bad.\tnegative\n", False),  # the end of a sentence
        ("fine\tpositive\nbad\tnegative\ngood\tpositive\n", False),  # a label that occurs again
        ("sentence\tlabel\nfine\tpositive\nbad\tnegative\n", True),
        ("\tclass\ttweet\n0\t2\tfine\n", True),  # pandas' index has no name
        ("only\nsome\nwords\n", False),
    ],
)
def test_headers_are_told_from_rows(tmp_path, text, named):
    path = write(tmp_path, "a.txt", text)
    table = read_table(path)
    count, width = text.count("\n"), text.split("\n")[0].count("\t") + 1
    assert table.named == named and len(table) == count - named
    if not named:
        assert table.names == tuple(str(number) for number in range(1, width + 1))


def test_a_header_can_be_insisted_on_or_denied(tmp_path):
    path = write(tmp_path, "a.csv", "good,positive\nbad,negative\n")
    assert read_table(path).names == ("good", "positive")
    assert read_table(path, header=False).rows == [("good", "positive"), ("bad", "negative")]
    assert read_table(write(tmp_path, "b.csv", "1,2\n3,4\n"), header=True).names == ("1", "2")


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("a.csv", "text,label\na,1\nb\n", "a.csv, line 3 has 1 columns where 2 are expected"),
        ("a.tsv", "text\tlabel\na\t1\nb\t1\tx\n", "a.tsv, line 3 has 3 columns where 2"),
        ("a.tsv", "a\t0\nb\t1\tx\nc\t2\n", "line 2 has 3 columns where 2"),
        ("a.tsv", "a\nb\t1\nc\t2\n", "line 1 has 1 columns where 2"),  # the first row is not always the right one
        ("a.csv", 'text,label\nx,1\n"a,1\nb,2\n', "line 3: the row that begins here is not valid CSV"),
        ("a.csv", 'text,label\n"a"b,1\n', "line 2: the row that begins here is not valid CSV"),
        ("a.csv", "text,text\na,1\n", "columns 1 and 2 are both called 'text'"),
        ("a.csv", "text,label\n", "has no rows below its header text, label"),
        ("a.csv", "", "a.csv is empty"),
        ("a.txt", "", "a.txt is empty"),
        ("a.jsonl", "\n\n", "a.jsonl has no rows"),
        ("a.jsonl", '{"a": 1}\n\n{"a": 1\n', r"a.jsonl, line 3 is not valid JSON \(Expecting ',' delimiter: column 8 "),
        ("a.jsonl", '{"a": 1}\n[1]\n', "a.jsonl, line 2 is no object"),
        ("a.jsonl", '{"a": 1, "b": 2, "a": 3}\n', "line 1 is not valid JSON .the key 'a' occurs twice"),
        ("a.jsonl", '{"a": "\\ud83d"}\n', "line 1 is not valid JSON .an escape .* is half of a character"),
        ("a.jsonl", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1 is nested too deeply"),
        ("a.json", '[{"a": 1}, 2]', "a.json, item 2 is no object"),
        ("a.json", "[]", "a.json has no rows"),
        ("a.json", "[1, 2]", "a.json, item 1 is no object"),
        ("a.json", '{\n"a": 1}', "a.json, line 1 is not valid JSON"),
        ("a.parquet", "PAR1 but not really", "a.parquet"),
    ],
)
def test_faults_are_named(tmp_path, name, text, says):
    with pytest.raises(Problem, match=says):
        read_table(write(tmp_path, name, text))


def test_so_many_bad_rows_may_be_left_out(tmp_path):
    for name, rows in {
        "a.tsv": ["a\tb", "1\t2", "3", "4\t5", "6"],
        "a.jsonl": ['{"a": 1}', "{", '{"a": 2}', "3"],
    }.items():
        path = write(tmp_path, name, "\n".join(rows))
        table = read_table(path, skip_bad=2)
        assert (len(table), table.skipped) == (2, 2)
        with pytest.raises(Problem, match=r"--skip-bad N \(now 1\)"):
            read_table(path, skip_bad=1)
    with pytest.raises(Problem, match="not valid CSV"):  # or all that follows would be lost as one bad row
        read_table(write(tmp_path, "a.csv", 'a,b\n"1,2\n3,4\n'), skip_bad=9)


def test_json_values_are_text(tmp_path):
    items = [
        {"text": "a\tb\nc \U0001f600", "label": None, "score": 0.5},
        {"label": True, "text": "", "choices": ["ü", "b"], "score": -1},
    ]
    lines = "\n".join(json.dumps(item) for item in items)
    table = read_table(write(tmp_path, "a.jsonl", lines))
    assert table.names == ("text", "label", "score", "choices")
    assert table.rows == [("a\tb\nc \U0001f600", "", "0.5", ""), ("", "true", "-1", '["ü", "b"]')]


def test_json_says_where_it_is_wrong():
    assert parse_json('{"a": ["\\ud83d\\ude00"]}', "here") == {"a": ["😀"]}
    with pytest.raises(Problem, match=r"^here is not valid JSON"):
        parse_json("nonsense", "here")


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    made = pyarrow.table({"text": ["a", None], "label": [1, 0], "choices": [["x", "y"], []]})
    parquet.write_table(made, tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("text", "label", "choices")
    assert table.rows == [("a", "1", '["x", "y"]'), ("", "0", "[]")]
    assert table.place(1).endswith("a.parquet, row 2")
    packed = write(tmp_path, "b.parquet.gz", gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read_table(packed).rows == table.rows
    with pytest.raises(Problem, match=r"cut\.parquet cannot be read as Parquet"):
        read_table(write(tmp_path, "cut.parquet", (tmp_path / "a.parquet").read_bytes()[:-9]))
    with pytest.raises(Problem, match=r"none\.parquet cannot be read"):
        read_table(tmp_path / "none.parquet")


def test_parquet_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(Problem, match=r"pip install 'regard\[parquet\]'"):
        read_table(write(tmp_path, "a.parquet", ""))


def test_questions_with_their_label_in_front(tmp_path):
    path = write(tmp_path, "a.label", "NUM:dist How far is it ?\nHUM:desc Who was Galil\xe9o ?\n".encode("latin-1"))
    table = read_table(path, "latin-1")
    assert table.names == ("label", "fine", "text")
    assert table.rows == [("NUM", "NUM:dist", "How far is it ?"), ("HUM", "HUM:desc", "Who was Galiléo ?")]
    assert table.place(1).endswith("line 2")
    with pytest.raises(Problem, match=r"line 2, byte 23: 0xe9 is not valid utf-8"):
        read_table(path)


def test_plain_text_is_one_column_with_its_blank_lines(tmp_path):
    table = read_table(write(tmp_path, "a.txt", "Well, hello\n\n[music] {and} more\n"))
    assert table.rows == [("Well, hello",), ("",), ("[music] {and} more",)]


def test_tables_side_by_side(tmp_path):
    one = read_table(write(tmp_path, "a.txt", "spring\t3\nhome\t0\n"))
    other = read_table(write(tmp_path, "b.txt", "the season\na place\n"))
    assert beside(one, other).rows == [("spring", "3", "the season"), ("home", "0", "a place")]
    assert beside(one, other).names == ("1", "2", "3")
    with pytest.raises(Problem, match=r"a\.txt has 2 rows and .*c\.txt has 1"):
        beside(one, read_table(write(tmp_path, "c.txt", "the season")))


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"), max_size=6)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, rows):
    quoted = ['"' + '","'.join(cell.replace('"', '""') for cell in row) + '"' for row in rows]
    path = write(tmp_path, "a.csv", "\n".join(['"one","two"', *quoted]))
    assert read_table(path, header=True).rows == rows
    path = write(tmp_path, "a.jsonl", "\n".join(json.dumps(dict(zip("ab", row, strict=True))) for row in rows))
    assert read_table(path).rows == rows
