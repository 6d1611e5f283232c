"""Skip-gram and the bag of words learn at least as much as gensim's do from the same text, within noise.

Larger texts, and how fast it goes, are the matter of recipes/word_vectors.py.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from regard.commands.vectors import VectorSettings, score_vectors
from regard.commands.vectors_run import learned
from regard.data.lines import read_lines
from regard.data.words import Cut, read_words
from regard.text.vectors import Vectors

DATA = Path(os.environ.get("REGARD_DATA", "none"))
LINES = 6_000  # of Wikipedia: 2 MB
NOISE = 3.0  # hundredths by which such scores differ from seed to seed


@pytest.mark.skipif(not DATA.is_dir(), reason="REGARD_DATA is not set")
@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_scores_are_at_least_gensims(tmp_path, kind):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed: make oracles")
    lines = list(islice(read_lines(DATA / "pretrain-mini/wiki.txt.xz"), LINES))
    (tmp_path / "text").write_text("\n".join(lines))
    sentences = [Cut().words(line) for line in lines]
    settings = {"vector_size": 50, "window": 5, "min_count": 5, "negative": 5, "epochs": 3, "workers": 1, "seed": 1}
    theirs = models.Word2Vec(sentences, sg=int(kind == "skip-gram"), **settings).wv
    ours = learned(kind, read_words([tmp_path / "text"], Cut()), VectorSettings(size=50, epochs=3), "cpu")
    assert set(ours.words) == set(theirs.index_to_key)
    wanted, found = (scored(vectors) for vectors in (Vectors(list(theirs.index_to_key), theirs.vectors), ours))
    assert found > wanted - NOISE, (kind, found, wanted)


def scored(vectors: Vectors) -> float:
    """The mean of both sets of pairs; analogies say nothing of so little text."""
    scores = score_vectors(vectors, DATA / "word-similarity")
    return (scores["WordSim-353"].value + scores["SimLex-999"].value) / 2
