"""A corpus is the text, sentence by sentence, whatever its shards; and it is whole or not there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.checkpoints.files import read_checked_json, write_checked_json
from regard.data import corpus as corpus_module
from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.sentences import sentences
from regard.errors import Problem
from regard.text.tokenizer import ENCODER, Tokenizer

STORIES = [
    ["The cat", "The cat sat on the mat. It was a good mat! Was it?", "The dog came. The dog sat too."],
    ["A dog", "“The dog sat,” said the cat. \u200b He ran."],
    ["\u200b", "\x00"],  # which have no pieces
    ["One. Two. Three."],
]
TEXT = "\n\n".join("\n".join(story) for story in STORIES)


def tokenizer(kind: str = "wordpiece", text: str = TEXT, vocab: int = 120, **options) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(kind, text.split("\n") * 2, vocab, special=ENCODER, **options)


def write(folder: Path, text: str = TEXT, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def rows(corpus: Corpus) -> list[list[int]]:
    """The sentences of a corpus."""
    return [corpus.ids(first, after).tolist() for first, after in pairwise(corpus.sentences.tolist())]


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe", "unigram", "words", "characters"])
def test_it_is_the_text_sentence_by_sentence(tmp_path, kind):
    vocabulary = tokenizer(kind, vocab=400)
    corpus = Corpus.make([write(tmp_path)], vocabulary, tmp_path / "corpus")
    expected = [
        [
            row
            for number, text in enumerate(story)
            for part in sentences(" " * bool(number) + text)
            if (row := vocabulary.encode(part))
        ]
        for story in STORIES
    ]
    expected = [story for story in expected if story]
    assert rows(corpus) == [row for story in expected for row in story]
    assert corpus.documents.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    facts = corpus.facts
    assert (facts.documents, facts.sentences, facts.tokens) == (len(expected), len(rows(corpus)), corpus.sentences[-1])


def test_text_of_bytes_comes_back(tmp_path):
    vocabulary = tokenizer("byte-bpe", vocab=400)
    corpus = Corpus.make([write(tmp_path)], vocabulary, tmp_path / "corpus")
    assert vocabulary.decode(corpus.ids(0, corpus.facts.tokens).tolist()) == "".join(
        " ".join(story) for story in STORIES
    )


@pytest.mark.parametrize("shard", [1, 2, 7, 64])
@pytest.mark.parametrize("together", [1, 30, 10_000])
def test_shards_do_not_matter(tmp_path, monkeypatch, shard, together):
    path, vocabulary = write(tmp_path), tokenizer()
    one = Corpus.make([path], vocabulary, tmp_path / "one")
    monkeypatch.setattr(corpus_module, "TOGETHER", together)
    many = Corpus.make([path], vocabulary, tmp_path / "many", shard=shard)
    assert len(list((tmp_path / "many").glob("*.ids.npy"))) == -(-one.facts.tokens // shard)
    assert np.array_equal(one.sentences, many.sentences) and np.array_equal(one.documents, many.documents)
    for first, after in [(0, one.facts.tokens), (5, 5), (5, 6), (3, 20)]:
        assert np.array_equal(one.ids(first, after), many.ids(first, after))


def test_ids_take_two_bytes_where_they_fit(tmp_path):
    many = "\n".join(f"w{number}" for number in range(2**16))
    for name, text, kind in (("few", TEXT, "uint16"), ("many", many, "uint32")):
        vocabulary = tokenizer("words", text, vocab=2**17)
        corpus = Corpus.make([write(tmp_path, text)], vocabulary, tmp_path / name)
        assert corpus.ids(0, 1).dtype == corpus.facts.kind == kind
        assert corpus.ids(0, corpus.facts.tokens).max() == vocabulary.size - 1


def test_files_of_several_kinds(tmp_path):
    records = write(tmp_path, "".join(json.dumps({"text": "\n".join(story)}) + "\n" for story in STORIES), "b.jsonl")
    both = Corpus.make([write(tmp_path), records], tokenizer(), tmp_path / "corpus")
    half = both.facts.sentences // 2
    assert rows(both)[:half] == rows(both)[half:] and both.facts.documents == 6


def test_a_corpus_is_found_again(tmp_path):
    path, vocabulary, folder = write(tmp_path), tokenizer(), tmp_path / "corpus"
    made = Corpus.make([path], vocabulary, folder)
    times = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    moved = path.rename(tmp_path / "moved.txt")
    found = Corpus.make([moved], Tokenizer.from_json(vocabulary.to_json()), folder)
    assert rows(found) == rows(made) == rows(Corpus.load(folder))
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == times


def test_what_has_changed_is_not_taken_for_the_same(tmp_path):
    path, vocabulary, folder = write(tmp_path), tokenizer(), tmp_path / "corpus"
    Corpus.make([path], vocabulary, folder)
    changed = [
        ([write(tmp_path, TEXT + "!", "b.txt")], vocabulary, {}),
        ([path, path], vocabulary, {}),
        ([path], tokenizer("words"), {}),
        ([path], vocabulary, {"encoding": "latin-1"}),
        ([shutil.copy(path, tmp_path / "a.jsonl")], vocabulary, {}),
        ([path], vocabulary, {"column": "text"}),
    ]
    for paths, other, options in changed:
        with pytest.raises(Problem, match=r"corpus holds other text.*Remove it"):
            Corpus.make(paths, other, folder, **options)
    assert rows(Corpus.make([path], vocabulary, folder)) == rows(Corpus.load(folder))


def test_a_fault_in_the_text_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "TOGETHER", 1_000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine. Good.\n" * 2_000 + b"\xff")
    with pytest.raises(Problem, match="line 2001"):
        Corpus.make([path], tokenizer("words"), tmp_path / "corpus")
    assert os.listdir(tmp_path) == ["a.txt"]


KILLED = """
    import os, signal, sys
    from regard.data import corpus
    from regard.text.tokenizer import Tokenizer

    class Dying(Tokenizer):
        calls = 0
        def encode_batch(self, texts, allow=()):
            self.calls += 1
            if self.calls == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().encode_batch(texts, allow)

    corpus.TOGETHER = 30
    vocabulary = Dying.load("tokenizer.json")
    vocabulary.to_json()
    corpus.Corpus.make(["a.txt"], vocabulary, "corpus", shard=5)
