"""Files of word vectors: every form is read back as it was written, by gensim too; and faults are told."""

from __future__ import annotations

import gzip
import lzma
import struct

import numpy as np
import pytest

from regard.errors import Problem
from regard.text.vector_files import WIDEST, read_vectors, write_vectors

FORMS = ["text", "binary", "glove"]
WORDS = ["the", "naïve", "東京", "'tis", "3", "💡"]
MATRIX = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
MATRIX[0] = [0.1, -1e-30, 3e38, 0, 1 / 3]


@pytest.fixture
def written(tmp_path):
    """A file with these bytes."""

    def write(content: bytes, name: str = "vectors"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def binary(*entries: tuple[bytes, list[float]], header: bytes, end: bytes = b"") -> bytes:
    return header + b"".join(word + b" " + struct.pack(f"<{len(row)}f", *row) + end for word, row in entries)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["vectors", "vectors.gz", "vectors.xz"])
def test_what_is_written_is_read_whatever_it_is_called(tmp_path, form, name):
    write_vectors(tmp_path / name, WORDS, MATRIX, form)
    moved = tmp_path / "no name says what it is"
    (tmp_path / name).rename(moved)
    words, matrix = read_vectors(moved)
    assert words == WORDS and matrix.dtype == np.float32 and np.array_equal(matrix, MATRIX)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_vectors_make_the_same_file(tmp_path, form):
    for name in ("a.gz", "b.gz"):
        write_vectors(tmp_path / name, WORDS, MATRIX, form)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_many_vectors_are_read_as_few_are(tmp_path):
    """More than are parsed, or unpacked, at once."""
    words, matrix = [f"w{n}" for n in range(20_000)], np.random.default_rng(1).normal(size=(20_000, 150))
    for form in ("binary", "glove"):
        write_vectors(tmp_path / form, words, matrix[:, : 150 if form == "binary" else 3].astype(np.float32), form)
        found, numbers = read_vectors(tmp_path / form)
        assert found == words and np.array_equal(numbers, matrix[:, : numbers.shape[1]].astype(np.float32))


@pytest.mark.parametrize("binary_form", [False, True])
def test_gensim_and_regard_read_each_other(tmp_path, binary_form):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed: make oracles")
    path, form = tmp_path / "vectors", "binary" if binary_form else "text"
    write_vectors(path, WORDS, MATRIX, form)
    theirs = models.KeyedVectors.load_word2vec_format(str(path), binary=binary_form)
    assert theirs.index_to_key == WORDS and np.array_equal(theirs.vectors, MATRIX)
    theirs.save_word2vec_format(str(path), binary=binary_form)
    words, matrix = read_vectors(path)
    assert words == WORDS and np.array_equal(matrix, MATRIX)
    write_vectors(path, WORDS, MATRIX, "glove")
    theirs = models.KeyedVectors.load_word2vec_format(str(path), no_header=True)
    assert theirs.index_to_key == WORDS and np.array_equal(theirs.vectors, MATRIX)


def test_what_programs_write_beside_the_numbers_does_no_harm(written):
    """A byte order mark, lines that end as on Windows, spaces before their end, tabs, an empty line at the end."""
    texts = [
        b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n", b"2 2\r\na 1 2\r\nb 3 4\r\n", b"a 1 2 \nb 3 4 \n", b"a\t1\t2\nb\t3\t4",
        b"a 1 2\nb 3 4\n\n", b"a  1  2\nb 3 4", b"2 2\na\t1\t2\nb\t3\t4\n", b"2 2\na 1e0 +2\nb 3.0 4.\n",
    ]  # fmt: skip
    for text in texts:
        words, matrix = read_vectors(written(text))
        assert words == ["a", "b"] and matrix.tolist() == [[1, 2], [3, 4]], text


def test_binary_files_with_and_without_ends_of_lines(written):
    entries = [(b"a", [0.1, 0.2]), (b"b", [0.3, 2.5])]  # 0.1 and its like have no byte that is a control character
    for end in (b"", b"\n"):
        words, matrix = read_vectors(written(binary(*entries, header=b"2 2\n", end=end)))
        assert words == ["a", "b"] and np.array_equal(matrix, np.float32([[0.1, 0.2], [0.3, 2.5]]))


def test_numbers_that_look_like_the_end_of_a_line_are_numbers(written):
    number = struct.unpack("<f", b"\n\n\x0b?")[0]
    content = binary((b"a", [number] * 30), (b"b", [number] * 30), header=b"2 30\n")
    words, matrix = read_vectors(written(content))
    assert words == ["a", "b"] and (matrix == np.float32(number)).all()


