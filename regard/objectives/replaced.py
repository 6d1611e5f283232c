"""Replaced token detection (ELECTRA, Clark et al. 2020): a small generator fills hidden places, and the model says of
every token whether it is the text's own."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.models.encoder import Encoder, HeadedEncoder, WordHead, begin
from regard.objectives.masked import Hiding
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, rescaled, scores_of, states_of
from regard.rows import Tokens


class Replaced(Objective):
    """The generator's masked loss, and `weight` times the discriminator's over all tokens that are not special.

    Targets are the hidden places; the discriminator's sums are scaled to as many.  A generator that `learned` before
    learns no more, and its loss is not counted: the paper's training in two stages, where the model begins as it.
    """

    def __init__(self, hiding: Hiding, generator: HeadedEncoder, weight: float = 50.0, *, learned: bool = False):
        super().__init__()
        self.hiding = replace(hiding, masked=0.85, random=0.0)  # the authors' code; their paper masks all
        self.generator, self.weight, self.learned = generator, weight, learned
        if learned:
            generator.requires_grad_(False)

    def prepare(self, batch: Batch) -> Batch:
        return {**self.hiding.hide(batch), "plain": self.hiding.plain[batch["tokens"].ids]}

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        tokens, places, words = batch["tokens"], batch["places"], batch["words"]
        with torch.no_grad() if self.learned else nullcontext():
            logits = scores_of(self.generator, "masked", states_of(self.generator, batch)[places], tokens.rows, self)
        guessed, drawn = answered(logits, words), sampled(logits)
        shown = Tokens(tokens.ids.index_copy(0, places, drawn), tokens.rows)
        # a word that the generator got right is no replacement
        replaced = torch.zeros_like(batch["plain"]).index_copy(0, places, drawn != words)
        seen = self.detect(model, {**batch, "tokens": shown}, replaced)

        loss = rescaled(seen.loss, seen.count, guessed.count)
        parts = {"generator_loss": guessed.loss.detach(), "generator_right": guessed.parts["right"]}
        parts["discriminator_loss"] = loss.detach()
        parts["discriminator_right"] = rescaled(seen.parts["right"], seen.count, guessed.count)
        parts["discriminator_found"] = rescaled(seen.parts["found"], replaced.sum(), guessed.count)
        return Result(self.weight * loss + (0 if self.learned else guessed.loss), guessed.count, parts)

    def detect(self, model: nn.Module, batch: Batch, replaced: Tensor) -> Result:
        """How well the model tells what was replaced, (N,) bool; of that, how much it found."""
        plain, rows = batch["plain"], batch["tokens"].rows
        scores = scores_of(model, "replaced", states_of(model, batch), rows, self).squeeze(1).float()  # (N, 1) -> (N,)
        losses = F.binary_cross_entropy_with_logits(scores, replaced.float(), reduction="none")
        suspected = scores > 0
        right, found = (suspected == replaced) & plain, suspected & replaced
        return Result((losses * plain).sum(), plain.sum(), {"right": right.sum(), "found": found.sum()})

    def train(self, mode: bool = True) -> Replaced:
        super().train(mode)
        if self.learned:
            self.generator.eval()  # as it is used, without dropout
        return self


@torch.no_grad()
def sampled(logits: Tensor) -> Tensor:  # (M, V) -> (M,)
    """A word from each softmax.  Of chances divided by exponential noise each is the largest as often as it is likely:
    Gumbel's trick, for which nobody waits for the device as torch.multinomial does."""
    chances = logits.float().softmax(-1)
    return (chances / torch.empty_like(chances).exponential_()).argmax(-1)


def generator_of(model: HeadedEncoder, share: float = 0.25) -> HeadedEncoder:
    """An encoder as deep as the model's and with so large a share of its heads, hence of its width, that reads with the
    model's own embedding: what one learns of words the other knows."""
    if not 0 < share <= 1:
        raise UsageProblem(f"a generator of {share} of the model's width: give more than 0 and at most 1")
    config, embed = model.encoder.config, model.encoder.embed
    block, attention = config.stack.block, config.stack.block.attention
    heads = max(1, round(share * attention.heads))
    width = heads * (block.width // attention.heads)
    block = replace(block, width=width, inner=4 * width, attention=replace(attention, heads=heads))
    config = replace(config, stack=replace(config.stack, block=block))
    generator = HeadedEncoder(Encoder(config), {"masked": WordHead(config, "gelu")})  # the head of ELECTRA's files
    begin(generator)
    generator.encoder.embed = embed
    return generator.to(embed.tokens.weight.device)
