"""The best of many scores, as writing asks for them at every step.  Letters: B rows, V vocabulary, C chunks of it."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kernels import kernels_run, power_of_two
from regard.decoding.decoder import index_of

BLOCK = 64  # scores
NUMBERS = 2**18  # whose softmax is made at once
CHUNK = 2048  # scores that a kernel's program looks at
MOST, BANNED = 64, 256  # tokens that a kernel finds or leaves out: it takes one after the other


def most_probable(
    logits: Tensor, count: int, never: tuple[int, ...] = (), *, shared: bool = True
) -> tuple[Tensor, Tensor]:  # (B, V) -> (B, count) each
    """How probable the most probable tokens are, as logarithms, and which they are, best first.  What is never written
    leaves its probability to the others if it is shared; the logits may be changed."""
    if kernels_run(logits) and count <= MOST and len(never) <= BANNED:
        return by_kernel(logits, count, never, shared)
    if shared and never:
        logits.index_fill_(-1, index_of(never, logits.device), -torch.inf)
    tokens = best(logits if shared else without(logits, never), count)[1]
    return log_probabilities(logits, tokens), tokens


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:  # (B, V), (B, count) -> (B, count)
    """Of these tokens.  On a CPU for a few rows at once, which stay in its cache: several times as fast."""
    rows = max(len(logits), 1)
    if logits.device.type == "cpu":
        rows = max(NUMBERS // logits.shape[-1], torch.get_num_threads())
    parts = zip(logits.split(rows), tokens.split(rows), strict=True)
    return torch.cat([some.log_softmax(-1, dtype=torch.float32).gather(-1, chosen) for some, chosen in parts])


def by_kernel(logits: Tensor, count: int, never: tuple[int, ...], shared: bool) -> tuple[Tensor, Tensor]:
    """The same in two kernels that read the logits once."""
    from regard.decoding.best_kernel import find, settle

    logits = logits if logits.stride(-1) == 1 else logits.contiguous()
    rows, vocab = logits.shape
    chunks = -(-vocab // CHUNK)
    banned = index_of(never, logits.device)

    def whole(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(rows, *shape, dtype=kind, device=logits.device)

    values, found, sums = whole(chunks, count), whole(chunks, count, kind=torch.long), whole(chunks)
    find[(rows, chunks)](
        logits, banned, values, found, sums, vocab, logits.stride(0), len(never),
        CHUNK=CHUNK, MOST=count, SHARED=shared, num_warps=4,
    )  # fmt: skip
    gains, tokens = whole(count), whole(count, kind=torch.long)
    settle[(rows,)](
        values, found, sums, gains, tokens, chunks, COUNT=chunks * count, WIDE=power_of_two(chunks * count),
        PARTS=power_of_two(chunks), MOST=count, num_warps=1,
    )  # fmt: skip
    return gains, tokens


def without(logits: Tensor, never: tuple[int, ...]) -> Tensor:
    """-inf for what is never written."""
    return logits.index_fill(-1, index_of(never, logits.device), -torch.inf) if never else logits


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:  # (B, V) -> (B, count) each
    """The greatest scores of each row, greatest first, and where they are; of one, where it is first."""
    whole = scores.shape[-1] // BLOCK * BLOCK
    if scores.device.type != "cpu" or whole < 2 * count * BLOCK:
        return greatest(scores, count)
    # a CPU finds a maximum some ten times as fast as its place: so look only into the blocks with the greatest ones
    blocks = greatest(scores[:, :whole].unflatten(-1, (-1, BLOCK)).amax(-1), count)[1]
    places = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK)).flatten(1)
    places = torch.cat([places, torch.arange(whole, scores.shape[-1]).expand(len(scores), -1)], 1)
    found, index = greatest(scores.gather(1, places), count)
    return found, places.gather(1, index)


def greatest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:  # (B, V) -> (B, count) each
    found, index = scores.topk(count) if count > 1 else scores.max(-1, keepdim=True)
    return found, index
