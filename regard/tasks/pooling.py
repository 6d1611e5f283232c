"""One vector for a text out of the states of its tokens: as a sentence-transformers folder declares, or as one asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.checkpoints.files import Content
from regard.errors import UsageProblem
from regard.layers.pooling import POOLINGS
from regard.layers.sentence import SENTENCE, TOKENS, SentenceModule, SentenceNormalize, SentencePooling
from regard.rows import Rows

LONGEST = 2**16  # tokens of a text, where neither the folder nor the model's places say
ALIASES = {"cls": "first", "lasttoken": "last"}  # what sentence-transformers calls two of the poolings
Choice = Callable[[list[Tensor]], Tensor]  # of the layers, what was embedded first: (N, W) or wider


@dataclass(frozen=True)
class SentencePrompts:
    """The texts that can be put before every text, by name, and the one that is put there by default."""

    texts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def choose(self, prompt: str | None = None, name: str | None = None) -> str:
        """The prompt that was given, the one of that name, or the default one."""
        if prompt is not None and name is not None:
            raise UsageProblem("give a prompt or the name of one, not both")
        if prompt is not None:
            return prompt
        name = self.default if name is None else name
        if name is None:
            return ""
        if name not in self.texts:
            there = ", ".join(self.texts) or "none"
            raise UsageProblem(
                f"the model has no prompt called {name!r}; there are: {there}. Or give the prompt itself."
            )
        return self.texts[name]


@dataclass(frozen=True)
class Pooling:
    """How states become a vector: the modules of a folder in their order, or those that `how` and `unit` name."""

    how: str = "mean"  # or several side by side: mean+max
    unit: bool = False  # is the vector made one long?
    longest: int = LONGEST  # tokens of a text that are read
    files: Mapping[str, Content] = field(default_factory=dict)  # of the folder that declared it
    modules: tuple[SentenceModule, ...] = ()
    layers: Choice | None = None  # what is made of the layers; None: the last
    prompts: SentencePrompts = SentencePrompts()
    lowercase: bool = False  # are texts made lower case before they are tokenized?
    model_config: Mapping[str, Any] = field(default_factory=dict)  # what config_sentence_transformers.json says

    def __post_init__(self) -> None:
        names = pooling_names(self.how)
        if not self.modules:
            normalize = (SentenceNormalize(),) if self.unit else ()
            object.__setattr__(self, "modules", (SentencePooling(names), *normalize))

    def __call__(self, states: Tensor, rows: Rows, prompt_lengths: Tensor | None = None) -> Tensor:  # (N, W) -> (B, W)
        """The vectors of rows; `prompt_lengths` (B,) are the tokens at the beginning of each that are of a prompt."""
        features = {TOKENS: states}
        for module in self.modules:
            module.to(states.device).run(features, rows, prompt_lengths)
        return features[SENTENCE]

    @property
    def excludes_prompt(self) -> bool:
        return any(isinstance(module, SentencePooling) and not module.include_prompt for module in self.modules)

    def output_width(self, width: int) -> int:
        """The width of the vectors, from that of the states."""
        widths = {TOKENS: width}
        for module in self.modules:
            widths[module.target] = module.output_width(widths[module.source])
        return widths[SENTENCE]


def pooling_names(how: str) -> list[str]:
    """The poolings of `mean+max`, as we call them."""
    names = [ALIASES.get(name, name) for name in how.split("+")]
    for name in names:
        if name not in POOLINGS:
            there = ", ".join([*POOLINGS, *ALIASES])
            raise UsageProblem(f"no pooling is called {name!r}; there are: {there}; and several joined, as mean+max")
    return names


MEAN = Pooling()
