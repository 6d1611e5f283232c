"""What a language model writes after prompts while it learns to write better: texts, and what each is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding.decoder import Ends, prompted
from regard.decoding.sample import Sampling, sampled
from regard.decoding.steps import run_to_end
from regard.errors import Problem
from regard.objectives.continued import continued, log_probabilities, taken, told
from regard.objectives.objective import Batch, to_device
from regard.rows import Tokens
from regard.tasks.writer import Writer

TOGETHER = 64  # texts whose logits are computed at once
Worth = Callable[[Sequence[str]], Sequence[float]]  # a number for each text


class Rollouts:
    """Texts are drawn as the model finds them probable, nothing narrowed: what is learned from must be what it does.
    A text that the model does not end itself is cut after `most` tokens.  Who judges is given text, not ids, and so may
    have another vocabulary."""

    def __init__(self, writer: Writer, reference: Any, worth: Worth, most: int):
        if writer.end is None:
            raise Problem("the vocabulary has no token that ends a text, such as </s>; give a model that has one")
        self.end, self.tokenizer, self.reference = writer.end, writer.tokenizer, reference
        self.worth, self.most = worth, most
        table = writer.model.encoder.config.embedding.vocab  # which may have more rows than there are tokens
        self.never = (*writer.limits.never, *range(writer.tokenizer.size, table))

    @torch.no_grad()
    def __call__(self, model: Any, prompts: Tokens, seed: int) -> Batch:
        """What `Clipped` learns from; see `Write` there."""
        before, written = prompts.tolist(), self.written(model, prompts, seed)
        found = to_device(continued(before, written), prompts.ids.device)
        texts = [self.tokenizer.decode([*a, *b]) for a, b in zip(before, written, strict=True)]
        worth = torch.tensor(self.worth(texts), dtype=torch.float32, device=prompts.ids.device)
        return {**found, "worth": worth, "reference": probabilities(self.reference, found)}

    def written(self, model: Any, prompts: Tokens, seed: int) -> list[list[int]]:
        """The new tokens of each text, the end among them where it was written."""
        source, begin = prompted(prompts)
        ends = Ends(begin, self.end, ratio=0.0, slack=self.most + 1, never=self.never)  # the last could only end
        columns, _ = run_to_end(sampled(model, source, ends, Sampling(seed=seed)))
        rows = torch.stack(columns[: self.most], 1).tolist()
        return [row[: row.index(self.end) + 1] if self.end in row else row for row in rows]


def probabilities(model: Any, found: Batch) -> Tensor:  # (M,)
    """The log-probability of each written token."""
    every = torch.arange(len(found["written"]), device=found["words"].device)
    batches = (taken(found, some) for some in every.split(TOGETHER))
    return torch.cat([log_probabilities(told(model, batch)[1], batch["words"]) for batch in batches])
