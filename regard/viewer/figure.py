"""A figure of matplotlib as a file that is the same whenever the figure is; and texts in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoints.files import write_file
from regard.errors import Problem
from regard.viewer.alignment import FONTS, LONGEST_LABEL
from regard.viewer.curve import check_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """What is drawn, in the format that the extension names."""
    suffix, drawn = check_picture(path), BytesIO()
    try:
        import matplotlib
    except ImportError:
        raise Problem(f"{path}: pictures need matplotlib; install it by: pip install 'regard[plot]'") from None
    # no date and no random identifiers, so that the same figure is the same file
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with matplotlib.rc_context({"svg.hashsalt": "regard"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a character no font has is drawn as a box
        draw().savefig(drawn, format=suffix[1:], dpi=150, bbox_inches="tight", metadata=metadata)
    write_file(path, drawn.getvalue())


def text_style() -> dict[str, Any]:
    """For texts of any language, taken as they are."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return {"family": [name for name in FONTS if name in installed], "parse_math": False}  # a dollar is a dollar


def label(word: str) -> str:
    """A word without what would break an XML file, cut if it is long."""
    word = "".join(character if character.isprintable() else "·" for character in word)
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"
