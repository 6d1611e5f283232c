"""Beam search: keep the few most probable beginnings of each sentence, and the best endings met on the way.

Letters: S sentences still being written, K beams of each.
"""

from __future__ import annotations

import torch

from regard.decoding.beams import search_all
from regard.decoding.decoder import Decoder, Ends, Hypothesis
from regard.decoding.scribe import Scribe
from regard.decoding.search import Beam, Search
from regard.layers.packed import packed
from regard.rows import Tokens

BEAM = Beam()


@torch.inference_mode()
def beam_search(model: Decoder | Scribe, source: Tokens, ends: Ends, how: Beam = BEAM) -> list[list[Hypothesis]]:
    """The best hypotheses for each row of the source, best first."""
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    if not len(source):
        return found
    if isinstance(model, Scribe):
        if model.fits:
            return search_all(model, source, ends, how)
        return beam_search(model.hand, source.to(model.device), ends, how)
    device, limits = source.ids.device, ends.limits(source)
    sentence = torch.arange(len(source), device=device)  # (S,) its number in the source
    search = Search(len(source), max(int(limits.max()), 1), ends, how, device)
    search.begin(sentence, ends.first(source), limits)
    with packed(device):
        state = model.start(source, how.size)
        while True:
            logits, state = model.step(search.token.flatten(), state)
            origin = search.extend(logits) + torch.arange(len(sentence), device=device)[:, None] * how.size
            kept = search.going.nonzero().squeeze(-1)  # the one wait for the device in a step
            if len(kept) < len(sentence):
                finished = (~search.going).nonzero().squeeze(-1)
                for number, hypotheses in zip(sentence[finished].tolist(), search.found(finished), strict=True):
                    found[number] = hypotheses
                if not len(kept):
                    return found
                search.keep(kept)
                sentence, origin = sentence[kept], origin[kept]
            state = state.select(origin.flatten())
