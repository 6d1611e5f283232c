"""Commands that train: from text to translators and encoders, and from encoders to what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli.app import app, plain
from regard.cli.options import (
    ChangedData,
    Choices,
    Encoding,
    Files,
    Header,
    Kind,
    Label,
    LabelColumns,
    LabelNames,
    LabelSeparator,
    Precision,
    Second,
    Settings,
    SkipBad,
    Task,
    Text,
    Threshold,
    Unlabelled,
    reading,
)
from regard.commands.settings import FINETUNING, PRETRAINING, TRANSLATION
from regard.training.settings import Launch, Schedule

Launching = Annotated[
    Launch, Option(help="Of kernels on a GPU: one by one; a stack's all at once, for small batches; compiled; or both.")
]

train_app = plain(help="Train a model from files.")
app.add_typer(train_app, name="train")
TRAINING, OPTIMIZER = TRANSLATION.training, TRANSLATION.training.optimizer  # what holds if nothing is said


@train_app.command("translate")
def train_translate(
    train: Annotated[Files, Option(metavar="SOURCE TARGET", help="Parallel text, line by line; .gz and .xz too.")],
    dev: Annotated[
        Files | None,
        Option(metavar="SOURCE TARGET", help="Held out, to choose the best weights by; by default a tenth of --train."),
    ] = None,
    test: Annotated[Files | None, Option(metavar="SOURCE TARGET", help="Scored at the end.")] = None,
    model: Annotated[
        str, Option(help="A preset; or a folder or a name on the hub, to go on from.")
    ] = "transformer-small",
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    tokenizer: Annotated[Kind, Option(help="How text is cut into pieces.")] = TRANSLATION.tokenizer,
    vocab: Annotated[int, Option(help="How many pieces.")] = TRANSLATION.vocab,
    shared: Annotated[bool, Option(help="One vocabulary for both languages.")] = TRANSLATION.shared,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = TRANSLATION.lowercase,
    vectors: Annotated[Path | None, Option(help="Word vectors for the embedding of a preset to begin with.")] = None,
    longest: Annotated[int, Option(help="Pairs with more pieces are left out.")] = TRANSLATION.longest,
    budget: Annotated[int, Option(help="Tokens of a micro-batch.")] = TRANSLATION.budget,
    accumulate: Annotated[int, Option(help="Micro-batches a step.")] = TRAINING.accumulate,
    steps: Annotated[int, Option(help="Steps of the optimizer.")] = TRAINING.steps,
    rate: Annotated[float, Option(help="The highest learning rate.")] = OPTIMIZER.rate,
    schedule: Annotated[Schedule, Option(help="How the rate falls after warm-up.")] = OPTIMIZER.schedule,
    warmup: Annotated[int, Option(help="Steps over which the rate rises.")] = OPTIMIZER.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = OPTIMIZER.weight_decay,
    clip: Annotated[float, Option(help="The longest gradient; 0: any.")] = OPTIMIZER.clip,
    smoothing: Annotated[float, Option(help="Label smoothing.")] = TRANSLATION.smoothing,
    precision: Annotated[Literal["float32", "bf16"], Option(help="Of the arithmetic.")] = TRAINING.precision,
    launch: Launching = TRAINING.launch,
    evaluate_every: Annotated[int, Option(help="Steps between evaluations (BLEU on dev).")] = TRAINING.evaluate_every,
    save_every: Annotated[int, Option(help="Steps between checkpoints.")] = TRAINING.save_every,
    report_every: Annotated[int, Option(help="Steps between reports.")] = TRAINING.report_every,
    patience: Annotated[int, Option(help="Evaluations to wait for a better one; 0: any number.")] = TRAINING.patience,
    average: Annotated[int, Option(help="Offer the mean of so many last checkpoints; 0: do not.")] = TRAINING.average,
    seed: Annotated[int, Option(help="Of everything random.")] = TRAINING.seed,
    settings: Settings = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Train a translator on parallel text."""
    optimizer = {"rate": rate, "schedule": schedule, "warmup": warmup, "weight_decay": weight_decay, "clip": clip}
    training = {
        "steps": steps, "accumulate": accumulate, "seed": seed, "precision": precision, "launch": launch,
        "report_every": report_every, "evaluate_every": evaluate_every, "save_every": save_every,
        "patience": patience, "average": average, "optimizer": optimizer,
    }  # fmt: skip
    files = {name: [str(p) for p in pair] for name, pair in (("train", train), ("dev", dev), ("test", test)) if pair}
    from regard.commands.train import train as run

    run(
        "translate", model=model, out=out, set=tuple(settings or ()), allow_changed_data=allow_changed_data, **files,
        tokenizer=tokenizer, vocab=vocab, shared=shared, lowercase=lowercase, longest=longest, budget=budget,
        smoothing=smoothing, encoding=encoding, vectors=str(vectors or ""), training=training,
    )  # fmt: skip


