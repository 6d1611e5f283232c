"""Words and tags from tables: CSV with a column of sentences, JSON lines and Parquet with lists."""

import json

import pytest

from regard.data.tagged import read_tagged, to_iob2
from regard.errors import Problem, UsageProblem

WORDS = [["Thousands", "of", "London", '"', "marched"], ["Iraq", ",", "New", "York"]]
POS = [["NNS", "IN", "NNP", "``", "VBD"], ["NNP", ",", "NNP", "NNP"]]
TAGS = [["O", "O", "B-geo", "O", "O"], ["B-geo", "O", "B-geo", "I-geo"]]


def write(folder, name: str, text: str):
    path = folder / name
    path.write_text(text)
    return path


def kaggle(separator: str = ",", everywhere: bool = False, header: str = "Sentence #,Word,POS,Tag") -> str:
    lines = [header.replace(",", separator)]
    for number, sentence in enumerate(zip(WORDS, POS, TAGS, strict=True), 1):
        for place, cells in enumerate(zip(*sentence, strict=True)):
            named = f"Sentence: {number}" if everywhere or not place else ""
            quoted = [f'"{cell}"' if cell == "," else '""""' if cell == '"' else cell for cell in cells]
            lines.append(separator.join([named, *quoted]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("name, separator", [("ner.csv", ","), ("ner.tsv", "\t"), ("ner.txt", "\t"), ("ner.csv", ";")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_row_for_each_word_and_a_column_of_sentences(tmp_path, name, separator, everywhere):
    path = write(tmp_path, name, kaggle(separator, everywhere))
    found = read_tagged(path)
    assert (found.words, found.tags, found.scheme) == (WORDS, TAGS, "IOB2")
    assert found.place(1) == f"{path}, sentence at line 7"
    assert "word: column 'Word', tag: column 'Tag', sentence: column 'Sentence #'" in found.lines()
    assert read_tagged(path, "POS").tags == read_tagged(path, 3).tags == POS


@pytest.mark.parametrize("name", ["tags", "ner_tags", "labels"])
def test_json_lines_with_lists(tmp_path, name):
    rows = [json.dumps({"id": n, "tokens": WORDS[n], name: TAGS[n]}) for n in range(2)]
    for file in ("a.jsonl", "a.txt"):
        found = read_tagged(write(tmp_path, file, "\n".join([*rows, json.dumps({"id": 2, "tokens": [], name: []})])))
        assert (found.words, found.tags, list(found.starts)) == (WORDS, TAGS, [1, 2])
    as_list = write(tmp_path, "b.json", f"[{', '.join(rows)}]")
    assert to_iob2(read_tagged(as_list)).tags == TAGS


def test_parquet_with_lists(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"tokens": WORDS, "ner_tags": TAGS}), tmp_path / "a.parquet")
    assert read_tagged(tmp_path / "a.parquet").tags == TAGS


def test_tags_that_are_numbers_are_taken_as_names_and_said(tmp_path):
    text = json.dumps({"tokens": ["EU", "rejects"], "ner_tags": [3, 0]})
    found = read_tagged(write(tmp_path, "a.jsonl", text))
    assert found.tags == [["3", "0"]] and found.scheme == "none"
    assert any("tags are numbers and taken as names as they are" in line for line in found.lines())


def test_sentences_between_blank_lines_or_rows_of_a_table(tmp_path):
    for between in ("\n", ",\n"):
        found = read_tagged(write(tmp_path, "a.csv", f"word,tag\nEU,B-ORG\nis,O\n{between}Peter,B-PER\n"))
        assert found.words == [["EU", "is"], ["Peter"]]


def test_a_header_above_conll_is_no_word(tmp_path):
    found = read_tagged(write(tmp_path, "a.tsv", "Token\tPOS\tNER\nEU\tNNP\tB-ORG\n\nis\tVBZ\tO\n"))
    assert found.words == [["EU"], ["is"]] and found.place(0).endswith("line 2")


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("a.csv", "id,phrase,class\n1,so,2\n", "no column looks like the word; there are: id, phrase, class"),
        ("a.csv", kaggle(header="Sentence #,Word,POS,Ending"), None),
        ("a.csv", "Sentence #,Word,Tag\nSentence: 1,,O\n", r"a\.csv, line 2: the word, in column 'Word', is blank"),
        ("a.csv", "word,tag\nso,O\nit,X\n", "no column says which sentence a word is in; there are: word, tag"),
        ("a.txt", "so O\nit X\n" * 300, "would be one sentence of 600 words with 2 different tags"),
        ("a.txt", "".join(f"so {n}\n\n" for n in range(700)), "would have 700 different tags for 700 words"),
        ("a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', "line 1 has 2 words and 1 tags"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": "a", "tags": ["O"]}', "line 2: 'a'"),
        ("a.jsonl", '{"tokens": ["a", " "], "tags": ["O", "O"]}', "no list of words, each a text that is not blank"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"], "tags": [1.5]}', "is no list of tags"),
        ("a.jsonl", '{"text": "so it is", "label": "fine"}\n' * 6, "no column says which sentence"),
    ],
)
def test_anything_else_is_refused(tmp_path, name, text, says):
    path = write(tmp_path, name, text)
    if says is None:  # the part of speech is a tag too, where no other column is called so
        assert read_tagged(path).tags == POS
        return
    with pytest.raises(Problem, match=says):
        read_tagged(path)


def test_a_column_that_is_not_there(tmp_path):
    with pytest.raises(UsageProblem, match="has no column 'Tagg'; did you mean 'Tag'"):
        read_tagged(write(tmp_path, "a.csv", kaggle()), "Tagg")
