"""In-context learning (Brown et al., 2020): a language model answers after a few examples it was shown, and learns
nothing.  The answer is the option it finds most probable; calibrated, by how much more than after a text without
content (Zhao et al., 2021)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from regard.config import did_you_mean
from regard.data.labelled import Labelled, LabelMap, right_choices
from regard.errors import Problem, UsageProblem
from regard.tasks.writer import Writer

Rank = Literal["total", "mean", "calibrated"]  # of log-probabilities: all tokens, a token, less those without content
RANKS: tuple[Rank, ...] = ("total", "mean", "calibrated")
TEMPLATES = {
    "classify": "Text: {text}\nLabel: {label}",
    "pair": "First: {text}\nSecond: {second}\nLabel: {label}",
    "choose": "{text} {label}",
}
FIELDS = {"classify": ("text",), "pair": ("text", "second"), "choose": ("text",)}
BETWEEN = "\n\n"  # examples
UNSEEN = -1  # the right answer, where none of the options is right
NOTHING = "N/A"  # a text without content


@dataclass(frozen=True)
class Example:
    """What is shown, what may follow it, and which of that is right."""

    shown: Mapping[str, str]  # by the names of a template
    options: tuple[str, ...]
    right: int


@dataclass(frozen=True)
class Template:
    """How an example is written down.  It ends with {label}, which is what the model is asked."""

    text: str
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        named = re.findall(r"\{(\w*)\}", self.text)
        for name in named:
            if name not in (*self.fields, "label"):
                raise UsageProblem(f"the template {self.text!r} has {{{name}}}; {did_you_mean(name, self.fields)}")
        if named.count("label") != 1 or not self.text.endswith("{label}"):
            raise UsageProblem(f"the template {self.text!r} must end with {{label}}, and have it nowhere else")
        if "text" not in named:
            raise UsageProblem(f"the template {self.text!r} does not show the {{text}}")

    def question(self, shown: Mapping[str, str]) -> str:
        """An example up to its answer, without the space before it: that belongs to the answer's first piece."""
        asked = self.text.removesuffix("{label}").rstrip(" ")
        return re.sub(r"\{(\w*)\}", lambda found: shown[found[1]], asked)

    def answer(self, option: str) -> str:
        asked = self.text.removesuffix("{label}")
        return asked[len(asked.rstrip(" ")) :] + option

    def whole(self, example: Example) -> str:
        return self.question(example.shown) + self.answer(example.options[example.right])


@dataclass(frozen=True)
class Answers:
    """The options chosen, and what did not fit into the model's places."""

    chosen: list[int]
    dropped: int  # examples, of all prompts together
    cut: int  # prompts that lost their beginning though no example was left


class InContext:
    def __init__(self, writer: Writer, template: Template, rank: Rank = "total"):
        if rank not in RANKS:
            raise UsageProblem(f"options cannot be ranked by {rank!r}; {did_you_mean(rank, RANKS)}")
        self.writer, self.template, self.rank = writer, template, rank

    def answers(self, shots: Sequence[Example], asked: Sequence[Example]) -> Answers:
        """What the model answers to each question after the same examples."""
        fitted = [self.fitted(shots, example) for example in asked]
        prompts = [prompt for prompt, _ in fitted]
        scores, cut = self.scores(prompts, asked)
        if self.rank == "calibrated":
            nothing = [Example(dict.fromkeys(one.shown, NOTHING), one.options, one.right) for one in asked]
            without, _ = self.scores([self.fitted(shots, example)[0] for example in nothing], nothing)
            scores = [more - less for more, less in zip(scores, without, strict=True)]
        return Answers([int(one.argmax()) for one in scores], sum(count for _, count in fitted), cut)

    def scores(self, prompts: Sequence[str], asked: Sequence[Example]) -> tuple[list[np.ndarray], int]:
        """A score for each option of each question, and how many prompts lost their beginning."""
        pairs = [(p, self.template.answer(o)) for p, one in zip(prompts, asked, strict=True) for o in one.options]
        told = self.writer.log_probabilities(*zip(*pairs, strict=True), window=True)
        values = [one.mean if self.rank == "mean" else one.log_probability for one in told]
        edges = np.cumsum([0, *(len(one.options) for one in asked)])
        cut = sum(any(one.cut for one in told[first:last]) for first, last in pairwise(edges))
        return [np.array(values[first:last]) for first, last in pairwise(edges)], cut

    def fitted(self, shots: Sequence[Example], asked: Example) -> tuple[str, int]:
        """The prompt with as many examples as there are places for, the last ones; and how many were dropped."""
        places, question = self.writer.limits.places, self.template.question(asked.shown)
        longest = max(len(ids) for ids in self.writer.encoded([self.template.answer(o) for o in asked.options]))
        for dropped in range(len(shots) + 1):
            prompt = BETWEEN.join([*map(self.template.whole, shots[dropped:]), question])
            if len(self.writer.encoded([prompt])[0]) + longest - 1 <= places:
                break
        return prompt, dropped


def examples_of(data: Labelled, task: str, labels: LabelMap, verbal: Mapping[str, str]) -> list[Example]:
    """The examples of a file.  What may follow a text is the labels, as they are said; or its own choices."""
    if task == "choose":
        every = zip(data.texts, right_choices(data), strict=True)
        return [Example({"text": text}, tuple(choices), right) for (text, *choices), right in every]
    options = tuple(verbal.get(name, name) for name in labels.names)
    known = {name: number for number, name in enumerate(labels.names)}
    ids = [known.get(label, UNSEEN) for label in data.labels]
    return [
        Example(dict(zip(FIELDS[task], texts, strict=False)), options, right)
        for texts, right in zip(data.texts, ids, strict=True)
    ]


def drawn_shots(examples: Sequence[Example], count: int, seed: int, *, balanced: bool) -> list[Example]:
    """So many examples by chance: of every answer alike, as long as there are.  More begin with the fewer."""
    if count > len(examples):
        raise Problem(f"{count} examples are to be shown, and there are only {len(examples)}; ask for fewer")
    draw = np.random.default_rng(seed)
    order = [examples[number] for number in draw.permutation(len(examples))]
    if not balanced:
        return order[:count]
    kinds: dict[int, list[Example]] = {}
    for example in order:
        kinds.setdefault(example.right, []).append(example)
    shots: list[Example] = []
    while len(shots) < count:
        for kind in draw.permutation(sorted(kinds)).tolist():
            shots += kinds[kind][:1]
            kinds[kind] = kinds[kind][1:]
    return shots[:count]


def check_verbal(verbal: Mapping[str, str], labels: LabelMap) -> None:
    for name in verbal:
        if name not in labels.names:
            raise UsageProblem(f"no label is called {name!r}; {did_you_mean(name, labels.names)}")
    said = [verbal.get(name, name) for name in labels.names]
    if len(set(said)) < len(said):
        raise UsageProblem(f"labels are said alike: {', '.join(said)}; give each a word of its own")
