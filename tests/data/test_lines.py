import gzip
import io
import lzma
import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from regard.data import lines as lines_module
from regard.data.lines import fingerprint, read_lines
from regard.errors import Problem, UsageProblem


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack, name", [(bytes, "a.txt"), (gzip.compress, "a.gz"), (lzma.compress, "a.xz")])
def test_lines_end_at_newlines_only(tmp_path, pack, name):
    inside = "a\u2028b\x85c\vd\fe\rf\0g\x1ch"
    path = written(tmp_path / name, pack(f"{inside}\r\n\n  äß日\r\r\nlast".encode()))
    assert list(read_lines(path)) == [inside, "", "  äß日\r", "last"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"])
def test_encodings_and_byte_order_marks(tmp_path, encoding):
    text = ["eins", "zwölf", "\ufeffdrei" if encoding.startswith("utf") else "drei"]
    path = written(tmp_path / "a.txt", "\n".join(text).encode(encoding))
    assert list(read_lines(path, "utf-8" if encoding == "utf-8-sig" else encoding)) == text


def test_standard_input_is_read_and_left_open(monkeypatch):
    stream = io.BytesIO("ä\nb".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert list(read_lines("-")) == ["ä", "b"]
    assert not stream.closed


def test_a_filter_gets_lines_as_they_come(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as out:
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = read_lines("-")
        for word in ("one", "two"):
            out.write(f"{word}\n".encode())
            assert next(lines) == word
        lines.close()


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    path = written(tmp_path / "a.txt", "gut\näh ".encode() + b"\xe9t\xe9\n")
    lines = read_lines(path)
    assert next(lines) == "gut"
    with pytest.raises(Problem, match=r"a\.txt, line 2, byte 5: 0xe9 is not valid utf-8.*--encoding"):
        next(lines)
    assert list(read_lines(path, "latin-1"))[1].endswith("été")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_taken_for_utf8(tmp_path, encoding):
    path = written(tmp_path / "a.txt", "ünf\n".encode(encoding))
    with pytest.raises(Problem, match=r"line 1, byte \d+: .*utf-16"):
        list(read_lines(path))


@pytest.mark.parametrize("content", ["ab\ncd".encode("utf-16")[:-1], b"\xff\xfea\0\n\0\x00\xd8b\0"])
def test_broken_utf16(tmp_path, content):
    with pytest.raises(Problem, match=r"a\.txt.*--encoding"):
        list(read_lines(written(tmp_path / "a.txt", content), "utf-16"))


def test_unknown_encodings(tmp_path):
    for name in ("utf-9", "base64"):
        with pytest.raises(UsageProblem, match=name):
            list(read_lines(written(tmp_path / "a.txt", b"a"), name))


@pytest.mark.parametrize("pack, name", [(gzip.compress, "a.gz"), (lzma.compress, "a.xz")])
def test_damaged_archives(tmp_path, pack, name):
    whole = pack(os.urandom(9_000).hex().encode())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[:-5], whole[: len(whole) // 2], bytes(flipped), b"plain text\n" * 9):
        with pytest.raises(Problem, match=rf"{name} is damaged"):
            list(read_lines(written(tmp_path / name, content)))


def test_no_such_file(tmp_path):
    for path in (tmp_path, tmp_path / "absent.txt", tmp_path / "absent.gz"):
        with pytest.raises(Problem, match=path.name):
            list(read_lines(path))
        with pytest.raises(Problem, match=path.name):
            fingerprint([path])


def test_many_lines_need_little_memory(tmp_path):
    path = written(tmp_path / "a.gz", gzip.compress(b"a line of text\n" * 200_000, 1))
    tracemalloc.start()
    count = sum(1 for _ in read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200_000 and peak < 2_000_000


def test_a_line_may_be_long_but_not_endless(tmp_path, monkeypatch):
    path = written(tmp_path / "a.txt", b"b\n" + b"x" * 5_000_000)
    assert [len(line) for line in read_lines(path)] == [1, 5_000_000]
    monkeypatch.setattr(lines_module, "LONGEST", 1_000)
    with pytest.raises(Problem, match=r"line 2 is longer than 1,000"):
        list(read_lines(path))


def test_fingerprints_follow_content_not_names(tmp_path):
    a, b, c = (written(tmp_path / name, text) for name, text in (("a", b"x"), ("b", b"x"), ("c", b"xy")))
    assert fingerprint([a]) == fingerprint([b]) != fingerprint([c])
    assert len({fingerprint(some) for some in ([a, c], [c, a], [a], [a, b])}) == 4


def test_lines_that_end_in_cr_alone(tmp_path):
    path = written(tmp_path / "a.txt", "eins\rzwölf\r\rdrei\r".encode())
    with pytest.warns(UserWarning, match="4 lines end in CR alone"):
        assert list(read_lines(path)) == ["eins", "zwölf", "", "drei"]
    assert list(read_lines(written(tmp_path / "b.txt", b"one\rline\n"))) == ["one\rline"]
    assert list(read_lines(written(tmp_path / "c.txt", b"one\r"))) == ["one"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_what_a_spreadsheet_saves_as_unicode_is_named(tmp_path, encoding):
    path = written(tmp_path / "a.tsv", "text\tlabel\nfine\t1\n".encode(encoding))
    with pytest.raises(Problem, match=f"this is {encoding.upper()}.*Give --encoding {encoding}"):
        list(read_lines(path))
    assert next(read_lines(path, encoding)) == "text\tlabel"
