import numpy as np
import pytest

from regard.data import parallel
from regard.data.parallel import Parallel, Ragged, encode, read_parallel
from regard.errors import Problem
from regard.text.tokenizer import Tokenizer


def files(folder, source: str, target: str):
    paths = folder / "train.de", folder / "train.en"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_bytes(text.encode())
    return paths


def test_pairs(tmp_path):
    pairs = read_parallel(*files(tmp_path, "ein\u2028s\n\nzwei\n", "one\n\ntwo"))
    assert len(pairs) == 3 and pairs[0] == ("ein\u2028s", "one") and list(pairs)[2] == ("zwei", "two")


@pytest.mark.parametrize(
    "source, target, clue",
    [
        ("a\nb\u2028c\nd\n", "A\nB\nC\nD\n", r"train\.de, line 2 holds U\+2028"),
        ("a\n\nb\nc\n", "A\nB\nC\n", "line 2, which is blank"),
        ("a\nb\nc\n", "A\nB\n", r"left out of .*train\.en"),
    ],
)
def test_unequal_files(tmp_path, source, target, clue):
    counts = source.count("\n"), target.count("\n")
    with pytest.raises(Problem, match=rf"train\.de has {counts[0]} lines and .*train\.en has {counts[1]}: .*{clue}"):
        read_parallel(*files(tmp_path, source, target))


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_files_without_text(tmp_path, text):
    with pytest.raises(Problem, match=r"train\.en has no text"):
        read_parallel(*files(tmp_path, "a\n", text))


def test_encoding_leaves_out_and_counts(monkeypatch):
    pairs = Parallel(["a b", "", "a", "a b c d", "c", " "], ["b", "x", "  ", "a", "a b c d", ""])
    words = Tokenizer.train("words", ["a b c d"])
    for together in (1, 4, 100):
        monkeypatch.setattr(parallel, "TOGETHER", together)
        encoded = encode(pairs, words, words, longest=3)
        assert (len(encoded), encoded.empty, encoded.overlong, encoded.dropped) == (1, 3, 2, 5)
        assert encoded.source[0].tolist() == [*words.encode("a b"), words.end]
        assert encoded.target[0].tolist() == words.encode("b")
        assert encoded.source.ids.dtype == np.int32 and encoded.source.offsets.dtype == np.int64
    assert len(encode(pairs, words, words, longest=4)) == 3


def test_nothing_left(monkeypatch):
    words = Tokenizer.train("words", ["a b"])
    with pytest.raises(Problem, match="1 have an empty side, 1 are longer than 1 "):
        encode(Parallel(["a b", ""], ["a", "a"]), words, words, longest=1)


def test_ragged_rows_are_taken_in_order():
    rows = [[1, 2, 3], [], [4], [5, 6]]
    ragged = Ragged.join([Ragged.of(rows[:2]), Ragged.of([]), Ragged.of(rows[2:])])
    chosen = ragged.take(np.array([3, 1, 0, 3]))
    assert [row.tolist() for row in ragged] == rows
    assert [row.tolist() for row in chosen] == [[5, 6], [], [1, 2, 3], [5, 6]]
