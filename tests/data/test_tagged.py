"""Sentences of words and tags, in the files and schemes that are about."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tagged import entities, read_tagged, scheme_of, to_iob2
from regard.errors import Problem, UsageProblem


def write(folder, name: str, text: str):
    path = folder / name
    path.write_text(text)
    return path


CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nPeter NNP I-NP I-PER\nBlackburn NNP I-NP I-PER"
)
CONLLU = (
    "# sent_id = 1\n# text = don't go\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
    "2.1\tyou\tyou\tPRON\t_\t_\t_\t_\t_\t_\n3\tgo on\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
)


def test_columns_of_conll(tmp_path):
    path = write(tmp_path, "a.txt", CONLL)
    found = read_tagged(path)
    assert found.words == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert found.tags == [["I-ORG", "O"], ["I-PER", "I-PER"]]
    assert (found.scheme, found.orphans, len(found)) == ("IOB1", 0, 2)
    assert found.place(1) == f"{path}, sentence at line 7"
    assert read_tagged(path, 2).tags == [["NNP", "VBZ"], ["NNP", "NNP"]]
    assert read_tagged(path, 2).scheme == "none"
    assert read_tagged(path, 1, word=4).words[0] == ["I-ORG", "O"]


def test_columns_between_tabs_may_hold_spaces(tmp_path):
    found = read_tagged(write(tmp_path, "a.tsv", "New York\tB-LOC\nis\tO\n"))
    assert found.words[0] == ["New York", "is"]


def test_a_space_that_is_no_separator(tmp_path):
    assert read_tagged(write(tmp_path, "a.txt", "10\u00a0000  CD\nx CD \n")).words == [["10\u00a0000", "x"]]


def test_conllu(tmp_path):
    path = write(tmp_path, "a.conllu", CONLLU)
    found = read_tagged(path)
    assert found.words == [["do", "n't", "go on"]] and found.tags == [["AUX", "PART", "VERB"]]
    assert found.scheme == "none" and to_iob2(found) is found
    assert read_tagged(path, "xpos").tags == read_tagged(path, 5).tags == [["VB", "RB", "VB"]]
    with pytest.raises(UsageProblem, match="has no column 'upso'; did you mean 'upos'"):
        read_tagged(path, "upso")


@pytest.mark.parametrize(
    "text, says",
    [
        ("a O\nb I-X extra\n", "line 2 has 3 columns where 2 are expected"),
        ("a O\nb\n", "line 2 has 1 columns where 2"),
        ("a\nb\n", "line 1 has 1 columns where 2"),
        ("a\tO\nb\t \n", "line 2: column 2 is blank"),
        ("", "has no words"),
        ("-DOCSTART- -X- O\n\n", "has no words"),
        (CONLLU.replace("\troot\t_\t_", "\troot"), "line 7 has 8 columns where 10"),
        ("a O\nb B-X\nc M-X\n", r"a\.txt: M-X fit no scheme"),
        ("a O\nb I-X\nc E-X\n", "E-X, I-X fit no scheme"),
    ],
)
def test_faults_are_named(tmp_path, text, says):
    with pytest.raises(Problem, match=says):
        read_tagged(write(tmp_path, "a.txt", text))


def test_a_column_that_is_not_there(tmp_path):
    for column in (0, 5, "upos"):
        with pytest.raises(UsageProblem, match=rf"a\.txt has no column {column!r}"):
            read_tagged(write(tmp_path, "a.txt", CONLL), column)


SPELLINGS = {  # the same entities: one of two words, one of one, and another that follows at once
    "IOB1": "I-PER I-PER O I-LOC B-LOC I-ORG",
    "IOB2": "B-PER I-PER O B-LOC B-LOC B-ORG",
    "BIOES": "B-PER E-PER O S-LOC S-LOC S-ORG",
}


@pytest.mark.parametrize("scheme", SPELLINGS)
def test_schemes_are_recognised_and_converted(tmp_path, scheme):
    tags = SPELLINGS[scheme].split()
    found = read_tagged(write(tmp_path, "a.txt", "".join(f"word {tag}\n" for tag in tags)))
    assert (found.scheme, found.orphans) == (scheme, 0)
    assert entities(tags) == [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 5), ("ORG", 5, 6)]
    assert to_iob2(found).tags == [SPELLINGS["IOB2"].split()]
    assert to_iob2(found).scheme == "IOB2"


def test_bilou_and_tags_without_kinds():
    bilou, bare = ["B-X", "L-X", "U-X", "O"], ["B", "I", "O", "B"]
    assert scheme_of([bilou]) == ("BIOES", 0) and entities(bilou) == [("X", 0, 2), ("X", 2, 3)]
    assert scheme_of([bare]) == ("IOB2", 0) and entities(bare) == [("", 0, 2), ("", 3, 4)]


@pytest.mark.parametrize(
    "tags, scheme, orphans, kept, repaired",
    [
        ("B-X O I-X I-X", "IOB2", 1, "B-X O I-X I-X", "B-X O B-X I-X"),
        ("B-X I-Y O B-Y", "IOB2", 1, "B-X I-Y O B-Y", "B-X B-Y O B-Y"),
        ("S-X I-X E-X O E-Y", "BIOES", 2, "B-X B-X I-X O I-Y", "B-X B-X I-X O B-Y"),
    ],
)
def test_beginnings_are_repaired_only_on_request(tmp_path, tags, scheme, orphans, kept, repaired):
    found = read_tagged(write(tmp_path, "a.txt", "".join(f"word {tag}\n" for tag in tags.split())))
    assert (found.scheme, found.orphans) == (scheme, orphans)
    left, mended = to_iob2(found), to_iob2(found, repair=True)
    assert (left.tags, left.orphans) == ([kept.split()], orphans)
    assert (mended.tags, mended.orphans) == ([repaired.split()], 0)


tags_of_a_sentence = st.lists(
    st.sampled_from(["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in "XY")]), max_size=8
)


@given(tags_of_a_sentence)
def test_any_tags_keep_their_entities_when_respelled(tmp_path_factory, tags):
    if not tags or not set("BS") & {tag[0] for tag in tags}:
        return
    path = write(tmp_path_factory.getbasetemp(), "any.txt", "".join(f"word {tag}\n" for tag in tags))
    found = read_tagged(path)
    for repair in (False, True):
        (converted,) = to_iob2(found, repair=repair).tags
        assert entities(converted) == entities(tags)
        assert {tag[0] for tag in converted} <= set("BIO")


@pytest.fixture
def data() -> Path:
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    return Path(os.environ["REGARD_DATA"])


def test_real_entities(data):
    found = read_tagged(data / "conll2003/eng.testb.xz")
    assert (len(found), sum(map(len, found.words)), found.scheme) == (3453, 46435, "IOB1")
    converted = to_iob2(found)
    kinds = Counter(kind for tags in converted.tags for kind, _, _ in entities(tags))
    assert kinds == {"LOC": 1668, "ORG": 1661, "PER": 1617, "MISC": 702}
    assert scheme_of(converted.tags) == ("IOB2", 0)


def test_real_parts_of_speech(data):
    found = read_tagged(data / "ud-english-ewt/en_ewt-ud-test.conllu.xz")
    assert (len(found), sum(map(len, found.words)), found.scheme) == (2077, 25094, "none")
    assert len({tag for tags in found.tags for tag in tags}) == 17
