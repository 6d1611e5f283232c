"""softmax(score(q, k) + bias, where the mask allows) @ v, by the fastest kernel that can answer.

Letters: N queries and M keys of all rows together; B rows, Q and K the longest row of each; H heads, D size of a head.
"""

from __future__ import annotations

from itertools import groupby
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.mask import Mask
from regard.attention.memory import Memory
from regard.attention.score import Score
from regard.rows import Rows

# cuDNN, which on a Hopper takes half the time of the others, plans anew for every shape: it is for training, whose even
# rows keep theirs.  Few or short rows are even by chance.
FEWEST, SHORTEST = 8, 128
ALIGNED = 8  # numbers in half precision that are loaded at once
FASTEST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]


def attend(
    q: Tensor,  # (N, H, D)
    memory: Memory,
    rows: Rows,
    *,
    score: Score,
    mask: Mask | None = None,
    bias: Tensor | None = None,  # (B or 1, H or 1, Q, K), added to the logits
    dropout: float = 0.0,
) -> Tensor:  # (N, H, D)
    """Each row of q looks at the same row of memory."""
    if not score.fused:
        return by_definition(q, memory, rows, score, mask, bias, dropout)
    if flash_can(q, memory, mask, bias, dropout):
        plain = by_rectangle if rectangle_can(q, memory, rows, mask) else by_flash
        return plain(q, memory, rows, score, mask)
    if rows_can(q, memory, rows, mask, bias, dropout):
        return by_rows(q, memory, rows, score, mask)
    return by_padding(q, memory, rows, score, mask, bias, dropout)


def flash_can(q: Tensor, memory: Memory, mask: Mask | None, bias: Tensor | None, dropout: float) -> bool:
    """The ragged kernel wants a GPU, one half precision and a band; it knows neither bias nor dropout."""
    fits = q.is_cuda and q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] % 8 == 0 and q.shape[-1] <= 256
    alike = q.dtype == memory.k.dtype == memory.v.dtype  # under autocast a recurrence and a projection may differ
    return fits and alike and bias is None and not dropout and (mask is None or mask.band is not None)


