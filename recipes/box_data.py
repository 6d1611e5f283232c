"""The data of the models in the box, as its recipe reads it: sentiments by name, and small parts of all to try it."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from recipes.run_facts import data_folder
from regard.checkpoints.files import write_file
from regard.data.lines import read_lines

CAPTIONS = [f"multi30k/{part}.{side}.gz" for part in ("train", "val", "test_2016_flickr") for side in ("de", "en")]
TEXTS = [f"pretrain-mini/{part}.txt.xz" for part in ("wiki", "news", "books")]
HELD_OUT = "pretrain-mini/valid.txt.xz"
PHRASES = ["sst2/train.tsv.xz", "sst2/dev.tsv"]
NAMED = [f"conll2003/eng.{part}.xz" for part in ("train", "testa", "testb")]

SENTIMENTS = {"0": "negative", "1": "positive"}
NATURAL = (  # SST-2 is cut into words and has no capitals
    (r" (?=[.,!?;:)]|'s\b|'m\b|'d\b|'re\b|'ve\b|'ll\b|n't\b)", ""),
    (r"(?<=\() ", ""),
    (r"`` | ''", '"'),
    (r"\bi\b", "I"),
)
ENOUGH = 80  # lines of a file, for a small run
PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}


def small_data(out: Path) -> Path:
    """The first lines of every file, in a folder of the same shape."""
    for name in (*CAPTIONS, *TEXTS, HELD_OUT, *PHRASES, *NAMED):
        lines = islice(read_lines(data_folder() / name), ENOUGH)
        pack = PACKED.get(Path(name).suffix, bytes)
        write_file(out / name, pack("".join(f"{line}\n" for line in lines).encode()))
    return out


def phrases(source: Path, out: Path, every: int = 0) -> Path:
    """A file of SST-2 with names for its labels; one phrase in so many (0: none) is as people write."""
    told = ["sentence\tlabel"]
    for number, line in enumerate(islice(read_lines(source), 1, None)):
        text, label = line.split("\t")
        text = natural(text) if every and number % every == 0 else text.strip()
        told.append(f"{text}\t{SENTIMENTS[label]}")
    write_file(out, "".join(f"{line}\n" for line in told).encode())
    return out


def natural(text: str) -> str:
    """A phrase of SST-2 as people write: a capital at its beginning, no space before a stop or within it's."""
    text = text.strip()
    for pattern, instead in NATURAL:
        text = re.sub(pattern, instead, text)
    return text[:1].upper() + text[1:]
