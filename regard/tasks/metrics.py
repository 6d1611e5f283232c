"""How good translations are: BLEU and chrF as sacreBLEU computes them, with the signatures that make scores
comparable; BLEU by source length; and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import Problem, UsageProblem

References = Sequence[str] | Sequence[Sequence[str]]  # a sentence each, or some alternatives for each sentence


@dataclass(frozen=True)
class Score:
    """A number, and all that is needed to compare it with another."""

    metric: str
    value: float  # 0 to 100
    signature: str  # how it was computed
    detail: str

    @property
    def key(self) -> str:
        """The name of the metric in training logs and in `best`: in lower case, but for the label it is of."""
        name, of, label = self.metric.partition(" of ")
        return f"{name.lower()}{of}{label}"

    def __str__(self) -> str:
        return f"{self.metric} {self.value:.2f} ({self.signature})"


def check_best(best: str, keys: Sequence[str]) -> str:
    """`best`, such as "highest accuracy", with its metric spelled as the evaluation spells it; one that the evaluation
    does not give is refused."""
    which, _, name = best.partition(" ")
    found = [key for key in keys if key == name] or [key for key in keys if key.lower() == name.lower()]
    if name and not found:
        raise UsageProblem(f"best={best!r}: no metric here is called {name!r}; there are: {', '.join(keys)}")
    return f"{which} {found[0]}" if name else best


@dataclass(frozen=True)
class LengthBand:
    """BLEU over the sentences whose sources have `low` to `high` words; the last band has no end."""

    low: int
    high: int | None
    count: int
    value: float

    def __str__(self) -> str:
        words = f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"
        return f"{words} words: BLEU {self.value:.2f} over {self.count} sentences"


def bleu(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> Score:
    """Corpus BLEU (Papineni et al. 2002) of detokenized text, by sacreBLEU's tokenizer 13a."""
    from sacrebleu.metrics import BLEU

    return _corpus_score(BLEU(lowercase=lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> Score:
    """Corpus chrF (Popović 2015): character n-grams, kinder than BLEU to the endings of words."""
    from sacrebleu.metrics import CHRF

    return _corpus_score(CHRF(lowercase=lowercase), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: References) -> Score:
    """The percentage of sentences that are one of their references, character for character."""
    choices = _alternatives(hypotheses, references)
    right = sum(hypothesis in allowed for hypothesis, allowed in zip(hypotheses, choices, strict=True))
    return Score("exact match", 100 * right / len(hypotheses), "case:mixed", f"{right} of {len(hypotheses)}")


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    edges: Sequence[int] = (5, 10, 15, 20, 30, 50),
    lowercase: bool = False,
) -> list[LengthBand]:
    """BLEU in bands of source length, which shows what attention is for.

    Words are what spaces separate.  A band ends with each edge and one follows the last; bands without a sentence are
    left out."""
    choices = _alternatives(hypotheses, references)
    _same_count(sources, "sources", hypotheses)
    if not edges or list(edges) != sorted(set(edges)):
        raise UsageProblem(f"edges are {list(edges)}; give whole numbers of words, each greater than the one before")
    lengths = [len(source.split()) for source in sources]
    bands = []
    for low, high in zip([0, *(edge + 1 for edge in edges)], [*edges, None], strict=True):
        chosen = [i for i, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if chosen:
            score = bleu([hypotheses[i] for i in chosen], [choices[i] for i in chosen], lowercase=lowercase)
            bands.append(LengthBand(low, high, len(chosen), score.value))
    return bands


def _corpus_score(metric: Any, hypotheses: Sequence[str], references: References) -> Score:
    score = metric.corpus_score(list(hypotheses), _streams(_alternatives(hypotheses, references)))
    return Score(score.name, score.score, str(metric.get_signature()), str(score))


def _streams(choices: list[list[str]]) -> list[list[str | None]]:
    """sacreBLEU's form: first references of all sentences, then second ones; None where a sentence has no more."""
    most = max(len(allowed) for allowed in choices)
    return [[allowed[i] if i < len(allowed) else None for allowed in choices] for i in range(most)]


def _alternatives(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The references as a list a sentence, checked: sacreBLEU quietly scores only as many sentences as both have."""
    _same_count(references, "references", hypotheses)
    if not hypotheses:
        raise Problem("there is nothing to score: hypotheses and references are empty")
    choices = [[given] if isinstance(given, str) else list(given) for given in references]
    for sentence, (hypothesis, allowed) in enumerate(zip(hypotheses, choices, strict=True), 1):
        if not allowed:
            raise Problem(f"sentence {sentence} has no reference; give at least one, or leave the sentence out")
        for text in (hypothesis, *allowed):
            if not isinstance(text, str):
                raise Problem(f"sentence {sentence} has {text!r} where text should be; give strings")
    return choices


def _same_count(texts: Sequence[Any], name: str, hypotheses: Sequence[str]) -> None:
    for given, label in ((texts, name), (hypotheses, "hypotheses")):
        if isinstance(given, str):
            raise Problem(f"{label} is the single text {given[:40]!r}; give a list with one text a sentence")
    if len(texts) != len(hypotheses):
        raise Problem(
            f"{len(hypotheses)} hypotheses but {len(texts)} {name}; give one for each sentence, in the same order"
        )
