"""Words by their characters: the convolutions as loops, how words are spelled, and words that are met later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import Problem, UsageProblem
from regard.layers.characters import BEGIN, CODES, END, NOTHING, Characters, CharactersConfig, spelled_words
from regard.rows import Tokens

CONFIG = CharactersConfig(vocab=10, width=5, size=3, filters=(2, 4, 3), longest=8, dropout=0.0)
WORDS = ["a", "cat", "Straße", "", "incomprehensible"]


def by_loops(module: Characters, codes: list[int]) -> torch.Tensor:
    """The definition: each filter at each place, the largest, the highways, the projection."""
    vectors = [module.tokens.weight[code] for code in codes]
    found = []
    for width, part in enumerate(module.filters, 1):
        for kernel, bias in zip(part.weight, part.bias, strict=True):
            places = range(len(codes) - width + 1)
            sums = [sum(kernel[:, k] @ vectors[at + k] for k in range(width)) + bias for at in places]
            found.append(max(torch.relu(one) for one in sums))
    x = torch.stack(found)
    for highway in module.highways:
        gate = torch.sigmoid(highway.gate.weight @ x + highway.gate.bias)
        x = gate * torch.relu(highway.change.weight @ x + highway.change.bias) + (1 - gate) * x
    return module.project.weight @ x + module.project.bias


@torch.no_grad()
def test_it_is_its_definition_in_loops():
    torch.manual_seed(0)
    module = Characters(CONFIG)
    for parameter in module.parameters():
        parameter.normal_()
    codes = torch.from_numpy(spelled_words(WORDS, CONFIG.longest)).long()
    for vector, word in zip(module(codes), codes.tolist(), strict=True):
        torch.testing.assert_close(vector, by_loops(module, word), rtol=1e-5, atol=1e-5)


def test_a_word_is_its_bytes_between_its_begin_and_its_end():
    spelled = spelled_words(["cä", "", "incomprehensible", "a"], 8).tolist()
    assert spelled[0] == [BEGIN, 99, 0xC3, 0xA4, END, NOTHING, NOTHING, NOTHING]
    assert spelled[1] == [BEGIN, END, *[NOTHING] * 6] and spelled[3] == [BEGIN, 97, END, *[NOTHING] * 5]
    assert spelled[2] == [BEGIN, *b"incomp", END]
    assert spelled_words([], 8).shape == (0, 8) and spelled_words(["ÿ"], 50).max() < CODES


class Growing:
    def __init__(self, words):
        self.words = list(words)

    def table(self) -> np.ndarray:
        return spelled_words(self.words, CONFIG.longest)


@torch.no_grad()
def test_words_are_read_by_their_ids_also_those_met_later():
    torch.manual_seed(0)
    module, spellings = Characters(CONFIG), Growing(WORDS)
    with pytest.raises(Problem, match="spelled is not known"):
        module.read(Tokens.of([[1]]))
    module.spell(spellings)
    codes = torch.from_numpy(spellings.table()).long()
    rows = Tokens.of([[1, 2, 1], [4]])
    torch.testing.assert_close(module.read(rows), module(codes[rows.ids]))
    spellings.words.append("dog")
    met = module.read(Tokens.of([[5]]))[0]
    torch.testing.assert_close(met, module(torch.from_numpy(spelled_words(["dog"], CONFIG.longest)).long())[0])


@pytest.mark.parametrize(
    "filters, longest", [((), 8), ((3, 0), 8), ((1, 1, 1, 1), 3), ((1,), 2), ((1,), 10**6)], ids=str
)
def test_sizes_that_cannot_be_are_told(filters, longest):
    with pytest.raises(UsageProblem, match=r"filters=|longest="):
        replace(CONFIG, filters=filters, longest=longest)
