"""A tiny encoder with heads, a tiny language for it to learn, and a few steps of training."""

from __future__ import annotations

import torch

from regard.models.bert import bert
from regard.models.encoder import Encoder, Head, HeadedEncoder, WordHead
from regard.objectives.masked import Hiding
from regard.objectives.objective import Asked
from regard.rows import Tokens

CLS, SEP, MASK, VOCAB = 0, 1, 2, 24
SPECIAL = (CLS, SEP)
HIDING = Hiding(MASK, VOCAB, SPECIAL)


def encoder(*roles: str, layers=2, width=32, narrow=None, vocab=VOCAB, seed=0) -> HeadedEncoder:
    torch.manual_seed(seed)
    config = bert(layers, width, 2, vocab, narrow=narrow, longest=32, dropout=0.0)
    makers = {
        "masked": lambda: WordHead(config),
        "next": lambda: Head(width, "tanh", 2, pool="first"),
        "replaced": lambda: Head(width, "gelu", 1),
    }
    return HeadedEncoder(Encoder(config), {role: makers[role]() for role in roles})


def pairs(rows=16, seed=0) -> dict:
    """Pairs of texts that say one word again and again, [CLS] 5 5 5 [SEP] 17 17 17 [SEP].  The first text's word is
    one of the lower half, and so is that of a second text that does not follow."""
    draw = torch.Generator().manual_seed(seed)

    def drawn(low: int, high: int) -> list[int]:
        return torch.randint(low, high, (rows,), generator=draw).tolist()

    second, ids, types = drawn(0, 2), [], []
    for a, b, length, wrong in zip(drawn(3, 13), drawn(3, 13), drawn(3, 7), second, strict=True):
        ids.append([CLS, *[a] * length, SEP, *[b if wrong else b + 10] * length, SEP])
        types += [0] * (length + 2) + [1] * (length + 1)
    return {"tokens": Tokens.of(ids), "types": torch.tensor(types), "second": torch.tensor(second)}


def learn(asked: Asked, steps: int, rate=3e-3, fresh=True) -> list[float]:
    """The mean loss of each step, on new rows every time, or always the same question."""
    asked.train()
    optimizer = torch.optim.AdamW(asked.parameters(), rate)
    losses = []
    for step in range(steps):
        torch.manual_seed(step if fresh else 0)
        result = asked(asked.prepare(pairs(16, seed=step if fresh else 0)))
        mean = result.loss / result.count
        optimizer.zero_grad()
        mean.backward()
        optimizer.step()
        losses.append(mean.item())
    return losses


def mean(values: list[float]) -> float:
    return sum(values) / len(values)
