"""Looking at a translation as it is written.

The decoder reads the side `target`: the token that begins, and what it has written.  What looks at the source is shown
by what it wrote, the side `written`, which is the same one token on, with the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import Problem
from regard.models import FAMILIES
from regard.rows import Tokens
from regard.tasks.translate import Translator, looks_back
from regard.viewer.explain import Question
from regard.viewer.look import Attending, Look
from regard.viewer.seen import (
    LONGEST,
    Seen,
    blank_of,
    chances,
    check_pieces,
    explainer,
    side_of,
    specials_of,
    told_of_length,
    watching,
    words_of,
)


def in_encoder(name: str) -> bool:
    return name.startswith("encoder.")


def in_decoder(name: str) -> bool:
    return name.startswith("decoder.") and not looks_back(name)


@dataclass(frozen=True, eq=False)
class Written:
    """A translation: the source's row, what the decoder reads, and what it writes."""

    translator: Translator
    source: list[int]
    target: list[int]
    written: list[int]

    def replayed(self, seen: Seen) -> Iterator[Tensor]:  # (1, V) each
        """The source is read, then the target token by token, as it was written; the logits of what comes next."""
        model, device = self.translator.model, self.translator.device
        state = model.start(Tokens.of([self.source], device))
        seen.part()
        for token in self.target:
            logits, state = model.step(torch.tensor([token], device=device), state)
            seen.part()
            yield logits

    def chance(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], query: int) -> Tensor:
        """How probable the token is that is written at this place, after such sources and targets: (B, 1)."""
        model, device = self.translator.model, self.translator.device
        target = Tokens.of(targets, device)
        states = model(Tokens.of(sources, device), target)[target.rows.last]
        return chances(model.logits(states), self.written[query])

    def of_source(self, query: int) -> Question:
        before, blank = self.target[: query + 1], blank_of(self.translator.source)

        def answer(rows: list[list[int]]) -> Tensor:
            return self.chance(rows, [before] * len(rows), query)

        return Question(self.translator.model, self.source, answer, looks_back, blank)

    def of_target(self, query: int) -> Question:
        before, blank = self.target[: query + 1], blank_of(self.translator.target)

        def answer(rows: list[list[int]]) -> Tensor:
            return self.chance([self.source] * len(rows), rows, query)

        return Question(self.translator.model, before, answer, in_decoder, blank)

    def of_encoder(self, query: int) -> Question:
        model, device = self.translator.model, self.translator.device

        def answer(rows: list[list[int]]) -> Tensor:  # (B, W)
            tokens = Tokens.of(rows, device)
            return model.encode(tokens)[tokens.rows.first + query]

        return Question(model, self.source, answer, in_encoder, blank_of(self.translator.source))


def look_at_translation(translator: Translator, text: str, target: str | Sequence[int] | None, name: str) -> Look:
    """The model's own translation, or a given one: a text, or its tokens."""
    pieces = translator.source.encode(text)
    check_pieces(pieces, text)
    source = translator.row(pieces[: LONGEST - 1])
    out = translator.translate([text])[0][0].tokens if target is None else given(translator, target)
    written = Written(translator, source, [translator.target.begin, *out], [*out, translator.target.end])
    with watching(translator.model) as seen:
        tops = words_of(written.replayed(seen), translator.target)
    predictions = [{"at": place, "top": top} for place, top in enumerate(tops)]
    return made(written, seen, name, told_of_length(len(pieces) + 1, len(source)), predictions)


def given(translator: Translator, target: str | Sequence[int]) -> list[int]:
    if not isinstance(target, str):
        return list(target)
    out, places = translator.target.encode(target), min(translator.places, LONGEST)
    check_pieces(out, target)
    if len(out) + 1 > places:
        raise Problem(f"the target has {len(out):,} pieces, and {places - 1:,} can be read; give a shorter one")
    return out


def made(written: Written, seen: Seen, name: str, notes: list[str], predictions: list[dict[str, Any]]) -> Look:
    translator, first, rest = written.translator, slice(1), slice(1, None)
    source, target = specials_of(translator.source), specials_of(translator.target)
    sides = {
        "source": side_of(written.source, translator.source, source),
        "target": side_of(written.target, translator.target, target),
        "written": side_of(written.written, translator.target, target),
    }
    states = seen.states(first, "source", "encoder") + seen.states(rest, "target", "decoder")
    output = {"side": "written", "predictions": predictions}
    family = family_of(translator)
    return Look(name or family, family, "encoder-decoder", sides, attentions(written, seen), states, notes, output)


def attentions(written: Written, seen: Seen) -> list[Attending]:
    first, rest, found = slice(1), slice(1, None), []
    for name, title, queries, keys, layers, question in (
        ("encoder", "Encoder", "source", "source", seen.layers(first, in_encoder), written.of_encoder),
        ("decoder", "Decoder", "target", "target", seen.layers(rest, in_decoder), written.of_target),
        ("cross", "From target to source", "written", "source", seen.layers(rest, looks_back), written.of_source),
    ):
        if layers:
            explain = explainer(seen.model, name, question)
            told = ["state" if name == "encoder" else "token"]
            found.append(Attending(name, title, queries, keys, layers, name == "decoder", told, explain))
    return found


def family_of(translator: Translator) -> str:
    if translator.published is not None:
        return str(translator.published.theirs["model_type"])
    return next(family for family, (config, _) in FAMILIES.items() if isinstance(translator.model.config, config))
