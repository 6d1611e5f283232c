"""classify, tag, answer, choose: what a fine-tuned model makes of texts, one answer for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, is_dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.load import load_finetuned
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.layers.lowered import Precision
    from regard.tasks.finetuned import Finetuned

TOGETHER = 1024  # inputs answered at once, so that a stream of any length needs bounded memory
TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
KINDS: dict[str, Any] = {  # whose tables are another's
    "similar": "pair", "tag": "classify", "answer": "pair", "reward": "classify", "multi-label": "classify",
}  # fmt: skip
CLASSIFIERS = ("classify", "pair", "similar", "multi-label", "regress", "reward", "image")
LEAST = {"pair": 2, "similar": 2, "answer": 2, "choose": 3}  # texts that belong together; of others one will do


def predict(
    model: str | Path | Finetuned,
    inputs: Iterable[Any],
    device: str | None = None,
    *,
    tasks: tuple[str, ...] = (),
    precision: Precision = "float32",
    threshold: float | None = None,
) -> Iterator[Any]:
    """An answer for each input, as they come: a text, or a tuple of texts.  `threshold` is multi-label's, by default
    the model's own."""
    finetuned, inputs = with_threshold(load_finetuned(model, device, tasks, precision), threshold), iter(inputs)
    while some := list(islice(inputs, TOGETHER)):
        yield from finetuned.predict(some)


classify = partial(predict, tasks=CLASSIFIERS)
choose = partial(predict, tasks=("choose",))
tag = partial(predict, tasks=("tag",))
answer = partial(predict, tasks=("answer",))


def with_threshold(finetuned: Finetuned, threshold: float | None) -> Finetuned:
    """The same model, whose labels hold from another probability on."""
    if threshold is None:
        return finetuned
    from regard.tasks.multi_label import MultiLabel, check_threshold

    if not isinstance(finetuned.task, MultiLabel):
        raise UsageProblem(
            f"threshold={threshold}: only multi-label has one; this model was trained to {finetuned.name}"
        )
    task = MultiLabel(finetuned.task.labels, check_threshold(threshold))
    return type(finetuned)(finetuned.reader, finetuned.name, task)


def inputs_of(texts: tuple[str, ...], file: Path | None, task: str, reading: Reading) -> Iterator[Any]:
    """What a command is given: texts as they are, a table, or lines of a file or of standard input, where a tab stands
    between the texts that belong together."""
    from regard.data.labelled import Columns, read_texts
    from regard.data.lines import read_lines

    if texts and file:
        raise UsageProblem(f"both a text, {texts[0]!r}, and the file {file} are given; leave one of them out")
    if task == "image":
        return pictures_of(texts, file, reading)
    if texts:
        return iter([alone(texts)])
    if file and any(suffix in TABLES for suffix in file.suffixes):
        how: dict[str, Any] = {"encoding": reading.encoding, "header": reading.header}
        return map(alone, read_texts(file, KINDS.get(task, task), Columns.of(reading), **how))
    lines = enumerate(read_lines(file or "-", reading.encoding), 1)
    return (alone(texts_in(line, task, f"{file or 'standard input'}, line {number}")) for number, line in lines)


def pictures_of(paths: tuple[str, ...], file: Path | None, reading: Reading) -> Iterator[str]:
    """Each path is a picture, or a folder of them; a file has a path a line."""
    from regard.data.images import files_below
    from regard.data.lines import read_lines

    for path in paths or read_lines(file or "-", reading.encoding):
        yield from map(str, files_below(Path(path))) if Path(path).is_dir() else [path]


def texts_in(line: str, task: str, place: str) -> tuple[str, ...]:
    """The texts of a line.  A blank one gets its answer too, so that answers stay in step with lines."""
    texts, least = tuple(line.split("\t")) if task != "tag" else (line,), LEAST.get(task, 1)
    if not line.strip():
        return ("",) * least
    if len(texts) < least:
        raise Problem(f"{place} has {len(texts)} of the {least} texts that {task} needs; put a tab between them")
    return texts


def alone(texts: tuple[str, ...]) -> Any:
    return texts[0] if len(texts) == 1 else texts


def as_json(answer: Any) -> Any:
    """An answer as JSON has it: a dataclass as an object, a number as it is."""
    return asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer
