"""classify, tag, answer, choose: what a fine-tuned model makes of texts, one answer for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.load import load_finetuned
from regard.data.reading import Reading

if TYPE_CHECKING:
    from regard.tasks.finetuned import Finetuned

TOGETHER = 1024  # inputs answered at once, so that a stream of any length needs bounded memory
TABLES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")


def predict(
    model: str | Path | Finetuned, inputs: Iterable[Any], device: str | None = None, *, tasks: tuple[str, ...] = ()
) -> Iterator[Any]:
    """An answer for each input, as they come: a text, or a tuple of texts."""
    finetuned, inputs = load_finetuned(model, device, tasks), iter(inputs)
    while some := list(islice(inputs, TOGETHER)):
        yield from finetuned.predict(some)


classify = partial(predict, tasks=("classify", "pair", "regress"))
choose = partial(predict, tasks=("choose",))
tag = partial(predict, tasks=("tag",))
answer = partial(predict, tasks=("answer",))


def inputs_of(texts: tuple[str, ...], file: Path | None, task: str, reading: Reading) -> Iterator[Any]:
    """What a command is given: texts as they are, a table, or lines of a file or of standard input, where a tab stands
    between the texts that belong together."""
    from regard.data.labelled import Columns, read_texts
    from regard.data.lines import read_lines

    if texts:
        return iter([texts if len(texts) > 1 else texts[0]])
    if file and any(suffix in TABLES for suffix in file.suffixes):
        kind: Any = task if task in ("pair", "regress", "choose") else "classify"
        return iter(read_texts(file, kind, Columns.of(reading), encoding=reading.encoding, header=reading.header))
    lines = read_lines(file or "-", reading.encoding)
    return (tuple(line.split("\t")) if "\t" in line and task != "tag" else line for line in lines)
