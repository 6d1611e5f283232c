"""evaluate: how good are a model's translations?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.load import load_translator

if TYPE_CHECKING:
    from regard.decoding.beam import Beam
    from regard.decoding.sample import Sampling
    from regard.tasks.metrics import LengthBand, Score
    from regard.tasks.translate import Translator


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

    def to_dict(self) -> dict[str, Any]:
        scores = [asdict(score) for score in (self.bleu, self.chrf, self.exact)]
        return {"scores": scores, "by_length": [asdict(band) for band in self.by_length], "cut": self.cut}


def evaluate(
    model: str | Path | Translator,
    data: Sequence[str | Path],
    how: Beam | Sampling | None = None,
    *,
    lowercase: bool = False,
    edges: tuple[int, ...] = (7, 10, 13, 16, 20),
    encoding: str = "utf-8",
    device: str | None = None,
) -> Evaluation:
    """Translate a source file and compare with its target file, line by line."""
    from regard.data.parallel import read_parallel
    from regard.tasks.metrics import bleu, bleu_by_length, chrf, exact_match

    translator = load_translator(model, device)
    source, target = data
    pairs = read_parallel(source, target, encoding)
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
