"""A fine-tuning run from files to a model: read, describe, give the encoder a head, train, choose, save, score."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.commands.run_folder import claim, save_initial, save_result
from regard.commands.settings import FinetuningSettings
from regard.config import to_dict
from regard.data.corpus import unknown_warnings
from regard.data.framed import ExampleBatches
from regard.data.lines import fingerprint
from regard.data.reading import Reading
from regard.data.report import answer_lines, duplicate_lines
from regard.data.split import DEV_SHARE, hold_out
from regard.errors import UsageProblem
from regard.models import ENCODERS
from regard.models.encoder import EncoderConfig, HeadedEncoder
from regard.objectives.objective import Asked
from regard.tasks.finetuned import TASKS, Finetuned, with_task
from regard.tasks.metrics import Score, check_best
from regard.tasks.multi_label import MultiLabel
from regard.tasks.reader import Reader, unknown_share
from regard.tasks.task import unseen_warnings
from regard.tasks.transformation import with_language
from regard.training.loop import Outcome, train
from regard.training.parallel import here, is_first, rank_count
from regard.training.settings import OptimizerConfig, Schedule, TrainingConfig

ENOUGH = 1000  # steps: small sets are read more often (Mosbach et al., 2021)
EPOCHS = 3, 20  # at least, at most
RATE, WIDTH, MOST = 5e-5, 768, 1e-4  # the rate at this width; narrower models take larger steps, up to the most
RECURRENT_RATE, ULMFIT_RATE = 1e-3, 1e-2  # of recurrent models, whose steps are larger

Manner = tuple[Schedule, tuple[float, float], float]  # schedule, betas, and what divides the rates from part to part
PLAIN: Manner = "linear", (0.9, 0.999), 1.0
ULMFIT: Manner = "slanted", (0.7, 0.99), 2.6  # Howard and Ruder (2018)


class FinetuningRun:
    def __init__(self, settings: FinetuningSettings, model: str, task: str, folder: Path):
        if not settings.train:
            raise UsageProblem("fine-tuning needs train=FILE to learn from")
        self.settings, self.model, self.name, self.folder = settings, model, task, folder
        kind, s = TASKS[task], settings
        self.train, self.dev = read_train_and_dev(kind.read, s)
        self.test = kind.read(s.test, s.reading) if s.test else None
        self.task = kind.of(self.train)
        if s.threshold is not None and isinstance(self.task, MultiLabel):
            self.task.threshold = s.threshold
        elif s.threshold is not None:
            raise UsageProblem(f"threshold={s.threshold}: only multi-label has one; leave it out for {task}")
        for data in filter(None, (self.dev, self.test)):
            self.task.check(data)  # before hours of training, not after
        self.best = check_best(s.best or f"highest {self.task.watched}", self.task.metrics(self.dev))

    def go(self, reader: Reader, config: EncoderConfig, allow_changed_data: bool = False) -> Finetuned:
        settings, device = self.settings, here()
        torch.manual_seed(settings.seed)
        finetuned, fresh = with_task(reader, self.name, self.task, config, settings.longest)
        finetuned.reader.model.to(device)
        examples = self.task.examples(finetuned.reader, self.train)
        training = self.training(len(examples), finetuned.reader.model, device)
        weight = self.task.language_weight if settings.language_weight is None else settings.language_weight
        objective = with_language(self.task, finetuned.reader.model, weight)
        if is_first():
            begun = {"name": self.model, "task": self.name, **to_dict(config)}
            claim(self.folder, {"settings": to_dict(settings), "model": begun})
            notes = [*examples.notes, *self.unknown_warnings(finetuned.reader)]
            print(*self.facts(fresh, notes, training), sep="\n", file=sys.stderr, flush=True)
        save_initial(self.folder, in_training(finetuned))
        outcome = train(
            Asked(finetuned.reader.model, objective),
            ExampleBatches(examples, settings.batch, settings.seed),
            training, self.folder,
            evaluate=lambda: by_name(finetuned.evaluate(self.dev)),
            fingerprint=fingerprint(filter(None, [settings.train, settings.dev])),
            allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        finetuned.reader.model.eval()
        self.task.finish(finetuned.reader.model)
        finetuned.tune(self.dev)
        if is_first():
            save_result(self.folder, finetuned, self.card(outcome, training))
            self.tell(finetuned)
        return finetuned

    def training(self, examples: int, model: HeadedEncoder, device: torch.device) -> TrainingConfig:
        s, per_epoch = self.settings, math.ceil(examples / (self.settings.batch * rank_count()))
        epochs = s.epochs or min(max(ENOUGH / per_epoch, EPOCHS[0]), EPOCHS[1])
        steps = max(round(epochs * per_epoch), 1)
        every = max(min(per_epoch, steps // EPOCHS[0]), 1)
        return TrainingConfig(
            steps=steps, seed=s.seed, launch=s.launch,
            precision=s.precision or ("bf16" if device.type == "cuda" else "float32"),
            report_every=min(50, every), evaluate_every=every, save_every=every, keep=1,
            best=self.best, patience=s.patience,
            optimizer=self.optimizer(model, steps, per_epoch),
        )  # fmt: skip

    def optimizer(self, model: HeadedEncoder, steps: int, per_epoch: int) -> OptimizerConfig:
        """What was asked for; else what is usual, or ULMFiT's way where a model of its kind has learned."""
        s, recurrent = self.settings, model.finetuned_by == "ulmfit"
        ulmfit = recurrent and self.model not in ENCODERS if s.ulmfit is None else s.ulmfit
        rate = (ULMFIT_RATE if ulmfit else RECURRENT_RATE) if recurrent else usual_rate(model.encoder.config.width)
        # The paper frees a part each epoch; in a short training sooner, that all may learn for half of it.
        soon = min(per_epoch, steps // (2 * len(model.parts())))
        schedule, betas, factor, unfreeze = (*ULMFIT, soon) if ulmfit else (*PLAIN, 0)
        return OptimizerConfig(
            s.rate or rate, s.schedule or schedule, int(s.warmup * steps), s.weight_decay, betas, 1e-6,
            discriminative=factor if s.discriminative is None else s.discriminative,
            unfreeze=unfreeze if s.unfreeze is None else math.ceil(s.unfreeze * per_epoch),
        )  # fmt: skip

    def facts(self, fresh: list[str], notes: Sequence[str], training: TrainingConfig) -> Iterator[str]:
        yield from self.data_facts()
        for data in filter(None, (self.dev, self.test)):
            yield from unseen_warnings(self.task.unseen(data), data.source)
        yield from notes
        yield f"new, and to be learned: {', '.join(fresh)}" if fresh else "the head goes on with what it has learned"
        size, rate = self.settings.batch, training.optimizer.rate
        yield f"{training.steps:,} steps of {size} examples, rate {rate:.1e}, {training.precision}"
        if training.optimizer.discriminative > 1:
            yield f"from the heads down, each part's rate is that above it over {training.optimizer.discriminative:g}"
        if training.optimizer.unfreeze:
            yield f"the heads learn first, and one more part below them every {training.optimizer.unfreeze:,} steps"

    def unknown_warnings(self, reader: Reader) -> Iterator[str]:
        """A warning for each file of whose tokens more than a few percent are unknown to the model."""
        for data in filter(None, (self.train, self.dev, self.test)):
            yield from unknown_warnings(unknown_share(reader, self.task.inputs(data)), data.source)

    def data_facts(self) -> Iterator[str]:
        """What will be learned: examples, columns and labels of each file, and duplicates within and between them."""
        files = {"train": self.train, "dev": self.dev, "test": self.test}
        yield from held_out_note(self.dev, self.settings)
        for data in filter(None, files.values()):
            yield from [*data.lines(), *answer_lines(data, self.name == "regress")]
        yield from column_warnings(files)
        yield from duplicate_lines(files)

    def tell(self, finetuned: Finetuned) -> None:
        """How good the chosen weights are on the files that were held out."""
        for data in (self.dev, self.test):
            if data is not None:
                print(f"on {data.source}:", *finetuned.evaluate(data), sep="\n", file=sys.stderr)

    def card(self, outcome: Outcome, training: TrainingConfig) -> str:
        """The README of the model: what it is, what it learned from, how good it was."""
        s = self.settings
        return "\n".join([
            f"# An encoder fine-tuned by regard: {self.name}",
            "",
            f"- begun from: {Path(self.model).name}",
            f"- trained on: {len(self.train):,} examples of {s.train}",
            f"- steps: {outcome.step} ({outcome.stopped_because}) of {s.batch} examples; weights: the {outcome.chosen}",
            f"- {training.watched} on {self.dev.source}: {outcome.best}",
            f"- rate: {training.optimizer.rate:g}, {training.optimizer.schedule}; seed: {s.seed}; regard {__version__}",
            "",
        ])  # fmt: skip


def read_train_and_dev(read: Callable[[str, Reading], Any], settings: FinetuningSettings) -> tuple[Any, Any]:
    """The examples to train on, and those to choose weights by: of a file of their own, or held out."""
    train = read(settings.train, settings.reading)
    if settings.dev:
        return train, read(settings.dev, settings.reading)
    return hold_out(train, settings.seed)


def held_out_note(dev: Any, settings: FinetuningSettings) -> list[str]:
    if settings.dev:
        return []
    return [
        f"no dev file: {len(dev):,} examples, {DEV_SHARE:.0%} of {settings.train}, are held out to choose weights by "
        f"(stratified, duplicates kept together, seed {settings.seed}); name others with --dev"
    ]


def column_warnings(files: dict[str, Any]) -> list[str]:
    """Columns of a file that were taken for something else than those of the training file."""
    train = getattr(files["train"], "columns", None)
    others = {name: getattr(data, "columns", None) for name, data in files.items() if data is not None}
    return [f"warning: of {name} other columns are read: {other}" for name, other in others.items() if other != train]


def in_training(finetuned: Finetuned) -> Finetuned:
    """The model with a config.json that says what its task has yet to settle when the training ends."""
    reader, published = copy(finetuned.reader), finetuned.reader.published
    reader.published = replace(published, theirs={**published.theirs, **finetuned.task.training_settings()})
    return Finetuned(reader, finetuned.name, finetuned.task)


def usual_rate(width: int) -> float:
    """A Transformer's: by its width."""
    return min(RATE * WIDTH / width, MOST)


def by_name(scores: list[Score]) -> dict[str, float]:
    """Scores as the training loop has them."""
    return {score.key: score.value for score in scores}
