"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.data.lines import read_lines
from regard.data.reading import UNLABELLED, Reading
from regard.errors import UsageProblem

Files = tuple[Path, Path]
Kind = Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "treebank", "characters"]
Settings = Annotated[list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change the model's config.")]
Model = Annotated[Path, Option(help="The folder of a model, or of a run; or a name, of the box or on the hub.")]
Boxed = Annotated[
    Path | None, Option("--model", help="A folder, or a name, of the box or on the hub; by default the box has one.")
]
Device = Annotated[str | None, Option(help="cpu, cuda, ...; by default a GPU where there is one.")]
Encoding = Annotated[str, Option(help="How text files are encoded.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
ChangedData = Annotated[bool, Option("--allow-changed-data", help="Go on though the files changed.")]
Precision = Annotated[Literal["", "float32", "bf16"], Option(help="Of the arithmetic; by default bf16 on a GPU.")]
PrecisionInUse = Annotated[
    Literal["float32", "bf16", "int8"],
    Option("--precision", help="Of large products: bf16 and int8, which is for a CPU, are faster and less exact."),
]

# of examples, columns by name or by number from 1; what is not said is guessed
Task = Literal[
    "classify", "multi-label", "pair", "similar", "regress", "choose", "tag", "answer", "reward", "image", "transcribe"
]
Texts = Annotated[list[str] | None, Argument(help="A text, or those that belong together; by default lines are read.")]
File = Annotated[
    Path | None, Option(help="CSV, TSV, JSON lines, Parquet, or lines with tabs between texts; by default stdin.")
]
Lines = Annotated[list[str] | None, Argument(help="Texts; by default lines are read.")]
LinesFile = Annotated[Path | None, Option("--file", help="A file, one text a line; by default stdin.")]
Text = Annotated[str | None, Option(metavar="COLUMN", help="The text's column, or the words'.")]
Second = Annotated[str | None, Option(metavar="COLUMN", help="The second text's column.")]
Label = Annotated[str | None, Option(metavar="COLUMN", help="The label's column, or the tags'.")]
Choices = Annotated[list[str] | None, Option(metavar="COLUMN", help="A choice's column; several times, in order.")]
Header = Annotated[bool | None, Option("--header/--no-header", help="Is the first row names? By default guessed.")]
SkipBad = Annotated[int, Option(metavar="N", help="Leave out up to N bad rows.")]
Unlabelled = Annotated[
    list[str] | None, Option(metavar="LABEL", help="Rows with this label have none; by default -1 and -; '': no such.")
]

LabelNames = Annotated[
    list[str] | None,
    Option("--label-map", metavar="LABEL=NAME,...", help="What the file's labels are called here; others stay."),
]
LabelSeparator = Annotated[
    str | None,
    Option(metavar="TEXT", help="Several labels per example: what parts them in a cell. JSON lists need none."),
]
LabelColumns = Annotated[
    str | None,
    Option(metavar="COLUMN,...", help="Several labels per example: a column of 0 and 1 for each label."),
]
Threshold = Annotated[
    float | None, Option(help="Multi-label: the probability from which on a label holds; by default the model's own.")
]


def reading(
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    choices: list[str] | None = None,
    header: bool | None = None,
    skip_bad: int = 0,
    unlabelled: list[str] | None = None,
    encoding: str = "utf-8",
    label_map: list[str] | None = None,
    label_separator: str | None = None,
    label_columns: str | None = None,
) -> Reading:
    nobody = UNLABELLED if unlabelled is None else tuple(name for name in unlabelled if name)
    return Reading(
        text, second, label, tuple(choices or ()), header, skip_bad, nobody, encoding,
        label_map=tuple(entry for given in label_map or () for entry in given.split(",")),
        label_separator=label_separator,
        label_columns=tuple(name.strip() for name in (label_columns or "").split(",") if name.strip()),
    )  # fmt: skip


def lines_of(texts: list[str] | None, file: Path | None, encoding: str) -> Iterable[str]:
    """What a command is given: texts as they are, or the lines of a file or of standard input."""
    if texts and file:
        raise UsageProblem(f"both a text, {texts[0]!r}, and the file {file} are given; leave one of them out")
    for text in texts or ():
        if os.path.isfile(text):
            raise UsageProblem(f"{text} is a file; to have its lines read, say --file {text}")
    return texts or read_lines(file or "-", encoding)
