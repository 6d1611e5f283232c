"""What the Multi30k recipes share: English to German captions (Elliott et al. 2016), lowercased, a BPE of 10,000
pieces for both languages; sacreBLEU on test_2016_flickr.  The data is in the folder `multi30k` of $REGARD_DATA."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import regard
from recipes.results import RESULTS, append
from recipes.run_facts import command, commit, data_folder, device_name

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
    return [str(data_folder() / "multi30k" / f"{split}.{language}.gz") for language in ("en", "de")]
