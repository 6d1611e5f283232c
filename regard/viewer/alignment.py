"""Which source words a translation looked at: one sentence pair's attention as text, JSON, a terminal drawing or a
picture (Bahdanau et al. 2015, figure 3).

Letters: T pieces of the target, S pieces of the source.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size

from regard.checkpoints.files import write_file
from regard.errors import Problem, UsageProblem
from regard.viewer.figure import PICTURES, label, printable, text_style, write_figure

SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.1, "░"))  # a weight is drawn by the first it reaches
TALLEST_LABEL = 12  # characters of a word, downwards in a terminal
CELL, LONGEST_SIDE = 0.3, 30.0  # inches in a picture: of one weight, and of the whole matrix at most


@dataclass(frozen=True, eq=False)
class Alignment:
    """How much each target piece looked at each source piece."""

    source: Sequence[str]
    target: Sequence[str]
    weights: np.ndarray  # (T, S), rows sum to one

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.target), len(self.source)):
            raise Problem(
                f"alignment weights have shape {self.weights.shape} for {len(self.target)} target and "
                f"{len(self.source)} source pieces; give one row a target piece and one column a source piece"
            )

    @property
    def is_empty(self) -> bool:
        return self.weights.size == 0

    def text(self) -> str:
        """Pharaoh format: `i-j` says that source piece i is what target piece j looked at most; counted from 0."""
        if self.is_empty:
            return ""
        return " ".join(f"{source}-{target}" for target, source in enumerate(self.weights.argmax(axis=1)))

    def json(self) -> dict[str, Any]:
        weights = self.weights.astype(np.float64).round(6).tolist()
        return {"source": list(self.source), "target": list(self.target), "weights": weights}

    def terminal(self, width: int = 80) -> str:
        """Target words down the side, source words downwards on top.  A matrix wider than `width` cells is continued
        below, as a text is."""
        if self.is_empty:
            return ""
        labels = [printable(word) for word in self.target]
        margin = min(max(map(cell_len, labels)), max(width // 3, 1))
        columns = max((width - margin - 1) // 2, 1)
        blocks = [self._block(labels, margin, at, at + columns) for at in range(0, len(self.source), columns)]
        legend = "  ".join(f"{shade} {least}" for least, shade in reversed(SHADES))
        return "\n\n".join([*blocks, f"{legend} or more"])

    def _block(self, labels: list[str], margin: int, start: int, stop: int) -> str:
        """The source columns from `start` to `stop`; each is two cells wide, which is about square."""
        head = [" " * (margin + 1) + line for line in _downwards(self.source[start:stop])]
        body = [
            _fitted(label, margin) + " " + "".join(_shade(weight) for weight in row[start:stop])
            for label, row in zip(labels, self.weights, strict=True)
        ]
        return "\n".join(line.rstrip() for line in head + body)

    def picture(self, path: str | Path) -> None:
        """Source words on top, target words down the side, the darker the more; the format by the file's extension."""
        if self.is_empty:
            raise Problem(f"{path}: there is nothing to draw, for the sentence or its translation is empty")
        write_figure(Path(path), self._figure)

    def _figure(self) -> Any:
        from matplotlib.figure import Figure

        rows, columns = self.weights.shape
        cell = min(CELL, LONGEST_SIDE / max(rows, columns))
        figure = Figure(figsize=(columns * cell, rows * cell))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.imshow(self.weights, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        style = {**text_style(), "fontsize": 36 * cell}
        axes.set_xticks(range(columns), [label(word) for word in self.source], rotation=90, **style)
        axes.set_yticks(range(rows), [label(word) for word in self.target], **style)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="0.85", linewidth=0.5)
        axes.tick_params(which="minor", length=0)
        axes.spines[:].set_color("0.6")
        return figure


def by_words(alignment: Alignment, marker: str = "▁", whole: Collection[str] = ("<s>", "</s>")) -> Alignment:
    """Pieces joined to the words they are parts of, where a word's first piece begins with `marker`.

    A target word looks as its pieces do on average, at a source word as much as at all its pieces together.
    Pieces named in `whole` are words of their own."""
    source, target = (_word_starts(pieces, marker, whole) for pieces in (alignment.source, alignment.target))
    weights = np.add.reduceat(alignment.weights, source, axis=1)  # (T, S) -> (T, source words)
    weights = np.add.reduceat(weights, target, axis=0)  # (T, source words) -> (target words, source words)
    sizes = np.diff(target, append=len(alignment.target))
    return Alignment(
        _words(alignment.source, source, marker), _words(alignment.target, target, marker), weights / sizes[:, None]
    )


