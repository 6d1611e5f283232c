"""A bigram model's run: a vocabulary, the text encoded, its pairs counted."""

from __future__ import annotations

import sys
from pathlib import Path

from regard import __version__
from regard.commands.encoders import read_tokenizer
from regard.commands.language_run import LanguageRun
from regard.commands.run_folder import claim
from regard.config import to_dict
from regard.models.bigram import BLOCK, counted
from regard.tasks.measuring import measured, told_after
from regard.tasks.reader import Reader


def count(run: LanguageRun, tokenizer: str | Path | None) -> Reader:
    """Count the pairs of a run's text; how well they tell the held-out text is said."""
    settings = run.settings
    claim(run.folder, {"settings": to_dict(settings), "model": {"name": run.model}})
    pieces = read_tokenizer(tokenizer) if tokenizer else run.learned()
    corpus = run.made(settings.texts, run.corpus, pieces)
    tokens = corpus.facts.tokens
    blocks = (corpus.ids(at, min(at + BLOCK, tokens)) for at in range(0, tokens, BLOCK))
    reader = Reader(counted(blocks, pieces.size), pieces)
    told = corpus.lines()
    if settings.dev:
        found = measured(reader.model, run.held_out(pieces), told_after(pieces))
        told += [*map(str, found.scores()), *found.notes()]
    print(*told, sep="\n", file=sys.stderr)
    text = " ".join(Path(path).name for path in settings.texts)
    reader.save(run.folder / "model", f"# Bigrams counted by regard\n\n- text: {text}\n- regard {__version__}\n")
    return reader