def by_flash(q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # takes a second to import, which only a GPU is worth

    left, right = mask.band if mask and mask.band else (None, None)
    sides = (-1 if left is None else left, -1 if right is None else right)
    m = memory
    ends = rows.offsets, m.rows.offsets, rows.longest, m.rows.longest
    out = varlen_attn(q, m.k, m.v, *ends, scale=score.scale, window_size=sides)
    return cast(Tensor, out)  # a tuple only where more was asked for


def rectangle_can(q: Tensor, memory: Memory, rows: Rows, mask: Mask | None) -> bool:
    """Whether rows, all equally long, are worth a kernel that is made for them; it knows of bands only the diagonal."""
    known = mask is None or mask.band in ((None, None), (None, 0))
    if not (known and torch.is_grad_enabled() and q.shape[-1] <= 128):
        return False
    even = rows.is_even and memory.rows.is_even and rows.longest == memory.rows.longest
    return even and len(rows) >= FEWEST and rows.longest >= SHORTEST


def by_rectangle(q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None) -> Tensor:
    """As they lie: nothing is copied."""
    Q, K, V = padded(q, rows), padded(memory.k, memory.rows), padded(memory.v, memory.rows)
    causal = True if mask is not None and mask.band == (None, 0) else False  # noqa: SIM210  compiled, it is plain too
    with sdpa_kernel(FASTEST, set_priority=True):
        out = F.scaled_dot_product_attention(Q, K, V, is_causal=causal, scale=score.scale)
    return rows.unpad(out.transpose(1, 2))


def rows_can(q: Tensor, memory: Memory, rows: Rows, mask: Mask | None, bias: Tensor | None, dropout: float) -> bool:
    """A CPU takes rows one after the other at no loss, where a band and nothing else depends on the row.  Compiled code
    does not: it would be compiled anew for every number of rows."""
    even = rows.is_even and memory.rows.is_even  # then there is nothing to pad
    plain = bias is None and not dropout and (mask is None or mask.band is not None)
    return q.device.type == "cpu" and plain and not even and not torch.compiler.is_compiling()


def by_rows(q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None) -> Tensor:
    """Neighbours that are equally long are a rectangle as they lie: nothing is padded."""
    sizes = zip(rows.lengths.tolist(), memory.rows.lengths.tolist(), strict=True)
    runs = [(*size, len(list(alike))) for size, alike in groupby(sizes)]  # queries, keys, and how many have as many
    asking = [Rows.even(count, queries) for queries, _, count in runs]
    asked = [Rows.even(count, keys) for _, keys, count in runs]
    queries = q.split([part.total for part in asking])  # not by slices, each of which has gradients for all of q
    keys, values = (x.split([part.total for part in asked]) for x in (memory.k, memory.v))
    memories = map(Memory, keys, values, asked)
    return torch.cat(
        [by_padding(*part, score, mask, None, 0.0) for part in zip(queries, memories, asking, strict=True)]
    )


def by_padding(q, memory: Memory, rows: Rows, score: Score, mask, bias, dropout) -> Tensor:
    keys = memory.rows
    if bias is not None and q.is_cuda and torch.compiler.is_compiling():
        keys = aligned(keys)
        bias = F.pad(bias, (0, keys.longest - memory.rows.longest))
    Q, K = padded(q, rows), padded(memory.k, keys)
    V = K if memory.v is memory.k else padded(memory.v, keys)
    causal = bias is None and below_diagonal(rows, keys, mask)
    allowed = None if causal else allowed_places(rows, keys, mask)
    added = allowed if bias is None else bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    out = F.scaled_dot_product_attention(Q, K, V, added, dropout, causal, scale=score.scale)
    if allowed is not None:  # a query without keys looks at nothing; cuDNN would give it something
        out = out.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
    return rows.unpad(out.transpose(1, 2))


def aligned(rows: Rows) -> Rows:
    """With places for as many keys as the kernel's way back wants of a bias.  Where nothing is compiled torch sees to
    it."""
    return Rows(rows.offsets, rows.total, -(-rows.longest // ALIGNED) * ALIGNED)


def below_diagonal(rows: Rows, memory_rows: Rows, mask: Mask | None) -> bool:
    """A mask that the kernel has built in, where queries and keys are equally many.  In compiled code, which does not
    know how many there are, it is no plain yes or no."""
    if mask is None or mask.band != (None, 0) or torch.compiler.is_compiling():
        return False
    return rows.is_even and memory_rows.is_even and rows.longest == memory_rows.longest


def by_definition(q, memory: Memory, rows: Rows, score: Score, mask, bias, dropout) -> Tensor:
    """What the others must equal; and the only way for a score that is no inner product."""
    weights = F.dropout(attention_weights(q, memory, rows, score, mask, bias), dropout)
    return rows.unpad((weights @ padded(memory.v, memory.rows)).transpose(1, 2))


def attention_weights(
    q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None = None, bias: Tensor | None = None
) -> Tensor:  # (B, H, Q, K)
    logits = score.logits(padded(q, rows), padded(memory.k, memory.rows))
    if bias is not None:
        logits = logits + bias
    allowed = allowed_places(rows, memory.rows, mask)
    if allowed is None:
        return logits.softmax(-1)
    # the lowest finite number, not -inf: a query without keys would have NaN gradients; it looks at nothing instead
    weights = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min).softmax(-1)
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


def padded(x: Tensor, rows: Rows) -> Tensor:  # (N, H, D) -> (B, H, T, D)
    return rows.pad(x).transpose(1, 2)


def allowed_places(rows: Rows, memory_rows: Rows, mask: Mask | None) -> Tensor | None:  # (B or 1, 1, Q, K)
    """Where a query may look at a key: both real, and the mask agrees.  None: everywhere."""
    real = None if memory_rows.is_even else memory_rows.real[:, None, None, :]
    if mask is None or mask.band == (None, None):
        return real
    device = rows.offsets.device
    before = memory_rows.lengths - rows.lengths  # queries are the last places of their memory
    query = torch.arange(rows.longest, device=device)[None, :, None] + before[:, None, None]
    key = torch.arange(memory_rows.longest, device=device)[None, None, :]
    row = torch.arange(len(rows), device=device)[:, None, None]
    allowed = mask.allows(row, query, key)[:, None]
    return allowed if real is None else allowed & real
