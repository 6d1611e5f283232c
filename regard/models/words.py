"""Two tables of word vectors, as word2vec (Mikolov et al. 2013) and GloVe (Pennington et al. 2014) learn them."""

from __future__ import annotations

import torch
from torch import nn


class WordTables(nn.Module):
    """A vector for each word as itself, and one for it as what stands beside others; a bias of each where asked for.
    Gradients are sparse, so that a step costs as much as it looks up, however many words there are."""

    def __init__(self, vocab: int, width: int, biases: bool = False):
        super().__init__()
        self.words, self.contexts = (table(vocab, width) for _ in range(2))
        self.word_biases, self.context_biases = (table(vocab, 1) if biases else None for _ in range(2))


def table(vocab: int, width: int) -> nn.Embedding:
    """Small numbers, as both programs begin with."""
    start = (torch.rand(vocab, width) - 0.5) / width
    return nn.Embedding.from_pretrained(start, freeze=False, sparse=True)
