"""Documents come out of every kind of file alike, paragraph by paragraph."""

import gzip
import json
import lzma
import tracemalloc

import pytest

from regard.data.documents import read_documents
from regard.errors import Problem, UsageProblem

STORIES = [["A title", "One. Two.", "Three."], ["Another", "  indented äß日"], ["alone"]]
PACKED = [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")]


def write(folder, name: str, text: str | bytes):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def found(*paths, **options) -> list[list[str]]:
    return [list(document) for document in read_documents(paths, **options)]


def json_lines(**more) -> str:
    return "".join(json.dumps({"id": 1, "text": "\n\n".join(story), **more}) + "\n" for story in STORIES)


@pytest.mark.parametrize("pack, suffix", PACKED)
def test_a_blank_line_ends_a_document(tmp_path, pack, suffix):
    text = "\n\n" + "\n \t\n\n".join("\n".join(story) for story in STORIES) + "\n\n"
    assert found(write(tmp_path, f"a.txt{suffix}", pack(text.encode()))) == STORIES
    assert found(write(tmp_path, f"b.txt{suffix}", pack(text.replace("\n", "\r\n").encode()))) == STORIES


def test_a_file_without_blank_lines_is_a_document(tmp_path):
    paths = [write(tmp_path, f"{number}.txt", "\n".join(story)) for number, story in enumerate(STORIES)]
    assert found(*paths) == STORIES
    assert found(write(tmp_path, "blank.txt", " \n\n")) == []


@pytest.mark.parametrize("pack, suffix", PACKED)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "A.NDJSON"])
def test_a_record_is_a_document(tmp_path, name, pack, suffix):
    assert found(write(tmp_path, name + suffix, pack(json_lines().encode()))) == STORIES


def test_records_without_text_are_left_out(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": null}\n\n{"text": " \\n"}\n{"text": "here"}\n')
    assert found(path) == [["here"]]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [*("\r\n".join(story) for story in STORIES), None, *(f"text {number}" for number in range(200))]
    table = pyarrow.table({"id": list(range(204)), "Content": texts})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    assert found(tmp_path / "a.parquet") == STORIES + [[f"text {number}"] for number in range(200)]
    with pytest.raises(Problem, match=r"a\.parquet, row 1: 'id' holds no text but '0'"):
        found(tmp_path / "a.parquet", column="id")
    for name, content in (("b.parquet", b"PAR1 and no more"), ("c.parquet", b"")):
        with pytest.raises(Problem, match=f"{name} cannot be read as Parquet"):
            found(write(tmp_path, name, content))
    with pytest.raises(Problem, match=r"absent\.parquet cannot be read"):
        found(tmp_path / "absent.parquet")


def test_columns_are_guessed_or_named(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"title": "t", "Body": "b", "summary": "s"}\n')
    assert (found(path), found(path, column="summary")) == ([["b"]], [["s"]])
    with pytest.raises(Problem, match=r"line 1 has no column 'sumary'; did you mean 'summary'"):
        found(path, column="sumary")
    with pytest.raises(Problem, match=r"no column looks like text; there are: x, y"):
        found(write(tmp_path, "b.jsonl", '{"x": 1, "y": "b"}\n'))
    with pytest.raises(UsageProblem, match="plain text"):
        found(write(tmp_path, "c.txt", "a"), column="text")


@pytest.mark.parametrize(
    "line, reason",
    [
        ('{"text": "a"', "not valid JSON"),
        ("[", "not valid JSON"),
        ('["a"]', "no object"),
        ('{"body": "a"}', "no column 'text'"),
        ('{"text": ["a"]}', "holds no text but"),
        ('{"text": "\\ud800"}', "half of a character"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, reason):
    path = write(tmp_path, "a.jsonl", f'{{"text": "fine"}}\n\n{line}\n')
    with pytest.raises(Problem, match=rf"a\.jsonl, line 3.* {reason}"):
        found(path)


def test_text_in_another_encoding(tmp_path):
    path = write(tmp_path, "a.txt", "größer".encode("latin-1"))
    assert found(path, encoding="latin-1") == [["größer"]]
    with pytest.raises(Problem, match=r"a\.txt, line 1, byte 3"):
        found(path)


def test_a_document_of_any_length_takes_little_memory(tmp_path):
    path = write(tmp_path, "a.txt", "a line of a long text\n" * 100_000)
    tracemalloc.start()
    lengths = [sum(1 for _ in document) for document in read_documents([path])]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lengths == [100_000] and peak < 1_000_000