GOOD = b"a 1 2\nb 3 4\n"
TWO = [(b"a", [1.5, 2.5]), (b"b", [3.5, 4.5])]
BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "begins with an empty line"),
    "only a header": (b"2 2\n", "header says 2 words and there are 0"),
    "a header of nothing": (b"0 2\n", "holds no vectors"),
    "no dimensions": (b"2 0\n", "vectors have 1 to"),
    "too many dimensions": (b"2 %d\n" % (WIDEST + 1) + GOOD, "'2 65537'; vectors have 1 to 65,536 dimensions"),
    "a number that is endless": (b"9" * 5000 + b" 2\n" + GOOD, "vectors have 1 to"),
    "more words promised": (b"3 2\n" + GOOD, "header says 3 words and there are 2"),
    "very many words promised": (b"999999999999 2\n" + GOOD, "header says 999,999,999,999 words and there are 2"),
    "fewer words promised": (b"1 2\n" + GOOD, "header says 1 words and there are 2"),
    "other dimensions promised": (b"2 3\n" + GOOD, "line 2: numbers: 2, where 3 should be"),
    "too few numbers": (b"a 1 2\nb 3\n", "line 2: numbers: 1, where 2 should be"),
    "too many numbers": (b"a 1 2\nb 3 4 5\n", "line 2: numbers: 3, where 2 should be"),
    "no word": (b"a 1 2\n 3 4\n", "line 2: there is no word before the numbers"),
    "a word alone": (b"a 1 2\nb\n", "line 2: numbers: 0, where 2 should be"),
    "spaces in a word": (b"a 1 2\nNew York 3 4\n", "line 2: the word 'New York' has spaces in it"),
    "no number": (b"a 1 2\nb 3 four\n", "line 2: 'four' is no number"),
    "not a number": (b"a 1 2\nb nan 4\n", "line 2: the vector of 'b' has a number that is not finite"),
    "an infinity": (b"a 1 2\nb 3 -inf\n", "line 2: the vector of 'b' has a number that is not finite"),
    "a number too large": (b"a 1 2\nb 3 1e39\n", "line 2: the vector of 'b' has a number that is not finite"),
    "a word twice": (b"2 2\na 1 2\na 3 4\n", "line 3: the word 'a' has a vector already, in line 2"),
    "wrong bytes": (b"a 1 2\ncaf\xe9 3 4\n", r"line 2: the word b'caf\\xe9' is not valid UTF-8 \(byte 0xe9\)"),
    "wrong bytes at once": (b"2 2\ncaf\xe9 1 2\nb 3 4\n", r"line 2: the word b'caf\\xe9' is not valid UTF-8"),
    "UTF-16": ("a 1 2\n".encode("utf-16"), "is UTF-16"),
    "prose": (b"It was the best of times.\n", "line 1: 'was' is no number after the first word"),
    "one word": (b"hello\n", "line 1: there are no numbers after the first word"),
    "an endless line": (b"a " + b"1 " * 2**21 + b"\nb 1\n", "has a line of more than"),
    "a binary cut in a number": (binary(*TWO, header=b"2 2\n")[:-1], "ends within vector 2 of the 2"),
    "a binary cut in a word": (binary(*TWO, header=b"2 2\n")[:-9], "ends within vector 2 of the 2"),
    "a binary cut between words": (binary(TWO[0], header=b"2 2\n"), "ends within vector 2 of the 2"),
    "a binary that goes on": (binary(*TWO, (b"c", [1, 2]), header=b"2 2\n"), "goes on after the 2 words"),
    "a binary of many promises": (binary(*TWO, header=b"888888888888 2\n"), "ends within vector 3 of the 888,888"),
    "a binary word twice": (binary(TWO[0], TWO[0], header=b"2 2\n"), "vector 2: the word 'a' has a vector already"),
    "a binary that is not a number": (binary((b"a", [1.5, np.nan]), header=b"1 2\n"), "vector 1: the vector of 'a'"),
    "a binary of wrong bytes": (binary((b"\xe9", [1.5, 2.5]), header=b"1 2\n"), "vector 1: the word .* valid UTF-8"),
    "a binary without a word": (binary((b"", [1.5, 2.5]), header=b"1 2\n"), "vector 1: there is no word"),
    "a binary without spaces": (b"2 2\n" + b"\x00" * 10_000, "no word is where vector 1 should begin"),
    "half a gzip": (gzip.compress(GOOD * 99)[:-9], "is damaged or incomplete"),
    "half an xz": (lzma.compress(GOOD * 99)[:-9], "is damaged or incomplete"),
    "no gzip": (b"\x1f\x8b" + GOOD, "is damaged or incomplete"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_told(written, content, told):
    with pytest.raises(Problem, match=told) as problem:
        read_vectors(written(content, "bad.vec"))
    assert "bad.vec" in str(problem.value) and len(str(problem.value)) < 400


def test_a_file_that_cannot_be_opened(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(Problem, match=r"cannot be read \(.*\). Check the path"):
            read_vectors(path)


def test_a_few_bad_vectors_can_be_left_out(written):
    text = b"a 1 2\nNew York 3 4\nb 5 6\na 7 8\nc 9\nd nan 1\ncaf\xe9 1 1\n\ne 1 2\n"
    with pytest.warns(UserWarning, match="5 bad vectors were left out; the first: .*line 2: the word 'New York'"):
        words, matrix = read_vectors(written(text), skip_bad=5)
    assert words == ["a", "b", "e"] and matrix.tolist() == [[1, 2], [5, 6], [1, 2]]
    with pytest.raises(Problem, match=r"line 7: .* Beside it, 4 were left out already"):
        read_vectors(written(text), skip_bad=4)
    content = binary(TWO[0], TWO[0], TWO[1], header=b"3 2\n")
    with pytest.warns(UserWarning, match="1 bad vectors were left out"):
        assert read_vectors(written(content), skip_bad=1)[0] == ["a", "b"]


@pytest.mark.parametrize("word", ["", "New York", "a\nb", "a\tb"])
@pytest.mark.parametrize("form", FORMS)
def test_what_nobody_could_read_is_not_written(tmp_path, word, form):
    with pytest.raises(Problem, match="cannot be written"):
        write_vectors(tmp_path / "vectors", ["a", word], MATRIX[:2], form)
    assert not any(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(Problem, match="could not be written"):
        write_vectors(tmp_path / "file" / "vectors", WORDS, MATRIX, "text")
    assert (tmp_path / "file").read_text() == "text"
