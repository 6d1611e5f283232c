"""The command that makes any task text to text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from regard.cli.options import (
    ChangedData,
    Encoding,
    Header,
    Kind,
    Second,
    Settings,
    SkipBad,
    Text,
    Unlabelled,
    reading,
)
from regard.cli.training import train_app
from regard.commands.settings import TRANSLATION
from regard.training.settings import Schedule

TRAINING, OPTIMIZER = TRANSLATION.training, TRANSLATION.training.optimizer  # what holds if nothing is said


@train_app.command("text")
def train_text(
    train: Annotated[Path, Option(help="CSV, TSV, JSON lines or Parquet.")],
    dev: Annotated[
        Path | None, Option(help="Held out, to choose the best weights by; by default a tenth of --train.")
    ] = None,
    test: Annotated[Path | None, Option(help="Scored at the end.")] = None,
    model: Annotated[str, Option(help="T5: a folder, a name on the hub, or a preset, which begins from nothing.")] = (
        "t5-small"
    ),
    template: Annotated[
        str, Option(help="What makes a text of a row, columns in braces: 'sst2 sentence: {text}'.")
    ] = "{text}",
    text: Text = None,
    second: Second = None,
    label: Annotated[str | None, Option(metavar="COLUMN", help="The column of what is to be written.")] = None,
    header: Header = None,
    skip_bad: SkipBad = 0,
    unlabelled: Unlabelled = None,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    tokenizer: Annotated[Kind, Option(help="For a preset: how text is cut into pieces.")] = "unigram",
    vocab: Annotated[int, Option(help="For a preset: how many pieces, 100 sentinels among them.")] = TRANSLATION.vocab,
    longest: Annotated[int, Option(help="Pairs with more pieces are left out.")] = 512,
    budget: Annotated[int, Option(help="Tokens of a micro-batch.")] = TRANSLATION.budget,
    accumulate: Annotated[int, Option(help="Micro-batches a step.")] = TRAINING.accumulate,
    steps: Annotated[int, Option(help="Steps of the optimizer.")] = 2000,
    rate: Annotated[float, Option(help="The highest learning rate.")] = 3e-4,
    schedule: Annotated[Schedule, Option(help="How it falls after warm-up.")] = "linear",
    warmup: Annotated[int, Option(help="Steps over which it rises.")] = 100,
    best: Annotated[str, Option(help="Which weights are, as 'highest bleu' or 'lowest loss'.")] = "highest exact",
    precision: Annotated[Literal["float32", "bf16"], Option(help="Of the arithmetic.")] = TRAINING.precision,
    evaluate_every: Annotated[int, Option(help="Steps between evaluations on dev.")] = 200,
    save_every: Annotated[int, Option(help="Steps between checkpoints.")] = 200,
    report_every: Annotated[int, Option(help="Steps between reports.")] = TRAINING.report_every,
    patience: Annotated[int, Option(help="Evaluations to wait for a better one; 0: any number.")] = TRAINING.patience,
    seed: Annotated[int, Option(help="Of everything random.")] = TRAINING.seed,
    settings: Settings = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Train a T5 on any task as text to text: a template makes the text, and the label is written."""
    from regard.commands.train import train as run

    training = {
        "steps": steps, "accumulate": accumulate, "seed": seed, "precision": precision, "best": best,
        "report_every": report_every, "evaluate_every": evaluate_every, "save_every": save_every,
        "patience": patience, "optimizer": {"rate": rate, "schedule": schedule, "warmup": warmup},
    }  # fmt: skip
    files = {name: [str(path)] for name, path in (("train", train), ("dev", dev), ("test", test)) if path}
    run(
        "text", model=model, out=out, set=tuple(settings or ()), allow_changed_data=allow_changed_data, **files,
        tokenizer=tokenizer, vocab=vocab, longest=longest, budget=budget, smoothing=0.0, encoding=encoding,
        template=template, training=training,
        reading=reading(text, second, label, None, header, skip_bad, unlabelled, encoding),
    )  # fmt: skip
