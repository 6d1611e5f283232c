"""Translation as a person wants it: text in, text out, and what was looked at on the way."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.attention.watch import watch
from regard.data.batches import sorted_batches
from regard.decoding.beam import BEAM, Beam, beam_search_steps
from regard.decoding.decoder import Ends, Hypothesis
from regard.decoding.sample import Sampling, sample_steps
from regard.decoding.scribe import Precision, Scribe
from regard.decoding.steps import Abandoned, Steps, run_to_end
from regard.errors import Problem, UsageProblem
from regard.layers.longest import longest_row
from regard.models.folder import (
    is_published_translator,
    load_model,
    load_published_translator,
    save_files,
    save_model,
)
from regard.models.published_translator import PublishedTranslator
from regard.models.t5 import T5, new
from regard.rows import Tokens
from regard.tasks.device import moved, settled
from regard.tasks.vocabulary_size import check_vocabulary_size
from regard.text.published import load_pair
from regard.text.tokenizer import FILE, Tokenizer
from regard.text.vocabulary import Vocabulary

SHARED, SOURCE, TARGET = FILE, f"source.{FILE}", f"target.{FILE}"
LONGEST = 1024  # pieces of a source that are read, or fewer where the model's tables end; a longer one is cut
TEMPLATE = "regard_template"  # in a config.json, where nobody else looks for it
ONLY_PUBLISHED = "examples are turned into texts for T5, and for translators that others publish; choose one of these"
BUDGET = 4096  # tokens of a batch, each beam counted


@dataclass(frozen=True)
class Translation:
    text: str
    tokens: list[int]
    score: float  # what hypotheses are ranked by
    log_probability: float
    cut: bool = False  # its source was too long, and not read to the end


@dataclass(frozen=True, eq=False)
class Attended:
    """What a translation looked at: for each target piece, how much at each source piece."""

    source: list[str]
    target: list[str]
    weights: np.ndarray  # (target, source)


class Translator:
    """A model with its vocabularies (one for both sides, or one each); and how it was published, if others did."""

    def __init__(
        self, model: nn.Module, source: Vocabulary, target: Vocabulary, published: PublishedTranslator | None = None
    ):
        self.model: Any = model
        self.scribe = Scribe(model)
        self.source, self.target, self.published = source, target, published
        self.places = longest_row(model)
        self.longest = min(LONGEST, self.places - 1)  # a place is for the end
        self.ends = Ends(target.begin, target.end, longest=self.places)
        if published is not None:
            self.ends = replace(self.ends, never=never_written(published, target))
            if published.longest is not None:  # the same for all
                self.ends = replace(self.ends, ratio=0.0, slack=published.longest)

    @classmethod
    def of(cls, model: nn.Module, source: Vocabulary, target: Vocabulary) -> Translator:
        """A model that was made here, in the form that others know if its family has one."""
        published = new(model, target.begin, target.end) if isinstance(model, T5) else None
        return cls(model, source, target, published)

    @classmethod
    def load(
        cls, folder: str | Path, device: torch.device | str | None = None, ignore: Sequence[str] = ()
    ) -> Translator:
        folder = Path(folder)
        if is_published_translator(folder):
            return cls.load_published(folder, device, ignore)
        model = moved(load_model(folder, ignore), device)
        names = [SHARED] if (folder / SHARED).exists() else [SOURCE, TARGET]
        loaded = [Tokenizer.load(folder / name) for name in names]
        source, target = loaded[0], loaded[-1]
        check_sizes(model, (folder / names[0], source), (folder / names[-1], target))
        return cls(model, source, target)

    @classmethod
    def load_published(
        cls, folder: Path, device: torch.device | str | None = None, ignore: Sequence[str] = ()
    ) -> Translator:
        published = load_published_translator(folder, ignore)
        source, target = load_pair(folder)
        sides = (f"{folder}: the source's side", source), (f"{folder}: the target's side", target)
        check_sizes(published.model, *sides, padded=published.theirs if isinstance(published.model, T5) else None)
        published.check_ids(target.begin, target.end, folder)
        return cls(moved(published.model, device), source, target, published)

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the folder that was loaded: of what others published, in their form."""
        source, target = self.source.files(), self.target.files()
        about = {"README.md": card.encode()} if card else {}
        if self.published is not None:
            save_files(Path(folder), {**self.published.files(), **source, **target, **about})
        elif self.source is self.target:
            save_model(Path(folder), self.model, {SHARED: source[FILE], **about})
        else:
            save_model(Path(folder), self.model, {SOURCE: source[FILE], TARGET: target[FILE], **about})

    @property
    def precision(self) -> Precision:
        """Of the arithmetic in translating."""
        return self.scribe.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self.scribe = Scribe(self.model, precision, self.scribe.launch)

    @property
    def template(self) -> str:
        """What made texts of the examples that it was trained on; empty where it was trained on texts."""
        return str(self.published.theirs.get(TEMPLATE, "")) if self.published else ""

    @template.setter
    def template(self, template: str) -> None:
        if self.published is None:
            raise UsageProblem(ONLY_PUBLISHED)
        self.published = replace(self.published, theirs={**self.published.theirs, TEMPLATE: template})

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def __call__(self, text: str, **settings) -> str:
        """One text; the settings are those of Beam, with `beam` for its size."""
        size = settings.pop("beam", Beam.size)
        return self.translate([text], Beam(size, **settings))[0][0].text

    def translate(self, texts: Sequence[str], how: Beam | Sampling | None = None) -> list[list[Translation]]:
        """The best translations of each text, best first, in the order of the texts; a blank text becomes empty."""
        return run_to_end(self.translate_steps(texts, how))

    def translate_steps(
        self, texts: Sequence[str], how: Beam | Sampling | None = None, abandoned: Abandoned | None = None
    ) -> Steps[list[list[Translation]]]:
        """The same step by step.  Texts that are abandoned on the way have no translation, or an empty one."""
        how = how or BEAM
        pieces = self.source.encode_batch(list(texts))
        encoded = [self.row(one) for one in pieces]
        found: list[list[Translation]] = [[Translation("", [], 0.0, 0.0)] for _ in texts]
        full = [number for number, text in enumerate(texts) if text.strip() and pieces[number]]
        beams = how.size if isinstance(how, Beam) else 1
        # slots are filled again as sentences are done, so that one batch is enough
        budget = sys.maxsize if self.scribe.fits else max(BUDGET // beams, 1)
        for batch in sorted_batches([len(encoded[number]) for number in full], budget):
            numbers = [full[i] for i in batch if abandoned is None or not abandoned(full[i])]
            of_batch = abandoned and partial(abandoned_in, abandoned, numbers)
            rows = yield from self.decode_steps([encoded[number] for number in numbers], how, of_batch)
            for number, row in zip(numbers, rows, strict=True):
                is_cut = len(pieces[number]) > self.longest
                found[number] = [replace(one, cut=True) for one in row] if is_cut else row
        return found

    def decode(self, rows: list[list[int]], how: Beam | Sampling) -> list[list[Translation]]:
        """One batch, as the model sees it."""
        return run_to_end(self.decode_steps(rows, how))

    def decode_steps(
        self, rows: list[list[int]], how: Beam | Sampling, abandoned: Abandoned | None = None
    ) -> Steps[list[list[Translation]]]:
        """One batch, as the model sees it."""
        source = Tokens.of(rows)
        with settled(self.model):
            if isinstance(how, Beam):
                written = yield from beam_search_steps(self.scribe, source, self.ends, how, abandoned)
            else:
                found = yield from sample_steps(self.scribe, source, self.ends, how, abandoned)
                written = [[one] for one in found]
        return [[self.translation(one) for one in row] for row in written]

    def translation(self, written: Hypothesis) -> Translation:
        text = self.target.decode(written.tokens).replace("\n", " ")  # a vocabulary of bytes could break the line
        return Translation(text, written.tokens, written.score, written.log_probability)

    def row(self, pieces: list[int]) -> list[int]:
        """A source as the model reads it: as many pieces as it can, then the end, so that no row is empty."""
        return [*pieces[: self.longest], self.source.end]

    def attention(self, sources: Sequence[str], targets: Sequence[Translation | str]) -> list[Attended]:
        """What the model looks at when it writes these targets: the mean over the heads of its layers.
        Reading a text at once looks where writing it step by step did."""
        rows = [self.row(pieces) for pieces in self.source.encode_batch(list(sources))]
        wanted = [self.target.encode(t) if isinstance(t, str) else t.tokens for t in targets]
        return [self._attended(row, out) for row, out in zip(rows, wanted, strict=True)]

    @torch.inference_mode()
    def _attended(self, row: list[int], out: list[int]) -> Attended:
        source, target = Tokens.of([row], self.device), Tokens.of([[self.target.begin, *out]], self.device)
        self.model.eval()
        with watch(self.model) as seen:
            self.model(source, target)
        looks = [calls[0][0].float().mean(0) for name, calls in seen.items() if looks_back(name)]
        if not looks:
            raise Problem("this model has no attention from target to source: there is nothing to show")
        weights = torch.stack(looks).mean(0)[:-1].cpu().numpy()  # without the row that writes the end
        pieces = [self.source.piece(i) for i in row], [self.target.piece(i) for i in out]
        return Attended(*pieces, weights)


def abandoned_in(abandoned: Abandoned, numbers: Sequence[int], place: int) -> bool:
    """Of a batch: whether the text at this place of it was abandoned."""
    return abandoned(numbers[place])


def never_written(published: PublishedTranslator, target: Vocabulary) -> tuple[int, ...]:
    """The token to begin with, which others take for padding; and what a table holds beyond the last piece."""
    nothing = range(target.size, published.model.out.out_features)
    return tuple(nothing) if published.writes_padding else (target.begin, *nothing)


def check_sizes(model: Any, *sides: tuple[object, Vocabulary], padded: Mapping[str, Any] | None = None) -> None:
    """Whether the vocabularies of source and target, each with where it lies, are the model's.  T5's tables are a
    little longer than they need be: `padded` is its config.json."""
    vocab = model.config.embedding.vocab
    for (place, side), size in zip(sides, (vocab, model.config.target_vocab or vocab), strict=True):
        if padded is not None:
            check_vocabulary_size(place, side.size, size, padded)
        elif side.size != size:
            raise Problem(
                f"{place} has {side.size} pieces and the model was made for {size}: it belongs to another model"
            )


def looks_back(name: str) -> bool:
    """Is this the attention of a target to its source?"""
    return name == "attention" or name.endswith(".cross")
