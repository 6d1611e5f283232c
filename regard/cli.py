"""The command line: the verbs of regard.commands, with their options.  torch is imported only when it is needed."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from dataclasses import asdict, is_dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer import Argument, Option

from regard import __version__
from regard.commands.settings import FINETUNING, PRETRAINING, TRANSLATION
from regard.data.reading import UNLABELLED, Reading
from regard.errors import Problem, UsageProblem

# plain text: in the tables of rich_markup_mode there is no room for words on 80 columns
plain = partial(typer.Typer, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app = plain(help="Attention models: train, use, look inside.")
train_app = plain(help="Train a model from files.")
app.add_typer(train_app, name="train")
bench_app = plain(help="Measure regard beside its peers, on this machine.")
app.add_typer(bench_app, name="bench")
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}  # to a benchmark

TRAINING, OPTIMIZER = TRANSLATION.training, TRANSLATION.training.optimizer  # what holds if nothing is said

Files = tuple[Path, Path]
Kind = Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "characters"]
Settings = Annotated[list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change the model's config.")]
Model = Annotated[Path, Option(help="The folder of a model, or of a run.")]
Device = Annotated[str | None, Option(help="cpu, cuda, ...; by default a GPU where there is one.")]
Encoding = Annotated[str, Option(help="How text files are encoded.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
ChangedData = Annotated[bool, Option("--allow-changed-data", help="Go on though the files changed.")]
Precision = Annotated[Literal["", "float32", "bf16"], Option(help="Of the arithmetic; by default bf16 on a GPU.")]

# of examples, columns by name or by number from 1; what is not said is guessed
Task = Literal["classify", "pair", "regress", "choose", "tag", "answer"]
Texts = Annotated[list[str] | None, Argument(help="A text, or those that belong together; by default lines are read.")]
File = Annotated[
    Path | None, Option(help="CSV, TSV, JSON lines, Parquet, or lines with tabs between texts; by default stdin.")
]
Text = Annotated[str | None, Option(metavar="COLUMN", help="The text's column, or the words'.")]
Second = Annotated[str | None, Option(metavar="COLUMN", help="The second text's column.")]
Label = Annotated[str | None, Option(metavar="COLUMN", help="The label's column, or the tags'.")]
Choices = Annotated[list[str] | None, Option(metavar="COLUMN", help="A choice's column; several times, in order.")]
Header = Annotated[bool | None, Option("--header/--no-header", help="Is the first row names? By default guessed.")]
SkipBad = Annotated[int, Option(metavar="N", help="Leave out up to N bad rows.")]
Unlabelled = Annotated[
    list[str] | None, Option(metavar="LABEL", help="Rows with this label have none; by default -1 and -; '': no such.")
]


def main() -> NoReturn:
    """Run a command; what a person can mend is told in a line, without a traceback."""
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as what is read, whatever the terminal's language
    try:
        app()
    except Problem as problem:
        print(f"regard: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except OSError as error:  # standard output on a full disk
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def tell_version(asked: bool) -> None:
    if asked:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, Option("--version", callback=tell_version, is_eager=True, help="Tell it.")] = False,
) -> None:
    pass


@train_app.command("translate")
def train_translate(
    train: Annotated[Files, Option(metavar="SOURCE TARGET", help="Parallel text, line by line; .gz and .xz too.")],
    dev: Annotated[Files, Option(metavar="SOURCE TARGET", help="Held-out text, to choose the best weights by.")],
    test: Annotated[Files | None, Option(metavar="SOURCE TARGET", help="Scored at the end.")] = None,
    model: Annotated[str, Option(help="A preset; `regard show` lists them.")] = "transformer-small",
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    tokenizer: Annotated[Kind, Option(help="How text is cut into pieces.")] = TRANSLATION.tokenizer,
    vocab: Annotated[int, Option(help="How many pieces.")] = TRANSLATION.vocab,
    shared: Annotated[bool, Option(help="One vocabulary for both languages.")] = TRANSLATION.shared,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = TRANSLATION.lowercase,
    longest: Annotated[int, Option(help="Pairs with more pieces are left out.")] = TRANSLATION.longest,
    budget: Annotated[int, Option(help="Tokens of a micro-batch.")] = TRANSLATION.budget,
    accumulate: Annotated[int, Option(help="Micro-batches a step.")] = TRAINING.accumulate,
    steps: Annotated[int, Option(help="Steps of the optimizer.")] = TRAINING.steps,
    rate: Annotated[float, Option(help="The highest learning rate.")] = OPTIMIZER.rate,
    schedule: Annotated[
        Literal["inverse-square-root", "linear", "cosine", "constant"], Option(help="How the rate falls after warm-up.")
    ] = OPTIMIZER.schedule,
    warmup: Annotated[int, Option(help="Steps over which the rate rises.")] = OPTIMIZER.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = OPTIMIZER.weight_decay,
    clip: Annotated[float, Option(help="The longest gradient; 0: any.")] = OPTIMIZER.clip,
    smoothing: Annotated[float, Option(help="Label smoothing.")] = TRANSLATION.smoothing,
    precision: Annotated[Literal["float32", "bf16"], Option(help="Of the arithmetic.")] = TRAINING.precision,
    compile: Annotated[bool, Option(help="torch.compile the model.")] = TRAINING.compile,
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
        "steps": steps, "accumulate": accumulate, "seed": seed, "precision": precision, "compile": compile,
        "report_every": report_every, "evaluate_every": evaluate_every, "save_every": save_every,
        "patience": patience, "average": average, "optimizer": optimizer,
    }  # fmt: skip
    files = {name: [str(p) for p in pair] for name, pair in (("train", train), ("dev", dev), ("test", test)) if pair}
    from regard.commands.train import train as run

    run(
        "translate", model=model, out=out, set=tuple(settings or ()), allow_changed_data=allow_changed_data, **files,
        tokenizer=tokenizer, vocab=vocab, shared=shared, lowercase=lowercase, longest=longest, budget=budget,
        smoothing=smoothing, encoding=encoding, training=training,
    )  # fmt: skip


@app.command()
def translate(
    model: Model,
    text: Annotated[Path | None, Argument(help="A file, one sentence a line; by default stdin.")] = None,
    beam: Annotated[int, Option(help="Hypotheses kept at each step; 1: greedy.")] = 5,
    penalty: Annotated[float, Option(help="Divide log-probability by length to this power: 0 favours short.")] = 1.0,
    best: Annotated[int, Option(help="Print so many translations a line, with scores, tab-separated.")] = 1,
    sample: Annotated[bool, Option("--sample", help="Draw by chance instead of searching.")] = False,
    temperature: Annotated[float, Option(help="With --sample: below 1 is bolder, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, Option(help="With --sample: only the k most probable pieces.")] = None,
    top_p: Annotated[float | None, Option(help="With --sample: the fewest pieces with this probability.")] = None,
    seed: Annotated[int, Option(help="With --sample.")] = 0,
    align: Annotated[
        Path | None, Option(help="Write what each translation looked at: .png, .svg, .pdf, .txt (i-j) or .json.")
    ] = None,
    pieces: Annotated[bool, Option("--pieces", help="Align the model's pieces instead of whole words.")] = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Translate lines: one in, one out; an empty line stays empty."""
    from regard.commands.load import load_translator
    from regard.commands.translate import alignments
    from regard.commands.translate import translate as run
    from regard.data.lines import read_lines
    from regard.decoding.beam import Beam
    from regard.decoding.sample import Sampling
    from regard.viewer.alignment import check_extension, write_alignments

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `regard translate | head` ends quietly
    if align:
        check_extension(align)
    if sample and best > 1:
        raise UsageProblem(f"--best {best} is for a search: leave out --sample")
    how = Sampling(temperature, top_k, top_p, seed) if sample else Beam(beam, penalty, best)
    translator = load_translator(model, device)
    lines = read_lines(text or "-", encoding)
    sources = list(lines) if align else lines
    written, cut = [], 0
    for found in run(translator, sources, how):
        cut += found[0].cut
        print(found[0].text if best == 1 else "\t".join(f"{one.score:.4f}\t{one.text}" for one in found), flush=True)
        written += found[:1] if align else []
    if cut:
        print(f"warning: lines cut to the first {translator.longest} pieces: {cut}", file=sys.stderr)
    if align:
        for path in write_alignments(align, alignments(translator, list(sources), written, words=not pieces)):
            print(f"wrote {path}", file=sys.stderr)