"""


def test_a_kill_leaves_no_corpus(tmp_path):
    path, vocabulary = write(tmp_path), tokenizer()
    vocabulary.save(tmp_path / "tokenizer.json")
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED)], cwd=tmp_path, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert any((tmp_path / name / "00000.ids.npy").exists() for name in os.listdir(tmp_path))
    assert not (tmp_path / "corpus").exists()
    whole = Corpus.make([path], vocabulary, tmp_path / "corpus")
    assert rows(whole) == rows(Corpus.make([path], vocabulary, tmp_path / "again"))
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "again", "corpus", "tokenizer.json"]


@pytest.mark.parametrize("name", ["00000.ids.npy", "00001.ids.npy", "sentences.npy", "documents.npy", "corpus.json"])
@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"x" * len(b), None])
def test_damage_is_named(tmp_path, name, damage):
    Corpus.make([write(tmp_path)], tokenizer(), tmp_path / "corpus", shard=30)
    path = tmp_path / "corpus" / name
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    with pytest.raises(Problem, match=name):
        Corpus.load(tmp_path / "corpus")


@pytest.mark.parametrize("change", [{"tokens": 0}, {"shard": -1}, {"tokens": 10**15}, {"kind": "object"}, {"more": 1}])
@pytest.mark.parametrize("written", [True, False])  # as we would write it, or changed by someone
def test_facts_that_cannot_be(tmp_path, change, written):
    Corpus.make([write(tmp_path)], tokenizer(), tmp_path / "corpus")
    place = tmp_path / "corpus" / "corpus.json"
    if written:
        write_checked_json(place, read_checked_json(place) | change)
    else:
        place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(Problem, match="damaged"):
        Corpus.load(tmp_path / "corpus")


@pytest.mark.parametrize("name", ["00000.ids.npy", "00001.ids.npy", "sentences.npy", "documents.npy", "corpus.json"])
def test_a_flipped_byte_is_named_when_a_run_opens_the_text_again(tmp_path, name):
    path, vocabulary = write(tmp_path), tokenizer()
    whole = rows(Corpus.make([path], vocabulary, tmp_path / "corpus", shard=30))
    damaged = tmp_path / "corpus" / name
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(Problem, match=rf"{damaged} is damaged.*Remove the folder to encode the text anew"):
        Corpus.make([path], vocabulary, tmp_path / "corpus", shard=30)
    damaged.write_bytes(content)
    assert rows(Corpus.make([path], vocabulary, tmp_path / "corpus", shard=30)) == whole


def test_folders_that_hold_no_corpus(tmp_path):
    path = write(tmp_path)
    with pytest.raises(Problem, match=r"no encoded text"):
        Corpus.make([path], tokenizer(), tmp_path)
    with pytest.raises(Problem, match=r"a\.txt/corpus"):
        Corpus.make([path], tokenizer(), path / "corpus")
    with pytest.raises(Problem, match=r"absent"):
        Corpus.load(tmp_path / "absent")


def test_no_text(tmp_path):
    for text in ("", " \n\n", "\u200b\n"):
        with pytest.raises(Problem, match="no text"):
            Corpus.make([write(tmp_path, text)], tokenizer(), tmp_path / "corpus")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_it_tells(tmp_path, monkeypatch):
    told = Corpus.make([write(tmp_path)], tokenizer(), tmp_path / "corpus").lines()
    assert "3 documents, 11 sentences, " in told[0] and "(0.00% unknown); shards: 1" in told[0]
    assert [line.split(":")[0] for line in told[1:]] == ["warning"] * 2
    assert "tokens on average" in told[1] and "few to pretrain on" in told[2]
    one = Corpus.make([write(tmp_path, "quux " * 40)], tokenizer(), tmp_path / "one").lines()
    assert "one document" in one[1] and "100.0% of the pieces are unknown" in one[2]
    monkeypatch.setattr(corpus_module, "SMALL", 10)
    good = Corpus.make(
        [write(tmp_path, "\n\n".join(["the cat sat on the mat. " * 9] * 3))], tokenizer(), tmp_path / "b"
    )
    assert len(good.lines()) == 1


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA names no folder of real data")
def test_real_text(tmp_path):
    path = Path(os.environ["REGARD_DATA"]) / "pretrain-mini" / "valid.txt.xz"
    documents = [list(document) for document in read_documents([path])]
    vocabulary = tokenizer("wordpiece", "\n".join(documents[0] + documents[-1]), 2000, lowercase=True)
    corpus = Corpus.make([path], vocabulary, tmp_path / "corpus", shard=100_000)
    assert corpus.facts.documents == len(documents) and len(corpus.lines()) <= 3
    for number in (0, len(documents) // 2, len(documents) - 1):
        first, after = corpus.sentences[corpus.documents[number : number + 2]].tolist()
        assert corpus.ids(first, after).tolist() == vocabulary.encode(" ".join(documents[number]))
