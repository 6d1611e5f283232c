"""Beam search: keep the few most probable beginnings of each sentence, and the best endings met on the way.

Letters: S sentences still being written, K beams of each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.memory import Choice, Memory, Room, Still
from regard.decoding.beams import search_all
from regard.decoding.decoder import Decoder, Ends, Hypothesis
from regard.decoding.scribe import Scribe
from regard.decoding.search import Beam, Search
from regard.decoding.steps import Abandoned, Steps, run_to_end
from regard.layers.block import Trace
from regard.layers.packed import packed
from regard.layers.stack import Written
from regard.rows import Tokens

BEAM = Beam()


def beam_search(model: Decoder | Scribe, source: Tokens, ends: Ends, how: Beam = BEAM) -> list[list[Hypothesis]]:
    """The best hypotheses for each row of the source, best first."""
    return run_to_end(beam_search_steps(model, source, ends, how))


@torch.inference_mode()
def beam_search_steps(
    model: Decoder | Scribe, source: Tokens, ends: Ends, how: Beam = BEAM, abandoned: Abandoned | None = None
) -> Steps[list[list[Hypothesis]]]:
    """The same step by step.  What is found of rows that are abandoned on the way is empty."""
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    if not len(source):
        return found
    if isinstance(model, Scribe):
        if model.fits:
            return (yield from search_all(model, source, ends, how, abandoned))
        return (yield from beam_search_steps(model.hand, source.to(model.device), ends, how, abandoned))
    device, limits = source.ids.device, ends.limits(source)
    sentence = torch.arange(len(source), device=device)  # (S,) its number in the source
    search = Search(len(source), max(int(limits.max()), 1), ends, how, device)
    search.begin(sentence, ends.first(source), limits)
    with packed(device):  # not longer than a step: others compute before the next one
        logits, state = first_step(model, source, search.token)
    while True:
        yield
        origin = search.extend(logits) + torch.arange(len(sentence), device=device)[:, None] * how.size
        kept = search.going.nonzero().squeeze(-1)  # the one wait for the device in a step
        if len(kept) < len(sentence):
            finished = (~search.going).nonzero().squeeze(-1)
            for number, hypotheses in zip(sentence[finished].tolist(), search.found(finished), strict=True):
                found[number] = hypotheses
        if abandoned is not None:
            kept = kept[[not abandoned(number) for number in sentence[kept].tolist()]]
        if not len(kept):
            return found
        if len(kept) < len(sentence):
            search.keep(kept)
            sentence, origin = sentence[kept], origin[kept]
        with packed(device):
            logits, state = model.step(search.token.flatten(), state.select(origin.flatten()))


def first_step(model: Decoder, source: Tokens, tokens: Tensor) -> tuple[Tensor, Any]:  # (S, K)
    """As all beams begin alike, logits of one are enough, (S, V), where a state can be made of one: of all, (S * K, V),
    else."""
    beams = tokens.shape[1]
    state = model.start(source, beams)
    if beams == 1 or not isinstance(state, Written) or any(trace.own is not None for trace in state.traces):
        return model.step(tokens.flatten(), state)
    logits, state = model.step(tokens[:, 0], Written(state.traces, state.at[::beams]))
    choice = Choice(torch.arange(len(tokens), device=tokens.device).repeat_interleave(beams))
    owns = [trace.own and trace.own.select(choice) for trace in state.traces]
    sources = [laid_out(trace.source) for trace in state.traces]
    return logits, Written(list(map(Trace, owns, sources)), state.at[choice.chosen])


def laid_out(source: Memory | Room | None) -> Memory | Room | None:
    """As beams look at it.  Kernels of a GPU, and those for half precision, read it as it lies."""
    can = isinstance(source, Room) and source.keys.device.type == "cpu" and source.keys.dtype == torch.float32
    return Still.of(source) if source and can else source
