"""evaluate: how good are a model's translations, or its answers?  How well does a language model tell text?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from regard.commands.label_options import check_label_options
from regard.commands.load import finetuned_of, load
from regard.commands.predict import as_json, with_threshold
from regard.data.reading import Reading
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.decoding.beam import Beam
    from regard.decoding.sample import Sampling
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.measuring import Measuring
    from regard.tasks.metrics import LengthBand, Score
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator

READING = Reading()
EDGES = (7, 10, 13, 16, 20)  # words of a source, between which BLEU is shown by length


@dataclass(frozen=True)
class Evaluation:
    bleu: Score
    chrf: Score
    exact: Score
    by_length: list[LengthBand]
    hypotheses: list[str]
    cut: int  # sources too long to be read to the end

    def lines(self) -> list[str]:
        scores = [str(self.bleu), str(self.chrf), str(self.exact)]
        cut = [f"warning: sources too long to be read to the end: {self.cut}"] if self.cut else []
        return [*scores, "by source length:", *(f"  {band}" for band in self.by_length), *cut]

    def written(self) -> list[str]:
        return self.hypotheses

    def to_dict(self) -> dict[str, Any]:
        scores = [asdict(score) for score in (self.bleu, self.chrf, self.exact)]
        return {"scores": scores, "by_length": [asdict(band) for band in self.by_length], "cut": self.cut}


@dataclass(frozen=True)
class Answered:
    """How good the answers of a fine-tuned model are."""

    scores: list[Score]
    facts: list[str]  # about the file
    answers: list[Any]
    unseen_labels: dict[str, int] = field(default_factory=dict)  # of the file, with their counts: counted as wrong

    def lines(self) -> list[str]:
        return [*self.facts, *map(str, self.scores)]

    def written(self) -> list[str]:
        return [json.dumps(as_json(answer), ensure_ascii=False) for answer in self.answers]

    def to_dict(self) -> dict[str, Any]:
        return {"scores": [asdict(score) for score in self.scores], "unseen_labels": self.unseen_labels}


@dataclass(frozen=True)
class Told:
    """How well a language model tells text."""

    scores: list[Score]
    facts: list[str]  # about the text
    unknown_share: float = 0.0  # of its tokens

    def lines(self) -> list[str]:
        return [*self.facts, *(f"{score.metric} {score.value:.4f}" for score in self.scores)]

    def written(self) -> list[str]:
        return [json.dumps(asdict(score)) for score in self.scores]

    def to_dict(self) -> dict[str, Any]:
        return {"scores": [asdict(score) for score in self.scores], "unknown_share": self.unknown_share}


def evaluate(
    model: str | Path | Translator | Reader | Finetuned,
    data: Sequence[str | Path],
    how: Beam | Sampling | None = None,
    *,
    lowercase: bool = False,
    edges: tuple[int, ...] = EDGES,
    reading: Reading = READING,
    measuring: Measuring | None = None,
    memory: int | None = None,
    threshold: float | None = None,
    device: str | None = None,
) -> Evaluation | Answered | Told:
    """Score a translator on a source file and its target file, a fine-tuned model on a file of examples, or a language
    model on text.  `threshold` is multi-label's, by default the model's own."""
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator

    found, name = (load(model, device), str(model)) if isinstance(model, str | Path) else (model, "the model")
    check_label_options(found.name if isinstance(found, Finetuned) else name, reading)
    if threshold is not None and not isinstance(found, Finetuned):
        raise UsageProblem(f"threshold={threshold}: only a multi-label classifier has one; leave it out for {name}")
    if isinstance(found, Reader) and found.tells:
        return evaluate_language(longer(found, memory), data, measuring, reading)
    counts = (1,) if not isinstance(found, Translator) else (1, 2) if found.template else (2,)
    if len(data) not in counts:
        what = "one file of examples" if 1 in counts else "a source file and its target file"
        raise UsageProblem(f"{name} is scored on {what}; given were {len(data)}: {' '.join(map(str, data))}")
    if isinstance(found, Translator):
        return evaluate_translator(found, data, how, lowercase=lowercase, edges=edges, reading=reading)
    return evaluate_answers(with_threshold(finetuned_of(found, name), threshold), data[0], reading)


def evaluate_language(reader: Reader, files: Sequence[str | Path], how: Measuring | None, reading: Reading) -> Told:
    from regard.data.corpus import Corpus
    from regard.tasks.measuring import MEASURING, measured, told_after

    with TemporaryDirectory() as folder:
        text = Corpus.make(files, reader.tokenizer, Path(folder) / "text", encoding=reading.encoding, whole=True)
        found = measured(reader.model, text, told_after(reader.tokenizer), how or MEASURING)
        facts = [line for line in text.lines() if not line.startswith("warning: ")]
        return Told(found.scores(), [*facts, *found.notes()], found.unknown_share)


def longer(reader: Reader, memory: int | None) -> Reader:
    """The same with another memory than it was trained with, where it has one."""
    if memory is not None:
        if not hasattr(reader.model.encoder, "remember"):
            raise UsageProblem(f"memory={memory}: only a model that remembers, as Transformer-XL does, has one")
        reader.model.encoder.remember(memory)
    return reader


def evaluate_answers(finetuned: Finetuned, path: str | Path, reading: Reading) -> Answered:
    from regard.tasks.task import unseen_warnings

    task = finetuned.task
    data = task.read(path, reading)
    task.check(data)  # before it is answered, not after
    answers = finetuned.predict(task.inputs(data))
    unseen = task.unseen(data)
    facts = [*data.lines(), *unseen_warnings(unseen, str(path))]
    return Answered(task.score(answers, data), facts, answers, unseen)


def evaluate_translator(
    translator: Translator,
    data: Sequence[str | Path],
    how: Beam | Sampling | None = None,
    *,
    lowercase: bool = False,
    edges: tuple[int, ...] = EDGES,
    reading: Reading = READING,
) -> Evaluation:
    """Translate a source file and compare with its target file, line by line; or do so with a file of examples, as the
    model's template has them."""
    from regard.data.parallel import read_parallel
    from regard.data.templates import read_pairs
    from regard.tasks.metrics import bleu, bleu_by_length, chrf, exact_match

    if len(data) == 1:
        pairs = read_pairs(data[0], translator.template, reading)
    else:
        pairs = read_parallel(data[0], data[1], reading.encoding)
    sources, references = pairs.sources, pairs.targets
    written = [best[0] for best in translator.translate(sources, how)]
    hypotheses = [one.text for one in written]
    return Evaluation(
        bleu(hypotheses, references, lowercase=lowercase),
        chrf(hypotheses, references, lowercase=lowercase),
        exact_match(hypotheses, references),
        bleu_by_length(sources, hypotheses, references, edges=edges, lowercase=lowercase),
        hypotheses,
        sum(one.cut for one in written),
    )
