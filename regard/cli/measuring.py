"""Commands that measure: how good a model is, what can be read off it, how fast it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from regard.cli.app import app, plain
from regard.cli.options import (
    Choices,
    Device,
    Encoding,
    Header,
    Json,
    Label,
    LabelColumns,
    LabelNames,
    LabelSeparator,
    Model,
    Second,
    SkipBad,
    Text,
    Threshold,
    Unlabelled,
    reading,
)
from regard.errors import UsageProblem

bench_app = plain(help="Measure regard beside its peers, on this machine.")
app.add_typer(bench_app, name="bench")
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}  # to a benchmark


@app.command()
def evaluate(
    model: Model,
    files: Annotated[
        list[Path], Argument(help="Examples; for a translator, a source file and its target file; text to be told.")
    ],
    text: Text = None,
    second: Second = None,
    label: Label = None,
    choices: Choices = None,
    header: Header = None,
    skip_bad: SkipBad = 0,
    unlabelled: Unlabelled = None,
    label_map: LabelNames = None,
    label_separator: LabelSeparator = None,
    label_columns: LabelColumns = None,
    threshold: Threshold = None,
    beam: Annotated[int, Option(help="Translating: hypotheses kept at each step; 1: greedy.")] = 5,
    penalty: Annotated[float, Option(help="Translating: divide log-probability by length to this power.")] = 1.0,
    lowercase: Annotated[bool, Option(help="Translating: compare without regard to case.")] = False,
    longest: Annotated[int, Option(help="Language models: tokens of a window; 0: what the model has.", min=0)] = 0,
    stride: Annotated[int, Option(help="Language models: from one window to the next; 0: half of one.", min=0)] = 0,
    streams: Annotated[int, Option(help="Language models: parts of the text read side by side.", min=1)] = 1,
    memory: Annotated[int | None, Option(help="Transformer-XL: places remembered; by default its own.", min=0)] = None,
    json_: Json = False,
    out: Annotated[Path | None, Option(help="Write the translations, or the answers as JSON lines, here.")] = None,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Score a model: a translator by BLEU (with its signature) and chrF, a fine-tuned encoder by its task's scores, a
    language model by its loss, its perplexity a token and a word, and bits a byte."""
    from regard.checkpoints.files import write_file
    from regard.commands.evaluate import evaluate as run
    from regard.decoding.beam import Beam
    from regard.tasks.measuring import Measuring

    how = reading(
        text, second, label, choices, header, skip_bad, unlabelled, encoding, label_map, label_separator, label_columns
    )
    measuring = Measuring(longest, stride, streams)
    scored = run(
        model, files, Beam(beam, penalty), lowercase=lowercase, reading=how, measuring=measuring, memory=memory,
        threshold=threshold, device=device,
    )  # fmt: skip
    if out:
        write_file(out, "".join(f"{line}\n" for line in scored.written()).encode())
    print(json.dumps(scored.to_dict()) if json_ else "\n".join(scored.lines()))


@app.command()
def probe(
    task: Annotated[Literal["classify", "tag"], Argument(help="Texts with labels, or words with tags.")],
    train: Annotated[Path, Argument(help="CSV, TSV or JSON lines; for tag, CoNLL columns or CoNLL-U.")],
    model: Annotated[Path | None, Option(help="The folder of an encoder, or of a run.")] = None,
    vectors: Annotated[Path | None, Option(help="Instead of a model: a file of word vectors.")] = None,
    window: Annotated[int, Option(help="Of word vectors, those of so many neighbours on either side too.", min=0)] = 0,
    test: Annotated[Path | None, Option(help="To score on; by default a quarter of the examples.")] = None,
    layers: Annotated[list[str] | None, Option(help="Layers to read; several times, `learned mix`, or `all`.")] = None,
    limit: Annotated[int | None, Option(help="Use the first so many examples.", min=4)] = None,
    label_map: LabelNames = None,
    seed: Annotated[int, Option(help="Of the split.")] = 0,
    device: Device = None,
) -> None:
    """What a logistic regression can read off an encoder, layer by layer; or off word vectors."""
    from regard.commands.probe import probe as run
    from regard.tasks.mix import LEARNED
    from regard.tasks.reader import CHOICES
    from regard.tasks.static import StaticReader
    from regard.text.vectors import Vectors

    if (model is None) == (vectors is None):
        raise UsageProblem("give either a model to probe or word vectors: --model FOLDER, or --vectors FILE")
    if window and model:
        raise UsageProblem(f"a window of {window} is for word vectors: an encoder reads whole sentences; leave it out")
    read = StaticReader(Vectors.read(vectors), window) if vectors else str(model)
    chosen = [*CHOICES, LEARNED] if layers == ["all"] else layers or ["last"]
    how = reading(label_map=label_map)
    for one in run(read, task, train, test, layers=chosen, limit=limit, seed=seed, reading=how, device=device):
        print(one)


@bench_app.command("all", context_settings=PASSED_ON)
def bench_all(context: typer.Context) -> None:
    """All of them, one after the other; `regard bench all --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("all", context.args))


@bench_app.command("train", context_settings=PASSED_ON)
def bench_train(context: typer.Context) -> None:
    """Training from the first step, beside the reference library's; `regard bench train --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("train", context.args))


@bench_app.command("scaling", context_settings=PASSED_ON)
def bench_scaling(context: typer.Context) -> None:
    """How time and memory grow with sizes; `regard bench scaling --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("scaling", context.args))


@bench_app.command("finetune", context_settings=PASSED_ON)
def bench_finetune(context: typer.Context) -> None:
    """Fine-tuning, beside the reference library's Trainer; `regard bench finetune --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("finetune", context.args))


@bench_app.command("generate", context_settings=PASSED_ON)
def bench_generate(context: typer.Context) -> None:
    """Going on with prompts, beside the reference library; `regard bench generate --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("generate", context.args))


@bench_app.command("translate", context_settings=PASSED_ON)
def bench_translate(context: typer.Context) -> None:
    """Translating, beside the reference library and ctranslate2; `regard bench translate --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("translate", context.args))


@bench_app.command("embed", context_settings=PASSED_ON)
def bench_embed(context: typer.Context) -> None:
    """Embedding, beside sentence-transformers and its like; `regard bench embed --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("embed", context.args))


@bench_app.command("memory", context_settings=PASSED_ON)
def bench_memory(context: typer.Context) -> None:
    """Memory of training, beside the reference library's Trainer; `regard bench memory --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("memory", context.args))


@bench_app.command("tokenize", context_settings=PASSED_ON)
def bench_tokenize(context: typer.Context) -> None:
    """Cutting texts into pieces, beside the reference library; `regard bench tokenize --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("tokenize", context.args))
