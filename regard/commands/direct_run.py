"""Direct preference optimisation: a language model learns from pairs of texts, by how probable it finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from regard.commands.align_run import AlignRun, left_out
from regard.data.parallel import Ragged
from regard.data.preferences import PreferenceBatches, Preferences, fitting, read_preferences
from regard.errors import Problem
from regard.objectives.direct import Direct, text_probabilities
from regard.objectives.objective import Asked, to_device
from regard.tasks.writer import Writer
from regard.training.loop import Evaluate
from regard.training.parallel import here, rank_count

Texts = tuple[list[list[int]], list[list[int]]]  # prompts, and both texts of each, the chosen one first


class DirectRun(AlignRun):
    best = "lowest loss"

    def read(self, writer: Writer) -> Iterator[str]:
        s = self.settings
        self.files = {
            name: read_preferences(path, s.reading) for name, path in (("train", s.train), ("dev", s.dev)) if path
        }
        self.texts: dict[str, Texts] = {}
        for name, data in self.files.items():
            self.texts[name], notes = self.fitted(writer, data)
            yield from [*data.lines(), *notes]

    def fitted(self, writer: Writer, data: Preferences) -> tuple[Texts, list[str]]:
        """Pairs as ids.  A prompt that there is no room for loses its beginning; a pair with a text that does not
        fit by itself is left out."""
        room, end = min(self.settings.longest, writer.limits.places), [writer.end] * self.settings.ends
        joined = [[writer.joined(prompt, text) for text in texts] for prompt, *texts in data.pairs]
        rows = [
            (pair[0][0], *([*after, *(id for id in end if id is not None)] for _, after in pair)) for pair in joined
        ]
        kept, first = fitting([max(len(chosen), len(rejected)) for _, chosen, rejected in rows], room)
        notes, why = [], f"a text has more than the {room} pieces that are read. Shorten it, or raise --longest."
        if first is not None:
            notes = [left_out(len(rows) - len(kept), rows, data.place(first), why)]
        if not len(kept):
            raise Problem(f"{data.source}: no pair is short enough. At {data.place(first or 0)} {why}")
        fits = [rows[number] for number in kept]
        lost = [max(len(before) + max(len(a), len(b)) - 1 - room, 0) for before, a, b in fits]  # the last is not read
        notes += [f"warning: {np.count_nonzero(lost):,} prompts lose their beginning, to fit in {room} pieces"] * any(
            lost
        )
        prompts = [row[0][cut:] for row, cut in zip(fits, lost, strict=True)]
        return (prompts, [text for _, *texts in fits for text in texts]), notes

    def asked(self, writer: Writer) -> tuple[Asked, PreferenceBatches, int]:
        s, asked = self.settings, Asked(writer.model, Direct(self.settings.beta))
        self.pairs = {name: self.compared(asked, texts) for name, texts in self.texts.items()}
        train = self.pairs["train"]
        return asked, train, max(round(s.epochs * train.per_epoch / rank_count()), 1)

    @torch.no_grad()
    def compared(self, asked: Asked, texts: Texts) -> PreferenceBatches:
        """Pairs with how probable the model finds each text before it learns, in the precision of training."""
        s, (prompts, both) = self.settings, map(Ragged.of, texts)
        reference = np.zeros(len(both), np.float32)
        pairs = PreferenceBatches(prompts, both, reference, s.batch, s.seed)
        bf16 = s.precision == "bf16" or (not s.precision and here().type == "cuda")
        with torch.autocast(here().type, torch.bfloat16, enabled=bf16):
            for some in np.array_split(np.arange(len(prompts)), -(-len(prompts) // s.batch)):
                batch = to_device(asked.prepare(pairs.batch(some)), here())
                found = text_probabilities(asked.model, batch).cpu().numpy()
                reference[(2 * some[:, None] + [0, 1]).ravel()] = found
        return pairs

    def evaluation(self, asked: Asked) -> Evaluate | None:
        """Losses and how often the chosen text is worth more, on pairs that were held out."""
        if "dev" not in self.pairs:
            return None
        pairs = self.pairs["dev"]

        def evaluate() -> dict[str, float]:
            sums: dict[str, Any] = {}
            for some in np.array_split(np.arange(len(pairs.prompts)), pairs.per_epoch):
                result = asked(to_device(asked.prepare(pairs.batch(some)), here()))
                for name, value in {"loss": result.loss, "count": result.count, **result.parts}.items():
                    sums[name] = sums.get(name, 0.0) + value.item()
            count = sums.pop("count")
            return {name: value / count for name, value in sums.items()}

        return evaluate
