"""Bigrams: equal to Kneser and Ney's formula counted as loops, probabilities for every word, a folder, and measured as
other language models are."""

from __future__ import annotations

import lzma
import math
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.errors import Problem
from regard.models import bigram
from regard.models.bigram import counted
from regard.models.folder import load_published, save_files
from regard.rows import Tokens

torch.set_num_threads(1)


def text(length: int, vocab: int, seed: int = 0) -> np.ndarray:
    """Words as in life: few are frequent, and some of the vocabulary are never met."""
    return np.random.default_rng(seed).zipf(1.3, length) % (vocab - 3)


def by_loops(ids: list[int], vocab: int) -> list[list[float]]:
    """P(w | v) for every v and w, as the papers write it."""
    pairs = Counter(pairwise(ids))
    totals = Counter(ids[:-1])
    after = Counter(v for v, _ in pairs)  # N1+(v .)
    before = Counter(w for _, w in pairs)  # N1+(. w)

    def discount(counts):
        once, twice = (sum(count == n for count in counts) for n in (1, 2))
        return once / (once + 2 * twice) if once else 0.5

    high, low = discount(pairs.values()), discount(before.values())
    follows = [(max(before[w] - low, 0) + low * len(before) / vocab) / len(pairs) for w in range(vocab)]

    def probability(v, w):
        if not totals[v]:
            return follows[w]
        return (max(pairs[v, w] - high, 0) + high * after[v] * follows[w]) / totals[v]

    return [[probability(v, w) for w in range(vocab)] for v in range(vocab)]


def probabilities(model, words) -> torch.Tensor:
    return model.logits(model.read(Tokens.of([words]))[0]).exp()


TEXTS = {
    "zipf": text(500, 23).tolist(),
    "a pair alone": [3, 4],
    "nothing only once": [1, 2, 1, 2, 1, 2, 1],
    "all only once": [0, 1, 2, 3, 4],
    "one word": [5, 5, 5, 5],
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_equals_the_formula_as_loops(name):
    model = counted([np.array(TEXTS[name])], 23).model
    got = probabilities(model, list(range(23)))
    torch.testing.assert_close(got, torch.tensor(by_loops(TEXTS[name], 23)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", TEXTS)
def test_probabilities_are_of_every_word_and_sum_to_one(name):
    got = probabilities(counted([np.array(TEXTS[name])], 23).model, list(range(23)))
    torch.testing.assert_close(got.double().sum(1), torch.ones(23).double(), rtol=1e-5, atol=0)
    assert (got > 0).all()


@pytest.mark.parametrize("size", [1, 7, 499])
def test_blocks_are_one_text(monkeypatch, size):
    ids = text(500, 50)
    monkeypatch.setattr(bigram, "BLOCK", 64)
    whole, parts = counted([ids], 50), counted((ids[at : at + size] for at in range(0, 500, size)), 50)
    for name, tensor in whole.files()["model.safetensors"].items():
        assert torch.equal(tensor, parts.files()["model.safetensors"][name])


def test_a_folder_comes_back_bit_for_bit(tmp_path):
    published = counted([text(2000, 60).astype(np.uint16)], 60)
    save_files(tmp_path / "model", published.files())
    again = load_published(tmp_path / "model")
    save_files(tmp_path / "again", again.files())
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "model" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    words = list(range(60))
    assert torch.equal(probabilities(again.model, words), probabilities(published.model, words))
    assert again.model.encoder.config.embedding.vocab == 60


def test_stepping_equals_reading():
    model = counted([text(2000, 60)], 60).model
    prompts, after = [[1], [2, 3, 4], [5, 6]], torch.tensor([[3, 1, 4], [1, 5, 9], [2, 6, 5]])
    state = model.start(Tokens.of(prompts)).select(torch.arange(3))
    for column in after.T:
        logits, state = model.step(column, state)
        torch.testing.assert_close(logits, probabilities(model, column.tolist()).log())
    assert model.scores("write", *(lambda t: (model(t), t.rows))(Tokens.of(prompts))).shape == (6, 60)


def test_gradients_stop_here():
    """A bigram is counted, and not trained; it can be asked beside models that are."""
    model = counted([text(100, 20)], 20).model
    assert not probabilities(model, [1, 2]).requires_grad


def test_what_cannot_be_counted_is_said():
    with pytest.raises(Problem, match="give more text"):
        counted([np.array([3])], 20)
    with pytest.raises(Problem, match="give more text"):
        counted([], 20)
    with pytest.raises(Problem, match="another tokenizer"):
        counted([np.array([3, 20])], 20)


def test_many_tokens_of_many_words_are_counted(tmp_path):
    ids = (np.random.default_rng(0).zipf(1.2, 2_000_000) % 50_000).astype(np.uint16)
    np.save(tmp_path / "ids.npy", ids)
    model = counted([np.load(tmp_path / "ids.npy", mmap_mode="r")], 50_000).model
    got = probabilities(model, [0, 1, 49_999])
    torch.testing.assert_close(got.double().sum(1), torch.ones(3).double(), rtol=1e-4, atol=0)


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="needs REGARD_DATA")
def test_real_words_are_told_better_than_one_by_one():
    """Penn Treebank, held-out text: about 200, where words alone have a perplexity of several hundred."""
    folder = Path(os.environ["REGARD_DATA"]) / "ptb"
    train, test = (words_of(folder, part) for part in ("train", "valid"))
    numbers = {word: number for number, word in enumerate(sorted(set(train)))}
    ids = [np.array([numbers[word] for word in words]) for words in (train, test)]
    model, heard = counted([ids[0]], len(numbers)).model, torch.from_numpy(ids[1][:20_001])
    logits = (model.logits(some[:, None]) for some in heard[:-1].split(2000))
    losses = [F.cross_entropy(some, wanted) for some, wanted in zip(logits, heard[1:].split(2000), strict=True)]
    assert 150 < math.exp(sum(losses) / len(losses)) < 250


def words_of(folder: Path, part: str) -> list[str]:
    with lzma.open(folder / f"ptb.{part}.txt.xz", "rt") as file:
        return file.read().replace("\n", " <eos> ").split()
