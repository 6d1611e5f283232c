"""A translation run from files to a model: read, describe, learn vocabularies, train, choose, save.

The run is one folder: run.json (all that decides it), tokenizers, metrics.jsonl, checkpoints/, and at the end model/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.checkpoints.files import check_digest, write_with_digest
from regard.commands.evaluate import evaluate_translator
from regard.commands.run_folder import claim, save_initial, save_result
from regard.commands.settings import TranslationSettings
from regard.commands.show import make_model
from regard.commands.vector_start import begin_from
from regard.config import to_dict
from regard.data.batches import PairBatches
from regard.data.describe import describe_parallel
from regard.data.lines import fingerprint
from regard.data.parallel import Encoded, Parallel, encode, read_parallel
from regard.data.report import label_line
from regard.data.split import DEV_SHARE, MAX_STRATA, hold_out
from regard.data.templates import read_pairs
from regard.decoding.sample import GREEDY
from regard.errors import Problem, UsageProblem
from regard.models.t5 import T5Config
from regard.objectives.objective import Asked, to_device
from regard.objectives.translate import Translate
from regard.tasks.metrics import bleu, exact_match
from regard.tasks.translate import ONLY_PUBLISHED, SHARED, SOURCE, TARGET, Translator
from regard.text.tokenizer import SPECIAL, T5, Tokenizer
from regard.text.vectors import Vectors
from regard.training.loop import Outcome, train
from regard.training.parallel import here, is_first
from regard.training.resume import wait_for

A_DAY = 24 * 3600.0  # for the first rank to learn a vocabulary; should it fail, torchrun ends those that wait


class TranslationRun:
    def __init__(
        self,
        settings: TranslationSettings,
        model: Any,
        folder: Path,
        begun: Translator | None = None,
        vectors: Vectors | None = None,
    ):
        """`model` is a config: that of the translator to go on from, where one is `begun`; its words may begin from
        `vectors`."""
        self.settings, self.folder, self.begun, self.vectors = settings, folder, begun, vectors
        train = self.read("train", settings.train)
        self.train, self.dev = (
            (train, self.read("dev", settings.dev)) if settings.dev else hold_out(train, settings.training.seed)
        )
        self.test = self.read("test", settings.test) if settings.test else None
        with torch.device("meta"):
            make_model(model)  # one that cannot be made is refused before the folder is taken
        if isinstance(model, T5Config) and not settings.shared:
            raise UsageProblem("T5 has one vocabulary for source and target: leave out --no-shared")
        if settings.template and not (isinstance(model, T5Config) or (begun and begun.published)):
            raise UsageProblem(ONLY_PUBLISHED)
        if is_first():
            claim(folder, {"settings": to_dict(settings), "model": to_dict(model)})
        self.special = T5 if isinstance(model, T5Config) else SPECIAL
        self.source, self.target = (begun.source, begun.target) if begun else self.tokenizers()
        sizes = {"embedding": replace(model.embedding, vocab=self.source.size)}
        sizes["target_vocab"] = None if settings.shared else self.target.size
        self.model = model if begun else replace(model, **sizes)

    def read(self, name: str, files: tuple[str, ...]) -> Parallel:
        if self.settings.template and len(files) == 1:
            return read_pairs(files[0], self.settings.template, self.settings.reading)
        if len(files) != 2:
            raise Problem(f"{name}: expected a source file and a target file, found {len(files)}: {' '.join(files)}")
        return read_parallel(*files, encoding=self.settings.encoding)

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of the folder, or new ones learned from the training text; the first rank learns, the others wait."""
        sources, targets = self.train.sources, self.train.targets
        sides = {SHARED: [*sources, *targets]} if self.settings.shared else {SOURCE: sources, TARGET: targets}
        for name, lines in sides.items():
            place = self.folder / name
            if is_first() and not place.exists():
                s = self.settings
                learned = Tokenizer.train(s.tokenizer, lines, s.vocab, lowercase=s.lowercase, special=self.special)
                write_with_digest(place, learned.to_json().encode())
            wait_for(place, A_DAY)
            check_digest(place)
        loaded = [Tokenizer.load(self.folder / name) for name in sides]
        return loaded[0], loaded[-1]

    def go(self, allow_changed_data: bool = False) -> Translator:
        settings, device = self.settings, here()
        torch.manual_seed(settings.training.seed)
        translator = self.translator(device)
        asked = Asked(translator.model, Translate(settings.smoothing))
        longest = min(settings.longest, translator.places - 1)  # a place is for the first token, or the last
        encoded = encode(self.train, self.source, self.target, longest)
        dev = self.batches(encode(self.dev, self.source, self.target, longest))
        if is_first():
            told = describe_parallel(self.train, encoded, self.dev, self.test, self.source, self.target)
            print(*self.facts(), *told.lines(), sep="\n", file=sys.stderr, flush=True)
        save_initial(self.folder, translator)
        outcome = train(
            asked, self.batches(encoded), settings.training, self.folder,
            evaluate=lambda: self.evaluation(translator, dev),
            fingerprint=fingerprint([*settings.train, *settings.dev]),
            allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        translator.model.eval()
        if is_first():
            save_result(self.folder, translator, self.card(translator, outcome))
            self.score(translator)
        return translator

    def facts(self) -> Iterator[str]:
        """Whether pairs are held out; and of a task that is written out, its labels."""
        if not self.settings.dev:
            seed = self.settings.training.seed
            yield (
                f"no dev files: {len(self.dev):,} pairs, {DEV_SHARE:.0%} of {self.train.source}, are held out to "
                f"choose weights by (duplicates kept together, seed {seed}); name others with --dev"
            )
        if self.settings.template and len(set(self.train.targets)) <= MAX_STRATA:
            yield label_line(self.train.targets)

    def translator(self, device: torch.device) -> Translator:
        translator = self.begun or Translator.of(make_model(self.model), self.source, self.target)
        begin_from(self.vectors, translator.model.embed, self.source)
        if not self.settings.shared:
            begin_from(self.vectors, translator.model.embed_target, self.target)
        translator.model.to(device)
        if self.settings.template:
            translator.template = self.settings.template
        return translator

    def batches(self, encoded: Encoded) -> PairBatches:
        s = self.settings
        return PairBatches(encoded, s.budget, s.training.seed, self.target.begin, self.target.end)

    def evaluation(self, translator: Translator, dev: PairBatches) -> dict[str, float]:
        """The loss a token on dev, without smoothing, and how good greedy translations are."""
        plain, batches = Translate(smoothing=0.0), (dev.at(position) for position in range(dev.per_epoch))
        results = [plain.judge(translator.model, to_device(batch, translator.device)) for batch in batches]
        loss = sum(r.loss.item() for r in results) / sum(r.count.item() for r in results)
        hypotheses = [best[0].text for best in translator.translate(self.dev.sources, GREEDY)]
        score = bleu(hypotheses, self.dev.targets, lowercase=self.settings.lowercase).value
        return {"loss": loss, "bleu": score, "exact": exact_match(hypotheses, self.dev.targets).value}

    def score(self, translator: Translator) -> None:
        """Tell how good the chosen weights are on the test files, if some were given."""
        s = self.settings
        if s.test:
            reading = replace(s.reading, encoding=s.encoding)
            scored = evaluate_translator(translator, s.test, lowercase=s.lowercase, reading=reading)
            print(f"on {' and '.join(s.test)}:", *scored.lines(), sep="\n")

    def card(self, translator: Translator, outcome: Outcome) -> str:
        """The README of the model: what it is, what it learned from, how good it was."""
        s, parameters = self.settings, sum(p.numel() for p in translator.model.parameters())
        kind = "that of the model it began as" if self.begun else s.tokenizer
        return "\n".join([
            "# A translator made by regard",
            "",
            f"- family: {type(self.model).__name__.removesuffix('Config').lower()}, {parameters:,} parameters",
            f"- trained on: {len(self.train.sources):,} pairs of {' and '.join(s.train)}",
            *([f"- a row is read as: {s.template}"] if s.template else []),
            f"- vocabulary: {kind}, {self.source.size} source pieces, {self.target.size} target pieces",
            f"- steps: {outcome.step} ({outcome.stopped_because}); weights chosen: {outcome.chosen}",
            f"- {s.training.watched} on {s.dev[0] if s.dev else self.dev.source}: {outcome.best}",
            f"- seed: {s.training.seed}; regard {__version__}",
            "",
            "Use it: `regard translate --model FOLDER < text`",
            "",
        ])  # fmt: skip
