"""What might make training faster, each as something that can be put in and taken out again, for `probe_training`.

What has proved itself moves into the library; what is here is tried, not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.memory import Memory
from regard.layers import recurrent
from regard.layers.block import Block, Context, Trace
from regard.layers.recurrent import Packing, inverse
from regard.layers.stack import Stack
from regard.models.encoder import Encoder, WordHead
from regard.objectives import reading
from regard.objectives.cross_entropy import by_torch
from regard.objectives.objective import Asked, Result
from regard.objectives.translate import Translate
from regard.rows import Rows
from regard.training.step import Stepper

Change = Callable[[Asked], AbstractContextManager]


@contextmanager
def patched(owner: Any, name: str, new: Any) -> Iterator[None]:
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


def torchs_loss(asked: Asked) -> AbstractContextManager:
    """Cross-entropy as torch has it, with its copies in float32."""
    return patched(reading, "cross_entropy", lambda logits, wanted, smoothing=0.0: by_torch(logits, wanted, smoothing))


def waiting(asked: Asked) -> AbstractContextManager:
    """Every step is waited for before the next is launched."""
    begin = Stepper.__init__

    def prompt(stepper: Stepper, *given: Any) -> None:
        begin(stepper, *given)
        stepper.late = 0

    return patched(Stepper, "__init__", prompt)


def linear_head(asked: Asked) -> AbstractContextManager:
    """Scores of words by one product that adds its bias: logits stay in half precision."""

    def forward(head: WordHead, states: Tensor, table: Tensor) -> Tensor:  # (N, W), (V, narrow) -> (N, V)
        return F.linear(head.norm(head.activation(head.dense(states))), table, head.bias)

    return patched(WordHead, "forward", forward)


class NarrowNorm(nn.LayerNorm):
    """What comes out is in the precision of products, and so is all that is added to it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).to(torch.get_autocast_dtype(x.device.type))


@contextmanager
def narrow_stream(asked: Asked) -> Iterator[None]:
    """States between layers in half precision; norms compute in float32 as before."""
    norms = [part for part in asked.model.modules() if type(part) is nn.LayerNorm]
    embedded = Encoder.embedded

    def narrow(encoder: Encoder, *given: Any) -> Tensor:
        x = embedded(encoder, *given)
        return x.to(torch.get_autocast_dtype(x.device.type))

    for norm in norms:
        norm.__class__ = NarrowNorm
    with patched(Encoder, "embedded", narrow):
        yield
    for norm in norms:
        norm.__class__ = nn.LayerNorm


def one_product(attention: Attention, x: Tensor) -> list[Tensor]:  # (N, W) -> three of (N, H, D)
    """Queries, keys and values by one product with their weights side by side."""
    lines: Any = (attention.q, attention.k, attention.v)
    both = F.linear(x, torch.cat([line.weight for line in lines]), torch.cat([line.bias for line in lines]))
    return list(both.unflatten(-1, (3, attention.heads, -1)).unbind(1))


def joined(asked: Asked) -> AbstractContextManager:
    """`one_product` in every block, for self-attention by an inner product without places."""

    def forward(block: Block, x: Tensor, see: Context, was: Trace) -> tuple[Tensor, Trace]:
        attention, residual = block.attention, block.attention_residual
        q, k, v = one_product(attention, residual.before(x))
        said = attention.look(q, Memory(k, v, see.rows), see.rows, see.mask, see.bias)
        x = residual.after(x, attention.out(said.flatten(1)))
        return block.feed_residual.after(x, block.feed(block.feed_residual.before(x))), Trace()

    return patched(Block, "forward", forward)


def filled(tokens: int) -> Change:
    """Every batch has as many tokens, by a row of zeros behind the others: shapes are the same at every step."""
    read = Stack.read

    def whole(stack: Stack, x: Tensor, rows: Rows, source: Any = None) -> Tensor:
        spare = tokens - rows.total
        if source is not None or spare < 1:
            return read(stack, x, rows, source)
        longer = Rows(F.pad(rows.offsets, (0, 1), value=tokens), tokens, max(rows.longest, spare))
        return read(stack, F.pad(x, (0, 0, 0, spare)), longer)[: rows.total]

    return lambda asked: patched(Stack, "read", whole)


@contextmanager
def compiled_embedding(asked: Asked) -> Iterator[None]:
    embed: Any = asked.model.encoder.embed
    embed.compile(dynamic=True)
    yield
    embed._compiled_call_impl = None


def counted(asked: Asked) -> AbstractContextManager:
    """The count of targets made on the device, not copied to it, which would be waited for."""

    def without_waiting(self: Translate, model: nn.Module, batch: Any) -> Result:
        states = model(batch["source"], batch["target_in"])
        loss, right = reading.cross_entropy(model.logits(states), batch["target_out"], self.smoothing)  # type: ignore[operator]
        return Result(loss, reading.counted(batch["target_out"]), {"right": right})

    return patched(Translate, "judge", without_waiting)


@contextmanager
def known_lengths(asked: Asked) -> Iterator[None]:
    """Rows take their lengths along on the CPU, where cuDNN is told of them: nothing is copied back."""
    to, of = Rows.to, Packing.of

    def taking_along(rows: Rows, device: Any) -> Rows:
        moved = to(rows, device)
        moved.__dict__["sizes"] = rows.lengths if rows.offsets.device.type == "cpu" else rows.__dict__.get("sizes")
        return moved

    def known(rows: Rows) -> Packing:
        lengths = rows.__dict__.get("sizes")
        if lengths is None:
            return of(rows)
        on_cpu = (lengths[:, None] > torch.arange(rows.longest)).sum(0)
        sizes, longest_first = rows.real.sum(0), rows.lengths.argsort(descending=True, stable=True)
        back = (sizes.cumsum(0) - sizes)[rows.at] + inverse(longest_first)[rows.row]
        return Packing(inverse(back), back, on_cpu, longest_first[: int(on_cpu[0])])

    with patched(Rows, "to", taking_along), patched(recurrent.Packing, "of", known):
        yield
