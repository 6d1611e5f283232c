"""A fine-tuning run from recordings and transcripts to a model that writes down what is said."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from regard.commands.finetuning_run import FinetuningRun, by_name, held_out_note, read_train_and_dev
from regard.commands.label_options import check_label_options
from regard.commands.listeners import listener_of
from regard.commands.run_folder import claim, save_initial, save_result
from regard.commands.settings import FinetuningSettings
from regard.config import to_dict
from regard.data.recordings import SoundCorpus, fingerprint_of
from regard.data.report import duplicate_lines
from regard.data.sound_batches import SpokenBatches
from regard.errors import UsageProblem
from regard.models import SOUND
from regard.objectives.objective import Asked
from regard.tasks.finetuned import Finetuned
from regard.tasks.listener import Listener
from regard.tasks.metrics import check_best
from regard.tasks.transcribe import Transcribe, with_letters
from regard.text.letters import Letters
from regard.training.loop import train
from regard.training.parallel import here, is_first, rank_count
from regard.training.settings import OptimizerConfig, TrainingConfig

TRANSCRIBE = "transcribe"
ENOUGH = 1000  # steps: letters are told only after a while in which all is blank
EPOCHS = 3, 300  # at least, at most
LOOKS = 20  # at dev
HEAD_FIRST = 0.2  # the share of the steps over which a model that has learned is freed, from its head down


class TranscribingRun(FinetuningRun):
    def __init__(self, settings: FinetuningSettings, model: str, folder: Path):
        if not settings.train:
            raise UsageProblem("fine-tuning needs train=FILE to learn from")
        check_label_options(TRANSCRIBE, settings.reading)
        settings = replace(settings, best=settings.best or f"lowest {Transcribe.watched}")
        self.settings, self.model, self.name, self.folder = settings, model, TRANSCRIBE, folder
        self.train, self.dev = read_train_and_dev(Transcribe.read, settings)
        self.test = Transcribe.read(settings.test, settings.reading) if settings.test else None

    def write(self, set: tuple[str, ...], allow_changed_data: bool = False) -> Finetuned:
        settings, device = self.settings, here()
        listener, config = listener_of(self.model, set, settings.seed)
        torch.manual_seed(settings.seed)
        finetuned, fresh = with_letters(listener, listener.letters or Letters.learned(self.train.texts), config)
        heard: Any = finetuned.reader
        heard.model.to(device)
        self.task = finetuned.task
        self.best = check_best(settings.best, self.task.metrics(self.dev))
        if is_first():
            begun = {"name": self.model, "task": self.name, **to_dict(config)}
            claim(self.folder, {"settings": to_dict(settings), "model": begun})
        heard.model.encoder.waves.requires_grad_(not self.keeps_convolutions)
        spoken: Any = self.task.examples(heard, self.decoded(heard))
        examples: Any = replace(spoken, much=settings.varied)
        training = self.training(len(examples), heard.model, device)
        if is_first():
            print(*self.facts(fresh, examples.notes, training), sep="\n", file=sys.stderr, flush=True)
        save_initial(self.folder, finetuned)
        outcome = train(
            Asked(heard.model, self.task), SpokenBatches(examples, settings.batch, settings.seed), training,
            self.folder, evaluate=lambda: by_name(finetuned.evaluate(self.dev)),
            fingerprint=fingerprint_of([*self.train.every, *self.dev.every], heard.ears.rate),
            allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        heard.model.eval()
        if is_first():
            save_result(self.folder, finetuned, self.card(outcome, training))
            self.tell(finetuned)
        return finetuned

    def training(self, examples: int, model: Any, device: torch.device) -> TrainingConfig:
        """As for texts, but longer, and with fewer looks at dev, which is heard from its beginning to its end."""
        per_epoch = math.ceil(examples / (self.settings.batch * rank_count()))
        epochs = self.settings.epochs or min(max(ENOUGH / per_epoch, EPOCHS[0]), EPOCHS[1])
        self.settings = replace(self.settings, epochs=epochs)
        usual = super().training(examples, model, device)
        every = max(usual.evaluate_every, usual.steps // LOOKS)
        return replace(usual, evaluate_every=every, save_every=every, report_every=min(50, every))

    @property
    def has_learned(self) -> bool:
        return self.model not in SOUND

    @property
    def keeps_convolutions(self) -> bool:
        """As in the paper: what they have learned from much sound, few letters would only spoil."""
        return self.has_learned if self.settings.frozen is None else self.settings.frozen

    def optimizer(self, model: Any, steps: int, per_epoch: int) -> OptimizerConfig:
        """A new head learns before what it is given changes: its first gradients are noise to what lies below."""
        usual = super().optimizer(model, steps, per_epoch)
        if not self.has_learned or self.settings.unfreeze is not None:
            return usual
        return replace(usual, unfreeze=int(HEAD_FIRST * steps / (len(model.parts()) - 1)))

    def decoded(self, listener: Listener) -> SoundCorpus:
        """The samples to learn from.  They lie with the run; each process reads what it finds, or decodes its own."""
        rank = "" if is_first() else "-others"
        return SoundCorpus.make([self.train], listener.ears.rate, self.folder / f"sounds{rank}")

    def facts(self, fresh: list[str], notes: Sequence[str], training: TrainingConfig) -> Iterator[str]:
        files = {"train": self.train, "dev": self.dev, "test": self.test}
        yield from held_out_note(self.dev, self.settings)
        for data in filter(None, files.values()):
            yield from data.lines()
        yield from [*duplicate_lines(files), *self.characters(), *notes]
        yield f"new, and to be learned: {', '.join(fresh)}" if fresh else "the head goes on with what it has learned"
        size, rate = self.settings.batch, training.optimizer.rate
        yield f"{training.steps:,} steps of {size} recordings, rate {rate:.1e}, {training.precision}"
        if self.keeps_convolutions:
            yield "the convolutions stay as they are"
        if training.optimizer.unfreeze:
            yield f"the head learns first, and one more part below it every {training.optimizer.unfreeze:,} steps"

    def characters(self) -> Iterator[str]:
        """What the model writes; and what it does not, though it is said in a held-out recording."""
        letters: Letters = cast(Any, self.task).letters
        known = sorted(letter for letter in letters.ids if len(letter) == 1 and letters.ids[letter] != letters.space)
        yield f"characters: {len(known):,} and the space: {' '.join(known)}"
        for name, data in (("dev", self.dev), ("test", self.test)):
            said = {character for text in (data.texts if data else ()) for character in letters.cased(text)}
            if missing := sorted(letter for letter in said - letters.ids.keys() if not letter.isspace()):
                yield f"warning: {name} has characters that the model does not write: {' '.join(missing)}"

    def card(self, outcome: Any, training: TrainingConfig) -> str:
        return super().card(outcome, training).replace("An encoder", "A model of sound", 1)
