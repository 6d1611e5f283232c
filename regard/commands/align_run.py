"""What both ways of aligning a language model share: a run from a model and files to a model that writes better."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import __version__
from regard.checkpoints.weights import weights_of
from regard.commands.align_settings import AligningSettings
from regard.commands.run_folder import claim, save_initial, save_result
from regard.config import to_dict
from regard.data.lines import fingerprint
from regard.models.heads import with_heads
from regard.objectives.objective import Asked
from regard.tasks.writer import Writer
from regard.training.ahead import Batches
from regard.training.loop import Evaluate, Outcome, train
from regard.training.parallel import here, is_first
from regard.training.report import Metrics, Record, Reporter, default_reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

RATE, WIDTH, MOST = 1e-5, 768, 1e-4  # the rate at this width; narrower models take larger steps, up to the most
TIMES = 10  # evaluations and checkpoints, where nothing is said
SAMPLES = "samples.jsonl"
TOLD = ("reward", "kl", "coefficient", "entropy", "value_loss", "clipped", "length", "right", "margin")


class AlignRun:
    """One way has to say what it reads (`read`), what it asks (`asked`), and how that is judged (`evaluation`)."""

    best: str  # which weights are

    def __init__(self, settings: AligningSettings, model: str, folder: Path):
        self.settings, self.model, self.folder = settings, model, folder
        self.samples: list[dict[str, Any]] = []  # of the last evaluation

    def read(self, writer: Writer) -> Iterator[str]:
        """Read the files as this model reads them; facts to tell."""
        raise NotImplementedError(type(self).__name__)

    def asked(self, writer: Writer) -> tuple[Asked, Batches, int]:
        """The model and what it is asked, the batches, and how many steps there are."""
        raise NotImplementedError(type(self).__name__)

    def evaluation(self, asked: Asked) -> Evaluate | None:
        raise NotImplementedError(type(self).__name__)

    def judges(self) -> Iterable[nn.Module]:
        """Other models that decide what is learned."""
        return ()

    def go(self, writer: Writer, allow_changed_data: bool = False) -> Writer:
        s, config = self.settings, writer.model.encoder.config
        torch.manual_seed(s.seed)
        published, _ = with_heads(writer.published, {"write"}, config=still(config))
        writer = Writer(published, writer.tokenizer, writer.pooling)
        writer.model.to(here())
        facts = [*self.read(writer)]
        asked, batches, steps = self.asked(writer)
        training = self.training(steps, config.width)
        if is_first():
            claim(self.folder, {"settings": to_dict(s), "model": {"name": self.model, **to_dict(config)}})
            facts.append(f"{steps:,} steps of {s.batch}, rate {training.optimizer.rate:.1e}, {training.precision}")
            print(*facts, sep="\n", file=sys.stderr, flush=True)
        save_initial(self.folder, writer)
        outcome = train(
            asked, batches, training, self.folder, evaluate=self.evaluation(asked), reporter=Aloud(self),
            fingerprint=self.fingerprint(writer), allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        published, _ = with_heads(writer.published, {"write"}, config=config)  # its dropout again
        writer = Writer(published, writer.tokenizer, writer.pooling)
        if is_first():
            save_result(self.folder, writer, self.card(outcome, training))
        return writer

    def training(self, steps: int, width: int) -> TrainingConfig:
        s = self.settings
        every = max(steps // TIMES, 1)
        return TrainingConfig(
            steps=steps, seed=s.seed, precision=s.precision or ("bf16" if here().type == "cuda" else "float32"),
            report_every=s.report_every, evaluate_every=s.evaluate_every or every, save_every=s.save_every or every,
            best=self.best, optimizer=OptimizerConfig(
                s.rate or min(RATE * WIDTH / width, MOST), "linear", int(s.warmup * steps), s.weight_decay,
                (0.9, 0.99), 1e-6,
            ),
        )  # fmt: skip

    def fingerprint(self, writer: Writer) -> str:
        """Of the files, and of the models that decide what is learned: where this one begins, and who judges it."""
        digest = hashlib.sha256(fingerprint(filter(None, (self.settings.train, self.settings.dev))).encode())
        for module in (writer.model, *self.judges()):
            for tensor in weights_of(module).values():
                digest.update(tensor.float().cpu().numpy().tobytes())
        return digest.hexdigest()

    def card(self, outcome: Outcome, training: TrainingConfig) -> str:
        """The README of the model: what it is, what it learned from."""
        s = self.settings
        judge = [f"- judged by: {Path(s.reward).name}"] if s.reward else []
        return "\n".join([
            f"# A language model aligned by regard: {s.objective}",
            "",
            f"- begun from: {Path(self.model).name}",
            f"- learned from: {Path(s.train).name}",
            *judge,
            f"- steps: {outcome.step} of {s.batch}; {training.watched} at the end: {outcome.best}",
            f"- rate: {training.optimizer.rate:g}; seed: {s.seed}; regard {__version__}",
            "",
        ])  # fmt: skip


class Aloud(Reporter):
    """Tells what is usual, then what matters here; and writes samples beside the metrics."""

    def __init__(self, run: AlignRun):
        self.run, self.inner = run, default_reporter()
        self.file = Metrics(run.folder / SAMPLES)

    def begin(self, step: int, steps: int) -> None:
        self.file.rewind(step)
        self.inner.begin(step, steps)

    def tell(self, record: Record) -> None:
        self.inner.tell(record)
        if "evaluation" not in record:
            self.say(f"  {'  '.join(f'{name} {record[name]:.4g}' for name in TOLD if name in record)}")
            return
        for sample in self.run.samples:
            self.file.write({"step": record["step"], **sample})
            shown = f"{sample['prompt']} | {sample['text']}".replace("\n", " / ")
            self.say(f"  [{sample['reward']:+.2f}] {shown}")

    def say(self, text: str) -> None:
        self.inner.say(text)

    def end(self) -> None:
        self.inner.end()


def still(config: Any) -> Any:
    """The same config with nothing dropped: what a model finds probable is compared with what it found before."""
    changes = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            changes[field.name] = still(value)
        elif field.name.endswith("dropout"):
            changes[field.name] = 0.0
    return replace(config, **changes)


def left_out(count: int, every: Sequence[object], place: str, why: str) -> str:
    return f"warning: {count:,} of {len(every):,} are left out, the first at {place}: {why}"
