"""Pairs of texts of which one was preferred, prompts to write on from, and batches of both."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.batches import Order, rows_of, tensor_of
from regard.data.parallel import Ragged
from regard.data.reading import Reading
from regard.data.split import ExampleKey, plain_text
from regard.data.table import BadRows, Table, read_table
from regard.errors import Problem, UsageProblem
from regard.rows import Tokens

PROMPT, CHOSEN, REJECTED = FIELDS = ("prompt", "chosen", "rejected")
READING = Reading()
Pair = tuple[str, str, str]  # a prompt, which may be "", the chosen text that follows it, and the rejected one


@dataclass(frozen=True, eq=False)
class Preferences:
    """Pairs, and how many rows gave none."""

    source: str
    pairs: list[Pair]
    starts: array[int]  # the line each pair begins at
    unit: str = "line"
    equal: int = 0  # rows left out since both texts are the same
    blank: int = 0  # rows left out for want of a text
    skipped: int = 0  # bad rows left out

    def __len__(self) -> int:
        return len(self.pairs)

    def place(self, pair: int) -> str:
        return f"{self.source}, {self.unit} {self.starts[pair]}"

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        facts = (
            f"{self.source}: {len(self):,} pairs; left out: {self.equal:,} of two texts that are the same, "
            f"{self.blank:,} without a text, {self.skipped:,} bad"
        )
        turned = self.turned()
        warning = f"warning: {turned:,} pairs stand there the other way round too, and teach nothing"
        return [facts, *[warning] * bool(turned)]

    def take(self, numbers: Sequence[int], source: str) -> Preferences:
        """The chosen pairs, in that order.  Rows that gave none stay with the file itself."""
        starts = array("q", (self.starts[number] for number in numbers))
        found = replace(self, source=source, pairs=[self.pairs[number] for number in numbers], starts=starts)
        return found if source == self.source else replace(found, equal=0, blank=0, skipped=0)

    def example_keys(self) -> list[ExampleKey]:
        """Pairs that follow one prompt stay together."""
        return [
            ExampleKey(plain_text(pair), group=plain_text(pair[:1]) if pair[0].strip() else plain_text(pair[1:2]))
            for pair in self.pairs
        ]

    def turned(self) -> int:
        """How many pairs somebody else has judged the other way round."""
        every = set(self.pairs)
        return sum((prompt, rejected, chosen) in every for prompt, chosen, rejected in self.pairs)


@dataclass(frozen=True, eq=False)
class Prompts:
    source: str
    texts: list[str]
    starts: array[int]  # the line each stands at
    unit: str = "line"
    blank: int = 0  # rows left out

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, prompt: int) -> str:
        return f"{self.source}, {self.unit} {self.starts[prompt]}"

    def lines(self) -> list[str]:
        return [f"{self.source}: {len(self):,} prompts; left out: {self.blank:,} that are blank"]


def read_preferences(path: str | Path, reading: Reading = READING) -> Preferences:
    """The pairs of a file with the fields chosen, rejected and, where texts follow one, prompt: JSON lines or any other
    table.  Rows whose texts are the same, or blank, are left out and counted."""
    table = read_table(path, reading.encoding, header=reading.header, skip_bad=reading.skip_bad)
    columns = [column_of(table, name) for name in FIELDS]
    pairs, starts, bad = list[Pair](), array("q"), BadRows(reading.skip_bad, table.skipped)
    equal = blank = 0
    for number, row in enumerate(table.rows):
        prompt, chosen, rejected = (row[column] if column is not None else "" for column in columns)
        structured = [name for name, text in zip(FIELDS, (prompt, chosen, rejected), strict=True) if is_structure(text)]
        if structured:
            bad.add(f"{table.place(number)}: {structured[0]} is no text but a list or an object; write it out as text.")
        elif not chosen.strip() or not rejected.strip():
            blank += 1
        elif chosen.strip() == rejected.strip():
            equal += 1
        else:
            pairs.append((prompt, chosen, rejected))
            starts.append(table.starts[number])
    if not pairs:
        raise Problem(
            f"{table.source} has no pair to learn from: of {len(table):,} rows {equal:,} have two texts that are the "
            f"same, {blank:,} lack a text. Give rows with a chosen text and another that was rejected."
        )
    return Preferences(table.source, pairs, starts, table.unit, equal, blank, bad.count)


def column_of(table: Table, name: str) -> int | None:
    """Where a field stands; only the prompt may be missing."""
    if name in table.names:
        return table.names.index(name)
    if name == PROMPT:
        return None
    there = ", ".join(table.names)
    raise Problem(f"{table.source} has no field {name!r}; there are: {there}. Give a chosen and a rejected text a row.")


def is_structure(text: str) -> bool:
    """Whether a value was no text: such is kept as its JSON (messages with their roles, as some files have them)."""
    if not text.startswith(("[{", '{"')):
        return False
    try:
        return isinstance(json.loads(text), list | dict)
    except ValueError:
        return False


def read_prompts(path: str | Path, reading: Reading = READING) -> Prompts:
    """The prompts of a file: one a line; or the column prompt, or text, of a table."""
    table = read_table(path, reading.encoding, header=reading.header, skip_bad=reading.skip_bad)
    name = next((name for name in (PROMPT, "text") if name in table.names), table.names[0])
    if len(table.names) > 1 and name not in (PROMPT, "text"):
        raise Problem(f"{table.source} has no field 'prompt'; there are: {', '.join(table.names)}. Name one so.")
    column, texts, starts = table.names.index(name), list[str](), array("q")
    for number, row in enumerate(table.rows):
        if row[column].strip():
            texts.append(row[column])
            starts.append(table.starts[number])
    if not texts:
        raise Problem(f"{table.source}: all prompts are blank. Give some text to go on from, one a line.")
    return Prompts(table.source, texts, starts, table.unit, len(table) - len(texts))


class PreferenceBatches(Order):
    """Batches of so many pairs, in another order each epoch: their prompts, both texts of each, the chosen one first,
    and how probable these were where a model began."""

    def __init__(self, prompts: Ragged, texts: Ragged, reference: np.ndarray, size: int, seed: int):
        super().__init__(np.ones(len(prompts)), size, seed)
        self.prompts, self.texts, self.reference = prompts, texts, reference

    def at(self, position: int) -> dict[str, Any]:
        return self.batch(self.numbers_at(position))

    def batch(self, numbers: np.ndarray) -> dict[str, Any]:
        sides = (2 * numbers[:, None] + [0, 1]).ravel()
        prompts, texts = self.prompts.take(numbers), self.texts.take(sides)
        return {
            "prompts": Tokens(tensor_of(prompts.ids), rows_of(prompts.lengths)),
            "texts": Tokens(tensor_of(texts.ids), rows_of(texts.lengths)),
            "reference": torch.from_numpy(self.reference[sides]),
        }


class Phases:
    """Batches for learning from what was just written.  A phase is `texts` prompts to write on from, then `passes` over
    what was written, in another order each, `batch` texts a step.

    A step has `turns` micro-batches, over all ranks, each with texts of its own (see `Streams`).  All is a pure
    function of the position: which prompts, in which order, and the seed of what is drawn.
    """

    def __init__(self, prompts: Ragged, texts: int, batch: int, passes: int, seed: int, turns: int = 1):
        if min(texts, batch, passes) < 1 or texts % batch:
            raise UsageProblem(
                f"texts={texts}, batch={batch}, passes={passes}: give 1 or more, and texts that divide into batches"
            )
        self.prompts, self.texts, self.batch, self.seed, self.turns = prompts, texts, batch, seed, turns
        self.parts = texts // batch  # steps of a pass
        self.steps = passes * self.parts  # of a phase

    def epoch_of(self, position: int) -> tuple[int, int]:
        """How often all prompts were written on from, and which phase of them a position is in."""
        phase = position // (self.turns * self.steps)
        a_phase = self.texts * self.turns
        return phase * a_phase // len(self.prompts), phase % -(-len(self.prompts) // a_phase)

    def at(self, position: int) -> dict[str, Any]:
        step, turn = divmod(position, self.turns)
        phase, place = divmod(step, self.steps)
        passing, part = divmod(place, self.parts)
        order = np.random.default_rng([self.seed, phase, turn, passing]).permutation(self.texts)
        batch = {"turn": turn, "chosen": torch.from_numpy(order[part * self.batch : (part + 1) * self.batch])}
        if place:
            return batch
        some = self.prompts.take(self.numbers((phase * self.turns + turn) * self.texts))
        seed = int(np.random.default_rng([self.seed, phase, turn]).integers(2**31))
        return {**batch, "prompts": Tokens(tensor_of(some.ids), rows_of(some.lengths)), "seed": seed}

    def numbers(self, first: int) -> np.ndarray:  # (texts,)
        """The prompts of a phase: all in turn, in another order each time through them."""
        found, count = np.arange(first, first + self.texts), len(self.prompts)
        epochs, places = np.divmod(found, count)
        orders = {epoch: np.random.default_rng([self.seed, epoch]).permutation(count) for epoch in np.unique(epochs)}
        return np.array([orders[epoch][place] for epoch, place in zip(epochs, places, strict=True)], np.int64)


def fitting(lengths: Sequence[int], most: int) -> tuple[np.ndarray, int | None]:
    """Which of these are at most so long, and the first that is not."""
    fits = np.asarray(lengths) <= most
    return fits.nonzero()[0], None if fits.all() else int((~fits).argmax())
