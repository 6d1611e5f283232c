"""Compressed files are read as streams, and one that unfolds to far more than it holds is refused early."""

import gzip
import io
import lzma
import random
import tarfile
import tracemalloc
from collections import deque

import pytest

from regard.data.documents import read_documents
from regard.data.galleries import read_gallery
from regard.data.lines import read_lines
from regard.data.questions import read_questions
from regard.data.recordings import read_recordings
from regard.data.table import read_table
from regard.data.tagged import read_tagged
from regard.errors import Problem
from regard.text import compressed
from regard.text.vectors import Vectors


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """Files of some kilobytes that unfold to 64 MiB of newlines."""
    folder = tmp_path_factory.mktemp("bombs")
    newlines = b"\n" * 2**26
    (folder / "a.txt.gz").write_bytes(gzip.compress(newlines, 1))
    for name in ("a.txt", "a.tsv", "a.csv", "a.jsonl", "a.json", "a.parquet"):
        (folder / f"{name}.xz").write_bytes(lzma.compress(newlines, preset=0))
    return folder


@pytest.mark.parametrize(
    "name, read",
    [
        ("a.txt", lambda path: deque(read_lines(path), 0)),
        ("a.txt", lambda path: deque(read_documents([path]), 0)),
        ("a.txt", read_tagged),
        ("a.txt", Vectors.read),
        ("a.tsv", read_table),
        ("a.csv", read_table),
        ("a.jsonl", read_table),
        ("a.json", read_questions),
        ("a.parquet", read_table),
    ],
)
def test_a_decompression_bomb_is_refused_by_every_reader(bombs, name, read, monkeypatch):
    monkeypatch.setattr(compressed, "FREE_BYTES", 2**16)  # or millions of lines are counted first
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 2**9)
    with pytest.raises(Problem, match=rf"{name}\.xz.*(unfolds to more than|is empty)"):
        read(bombs / f"{name}.xz")


def test_a_bomb_is_refused_after_little_of_it(bombs):
    for suffix in (".gz", ".xz"):
        path = bombs / f"a.txt{suffix}"
        trusted = pytest.raises(Problem, match="If you trust it, decompress it yourself")
        with trusted, compressed.open_compressed(path) as stream:
            size = 0
            while some := stream.read(8192):
                size += len(some)
        assert 2**22 - 8192 <= size < 2**23  # of 2**26


@pytest.mark.parametrize("read", [read_gallery, read_recordings])
def test_an_archive_that_is_a_bomb(tmp_path, read):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a/b.wav" if read is read_recordings else "a/b.png")
        entry.size = 2**24
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    path = tmp_path / "a.tar.gz"
    path.write_bytes(packed.getvalue())
    with pytest.raises(Problem, match=r"a\.tar\.gz unfolds to more than"):
        read(path)


def test_parquet_that_repeats_one_value(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    for name, values in (("null", [None] * 2**23), ("long", ["x" * 2**14] * 2**14)):
        parquet.write_table(pyarrow.table({"text": pyarrow.array(values, "string")}), tmp_path / f"{name}.parquet")
        for read in (read_table, lambda path: deque(read_documents([path]), 0)):
            with pytest.raises(Problem, match=rf"{name}\.parquet unfolds to more than"):
                read(tmp_path / f"{name}.parquet")


@pytest.mark.parametrize("pack, suffix", [(gzip.compress, ".gz"), (lambda text: lzma.compress(text, preset=0), ".xz")])
def test_what_compresses_a_hundredfold_is_read_in_a_stream(tmp_path, pack, suffix):
    draw = random.Random(0)
    lines = [f"{draw.randbytes(10).hex()} {'the same words again and again ' * 50}" for _ in range(6_000)]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack("\n".join(lines).encode()))
    assert 60 < 6_000 * 1571 / path.stat().st_size < 120
    tracemalloc.start()
    count = sum(line == other for line, other in zip(read_lines(path), lines, strict=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == len(lines) and peak < 4_000_000
