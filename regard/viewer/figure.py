"""A figure of matplotlib as a file that is the same whenever the figure is; and texts in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoints.files import write_file
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
LONGEST_LABEL = 40  # characters of a word
FONTS = (  # tried for each character in turn, as far as they are installed
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
)


def check_picture(path: Path) -> str:
    """The extension, in lower case, if a picture can be written so: better asked before the work than after it."""
    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        named = suffix or "a file without extension"
        raise UsageProblem(f"{path}: a picture is not written as {named}; use {', '.join(PICTURES)}")
    return suffix


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


def printable(word: str) -> str:
    """What neither moves a terminal's cursor nor breaks an XML file."""
    return "".join(character if character.isprintable() else "·" for character in word)


def label(word: str) -> str:
    """A word, cut if it is long."""
    word = printable(word)
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"
