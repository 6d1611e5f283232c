"""A run that learns to label pictures: read, decode once, train, choose, save, score."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard import __version__
from regard.commands.label_options import check_label_options
from regard.commands.picture_settings import AugmentSettings, PictureSettings
from regard.commands.run_folder import claim, save_initial, save_result
from regard.config import to_dict
from regard.data.augment import Augment, Bend, Erase, Flip, Mix, PaddedCrop, Recolour, ResizedCrop, Sometimes, Step
from regard.data.images import Gallery
from regard.data.one_of_many import OneOfMany
from regard.data.picture_cache import PictureBatches, PictureCache
from regard.data.report import label_line
from regard.errors import Problem, UsageProblem
from regard.objectives.objective import Asked
from regard.objectives.pictured import SMALL, Pictured, Teacher
from regard.tasks.finetuned import Finetuned
from regard.tasks.image import Image, MultiLabelImage, PictureReader
from regard.tasks.metrics import Score, check_best
from regard.tasks.task import unseen_warnings
from regard.training.loop import Outcome, train
from regard.training.parallel import here, is_first, rank_count
from regard.training.resume import wait_for
from regard.training.settings import OptimizerConfig, TrainingConfig

HELD_OUT = 10  # one of so many pictures, where none are given to choose by
SHARE = 0.25  # of a GPU's free memory that pictures may fill
EPOCHS, RATE = (100, 5), (4e-4, 5e-5)  # from nothing, and to fine-tune
WEIGHTS = {"hard": 0.5, "soft": 0.1}  # of a teacher's word (Touvron et al. 2020)
A_DAY = 24 * 3600.0  # for the first rank to decode the pictures


class PictureRun:
    def __init__(self, settings: PictureSettings, model: str, folder: Path, cache: Path | None = None):
        if not settings.train:
            raise UsageProblem("name the pictures to learn from: a folder of classes, a table, IDX files or an archive")
        check_label_options("image", settings.reading)
        self.settings, self.model, self.folder, self.cache = settings, model, folder, cache or folder / "pictures"
        whole = reduce(add, (Image.read(path, settings.reading) for path in settings.train))
        self.task = Image.of(whole)
        self.train, self.dev = (whole, Image.read(settings.dev, settings.reading)) if settings.dev else split(whole)
        self.test = Image.read(settings.test, settings.reading) if settings.test else None
        for data in filter(None, (self.dev, self.test)):
            self.task.check(data)
        self.settings = replace(settings, best=check_best(settings.best, self.task.metrics(self.dev)))

    def go(
        self, finetuned: Finetuned, fresh: list[str], teacher: Finetuned | None, allow_changed_data: bool = False
    ) -> Finetuned:
        """Train the model; `fresh` are the names of tensors of one that has learned before, None at all else."""
        settings, device = self.settings, here()
        reader: Any = finetuned.reader
        reader.model.to(device)
        training = self.training(device)
        if is_first():
            begun = {"name": self.model, "task": "image", **to_dict(reader.model.encoder.config)}
            claim(self.folder, {"settings": to_dict(settings), "model": begun})
            print(*self.facts(fresh, training), sep="\n", file=sys.stderr, flush=True)
        cached, held = self.cached(reader, self.train, "train"), self.cached(reader, self.dev, "dev")
        store = on_device(cached.pixels, device)
        wanted = self.task.wanted(self.train)
        save_initial(self.folder, finetuned)
        outcome = train(
            Asked(reader.model, self.objective(reader, store, teacher)),
            PictureBatches(cached, wanted, settings.batch, settings.seed, on_device=store is not None),
            training, self.folder,
            evaluate=lambda: {score.key: score.value for score in self.scored(reader, held)},
            fingerprint=f"{self.train.stamp} {self.dev.stamp}",
            allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        reader.model.eval()
        if is_first():
            save_result(self.folder, finetuned, self.card(outcome, training))
            self.tell(reader, held)
        return finetuned

    def cached(self, reader: PictureReader, gallery: Gallery, name: str) -> PictureCache:
        """The pictures, decoded once: by the first rank, for all."""
        place = self.cache / name
        if not is_first():
            wait_for(place / "pictures.json", A_DAY)
        return PictureCache.make(gallery, reader.preprocessor, place)

    def scored(self, reader: PictureReader, held: PictureCache) -> list[Score]:
        scores = reader.scores_of(torch.from_numpy(np.asarray(held.pixels).copy()))
        return self.task.score(self.task.judged(scores, held.gallery.names), held.gallery)

    def objective(self, reader: PictureReader, store: Tensor | None, teacher: Finetuned | None) -> Pictured:
        s, side = self.settings, (reader.preprocessor.fixed or (224, 224))[0]
        return Pictured(
            reader.preprocessor, len(self.task.labels), store=store, augment=augment_of(s.augment, side),
            smoothing=s.smoothing, teacher=self.teacher(teacher) if teacher else None,
        )  # fmt: skip

    def teacher(self, teacher: Finetuned) -> Teacher:
        s, own, reader, task = self.settings, self.task.labels.names, cast(Any, teacher.reader), cast(Any, teacher.task)
        theirs = task.labels.names
        if isinstance(task, MultiLabelImage):
            raise Problem(f"{s.teacher} gives several labels per picture; give a teacher that gives one")
        if sorted(own) != sorted(theirs):
            some = ", ".join(sorted(set(own) ^ set(theirs))[:5])
            raise Problem(f"{s.teacher} has learned other labels than these pictures have (one lacks {some})")
        weight = WEIGHTS[s.distillation] if s.teacher_weight is None else s.teacher_weight
        order = tuple(theirs.index(name) for name in own)
        return Teacher(reader.model, reader.preprocessor, order, s.distillation, weight, s.temperature)

    def training(self, device: torch.device) -> TrainingConfig:
        s, per_epoch = self.settings, math.ceil(len(self.train) / (self.settings.batch * rank_count()))
        steps = max(round(s.epochs * per_epoch), 1)
        every = max(steps // s.evaluations, 1)
        return TrainingConfig(
            steps=steps, seed=s.seed, launch=s.launch,
            precision=s.precision or ("bf16" if device.type == "cuda" else "float32"),
            report_every=min(50, every), evaluate_every=every, save_every=every, keep=1, best=s.best,
            patience=s.patience,
            optimizer=OptimizerConfig(
                s.rate, s.schedule, int(s.warmup * steps), s.weight_decay, (0.9, 0.999), 1e-8, s.clip
            ),
        )  # fmt: skip

    def facts(self, fresh: list[str], training: TrainingConfig) -> Iterator[str]:
        if not self.settings.dev:
            yield f"no dev pictures: one in {HELD_OUT} of each class is held out to choose weights by; others: --dev"
        yield from [*self.train.lines(), *self.dev.lines()]
        yield label_line(self.train.labels)
        for data in filter(None, (self.dev, self.test)):
            yield from unseen_warnings(self.task.unseen(data), data.source)
        if fresh:
            yield f"new, and to be learned: {', '.join(fresh)}"
        size, rate = self.settings.batch, training.optimizer.rate
        yield f"{training.steps:,} steps of {size} pictures, rate {rate:.1e}, {training.precision}"

    def tell(self, reader: PictureReader, held: PictureCache) -> None:
        """How good the chosen weights are on the pictures that were held out."""
        print(f"on {self.dev.source}:", *self.scored(reader, held), sep="\n", file=sys.stderr)
        if self.test is not None:
            test = self.cached(reader, self.test, "test")
            print(f"on {self.test.source}:", *self.scored(reader, test), sep="\n", file=sys.stderr)

    def card(self, outcome: Outcome, training: TrainingConfig) -> str:
        """The README of the model: what it is, what it learned from, how good it was."""
        s = self.settings
        taught = [f"- taught by: {Path(s.teacher).name}, {s.distillation}"] if s.teacher else []
        return "\n".join([
            "# A model that labels pictures, trained by regard",
            "",
            f"- begun from: {Path(self.model).name}",
            f"- trained on: {len(self.train):,} pictures of {self.train.source}",
            *taught,
            f"- steps: {outcome.step} ({outcome.stopped_because}) of {s.batch} pictures; weights: the {outcome.chosen}",
            f"- {training.watched} on {self.dev.source}: {outcome.best}",
            f"- rate: {training.optimizer.rate:g}, {training.optimizer.schedule}; seed: {s.seed}; regard {__version__}",
            "",
        ])  # fmt: skip


def split(whole: Gallery) -> tuple[Gallery, Gallery]:
    """Most of the pictures, and those that are held out: one of so many of each kind, whatever the seed."""
    order = sorted(range(len(whole)), key=whole.labels.__getitem__)
    held = set(order[HELD_OUT // 2 :: HELD_OUT])
    if not held:
        raise Problem(f"{whole.source}: {len(whole)} pictures are too few to hold some out; name others (--dev)")
    rest = [number for number in range(len(whole)) if number not in held]
    return whole.take(rest, whole.source), whole.take(sorted(held), f"{whole.source}, one of {HELD_OUT}")


def augment_of(settings: AugmentSettings, side: int) -> Augment:
    s, steps = settings, list[Step]()
    crop = s.crop or ("padded" if side <= SMALL else "resized")  # small ones are moved and not cut
    if s.flip:
        steps.append(Flip())
    if s.degrees:
        steps.append(Sometimes(Bend(s.degrees, s.degrees / 90, s.degrees / 90), s.changed))
    if crop != "none":
        steps.append(PaddedCrop(max(side // 8, 1)) if crop == "padded" else ResizedCrop(side, s.least))
    if s.recolour:
        steps.append(Sometimes(Recolour(s.recolour), s.changed))
    if s.one_of_many:
        steps.append(Sometimes(OneOfMany(reach=s.reach), s.one_of_many))
    if s.erase:
        steps.append(Erase(s.erase))
    mixes = s.mixed and (s.blend or s.cut)
    return Augment(steps, Mix(s.blend, s.cut, s.mixed) if mixes else None)


def on_device(pixels: np.ndarray, device: torch.device) -> Tensor | None:
    """All pictures where the model is, if they fill a small part of it: then a batch is but numbers."""
    if device.type != "cuda" or pixels.nbytes > SHARE * torch.cuda.mem_get_info(device)[0]:
        return None
    return torch.from_numpy(np.asarray(pixels).copy()).to(device)