@app.command()
def pretrain(
    model: Annotated[str, Argument(help="A preset; or a folder or a name on the hub, to go on from.")],
    texts: Annotated[
        list[Path],
        Argument(help="Text, a blank line between documents; JSON lines; Parquet; of sound, folders and tables of it."),
    ],
    dev: Annotated[list[Path] | None, Option(help="Held-out text, to see the loss on; several times.")] = None,
    objective: Annotated[
        str,
        Option(
            help="masked, masked+next-sentence, masked+order, replaced, distilled; of language models next, before, "
            "both, around; of a T5 spans; of sound contrast; by default the paper's own."
        ),
    ] = PRETRAINING.objective,
    pieces: Annotated[
        str, Option(help="A vocabulary's kind: bpe, byte-bpe, wordpiece, unigram, words, characters.")
    ] = PRETRAINING.pieces,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    corpus: Annotated[Path | None, Option(help="Where the encoded text goes, for other runs to use too.")] = None,
    tokenizer: Annotated[Path | None, Option(help="A tokenizer.json or a folder; by default it is learned.")] = None,
    vectors: Annotated[Path | None, Option(help="Word vectors for the embedding of a preset to begin with.")] = None,
    teacher: Annotated[Path | None, Option(help="The encoder to be distilled.")] = None,
    vocab: Annotated[int, Option(help="Pieces of a vocabulary that is learned.")] = PRETRAINING.vocab,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = PRETRAINING.lowercase,
    share: Annotated[float, Option(help="Of the pieces, how many are hidden.")] = PRETRAINING.share,
    whole_words: Annotated[bool, Option(help="Hide all pieces of a word or none.")] = PRETRAINING.whole_words,
    longest: Annotated[int, Option(help="Tokens of a row.")] = PRETRAINING.longest,
    later_longest: Annotated[int, Option(help="Tokens of a row at the end; 0: as before.")] = PRETRAINING.later_longest,
    later: Annotated[float, Option(help="The share of the steps with those.")] = PRETRAINING.later,
    budget: Annotated[int, Option(help="Tokens of a micro-batch.")] = PRETRAINING.budget,
    accumulate: Annotated[int, Option(help="Micro-batches a step.")] = PRETRAINING.accumulate,
    steps: Annotated[int, Option(help="Steps of the optimizer.")] = PRETRAINING.steps,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by the model.")] = PRETRAINING.rate,
    relative: Annotated[
        bool | None, Option(help="Whether a tensor's rate is a share of its own size; by default of a T5.")
    ] = PRETRAINING.relative,
    schedule: Annotated[Schedule, Option(help="How it falls after warm-up.")] = PRETRAINING.schedule,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = PRETRAINING.warmup,
    weight_decay: Annotated[
        float | None, Option(help="AdamW's decay of matrices; by default 0.01, of a T5 none.")
    ] = PRETRAINING.weight_decay,
    beta2: Annotated[float, Option(help="AdamW's memory of squares.")] = PRETRAINING.betas[1],
    clip: Annotated[float, Option(help="The longest gradient; 0: any.")] = PRETRAINING.clip,
    discriminative: Annotated[
        float, Option(help="A layer's rate is that of the one above it, divided by this.")
    ] = PRETRAINING.discriminative,
    activation: Annotated[float, Option(help="AWD-LSTM: a penalty on large states.", min=0)] = PRETRAINING.activation,
    temporal: Annotated[float, Option(help="AWD-LSTM: on states that change fast.", min=0)] = PRETRAINING.temporal,
    generator: Annotated[float, Option(help="replaced: the generator's share of the width.")] = PRETRAINING.generator,
    filled_by: Annotated[
        str, Option(metavar="FOLDER", help="replaced: a generator that has learned, and learns no more.")
    ] = PRETRAINING.filled_by,
    precision: Precision = "",
    launch: Launching = PRETRAINING.launch,
    evaluate_every: Annotated[int, Option(help="Steps between looks at --dev.")] = PRETRAINING.evaluate_every,
    save_every: Annotated[int, Option(help="Steps between checkpoints.")] = PRETRAINING.save_every,
    report_every: Annotated[int, Option(help="Steps between reports.")] = PRETRAINING.report_every,
    seed: Annotated[int, Option(help="Of everything random.")] = PRETRAINING.seed,
    varied: Annotated[
        float, Option(help="Of sound: how much recordings are changed each time, 0 to 1.")
    ] = PRETRAINING.varied,
    settings: Settings = None,
    column: Annotated[str | None, Option(help="JSON lines, Parquet: the column of text; by default guessed.")] = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Pretrain an encoder, a language model or a T5 on text."""
    from regard.commands.pretrain import pretrain as run

    run(
        model, texts, out=out, corpus=corpus, tokenizer=tokenizer, teacher=teacher, set=tuple(settings or ()),
        vectors=vectors or "",
        dev=dev or [], objective=objective, pieces=pieces, vocab=vocab, lowercase=lowercase, share=share,
        whole_words=whole_words,
        longest=longest, later_longest=later_longest, later=later, budget=budget, accumulate=accumulate, steps=steps,
        rate=rate, relative=relative, schedule=schedule, warmup=warmup, weight_decay=weight_decay,
        betas=(PRETRAINING.betas[0], beta2), clip=clip, discriminative=discriminative, activation=activation,
        temporal=temporal,
        generator=generator, filled_by=filled_by,
        precision=precision, launch=launch,
        evaluate_every=evaluate_every, save_every=save_every, report_every=report_every, seed=seed, varied=varied,
        column=column,
        encoding=encoding, allow_changed_data=allow_changed_data,
    )  # fmt: skip


@app.command()
def finetune(
    model: Annotated[str, Argument(help="A folder, a name on the hub, or a preset, which begins from nothing.")],
    task: Annotated[Task, Argument(help="What to learn.")],
    train: Annotated[Path, Option(help="CSV, TSV, JSON lines, Parquet; tag: also CoNLL(-U); answer: SQuAD's JSON.")],
    dev: Annotated[
        Path | None, Option(help="Held out, to choose the best weights by; by default a tenth of --train.")
    ] = None,
    test: Annotated[Path | None, Option(help="Scored at the end.")] = None,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    tokenizer: Annotated[Path | None, Option(help="For a preset: a tokenizer.json, or a folder.")] = None,
    vectors: Annotated[Path | None, Option(help="For a preset: word vectors for its embedding to begin with.")] = None,
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
    epochs: Annotated[float, Option(help="Times all is read; 0: by the number of examples.")] = FINETUNING.epochs,
    batch: Annotated[int, Option(help="Examples a step.")] = FINETUNING.batch,
    ulmfit: Annotated[
        bool | None,
        Option("--ulmfit/--no-ulmfit", help="Fine-tune as ULMFiT does; by default for recurrent models that learned."),
    ] = FINETUNING.ulmfit,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by the model.")] = FINETUNING.rate,
    schedule: Annotated[
        Schedule | None, Option(help="How it falls after warm-up; by default linear, ULMFiT: slanted.")
    ] = FINETUNING.schedule,
    discriminative: Annotated[
        float | None, Option(help="A layer's rate is that of the one above it, divided by this; ULMFiT: 2.6.")
    ] = FINETUNING.discriminative,
    unfreeze: Annotated[
        float | None, Option(help="Epochs until one more layer learns, from the top; 0: all do; ULMFiT: 1 or less.")
    ] = FINETUNING.unfreeze,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = FINETUNING.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = FINETUNING.weight_decay,
    language_weight: Annotated[
        float | None, Option(help="Of language modelling beside the task; by default 0.5 for GPT's kind, else 0.")
    ] = FINETUNING.language_weight,
    longest: Annotated[int, Option(help="Pieces of a row that are read.")] = FINETUNING.longest,
    best: Annotated[
        str, Option(help="Which weights are the best, as 'highest f1_macro'; by any metric of the task.")
    ] = FINETUNING.best,
    patience: Annotated[int, Option(help="Evaluations to wait for a better one; 0: any.")] = FINETUNING.patience,
    precision: Precision = "",
    launch: Launching = FINETUNING.launch,
    seed: Annotated[int, Option(help="Of everything random.")] = FINETUNING.seed,
    varied: Annotated[
        float, Option(help="Of sound: how much recordings are changed each time, 0 to 1.")
    ] = FINETUNING.varied,
    frozen: Annotated[
        bool | None,
        Option("--frozen/--no-frozen", help="Of sound: keep the convolutions; by default of a model that has learned."),
    ] = FINETUNING.frozen,
    settings: Settings = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Fine-tune an encoder on examples."""
    from regard.commands.finetune import finetune as run

    run(
        model, task, train=train, dev=dev or "", test=test or "", out=out, tokenizer=tokenizer,
        set=tuple(settings or ()),
        reading=reading(
            text, second, label, choices, header, skip_bad, unlabelled, encoding, label_map, label_separator,
            label_columns,
        ), threshold=threshold,
        vectors=vectors or "", epochs=epochs, batch=batch, ulmfit=ulmfit, rate=rate, schedule=schedule,
        discriminative=discriminative, unfreeze=unfreeze, warmup=warmup, weight_decay=weight_decay,
        language_weight=language_weight, longest=longest, best=best, patience=patience, precision=precision,
        launch=launch, seed=seed, varied=varied, frozen=frozen, allow_changed_data=allow_changed_data,
    )  # fmt: skip


@app.command()
def glue(
    folder: Annotated[Path, Argument(help="Holds GLUE's folders: CoLA, RTE, ...; those it lacks are left out.")],
    model: Annotated[str, Option(help="A folder, a name on the hub, or a preset, which begins from nothing.")],
    tasks: Annotated[list[str] | None, Option("--task", help="Only this; several times.")] = None,
    tokenizer: Annotated[Path | None, Option(help="For a preset: a tokenizer.json, or a folder.")] = None,
    out: Annotated[Path | None, Option(help="Where the runs go.")] = None,
    epochs: Annotated[float, Option(help="Times all is read; 0: by the number of examples.")] = FINETUNING.epochs,
    batch: Annotated[int, Option(help="Examples a step.")] = FINETUNING.batch,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by the model's width.")] = FINETUNING.rate,
    seed: Annotated[int, Option(help="Of everything random.")] = FINETUNING.seed,
) -> None:
    """Fine-tune and score the tasks of GLUE that a folder holds."""
    from regard.commands.glue import glue as run

    found = []
    told = {"epochs": epochs, "batch": batch, "rate": rate, "seed": seed}
    for score in run(model, folder, tasks=tasks or (), tokenizer=tokenizer, out=out, **told):
        found.append(score.value)
        print(score, flush=True)
    print(f"{'mean':<8} {sum(found) / len(found):6.1f}")


@app.command()
def demo(
    out: Annotated[Path, Option(help="Where pictures and runs go.")] = Path("runs/demo"),
    train: Annotated[
        bool, Option("--train", help="Instead, two small models learn to write dates the ISO way, in two minutes.")
    ] = False,
) -> None:
    """A tour of the models in the box, in a minute; no data or network needed."""
    from regard.commands.demo import demo as tour
    from regard.commands.demo_dates import demo_dates

    (demo_dates if train else tour)(out)
