"""Commands for language models and what can be had of any reader's words: generate, prompt, senses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from regard.box import boxed
from regard.cli.app import app, default_sigpipe
from regard.cli.options import (
    Boxed,
    Choices,
    Device,
    Encoding,
    Header,
    Json,
    Label,
    LabelNames,
    Lines,
    LinesFile,
    Model,
    PrecisionInUse,
    Second,
    SkipBad,
    Text,
    Unlabelled,
    lines_of,
    reading,
)
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.decoding.generate import Piece, Written

INTERRUPTED = 130  # the exit code of what Ctrl-C ended


@app.command()
def generate(
    prompts: Lines = None,
    file: LinesFile = None,
    model: Boxed = None,
    most: Annotated[int, Option(help="Tokens to write, at most.")] = 100,
    temperature: Annotated[float, Option(help="Below 1 is bolder, above 1 wilder; 0: always the likeliest.")] = 1.0,
    top_k: Annotated[int | None, Option(help="Only the k most probable pieces.")] = None,
    top_p: Annotated[float | None, Option(help="Only the fewest pieces with this probability; 1: all.")] = 0.9,
    penalty: Annotated[float, Option(help="Above 1: what is there already becomes less probable.")] = 1.0,
    stop: Annotated[list[str] | None, Option(metavar="TEXT", help="End before this text; several times.")] = None,
    samples: Annotated[int, Option(help="Texts from each prompt.")] = 1,
    seed: Annotated[int, Option(help="Of what is drawn.")] = 0,
    window: Annotated[bool, Option("--window", help="Go on past the model's places, seeing the last tokens.")] = False,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Go on with prompts, shown as it is written; of several, in their order."""
    from regard.commands.generate import load_writer, portions
    from regard.decoding.generate import Writing
    from regard.text.vocabulary import whole

    default_sigpipe()
    how = Writing(most, temperature, top_k, top_p, penalty, tuple(stop or ()), samples, seed, window)
    texts = map(whole, lines_of(prompts, file, encoding))
    writer, full = load_writer(model or boxed("generate"), device, precision), 0
    for number, some in enumerate(portions(texts)):
        printer = Printer([prompt for prompt in some for _ in range(samples)], as_json=json_, begun=number > 0)
        try:
            for piece in writer.stream(some, how):
                printer.add(piece)
                full += piece.done is not None and piece.done.why == "places"
        except KeyboardInterrupt:
            printer.close()
            raise typer.Exit(INTERRUPTED) from None
    if full:
        places = f"{writer.limits.places:,} places"
        print(f"warning: texts that stopped at the model's {places}: {full}; --window goes on", file=sys.stderr)


class Printer:
    """Prints texts in their order: the first that is not done as it is written, each other one when its turn comes."""

    def __init__(self, prompts: Sequence[str], *, as_json: bool, begun: bool = False):
        self.prompts, self.as_json = prompts, as_json
        self.waiting, self.said = [""] * len(prompts), [""] * len(prompts)  # of each text: not shown yet, and all
        self.done: dict[int, Written] = {}
        self.turn, self.begun, self.open = 0, begun, False

    def add(self, piece: Piece) -> None:
        self.waiting[piece.row] += piece.text
        self.said[piece.row] += piece.text
        if piece.done is not None:
            self.done[piece.row] = piece.done
        while self.turn < len(self.prompts):
            self.show(self.turn)
            if self.turn not in self.done:
                break
            self.end(self.turn)

    def show(self, row: int) -> None:
        if self.as_json:
            return
        if not self.open:
            between = "\n" if self.begun else ""  # a blank line between texts
            print(between + safe(self.prompts[row]), end="")
            self.begun = self.open = True
        print(safe(self.waiting[row]), end="", flush=True)
        self.waiting[row] = ""

    def end(self, row: int) -> None:
        if self.as_json:
            told = asdict(self.done[row]) if row in self.done else {"prompt": self.prompts[row], "text": self.said[row]}
            print(json.dumps(told, ensure_ascii=False), flush=True)
        else:
            print(flush=True)
        self.turn, self.open = row + 1, False

    def close(self) -> None:
        """Print what was written of those that are not done."""
        for row in range(self.turn, len(self.prompts)):
            self.show(row)
            self.end(row)


