"""--vectors: the embedding of a model that has learned nothing, begun from a file of word vectors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.layers.embedding import Embedding
    from regard.text.tokenizer import Tokenizer
    from regard.text.vectors import Vectors


def vectors_for(path: str | Path, model: str, settings: Sequence[str] = ()) -> Vectors | None:
    """The vectors of a file, if one is named and the model can begin from them: told before anything is trained."""
    from regard.commands.show import configured
    from regard.layers.embedding import EmbeddingConfig
    from regard.models import PRESETS
    from regard.text.vectors import Vectors

    if not path:
        return None
    if model not in PRESETS:
        raise UsageProblem(f"--vectors {path}: {model} has words of its own already; a preset can begin from vectors")
    embedding = configured(model, tuple(settings), PRESETS).embedding
    if not isinstance(embedding, EmbeddingConfig):
        raise UsageProblem(f"--vectors {path}: {model} has no table of words, for it reads them by their characters")
    vectors, width = Vectors.read(path), embedding.width
    if vectors.width != width:
        raise Problem(
            f"the vectors of {path} have {vectors.width} dimensions, and the embedding of {model} has {width}. Give "
            f"vectors of {width}, or make the model fit with --set embedding.width={vectors.width}, and its layers too "
            "where they must be as wide."
        )
    return vectors


def begin_from(vectors: Vectors | None, embed: Embedding, tokenizer: Any) -> None:
    """Give pieces that are words their vectors, and tell how many are; the others keep what they have."""
    import torch

    from regard.training.parallel import is_first

    if vectors is None:
        return
    words, table = words_of(tokenizer), embed.tokens.weight
    more = [""] * (len(table) - len(words))  # rows that no piece has yet
    with torch.no_grad():
        begun, found = vectors.matrix_for(words + more, table)
        if not found:
            raise Problem("no piece of the vocabulary is a word that has a vector. Give vectors of its language.")
        if embed.config.scaled or embed.config.positions != "none":
            new = (begun != table).any(1)
            begun[new] *= table.std() / begun[new].std()  # places are added, or it is the output too: both fit this
        table.copy_(begun)
    if is_first():
        told = f"{found:,} of {len(words):,} pieces begin with the vector of a word; {len(words) - found:,} have none"
        print(told, file=sys.stderr, flush=True)


def words_of(tokenizer: Tokenizer) -> list[str]:
    """Of each piece the word it is; nothing for one that only goes on with a word."""
    return ["" if goes_on else tokenizer.piece(id) for id, goes_on in enumerate(tokenizer.continues.tolist())]
