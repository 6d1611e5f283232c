"""Commands that use a model: texts in, answers out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from regard.box import boxed
from regard.cli.app import app, default_sigpipe
from regard.cli.options import (
    Boxed,
    Choices,
    Device,
    Encoding,
    File,
    Header,
    Json,
    Lines,
    LinesFile,
    Model,
    PrecisionInUse,
    Second,
    Text,
    Texts,
    Threshold,
    lines_of,
    reading,
)
from regard.commands.predict import CLASSIFIERS, as_json
from regard.data.reading import Reading
from regard.errors import UsageProblem


@app.command()
def translate(
    texts: Lines = None,
    file: LinesFile = None,
    model: Boxed = None,
    to: Annotated[
        Literal["en", "de"] | None, Option(help="With the models in the box: English, which is usual, or German.")
    ] = None,
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
    precision: PrecisionInUse = "float32",
) -> None:
    """Translate lines: one in, one out; an empty line stays empty."""
    from regard.commands.load import load_translator
    from regard.commands.translate import alignments
    from regard.commands.translate import translate as run
    from regard.decoding.beam import Beam
    from regard.decoding.sample import Sampling
    from regard.viewer.alignment import check_extension, write_alignments

    default_sigpipe()
    if align:
        check_extension(align)
    if sample and best > 1:
        raise UsageProblem(f"--best {best} is for a search: leave out --sample")
    if model and to:
        raise UsageProblem(f"--to {to} chooses a model in the box, and {model} is named; leave one of them out")
    how = Sampling(temperature, top_k, top_p, seed) if sample else Beam(beam, penalty, best)
    lines = lines_of(texts, file, encoding)
    translator = load_translator(model or boxed("translate", target=to or "en"), device, precision)
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
def classify(
    texts: Texts = None,
    file: File = None,
    model: Boxed = None,
    text: Text = None,
    second: Second = None,
    header: Header = None,
    threshold: Threshold = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Label texts, pairs of texts or pictures, each with its probability; or give them numbers.  A multi-label model
    prints the labels that hold, and then every label with its probability."""
    how = reading(text, second, header=header, encoding=encoding)
    for found in predicted(CLASSIFIERS, model or boxed("classify"), texts, file, how, device, precision, threshold):
        print(json.dumps(as_json(found), ensure_ascii=False) if json_ else label_row(found), flush=True)


def label_row(found: Any) -> str:
    """What a classifier answered, with tabs between its parts."""
    if isinstance(found, float):
        return f"{found:.4f}"
    if hasattr(found, "labels"):
        ranked = sorted(found.probabilities.items(), key=lambda item: -item[1])
        row = "\t".join([",".join(found.labels), *(f"{label} {share:.4f}" for label, share in ranked)])
    else:
        row = f"{found.label}\t{found.probability:.4f}"
    return f"{row}\t{found.picture}" if getattr(found, "picture", "") else row


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
    precision: PrecisionInUse = "float32",
) -> None:
    """Choose what goes with a text: the first text, then its choices."""
    how = reading(text, choices=choices, header=header, encoding=encoding)
    for found in predicted(("choose",), model, texts, file, how, device, precision):
        print(json.dumps(as_json(found), ensure_ascii=False) if json_ else f"{found.index}\t{found.choice}", flush=True)