def write_alignments(path: str | Path, alignments: Sequence[Alignment]) -> list[Path]:
    """Write the alignments of some sentences in the format the extension names; the files written are returned.

    `.txt` has a line a sentence in Pharaoh format, blank for an empty sentence; `.json` is a list with an object a
    sentence, each on a line of its own; `.png`, `.svg` and `.pdf` are pictures.  Several sentences make several
    pictures, numbered like the sentences: NAME-1.png, NAME-2.png and so on, without those of empty sentences."""
    path = Path(path)
    suffix = check_extension(path)
    if suffix == ".txt":
        lines = [alignment.text() + "\n" for alignment in alignments]
        write_file(path, "".join(lines).encode())
    elif suffix == ".json":
        items = [json.dumps(alignment.json(), ensure_ascii=False) for alignment in alignments]
        # a lone surrogate has no UTF-8, and its backslash form is what JSON writes for it
        write_file(path, ("[\n" + ",\n".join(items) + "\n]\n").encode(errors="backslashreplace"))
    else:
        return _write_pictures(path, alignments)
    return [path]


def check_extension(path: Path) -> str:
    """The extension, in lower case, if alignments can be written so: better asked before the work than after it."""
    suffix, known = path.suffix.lower(), (".txt", ".json", *PICTURES)
    if suffix not in known:
        named = suffix or "a file without extension"
        raise UsageProblem(f"{path}: alignments are not written as {named}; use {', '.join(known)}")
    return suffix


def _write_pictures(path: Path, alignments: Sequence[Alignment]) -> list[Path]:
    if len(alignments) == 1:
        alignments[0].picture(path)
        return [path]
    drawn = {number: alignment for number, alignment in enumerate(alignments, 1) if not alignment.is_empty}
    if not drawn:
        raise Problem(f"{path}: there is nothing to draw, for all sentences are empty")
    paths = [path.with_stem(f"{path.stem}-{number}") for number in drawn]
    for numbered, alignment in zip(paths, drawn.values(), strict=True):
        alignment.picture(numbered)
    return paths


def _word_starts(pieces: Sequence[str], marker: str, whole: Collection[str]) -> np.ndarray:
    starts = [
        at
        for at, piece in enumerate(pieces)
        if at == 0 or piece.startswith(marker) or piece in whole or pieces[at - 1] in whole
    ]
    return np.array(starts, dtype=np.intp)


def _words(pieces: Sequence[str], starts: np.ndarray, marker: str) -> list[str]:
    ends = [*starts[1:], len(pieces)]
    words = ["".join(pieces[start:end]) for start, end in zip(starts, ends, strict=False)]
    return [word.removeprefix(marker) or marker for word in words]


def _fitted(label: str, width: int) -> str:
    """Exactly `width` cells: padded on the left, or cut with an ellipsis."""
    if cell_len(label) > width:
        label = set_cell_size(label, width - 1) + "…"
    return " " * (width - cell_len(label)) + label


def _downwards(words: Sequence[str]) -> list[str]:
    """Words side by side, each written from top to bottom in two cells and ending at the last line."""
    letters = [_letters(printable(word)) for word in words]
    height = max(map(len, letters))
    padded = [["  "] * (height - len(column)) + column for column in letters]
    return ["".join(line) for line in zip(*padded, strict=True)]


def _letters(word: str) -> list[str]:
    """A word's characters with the marks that combine with them, each two cells wide."""
    letters: list[str] = []
    for character in word:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character)
    if len(letters) > TALLEST_LABEL:
        letters = [*letters[: TALLEST_LABEL - 1], "…"]
    return [letter + " " * (2 - cell_len(letter)) for letter in letters]


def _shade(weight: float) -> str:
    return next((shade * 2 for least, shade in SHADES if weight >= least), "· ")
