"""What a token looks at by each way other than all with all, for one row and one head as the papers tell it."""

from __future__ import annotations

import math

import numpy as np
import torch

from regard.attention.route import Route
from regard.attention.route_hashed import Hashed, Local
from regard.attention.route_low_rank import LowRank
from regard.attention.route_window import Window
from regard.rows import Rows


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def by_hand(route: Route, q: np.ndarray, k: np.ndarray, head: int, causal: bool) -> np.ndarray:  # (T, D) -> (T, T)
    if isinstance(route, Window):
        places = np.arange(len(q))
        far = abs(places[:, None] - places) > route.side
        return softmax(np.where(far, -np.inf, q @ k.T / math.sqrt(q.shape[1])))
    if isinstance(route, LowRank):
        count = min(len(q), route.rank)
        keys, values = (table.detach().double().numpy()[head % len(table)] for table in (route.keys, route.values))
        summed = keys[:count, : len(q)] @ k
        return softmax(q @ summed.T / math.sqrt(q.shape[1])) @ values[:count, : len(q)]
    if isinstance(route, Local):
        return in_chunks(route, q @ k.T / math.sqrt(q.shape[1]), [list(range(slots(route, len(q))))], causal, own=True)
    assert isinstance(route, Hashed)
    keys = k / np.sqrt((k**2).mean(-1, keepdims=True) + 1e-6)
    return in_chunks(route, q @ keys.T / math.sqrt(k.shape[1]), orders(route, k, head), causal, own=False)


def slots(route, length: int) -> int:
    reach = route.reach
    multiple = reach.multiple if length > reach.least else reach.size
    return -(-length // multiple) * multiple


def orders(route: Hashed, k: np.ndarray, head: int) -> list[list[int]]:
    """Of each round, the slots in the order of their buckets; those without a token last."""
    count = slots(route, len(k))
    factors = route.buckets or route.factors_of_rows(Rows.of([len(k)]))[0]
    shape = 2, k.shape[1], route.rounds, sum(factors) // 2  # two heads
    directions = torch.randn(shape, generator=torch.Generator().manual_seed(route.seed or 0)).double().numpy()[head]
    found = []
    for turn in range(route.rounds):
        buckets, product, first = 0, 1, 0
        for factor in factors:
            turned = k @ directions[:, turn, first : first + factor // 2]
            buckets = buckets + product * np.concatenate([turned, -turned], -1).argmax(-1)
            product, first = product * factor, first + factor // 2
        found.append(sorted(range(count), key=lambda slot: (buckets[slot] if slot < len(k) else math.inf, slot)))
    return found


def in_chunks(route, scores: np.ndarray, rounds: list[list[int]], causal: bool, own: bool) -> np.ndarray:  # (T, T)
    reach, length = route.reach, len(scores)
    chunks = [order[at : at + reach.size] for order in rounds for at in range(0, len(order), reach.size)]
    each = len(chunks) // len(rounds)
    found = np.zeros((len(rounds), length, length))
    sizes = np.full((len(rounds), length), -1e9, np.float32)
    for number, chunk in enumerate(chunks):
        if each == 1 and number:  # the rounds of a row of one chunk tell the same
            continue
        near = [number + step for step in range(-reach.before, reach.after + 1)] if each > 1 else [number]
        seen = [slot for one in near for slot in chunks[one % len(chunks)]]
        for asked in (slot for slot in chunk if slot < length):
            logits = [score(scores, asked, key, causal, own) for key in seen]
            size = np.logaddexp.reduce(logits)
            sizes[number // each, asked] = size
            for key, logit in zip(seen, logits, strict=True):
                if key < length:
                    found[number // each, asked, key] += np.exp(logit - size)
    # in single precision, as the model does: a token that sees none but itself has numbers so large that it shows
    total = torch.from_numpy(sizes).logsumexp(0).numpy()
    shares = np.exp(sizes - total) if len(rounds) > 1 else np.ones_like(sizes)
    return (found * shares[..., None]).sum(0)


def score(scores: np.ndarray, asked: int, key: int, causal: bool, own: bool) -> float:
    if key == asked and not own:
        return -1e5
    return -1e9 if key >= len(scores) or (causal and key > asked) else scores[asked, key]
