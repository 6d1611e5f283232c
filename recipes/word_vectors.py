"""Word vectors, ours beside gensim's: from the same words, with the same size, window and epochs; how well they agree
with people, how many analogies they solve, and how many words a second are gone through in training.

    REGARD_DATA=FOLDER python -m recipes.word_vectors --only ours
    REGARD_DATA=FOLDER python -m recipes.word_vectors --only gensim

Ours is for a GPU; gensim (pip install gensim) trains on two CPU cores, a few minutes for its two kinds.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from recipes.results import RESULTS, append
from recipes.run_facts import command, commit, data_folder, device_name
from regard.commands.vectors import Kind, VectorSettings, score_vectors
from regard.commands.vectors_run import OWN, learned
from regard.data.documents import read_documents
from regard.data.words import Cut, WordText, read_words
from regard.text.vectors import Vectors
from regard.training.parallel import here

CUT = Cut()
WORKERS = 2  # of gensim
SCORES = {"WordSim-353": "WordSim-353", "SimLex-999": "SimLex-999", "Google analogies": "analogies"}


def ours(kind: Kind, text: WordText, options: Namespace) -> tuple[Vectors, float]:
    """The vectors, and the seconds of training alone."""
    import torch

    epochs = 0 if kind == "glove" else options.epochs  # GloVe's own are passes over counts
    settings = VectorSettings(size=options.size, window=options.window, epochs=epochs, seed=options.seed)
    torch.zeros(1, device=here())  # a GPU takes its time to wake
    began = time.perf_counter()
    return learned(kind, text, settings, str(here())), time.perf_counter() - began


def gensims(kind: Kind, sentences: list[list[str]], options: Namespace) -> tuple[Vectors, float]:
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=options.size, window=options.window, min_count=CUT.least, negative=5, sample=1e-3,
        sg=int(kind == "skip-gram"), workers=WORKERS, seed=options.seed,
    )  # fmt: skip
    model.build_vocab(sentences)
    began = time.perf_counter()
    model.train(sentences, total_examples=model.corpus_count, epochs=options.epochs)
    return Vectors(list(model.wv.index_to_key), model.wv.vectors), time.perf_counter() - began


def tell(row: str, vectors: Vectors, seconds: float, words: int, options: Namespace, device: str) -> None:
    """Add what was measured; `words` went through training, each as often as there were epochs."""
    about: dict[str, Any] = {
        "row": row, "data": f"Word vectors from {options.texts}", "command": command(options), "commit": commit(),
        "split": f"size {options.size}, window {options.window}", "seed": options.seed, "seconds": seconds,
        "device": device, "folder": options.results,
    }  # fmt: skip
    scores = score_vectors(vectors, data_folder() / "word-similarity")
    for name, metric in SCORES.items():
        append("language-models", metric=metric, value=scores[name].value, **about)
        print(f"{row}: {metric} {scores[name].value:.2f} ({scores[name].detail})")
    append("language-models", metric="words a second", value=words / seconds, **about)
    print(f"{row}: {words / seconds:,.0f} words a second on {device}")


def paths_of(texts: str) -> list[Path]:
    """Files by their path, or by their name in pretrain-mini."""
    found = (Path(name) for name in texts.split(","))
    return [path if path.exists() else data_folder() / "pretrain-mini" / f"{path}.txt.xz" for path in found]


def main(options: Namespace) -> None:
    paths = paths_of(options.texts)
    if options.only != "gensim":
        text = read_words(paths, CUT)
        for kind in options.kinds.split(","):
            vectors, seconds = ours(kind, text, options)
            epochs = OWN[kind].epochs if kind == "glove" else options.epochs
            tell(f"{kind}, {epochs} epochs", vectors, seconds, epochs * text.total, options, device_name())
    if options.only != "ours":
        sentences = [CUT.words(line) for document in read_documents(paths) for line in document]
        words = options.epochs * sum(map(len, sentences))
        for kind in (kind for kind in options.kinds.split(",") if kind != "glove"):
            vectors, seconds = gensims(kind, sentences, options)
            tell(f"{kind}, {options.epochs} epochs, gensim", vectors, seconds, words, options, f"{WORKERS} CPU cores")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--texts", default="wiki,news,books", help="files of pretrain-mini, or paths")
    parser.add_argument("--only", choices=["ours", "gensim", "both"], default="both")
    parser.add_argument("--kinds", default="skip-gram,cbow,glove")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    main(parser.parse_args())
