"""Language models side by side: by counting, recurrent, causal, and with a memory.

    REGARD_DATA=FOLDER python -m recipes.language_models --part shakespeare

Parts: `shakespeare` (a GPT on characters, as large as nanoGPT's and for as many steps), `ptb` (Penn Treebank, word
by word: `--row` names one of ROWS) and `enwik8` (bytes; Transformer-XL with its memory and without).
"""

from __future__ import annotations

import json
import lzma
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.commands.evaluate import evaluate
from regard.commands.pretrain import pretrain
from regard.commands.show import size
from regard.tasks.measuring import Measuring
from regard.tasks.reader import Reader


@dataclass(frozen=True)
class Row:
    """A model in a table: its preset, and how it is trained and measured."""

    preset: str
    set: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    measuring: Measuring = field(default_factory=Measuring)


CHARACTERS = Row(
    "gpt-char", ("stack.block.attention.dropout=0.2",),
    {"pieces": "characters", "longest": 256, "budget": 16_384, "steps": 5000, "rate": 1e-3, "warmup": 0.02,
     "weight_decay": 0.1, "betas": (0.9, 0.99), "evaluate_every": 250},
    Measuring(256, 256),  # windows that do not overlap: as nanoGPT measures
)  # fmt: skip
WORDS: dict[str, Any] = {"pieces": "words", "vocab": 10_000}
ROWS = {
    "Bigram": Row("bigram", settings=WORDS),
}


def learn(options: Namespace, row: Row, name: str, data: str, texts: dict[str, Path]) -> None:
    """Train on one text, choose by another, measure on a third, and append what was measured."""
    start, out = time.monotonic(), options.out / f"{data}-{name}-{options.seed}".replace(" ", "-").lower()
    reader = pretrain(
        row.preset, [texts["train"]], dev=[texts["valid"]], out=out, corpus=options.out / f"{data}-corpus".lower(),
        set=row.set, seed=options.seed, **row.settings,
    )  # fmt: skip
    seconds = time.monotonic() - start
    told = evaluate(reader, [texts["test"]], measuring=row.measuring)
    about = {
        "row": name, "data": data, "split": texts["test"].name, "seed": options.seed, "seconds": round(seconds),
        "commit": commit(), "device": device_name(), "folder": options.results, "parameters": size(reader.model),
        "flops": flops_a_token(reader, row.settings["longest"]) * tokens_read(out),
        "command": f"python -m recipes.language_models --part {options.part} --row '{name}' --seed {options.seed}",
    }  # fmt: skip
    for score in told.scores:
        append("language-models", metric=score.metric, value=score.value, **about)
    print(name, *told.lines(), sep="\n")


def flops_a_token(reader: Reader, longest: int) -> float:
    """Of training: six for each weight that a token is multiplied with (Kaplan et al. 2020), the words it is compared
    with among them, and twelve for each number of a key that it meets in attention, of which a causal row has half."""
    model, config = reader.model, reader.model.encoder.config
    tables = {id(table) for table in (model.encoder.embed.tokens.weight,)}
    weights = sum(p.numel() for p in model.parameters() if p.ndim == 2 and id(p) not in tables)
    words = config.embedding.vocab * config.embedding.width
    attention = config.layers * config.width * (longest / 2 + getattr(config, "memory", 0))
    return 6 * (weights + words) + 12 * (attention if hasattr(config, "stack") else 0)


def tokens_read(out: Path) -> int:
    told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return max(line.get("tokens", 0) for line in told)


def shakespeare(options: Namespace) -> None:
    text = read("tinyshakespeare/input.txt.xz")
    cut = len(text) * 9 // 10
    texts = {"train": text[:cut], "valid": text[cut:]}
    files = {part: written(options.out / f"shakespeare-{part}.txt", some) for part, some in texts.items()}
    learn(options, CHARACTERS, "GPT, 6 layers of 384", "Shakespeare", {**files, "test": files["valid"]})


def ptb(options: Namespace) -> None:
    files = {part: data_folder() / f"ptb/ptb.{part}.txt.xz" for part in ("train", "valid", "test")}
    learn(options, ROWS[options.row], options.row, "Penn Treebank", files)


def read(name: str) -> str:
    with lzma.open(data_folder() / name, "rt", encoding="utf-8", newline="") as file:
        return file.read()


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


PARTS = {"shakespeare": shakespeare, "ptb": ptb}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--row", choices=ROWS, default=next(iter(ROWS)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/language-models"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args()
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
