"""Text encoded whole, and the rows that language models read of it."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from regard.data.corpus import Corpus
from regard.data.stream import Shuffled, Streams
from regard.data.whole import whole_texts
from regard.errors import Problem, UsageProblem
from regard.text.tokenizer import GPT, SPECIAL, Tokenizer

LINES = ["a b  c\n", "\n", " c b é\n", "a a a\n"] * 25


def made(tmp_path, kind: str, special=SPECIAL, name="text") -> tuple[Corpus, Tokenizer]:
    path = tmp_path / "text.txt"
    path.write_text("".join(LINES), encoding="utf-8")
    tokenizer = Tokenizer.train(kind, LINES, 300, special=special)
    return Corpus.make([path], tokenizer, tmp_path / name, whole=True), tokenizer


@pytest.mark.parametrize("kind, special", [("characters", SPECIAL), ("byte-bpe", GPT)])
@pytest.mark.filterwarnings("ignore:asked for")
def test_text_keeps_its_spaces_and_lines(tmp_path, kind, special):
    corpus, tokenizer = made(tmp_path, kind, special)
    assert tokenizer.decode(corpus.ids(0, corpus.facts.tokens).tolist()) == "".join(LINES)
    assert corpus.facts.bytes == len("".join(LINES).encode())


def test_words_have_an_end_of_line_and_it_counts_as_a_word(tmp_path):
    corpus, tokenizer = made(tmp_path, "words")
    ids = corpus.ids(0, corpus.facts.tokens).tolist()
    assert ids.count(tokenizer.end) == len(LINES)
    assert corpus.facts.words == corpus.facts.tokens == sum(len(line.split()) + 1 for line in LINES)


def test_documents_of_json_lines_end_with_the_end_token(tmp_path):
    path = tmp_path / "text.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in ("a b", "c"))
    texts = list(whole_texts([path]))
    assert [(text.lines, text.ends) for text in texts] == [(["a b\n"], True), (["c\n"], True)]
    tokenizer = Tokenizer.train("characters", LINES, 30)
    corpus = Corpus.make([path], tokenizer, tmp_path / "text", whole=True)
    assert corpus.ids(0, corpus.facts.tokens).tolist().count(tokenizer.end) == 2


def test_a_folder_of_sentences_is_not_taken_for_whole_text(tmp_path):
    made(tmp_path, "characters")
    with pytest.raises(Problem, match="encoded otherwise"):
        Corpus.make([tmp_path / "text.txt"], Tokenizer.train("characters", LINES, 300), tmp_path / "text")


def test_shuffled_rows_are_the_text_in_another_order_each_epoch(tmp_path):
    corpus, _ = made(tmp_path, "characters")
    batches = Shuffled(corpus, 8, 32, seed=3)
    text = corpus.ids(0, corpus.facts.tokens)
    seen = []
    for position in range(batches.per_epoch):
        batch = batches.at(position)
        rows = batch["tokens"].tolist()
        assert len(rows) == 4
        for row, wanted in zip(rows, batch["wanted"].view(4, 8).tolist(), strict=True):
            assert row[1:] == wanted[:-1]
            seen.append(row)
    starts = batches.starts(0)[: len(seen)]
    assert [text[at : at + 8].tolist() for at in starts] == seen
    assert len(set(starts.tolist())) == len(starts)
    again, other = Shuffled(corpus, 8, 32, seed=3), batches.at(batches.per_epoch)
    assert again.at(2)["tokens"].tolist() == batches.at(2)["tokens"].tolist()
    assert other["tokens"].tolist() != batches.at(0)["tokens"].tolist()
    assert batches.epoch_of(batches.per_epoch) == (1, 0)


def test_streams_go_on_where_they_stopped(tmp_path):
    corpus, _ = made(tmp_path, "characters")
    streams = Streams(corpus, 8, 24, turns=2)
    text = corpus.ids(0, corpus.facts.tokens)
    read = {turn: [[] for _ in range(3)] for turn in range(2)}
    for position in range(streams.per_epoch):
        batch = streams.at(position)
        assert batch["goes_on"] == (position >= 2)
        for row, more in zip(read[batch["turn"]], batch["tokens"].tolist(), strict=True):
            row += more
    joined = np.concatenate([row for turn in range(2) for row in read[turn]])
    assert np.array_equal(joined, text[: len(joined)])
    assert len(text) - len(joined) <= 6
    assert not streams.at(streams.per_epoch)["goes_on"]


def test_too_little_text_is_told(tmp_path):
    corpus, _ = made(tmp_path, "characters")
    with pytest.raises(Problem, match="tokens, and 2,001 are needed"):
        Shuffled(corpus, 1000, 1000, 0)
    with pytest.raises(UsageProblem, match="no room for a row of 16"):
        Streams(corpus, 16, 8)