def safe(text: str) -> str:
    """A text without characters that would command a terminal, where it is shown on one."""
    if not sys.stdout.isatty():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


@app.command()
def prompt(
    task: Annotated[Literal["classify", "pair", "choose"], Argument(help="What the examples are of.")],
    model: Model,
    train: Annotated[Path, Option(help="Examples to show: CSV, TSV, JSON lines or Parquet.")],
    test: Annotated[Path, Option(help="Examples to be answered.")],
    shots: Annotated[str, Option(help="How many examples to show; several numbers with commas.")] = "0,1,4,16",
    seeds: Annotated[int, Option(help="How often examples are drawn anew.")] = 3,
    limit: Annotated[int | None, Option(help="Test on so many examples, drawn by chance.")] = None,
    template: Annotated[
        str | None,
        Option(help=r"How an example is written, such as 'Text: {text}\nLabel: {label}'; pairs have {second}."),
    ] = None,
    verbal: Annotated[
        list[str] | None, Option(metavar="LABEL=WORD", help="What a label is called in a prompt; several times.")
    ] = None,
    rank: Annotated[
        Literal["total", "mean", "calibrated"],
        Option(help="Options by log-probability: of all tokens, a token, or beyond that after `N/A`."),
    ] = "total",
    plot: Annotated[Path | None, Option(help="Draw the curve here: .png, .svg or .pdf.")] = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    choices: Choices = None,
    header: Header = None,
    skip_bad: SkipBad = 0,
    unlabelled: Unlabelled = None,
    label_map: LabelNames = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Score a language model on labelled data by examples in its context, without training."""
    from regard.commands.prompt import Prompting
    from regard.commands.prompt import prompt as run
    from regard.viewer.figure import check_picture

    if plot:
        check_picture(plot)
    written = template.replace("\\n", "\n") if template else None
    how = Prompting(numbers(shots), seeds, limit, written, dict(named(verbal or [])), rank)
    read = reading(text, second, label, choices, header, skip_bad, unlabelled, encoding, label_map)
    found = run(model, task, train, test, how, reading=read, device=device)
    print(json.dumps(found.to_dict()) if json_ else "\n".join(found.lines()))
    if plot:
        found.curve().picture(plot)
        print(f"wrote {plot}", file=sys.stderr)


def numbers(shots: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in shots.split(","))
    except ValueError:
        raise UsageProblem(f"--shots {shots}: give numbers with commas between them, such as 0,1,4,16") from None


def named(verbal: Sequence[str]) -> Iterator[tuple[str, str]]:
    for given in verbal:
        label, equals, word = given.partition("=")
        if not (label and equals and word.strip()):
            raise UsageProblem(f"--verbal {given}: give a label and what it is called, such as 0=negative")
        yield label, word


@app.command()
def senses(
    word: Annotated[str, Argument(help="The word.")],
    texts: Annotated[list[Path], Argument(help="Text in which it stands: plain, JSON lines or Parquet.")],
    model: Model,
    sentence: Annotated[str | None, Option(help="Find what the word means here; by default, groups.")] = None,
    best: Annotated[int, Option(help="How many sentences.")] = 10,
    groups: Annotated[int, Option(help="Into how many groups the sentences are parted.")] = 2,
    layers: Annotated[str, Option(help="Layers to read, as in embed.")] = "sum of last 4",
    exact: Annotated[bool, Option("--exact", help="Tell capital letters from small ones.")] = False,
    vectors: Annotated[Path | None, Option(help="Word vectors, to show the neighbours of the one vector too.")] = None,
    json_: Json = False,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Find the sentences in which a word means the same: the cosine of its vectors, the group, the sentence."""
    from regard.commands.senses import Senses
    from regard.commands.senses import senses as run

    default_sigpipe()
    how = Senses(best, groups, layers, exact)
    found = run(model, word, texts, sentence, how, vectors=vectors, encoding=encoding, device=device)
    print(json.dumps(found.to_dict()) if json_ else "\n".join(found.lines()))
