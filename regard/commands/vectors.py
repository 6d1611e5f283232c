"""vectors: learn word vectors from text, read, score and convert them.  No torch until one of these is called."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from regard.config import did_you_mean, update
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.tasks.metrics import Score
    from regard.text.vector_files import Form
    from regard.text.vectors import Vectors

Kind = Literal["skip-gram", "cbow", "glove"]
WIDEST, FARTHEST = 4096, 256  # numbers of a vector that is learned, and words to a side
FORMS = ("text", "binary", "glove")
PAIRS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}
ANALOGIES = {"Google analogies": "questions-words.txt"}


@dataclass(frozen=True)
class VectorSettings:
    """What a training is told, and what holds if nothing is said."""

    size: int = 100  # numbers of a vector
    window: int = 5  # words to each side that are near
    epochs: int = 0  # 0: the kind's own
    min_count: int = 5  # times that a word must occur
    vocab: int = 0  # words that are kept, the most frequent ones; 0: all
    negatives: int = 5  # noise words to a near one; not for GloVe
    sample: float = 1e-3  # the share of a text from which a word is left out by chance; 0: none is. Not for GloVe
    common: float = 10.0  # the count from which pairs weigh alike; for GloVe only
    rate: float = 0.0  # 0: the kind's own
    lowercase: bool = True
    spaces: bool = False  # words are what spaces separate; else letters and digits
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("size", "window", "min_count", "negatives"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        for name, most in (("size", WIDEST), ("window", FARTHEST)):
            if getattr(self, name) > most:
                raise UsageProblem(f"{name}={getattr(self, name)}: give {most} or less")
        for name in ("epochs", "vocab", "sample", "common", "rate"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 0 or more")


VECTORS = VectorSettings()


def vectors(path: str | Path, skip_bad: int = 0) -> Vectors:
    """The word vectors of a file, whatever its form."""
    from regard.text.vectors import Vectors

    return Vectors.read(path, skip_bad)


def train_vectors(
    kind: Kind,
    texts: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    form: Form | None = None,
    device: str | None = None,
    encoding: str = "utf-8",
    column: str | None = None,
    **settings: Any,
) -> Vectors:
    """Learn a vector for each word of text files; settings are those of VectorSettings."""
    if kind not in get_args(Kind):
        raise UsageProblem(f"no word vectors are called {kind!r}; {did_you_mean(kind, get_args(Kind))}")
    chosen = update(VECTORS, settings)
    from regard.checkpoints.files import check_room
    from regard.commands.vectors_run import learned
    from regard.data.words import Cut, read_words

    if out is not None:
        form = form_of(out, form)
        check_room(Path(out).parent, 0)  # what cannot be written is told before hours of training
    cut = Cut(chosen.lowercase, chosen.spaces, chosen.min_count, chosen.vocab)
    text = read_words(texts, cut, encoding, column)
    print(f"{text.total:,} words, {len(text.words):,} different ones kept", file=sys.stderr)
    found = learned(kind, text, chosen, device)
    if out is not None:
        found.write(out, form or "text")
    return found


def convert_vectors(source: str | Path, out: str | Path, form: Form | None = None, skip_bad: int = 0) -> Vectors:
    """Write the vectors of a file in another form."""
    form = form_of(out, form)
    found = vectors(source, skip_bad)
    found.write(out, form)
    return found


def score_vectors(source: str | Path | Vectors, data: str | Path | None = None) -> dict[str, Score]:
    """Scores by name, of those sets that the folder holds; by default that is word-similarity in $REGARD_DATA."""
    from regard.data.word_questions import read_analogies, read_pairs
    from regard.tasks.vector_scores import VectorScores

    folder = questions_folder(data)
    scores = VectorScores(vectors(source) if isinstance(source, str | Path) else source)
    found = {
        name: scores.similarity(read_pairs(folder / file)) for name, file in PAIRS.items() if (folder / file).exists()
    }
    for name, file in ANALOGIES.items():
        if (folder / file).exists():
            sections = scores.analogies(read_analogies(folder / file))
            found |= {name if part == "all" else f"{name}: {part}": score for part, score in sections.items()}
    return found


def questions_folder(data: str | Path | None) -> Path:
    if data is None and "REGARD_DATA" not in os.environ:
        raise UsageProblem("say where the pairs and analogies lie: --data FOLDER, or set REGARD_DATA")
    folder = Path(os.environ["REGARD_DATA"], "word-similarity") if data is None else Path(data)
    files = [*PAIRS.values(), *ANALOGIES.values()]
    if not any((folder / file).exists() for file in files):
        raise Problem(f"{folder} holds none of {', '.join(files)}. Give another folder (--data).")
    return folder


def form_of(out: str | Path, form: Form | None) -> Form:
    """The form that was asked for, or the one a name speaks of."""
    if form not in (None, *FORMS):
        raise UsageProblem(f"no file of vectors has the form {form!r}; {did_you_mean(form, FORMS)}")
    if Path(out).is_dir():
        raise UsageProblem(f"{out} is a folder; give the name of a file")
    return form or ("binary" if Path(out).name.removesuffix(".gz").removesuffix(".xz").endswith(".bin") else "text")
