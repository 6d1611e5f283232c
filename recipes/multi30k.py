"""What the Multi30k recipes share: English to German captions (Elliott et al. 2016), lowercased, a BPE of 10,000
pieces for both languages; sacreBLEU on test_2016_flickr.  The data is in the folder `multi30k` of $REGARD_DATA."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import regard
from recipes.results import RESULTS, append
from regard.errors import Problem
from regard.training.parallel import here

SPLIT = "test_2016_flickr"
SHARED = {"vocab": 10_000, "lowercase": True, "smoothing": 0.1}


def arguments(text: str) -> Any:
    """The options of every recipe; `text` is its docstring."""
    parser = ArgumentParser(description=text)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where run folders go")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    return parser


def run(row: str, model: str, options: Any, *, changes: tuple[str, ...] = (), **training: Any) -> None:
    """Train a model, score it on the test set, and append what was measured to the translation chapter."""
    start = time.perf_counter()
    name = f"multi30k-{row.replace(' ', '-').replace(',', '')}-{options.seed}"
    translator = regard.train(
        "translate", model=model, out=options.out / name, set=changes, train=files("train"), dev=files("val"),
        **SHARED, training={"seed": options.seed, **training},
    )  # fmt: skip
    seconds = time.perf_counter() - start
    scored = regard.evaluate(translator, files(SPLIT), lowercase=True)
    about = {
        "row": row, "data": "Multi30k en-de", "split": SPLIT, "seed": options.seed, "seconds": round(seconds),
        "device": device_name(), "command": command(options), "commit": commit(), "folder": options.results,
        "parameters": sum(p.numel() for p in translator.model.parameters()),
    }  # fmt: skip
    for score in (scored.bleu, scored.chrf):
        append("translation", metric=score.metric, value=score.value, signature=score.signature, **about)
    signature = scored.bleu.signature
    append("translation", metric="BLEU by source length in words", bands=scored.by_length, signature=signature, **about)
    print(row, *scored.lines(), sep="\n")


def files(split: str) -> list[str]:
    if "REGARD_DATA" not in os.environ:
        raise Problem("set REGARD_DATA to the folder that holds multi30k/train.en.gz and its like")
    folder = Path(os.environ["REGARD_DATA"]) / "multi30k"
    return [str(folder / f"{split}.{language}.gz") for language in ("en", "de")]


def command(options: Any) -> str:
    """What to type to have the same again: where files go does not matter."""
    module = sys.modules["__main__"].__spec__
    told = {name: value for name, value in vars(options).items() if name not in ("out", "results")}
    return " ".join(["python -m", module.name if module else sys.argv[0], *(f"--{n} {v}" for n, v in told.items())])


def commit() -> str:
    if "REGARD_COMMIT" in os.environ:  # where the code runs without its history
        return os.environ["REGARD_COMMIT"]
    return subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()


def device_name() -> str:
    import torch

    return torch.cuda.get_device_name() if here().type == "cuda" else "CPU"
