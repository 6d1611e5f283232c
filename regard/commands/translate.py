"""translate: a filter, one line in, one line out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_translator

if TYPE_CHECKING:
    from regard.decoding.beam import Beam
    from regard.decoding.sample import Sampling
    from regard.layers.lowered import Precision
    from regard.tasks.translate import Translation, Translator
    from regard.viewer.alignment import Alignment

TOGETHER = 1024  # lines translated at once, so that a stream of any length needs bounded memory


def translate(
    model: str | Path | Translator,
    texts: Iterable[str],
    how: Beam | Sampling | None = None,
    device: str | None = None,
    precision: Precision = "float32",
) -> Iterator[list[Translation]]:
    """The best translations of each text, best first, as they come; an empty text stays empty."""
    translator = load_translator(model, device, precision)
    lines = iter(texts)
    while some := list(islice(lines, TOGETHER)):
        yield from translator.translate(some, how)


def alignments(
    translator: Translator, sources: Sequence[str], written: Sequence[Translation], *, words: bool = True
) -> list[Alignment]:
    """What each translation looked at; of whole words, or of the pieces the model reads."""
    from regard.viewer.alignment import Alignment, by_words

    looked = [Alignment(a.source, a.target, a.weights) for a in translator.attention(sources, written)]
    return [by_words(one) for one in looked] if words else looked