@app.command()
def tag(
    texts: Texts = None,
    file: File = None,
    model: Boxed = None,
    text: Text = None,
    header: Header = None,
    words: Annotated[bool, Option("--words", help="Print each word with its tag, not the entities.")] = False,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Find entities in texts: line, kind, first character, the one after the last, and the text, tab-separated."""
    how = reading(text, header=header, encoding=encoding)
    found = predicted(("tag",), model or boxed("tag"), texts, file, how, device, precision)
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
    precision: PrecisionInUse = "float32",
) -> None:
    """Answer questions from a text, with how sure it is; of SQuAD's JSON, one JSON object of all answers by id."""
    from regard.commands.predict import answer as run

    if file and ".json" in file.suffixes and not texts:
        from regard.data.questions import read_questions

        asked = read_questions(file, encoding)
        found = run(model, [(one.question, one.context) for one in asked], device, precision=precision)
        print(json.dumps({one.id: got.text for one, got in zip(asked, found, strict=True)}, ensure_ascii=False))
        return
    how = reading(text, second, header=header, encoding=encoding)
    for got in predicted(("answer",), model, texts, file, how, device, precision):
        print(json.dumps(as_json(got), ensure_ascii=False) if json_ else got.text, flush=True)


def predicted(
    tasks: tuple[str, ...],
    model: Path,
    texts: list[str] | None,
    file: Path | None,
    how: Reading,
    device: str | None,
    precision: PrecisionInUse,
    threshold: float | None = None,
) -> Iterator[Any]:
    """The answers of a model, as they come."""
    from regard.commands.load import load_finetuned
    from regard.commands.predict import inputs_of, predict

    default_sigpipe()
    finetuned = load_finetuned(model, device, tasks, precision)
    return predict(finetuned, inputs_of(tuple(texts or ()), file, finetuned.name, how), threshold=threshold)


@app.command()
def fill(
    text: Annotated[
        str | None, Argument(help="A text with [MASK] (or <mask>) where a word is hidden; by default lines are read.")
    ] = None,
    file: LinesFile = None,
    model: Boxed = None,
    best: Annotated[int, Option(help="How many words.", min=1)] = 5,
    encoding: Encoding = "utf-8",
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Find the words a text hides: which [MASK], the probability and the word; of lines, first the line's number."""
    from regard.commands.fill import fill as run
    from regard.commands.fill import fill_lines

    default_sigpipe()
    lines = lines_of([text] if text else None, file, encoding)
    model = model or boxed("fill")
    one = [run(model, text, best=best, device=device, precision=precision)] if text else None
    answers = one or fill_lines(model, lines, best=best, device=device, precision=precision)
    for line, found in enumerate(answers, 1):
        for number, words in enumerate(found, 1):
            for word in words:
                row = f"{number}\t{word.probability:.4f}\t{word.word}"
                print(row if text else f"{line}\t{row}", flush=True)


@app.command()
def embed(
    texts: Lines = None,
    file: LinesFile = None,
    model: Boxed = None,
    layers: Annotated[
        str | None,
        Option(
            help="first, last, second to last, sum of all, sum of last 4, concat last 4, or `mix` and weights; "
            "by default the last, or as the folder declares."
        ),
    ] = None,
    pooling: Annotated[
        str | None,
        Option(
            help="mean, max, cls, lasttoken, mean_sqrt_len_tokens or weightedmean, or several joined (mean+max); "
            "by default as the folder declares."
        ),
    ] = None,
    prompt_name: Annotated[
        str | None, Option(help="Put the model's prompt of this name before each text; by default its default prompt.")
    ] = None,
    prompt: Annotated[str | None, Option(help="Put this before each text; '' for no prompt.")] = None,
    keep_state: Annotated[
        bool, Option("--keep-state", help="Read each text on from the state that the one before left (ELMo).")
    ] = False,
    out: Annotated[Path | None, Option(help="Write a .npy array here instead of JSON lines.")] = None,
    encoding: Encoding = "utf-8",
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """A vector for each text: a JSON list a line, or one NumPy array."""
    import io

    import numpy

    from regard.checkpoints.files import write_file
    from regard.commands.embed import embed as run

    default_sigpipe()
    lines = list(lines_of(texts, file, encoding))
    model = model or boxed("embed")
    how = {"layers": layers, "pooling": pooling, "prompt": prompt, "prompt_name": prompt_name}
    vectors = run(model, lines, **how, keep_state=keep_state, device=device, precision=precision)
    if out is None:
        for vector in vectors:
            print(json.dumps([round(float(number), 6) for number in vector]))
        return
    array = io.BytesIO()
    numpy.save(array, vectors, allow_pickle=False)
    write_file(out, array.getvalue())
    print(f"{out}: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers", file=sys.stderr)
