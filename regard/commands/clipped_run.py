"""PPO: a language model writes on from prompts and learns from what a reward model finds that worth."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from torch import nn

from regard.commands.align_run import AlignRun, left_out
from regard.commands.load import load_finetuned
from regard.data.parallel import Ragged
from regard.data.preferences import Phases, Prompts, fitting, read_prompts
from regard.errors import Problem
from regard.objectives.clipped import Clipped, Clipping
from regard.objectives.continued import summed
from regard.objectives.objective import Asked
from regard.rows import Tokens
from regard.tasks.rollouts import Rollouts, probabilities
from regard.tasks.writer import Writer
from regard.training.loop import Evaluate
from regard.training.parallel import here, rank_count

EVALUATED, SHOWN = 128, 3  # prompts that are written on from in an evaluation; and texts that are shown
SEED = 1  # of what is drawn in evaluations: always the same chance, so that only the model differs


class ClippedRun(AlignRun):
    best = "last reward"  # the highest reward may have been bought with KL

    def read(self, writer: Writer) -> Iterator[str]:
        s = self.settings
        self.judge = load_finetuned(s.reward, str(here()), tasks=("reward", "regress"))
        self.judge.model.requires_grad_(False)
        prompts = read_prompts(s.train, s.reading)
        self.prompts, notes = self.fitted(writer, prompts)
        yield from [*prompts.lines(), *notes]
        self.dev = self.prompts
        if s.dev:
            held_out = read_prompts(s.dev, s.reading)
            self.dev, notes = self.fitted(writer, held_out)
            yield from [*held_out.lines(), *notes]

    def fitted(self, writer: Writer, prompts: Prompts) -> tuple[list[list[int]], list[str]]:
        """The ids of prompts after which there are places for what is to be written."""
        room, rows = writer.limits.places - self.settings.most, writer.begun(prompts.texts)
        kept, first = fitting([len(row) for row in rows], room)
        if first is None:
            return rows, []
        why = (
            f"{len(rows[first]):,} tokens, and {self.settings.most} to write, are more than the "
            f"{writer.limits.places:,} places of the model. Shorten it, or have less written (--most)."
        )
        note = left_out(len(rows) - len(kept), rows, prompts.place(first), why)
        if not len(kept):
            raise Problem(f"{prompts.source}: no prompt leaves room to write. At {prompts.place(first)}: {why}")
        return [rows[number] for number in kept], [note]

    def asked(self, writer: Writer) -> tuple[Asked, Phases, int]:
        s = self.settings
        reference = copy.deepcopy(writer.model).requires_grad_(False)  # where it began
        self.rollouts = Rollouts(writer, reference, self.judge.predict, s.most)
        how = Clipping(s.clip, s.clip, s.value_weight, s.discount, s.trace, s.kl, s.target_kl, s.kl_gain)
        asked = Asked(writer.model, Clipped(writer.model.encoder.config.width, self.rollouts, how)).to(here())
        return asked, Phases(Ragged.of(self.prompts), s.texts, s.batch, s.passes, s.seed, rank_count()), s.steps

    def judges(self) -> list[nn.Module]:
        return [self.judge.model]

    def evaluation(self, asked: Asked) -> Evaluate:
        some = self.dev[:EVALUATED]

        def evaluate() -> dict[str, float]:
            found = self.rollouts(asked.model, Tokens.of(some, here()), SEED)
            gained = summed(probabilities(asked.model, found) - found["reference"], found["written"])
            self.samples = [self.sample(number, some[number], found) for number in range(min(SHOWN, len(some)))]
            lengths = found["written"].lengths.float()
            numbers = {"reward": found["worth"], "kl": gained, "length": lengths}
            return {name: values.mean().item() for name, values in numbers.items()}

        return evaluate

    def sample(self, number: int, prompt: list[int], found: dict[str, Any]) -> dict[str, Any]:
        """A text that was written, and what it is worth."""
        decode, words = self.rollouts.tokenizer.decode, found["written"].split(found["words"])[number]
        text = decode([*prompt, *words.tolist()])
        before = decode(prompt)
        shown = text.removeprefix(before) if text.startswith(before) else decode(words.tolist())
        return {"prompt": before, "text": shown, "reward": found["worth"][number].item()}