@app.command()
def pretrain(
    model: Annotated[str, Argument(help="A preset; or a folder or a name on the hub, to go on from.")],
    texts: Annotated[list[Path], Argument(help="Text, a blank line between documents; JSON lines; Parquet.")],
    dev: Annotated[list[Path] | None, Option(help="Held-out text, to see the loss on; several times.")] = None,
    objective: Annotated[
        str,
        Option(help="masked, masked+next-sentence, masked+order, replaced or distilled; by default the paper's own."),
    ] = PRETRAINING.objective,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    corpus: Annotated[Path | None, Option(help="Where the encoded text goes, for other runs to use too.")] = None,
    tokenizer: Annotated[Path | None, Option(help="A tokenizer.json or a folder; by default it is learned.")] = None,
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
    rate: Annotated[float, Option(help="The highest learning rate.")] = PRETRAINING.rate,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = PRETRAINING.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = PRETRAINING.weight_decay,
    generator: Annotated[float, Option(help="replaced: the generator's share of the width.")] = PRETRAINING.generator,
    precision: Precision = "",
    compile: Annotated[bool, Option(help="torch.compile the model.")] = PRETRAINING.compile,
    evaluate_every: Annotated[int, Option(help="Steps between looks at --dev.")] = PRETRAINING.evaluate_every,
    save_every: Annotated[int, Option(help="Steps between checkpoints.")] = PRETRAINING.save_every,
    report_every: Annotated[int, Option(help="Steps between reports.")] = PRETRAINING.report_every,
    seed: Annotated[int, Option(help="Of everything random.")] = PRETRAINING.seed,
    settings: Settings = None,
    column: Annotated[str | None, Option(help="JSON lines, Parquet: the column of text; by default guessed.")] = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Pretrain an encoder on text."""
    from regard.commands.pretrain import pretrain as run

    run(
        model, texts, out=out, corpus=corpus, tokenizer=tokenizer, teacher=teacher, set=tuple(settings or ()),
        dev=dev or [], objective=objective, vocab=vocab, lowercase=lowercase, share=share, whole_words=whole_words,
        longest=longest, later_longest=later_longest, later=later, budget=budget, accumulate=accumulate, steps=steps,
        rate=rate, warmup=warmup, weight_decay=weight_decay, generator=generator, precision=precision, compile=compile,
        evaluate_every=evaluate_every, save_every=save_every, report_every=report_every, seed=seed, column=column,
        encoding=encoding, allow_changed_data=allow_changed_data,
    )  # fmt: skip


@app.command()
def finetune(
    model: Annotated[str, Argument(help="A folder, a name on the hub, or a preset, which begins from nothing.")],
    task: Annotated[Task, Argument(help="What to learn.")],
    train: Annotated[Path, Option(help="CSV, TSV, JSON lines, Parquet; tag: CoNLL, CoNLL-U; answer: SQuAD's JSON.")],
    dev: Annotated[Path, Option(help="Held out, to choose the best weights by.")],
    test: Annotated[Path | None, Option(help="Scored at the end.")] = None,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    tokenizer: Annotated[Path | None, Option(help="For a preset: a tokenizer.json, or a folder.")] = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    choices: Choices = None,
    header: Header = None,
    skip_bad: SkipBad = 0,
    unlabelled: Unlabelled = None,
    epochs: Annotated[float, Option(help="Times all is read; 0: by the number of examples.")] = FINETUNING.epochs,
    batch: Annotated[int, Option(help="Examples a step.")] = FINETUNING.batch,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by the model's width.")] = FINETUNING.rate,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = FINETUNING.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = FINETUNING.weight_decay,
    longest: Annotated[int, Option(help="Pieces of a row that are read.")] = FINETUNING.longest,
    best: Annotated[str, Option(help="Which weights are, as 'highest matthews'.")] = FINETUNING.best,
    patience: Annotated[int, Option(help="Evaluations to wait for a better one; 0: any.")] = FINETUNING.patience,
    precision: Precision = "",
    compile: Annotated[bool, Option(help="torch.compile the model.")] = FINETUNING.compile,
    seed: Annotated[int, Option(help="Of everything random.")] = FINETUNING.seed,
    settings: Settings = None,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Fine-tune an encoder on examples."""
    from regard.commands.finetune import finetune as run

    run(
        model, task, train=train, dev=dev, test=test or "", out=out, tokenizer=tokenizer, set=tuple(settings or ()),
        reading=reading(text, second, label, choices, header, skip_bad, unlabelled, encoding),
        epochs=epochs, batch=batch, rate=rate, warmup=warmup, weight_decay=weight_decay, longest=longest, best=best,
        patience=patience, precision=precision, compile=compile, seed=seed, allow_changed_data=allow_changed_data,
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
def classify(
    model: Model,
    texts: Texts = None,
    file: File = None,
    text: Text = None,
    second: Second = None,
    header: Header = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Label texts or pairs of texts, each with its probability; or give them numbers."""
    how = reading(text, second, header=header, encoding=encoding)
    for found in predicted(("classify", "pair", "regress"), model, texts, file, how, device):
        if json_:
            print(json.dumps(as_json(found), ensure_ascii=False))
        else:
            print(f"{found:.4f}" if isinstance(found, float) else f"{found.label}\t{found.probability:.4f}", flush=True)


@app.command()
def choose(
    model: Model,
    texts: Texts = None,
    file: File = None,
    text: Text = None,
    choices: Choices = None,
    header: Header = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Choose what goes with a text: the first text, then its choices."""
    how = reading(text, choices=choices, header=header, encoding=encoding)
    for found in predicted(("choose",), model, texts, file, how, device):
        print(json.dumps(as_json(found), ensure_ascii=False) if json_ else f"{found.index}\t{found.choice}", flush=True)


@app.command()
def tag(
    model: Model,
    texts: Texts = None,
    file: File = None,
    text: Text = None,
    header: Header = None,
    words: Annotated[bool, Option("--words", help="Print each word with its tag, not the entities.")] = False,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Find entities in texts: line, kind, first character, the one after the last, and the text, tab-separated."""
    found = predicted(("tag",), model, texts, file, reading(text, header=header, encoding=encoding), device)
    for number, tagged in enumerate(found, 1):
        if json_:
            print(json.dumps(as_json(tagged), ensure_ascii=False))
        elif words:
            print(*(f"{word}\t{tag}" for word, tag in zip(tagged.words, tagged.tags, strict=True)), "", sep="\n")
        else:
            for one in tagged.entities:
                print(f"{number}\t{one.kind}\t{one.start}\t{one.end}\t{one.text}", flush=True)


@app.command()
def answer(
    model: Model,
    texts: Annotated[list[str] | None, Argument(help="A question and its text; by default lines are read.")] = None,
    file: Annotated[
        Path | None,
        Option(help="SQuAD's JSON, a table, or lines with a question, a tab, and its context; by default stdin."),
    ] = None,
    text: Annotated[str | None, Option(metavar="COLUMN", help="The question's column.")] = None,
    second: Annotated[str | None, Option(metavar="COLUMN", help="Its context's column.")] = None,
    header: Header = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Answer questions from a text, with how sure it is; of SQuAD's JSON, one JSON object of all answers by id."""
    from regard.commands.predict import answer as run

    if file and ".json" in file.suffixes and not texts:
        from regard.data.questions import read_questions

        asked = read_questions(file, encoding)
        found = run(model, [(one.question, one.context) for one in asked], device)
        print(json.dumps({one.id: got.text for one, got in zip(asked, found, strict=True)}, ensure_ascii=False))
        return
    how = reading(text, second, header=header, encoding=encoding)
    for got in predicted(("answer",), model, texts, file, how, device):
        print(json.dumps(as_json(got), ensure_ascii=False) if json_ else got.text, flush=True)


def predicted(tasks: tuple[str, ...], model: Path, texts: list[str] | None, file: Path | None, how: Reading, device):
    """The answers of a model, as they come."""
    from regard.commands.load import load_finetuned
    from regard.commands.predict import inputs_of, predict

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    finetuned = load_finetuned(model, device, tasks)
    return predict(finetuned, inputs_of(tuple(texts or ()), file, finetuned.name, how))


def as_json(found: Any) -> Any:
    return asdict(found) if is_dataclass(found) else found  # type: ignore[arg-type]


def reading(
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    choices: list[str] | None = None,
    header: bool | None = None,
    skip_bad: int = 0,
    unlabelled: list[str] | None = None,
    encoding: str = "utf-8",
) -> Reading:
    nobody = UNLABELLED if unlabelled is None else tuple(name for name in unlabelled if name)
    return Reading(text, second, label, tuple(choices or ()), header, skip_bad, nobody, encoding)


@app.command()
def evaluate(
    model: Model,
    files: Annotated[list[Path], Argument(help="Examples; for a translator, a source file and its target file.")],
    text: Text = None,
    second: Second = None,
    label: Label = None,
    choices: Choices = None,
    header: Header = None,
    skip_bad: SkipBad = 0,
    unlabelled: Unlabelled = None,
    beam: Annotated[int, Option(help="Translating: hypotheses kept at each step; 1: greedy.")] = 5,
    penalty: Annotated[float, Option(help="Translating: divide log-probability by length to this power.")] = 1.0,
    lowercase: Annotated[bool, Option(help="Translating: compare without regard to case.")] = False,
    json_: Json = False,
    out: Annotated[Path | None, Option(help="Write the translations, or the answers as JSON lines, here.")] = None,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Score a model: a translator by BLEU (with its signature) and chrF, a fine-tuned encoder by its task's scores."""
    from regard.checkpoints.files import write_file
    from regard.commands.evaluate import evaluate as run
    from regard.decoding.beam import Beam

    how = reading(text, second, label, choices, header, skip_bad, unlabelled, encoding)
    scored = run(model, files, Beam(beam, penalty), lowercase=lowercase, reading=how, device=device)
    if out:
        write_file(out, "".join(f"{line}\n" for line in scored.written()).encode())
    print(json.dumps(scored.to_dict()) if json_ else "\n".join(scored.lines()))


@app.command()
def embed(
    model: Model,
    text: Annotated[Path | None, Argument(help="A file, one text a line; by default stdin.")] = None,
    layers: Annotated[
        str,
        Option(help="first, last, second to last, sum of all, sum of last 4, concat last 4, or `mix` and weights."),
    ] = "last",
    pooling: Annotated[str | None, Option(help="first, mean or max; by default as the folder declares.")] = None,
    out: Annotated[Path | None, Option(help="Write a .npy array here instead of JSON lines.")] = None,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """A vector for each line: a JSON list a line, or one NumPy array."""
    import io

    import numpy

    from regard.checkpoints.files import write_file
    from regard.commands.embed import embed as run
    from regard.data.lines import read_lines

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    vectors = run(model, list(read_lines(text or "-", encoding)), layers=layers, pooling=pooling, device=device)
    if out is None:
        for vector in vectors:
            print(json.dumps([round(float(number), 6) for number in vector]))
        return
    array = io.BytesIO()
    numpy.save(array, vectors, allow_pickle=False)
    write_file(out, array.getvalue())
    print(f"{out}: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers", file=sys.stderr)


@app.command()
def fill(
    model: Model,
    text: Annotated[
        str | None, Argument(help="A text with [MASK] (or <mask>) where a word is hidden; by default lines are read.")
    ] = None,
    file: Annotated[Path | None, Option(help="A file, one text a line; by default stdin.")] = None,
    best: Annotated[int, Option(help="How many words.", min=1)] = 5,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Find the words a text hides: which [MASK], the probability and the word; of lines, first the line's number."""
    from regard.commands.fill import fill as run
    from regard.commands.fill import fill_lines
    from regard.data.lines import read_lines

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if text and file:
        raise UsageProblem(f"both a text, {text!r}, and the file {file} are given; leave one of them out")
    lines = read_lines(file or "-", encoding)
    one = [run(model, text, best=best, device=device)] if text else None
    answers = one or fill_lines(model, lines, best=best, device=device)
    for line, found in enumerate(answers, 1):
        for number, words in enumerate(found, 1):
            for word in words:
                row = f"{number}\t{word.probability:.4f}\t{word.word}"
                print(row if text else f"{line}\t{row}", flush=True)


@app.command()
def probe(
    task: Annotated[Literal["classify", "tag"], Argument(help="Texts with labels, or words with tags.")],
    train: Annotated[Path, Argument(help="CSV, TSV or JSON lines; for tag, CoNLL columns or CoNLL-U.")],
    model: Model,
    test: Annotated[Path | None, Option(help="To score on; by default a quarter of the examples.")] = None,
    layers: Annotated[list[str] | None, Option(help="Layers to read; several times, `learned mix`, or `all`.")] = None,
    limit: Annotated[int | None, Option(help="Use the first so many examples.", min=4)] = None,
    seed: Annotated[int, Option(help="Of the split.")] = 0,
    device: Device = None,
) -> None:
    """What a logistic regression can read off an encoder, layer by layer."""
    from regard.commands.probe import probe as run
    from regard.tasks.mix import LEARNED
    from regard.tasks.reader import CHOICES

    chosen = [*CHOICES, LEARNED] if layers == ["all"] else layers or ["last"]
    for one in run(model, task, train, test, layers=chosen, limit=limit, seed=seed, device=device):
        print(one)


@app.command()
def convert(
    source: Annotated[Path, Argument(help="Pickled weights (.bin, .pt, .pth, .ckpt), or a folder that holds them.")],
    out: Annotated[Path, Argument(help="The new folder.")],
    strip: Annotated[str, Option(metavar="PREFIX", help="Taken off the names of tensors.")] = "",
    config: Annotated[Path | None, Option(help="The model's config.json, if it is not beside the weights.")] = None,
) -> None:
    """Make pickled weights into safetensors; nothing in them is run."""
    from regard.commands.convert import convert as run

    print(run(source, out, strip=strip, config=config))


@app.command()
def verify(folder: Annotated[Path, Argument(help="The folder of a model, or of a run.")]) -> None:
    """See that files are as they were written, and that every number of the model is there and finite."""
    from regard.commands.verify import verify as run

    for line in run(folder):
        print(line, flush=True)


@app.command()
def tokenizer(
    kind: Annotated[Kind, Argument(help="How text is cut into pieces.")],
    texts: Annotated[list[Path], Argument(help="Text files; .gz and .xz too.")],
    out: Annotated[Path, Option(help="Where to write it.")] = Path("tokenizer.json"),
    vocab: Annotated[int, Option(help="How many pieces.")] = 8000,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Learn a vocabulary from text and write tokenizer.json."""
    from regard.commands.tokenizer import tokenizer as run

    trained = run(kind, texts, vocab=vocab, lowercase=lowercase, out=out, encoding=encoding)
    print(f"{out}: {trained.size} pieces")


@app.command()
def show(
    model: Annotated[str | None, Argument(help="A preset or a folder; without one, the presets are listed.")] = None,
    settings: Settings = None,
) -> None:
    """Show a model: config, modules, parameters, FLOPs a token."""
    from regard.commands.show import presets
    from regard.commands.show import show as run

    print("\n".join(run(model, tuple(settings or ())).lines() if model else presets()))


@bench_app.command("finetune", context_settings=PASSED_ON)
def bench_finetune(context: typer.Context) -> None:
    """Fine-tuning, beside the reference library's Trainer; `regard bench finetune --help` tells its options."""
    from regard.commands.bench import bench as run

    raise typer.Exit(run("finetune", context.args))


@app.command()
def demo(
    out: Annotated[Path, Option(help="Where the runs and pictures go.")] = Path("runs/demo"),
) -> None:
    """Two small models learn to write dates the ISO way, in about two minutes; no data or network needed."""
    from regard.commands.demo import demo as run

    run(out)
