"""demo --train: two small models, a Transformer and an RNN with attention, learn to write dates the ISO way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.files import write_file
from regard.commands.evaluate import evaluate_translator
from regard.commands.settings import TranslationSettings
from regard.commands.translate import alignments
from regard.commands.translation_run import TranslationRun
from regard.data.dates import split_dates
from regard.decoding.sample import GREEDY
from regard.models.seq2seq import seq2seq
from regard.models.transformer import transformer
from regard.tasks.translate import Translator
from regard.training.settings import OptimizerConfig, TrainingConfig

TRAIN, DEV, TEST, SEED = 20_000, 300, 1_000, 1
EXAMPLES = ("the 3rd of May, 1998", "Saturday, 24 December 2011", "July 4th, '76")
MODELS: dict[str, tuple[Any, float, int]] = {  # the model, its learning rate, the steps it takes
    "transformer": (transformer(2, 64, 4, 256, dropout=0.0, norm_first=True), 4e-3, 2000),
    "rnn": (seq2seq("cosine", cell="gru", width=128, dropout=0.0), 4e-3, 1500),
}


def demo_dates(out: str | Path = "runs/demo") -> None:
    """Make the corpus, train both, score them on dates they have not seen, translate a few, show what was looked at."""
    torch.set_num_threads(1)  # the tensors are tiny: two threads would wait for each other
    folder = Path(out)
    files = corpus(folder / "dates")
    for name, (model, rate, steps) in MODELS.items():
        start = time.perf_counter()
        optimizer = OptimizerConfig(rate=rate, schedule="linear", warmup=100)
        training = TrainingConfig(steps=steps, report_every=200, optimizer=optimizer)
        settings = TranslationSettings(
            files["train"], files["dev"], tokenizer="characters", budget=768, smoothing=0.0, training=training
        )
        translator = TranslationRun(settings, model, folder / name).go()
        seconds = time.perf_counter() - start
        exact = evaluate_translator(translator, files["test"], GREEDY).exact
        print(f"{name}: {exact.value:.1f}% of unseen dates exactly right ({exact.detail}), trained in {seconds:.0f} s")
        show(translator, folder / f"{name}.png")


def corpus(folder: Path) -> dict[str, tuple[str, ...]]:
    """The files of each split, which have no date in common; made again, they are the same."""
    files = {}
    for split, sides in zip(("train", "dev", "test"), split_dates(TRAIN, DEV, TEST, SEED), strict=True):
        files[split] = tuple(str(folder / f"{split}.{side}") for side in ("spelt", "iso"))
        for path, lines in zip(files[split], sides, strict=True):
            write_file(Path(path), "".join(f"{line}\n" for line in lines).encode())
    return files


def show(translator: Translator, picture: Path) -> None:
    """Some translations, and what the first of them looked at."""
    written = [best[0] for best in translator.translate(EXAMPLES)]
    for source, one in zip(EXAMPLES, written, strict=True):
        print(f"  {source} -> {one.text}")
    [looked] = alignments(translator, EXAMPLES[:1], written[:1], words=False)
    print(looked.terminal())
    looked.picture(picture)
    print(f"The same as a picture: {picture}\n")
