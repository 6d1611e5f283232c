"""T5's pretraining: text with gaps, and what stood in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.commands.encoders import check_vocabulary, read_tokenizer
from regard.commands.language_run import family_in
from regard.commands.load import load_translator
from regard.commands.pretraining_run import PretrainingRun, judged
from regard.commands.run_folder import claim, save_initial, save_result
from regard.commands.show import configured, make_model
from regard.config import did_you_mean, to_dict
from regard.data.corpus import Corpus
from regard.data.pretraining import CorpusBatches
from regard.errors import Problem, UsageProblem
from regard.models import t5
from regard.objectives.objective import Asked
from regard.objectives.spans import Gaps, Spans
from regard.tasks.translate import Translator
from regard.text.frame import Frame
from regard.text.tokenizer import T5
from regard.training.loop import Outcome
from regard.training.parallel import here, is_first

SPANS = "spans"
BARE = Frame((), (), (), segments=False)  # the objective frames what it has cut


class SpansRun(PretrainingRun):
    relative = True  # at a rate for matrices of hundredths a table of ones, as T5 begins, hardly moves

    def pieces(self) -> str:
        return self.settings.pieces or "unigram"

    def special(self, kind: str) -> tuple[str, ...]:
        return T5

    def translator(self, tokenizer: str | Path | None, set: tuple[str, ...]) -> Translator:
        """The model to train: a preset that has learned nothing, or one to go on from."""
        if self.settings.objective not in ("", SPANS):
            raise UsageProblem(f"T5 cannot be asked {self.settings.objective!r}; it is asked {SPANS}")
        if self.model not in t5.PRESETS:
            if not ("/" in self.model or Path(self.model).is_dir()):
                told = did_you_mean(self.model, t5.PRESETS)
                raise UsageProblem(f"{self.model} is no T5, and {SPANS} are asked of T5; {told}")
            if tokenizer or set:
                raise UsageProblem(f"{self.model} has a vocabulary and a shape; leave out --tokenizer and --set")
            translator = load_translator(self.model, "cpu")
            self.begin(translator.model.config)
            return translator
        check_vocabulary(set)
        config = configured(self.model, set, t5.PRESETS)
        self.begin(config)
        pieces = read_tokenizer(tokenizer) if tokenizer else self.learned()
        torch.manual_seed(self.settings.seed)
        sized = replace(config, embedding=replace(config.embedding, vocab=pieces.size))
        return Translator.of(make_model(sized), pieces, pieces)

    def begin(self, config: Any) -> None:
        """Take the folder, once it is known that the run can be."""
        for path in (*self.settings.texts, *self.settings.dev):
            if not Path(path).is_file():
                raise Problem(f"{path}: there is no such file. Check the path.")
        with torch.device("meta"):
            make_model(config)
        self.training(here())
        if is_first():
            model = {"name": self.model, **to_dict(config)}
            claim(self.folder, {"settings": to_dict(self.settings), "model": model})

    def train(self, translator: Any, allow_changed_data: bool = False) -> Translator:
        settings, pieces, device = self.settings, translator.source, here()
        gaps = Gaps(tuple(pieces.sentinels), pieces.begin, pieces.end, settings.share)
        asked = Asked(translator.model, Spans(gaps)).to(device)
        corpus = self.made(settings.texts, self.corpus, pieces)
        batches = self.batches(corpus, translator, [SPANS])
        dev = self.rows(self.held_out(pieces), translator, settings.longest) if settings.dev else None
        if is_first():
            told = [*corpus.lines(), *batches.lines(), *self.facts(asked, [SPANS], [])]
            print(*told, sep="\n", file=sys.stderr, flush=True)
        evaluate = (lambda: judged(asked, dev)) if dev else None
        save_initial(self.folder, translator)
        outcome = self.learn(asked, batches, corpus, evaluate, allow_changed_data)
        translator.model.eval()
        if is_first():
            save_result(self.folder, translator, self.card([SPANS], outcome))
        return translator

    def rows(self, corpus: Corpus, reader: object, longest: int, parts: object = None) -> CorpusBatches:
        return CorpusBatches(corpus, BARE, longest, self.settings.budget, self.settings.seed)

    def facts(self, asked: Asked, parts: list[str], fresh: list[str]) -> Iterator[str]:
        count = sum(p.numel() for p in asked.parameters())
        yield f"asked: {SPANS}; {count:,} parameters"
        if self.model not in t5.PRESETS:
            yield f"goes on from {self.model}"

    def card(self, parts: list[str], outcome: Outcome) -> str:
        return super().card(parts, outcome).replace("An encoder", "A T5", 1)


def is_spans(model: str, objective: str) -> bool:
    """Whether a run is a T5's: what is asked says so, or the model."""
    return objective == SPANS or model in t5.PRESETS or (not objective and family_in(model) == "t5")
