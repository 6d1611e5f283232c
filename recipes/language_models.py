"""Language models side by side: by counting, recurrent, causal, and with a memory.

    REGARD_DATA=FOLDER python -m recipes.language_models shakespeare --row GPT

Texts: `shakespeare` (characters; a GPT as large as nanoGPT's and for as many steps, whose validation loss is 1.4697),
`ptb` (Penn Treebank, word by word) and `enwik8` (byte by byte; Transformer-XL with its memory and without).

On one H200: shakespeare 1.4481 in two minutes.  ptb, perplexity a word: Bigram 187, GPT 93, LSTM 84, Transformer-XL 75,
AWD-LSTM 66, three to seven minutes each, side by side.  enwik8, bits a byte: 1.59 with memory, 1.73 without, in four.
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

CORPUS = ("pieces", "vocab")  # settings that decide how a text is encoded
WIDE = 384


@dataclass(frozen=True)
class Row:
    """A model in a table: its preset, and how it is trained and measured."""

    preset: str
    set: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    measuring: Measuring = field(default_factory=Measuring)


def shaped(layers: int, width: int, heads: int, dropout: float) -> tuple[str, ...]:
    return (
        f"stack.layers={layers}", f"embedding.width={width}", f"stack.block.width={width}",
        f"stack.block.inner={4 * width}", f"stack.block.attention.heads={heads}",
        f"embedding.dropout={dropout}", f"stack.block.dropout={dropout}",
    )  # fmt: skip


CHARACTERS = {"pieces": "characters", "vocab": 100}
WORDS = {"pieces": "words", "vocab": 10_000}
BYTES = {"pieces": "byte-bpe", "vocab": 257}  # no merges: what is left are bytes, and the end of a text
XL = shaped(6, 512, 8, 0.1)
SEGMENTS = {**BYTES, "longest": 256, "budget": 16_384, "steps": 2500, "rate": 5e-4, "warmup": 0.05}
ROWS = {
    "shakespeare": {
        "GPT": Row(
            "gpt-char", ("stack.block.attention.dropout=0.2",),
            {**CHARACTERS, "longest": 256, "budget": 16_384, "steps": 5000, "rate": 1e-3, "warmup": 0.02,
             "weight_decay": 0.1, "betas": (0.9, 0.99), "evaluate_every": 250},
            Measuring(256, 256),  # windows that do not overlap: as nanoGPT measures
        ),
    },
    "ptb": {
        "Bigram": Row("bigram", settings=WORDS),
        "LSTM": Row(
            "lstm", (), {**WORDS, "longest": 35, "budget": 64 * 35, "steps": 16_000, "rate": 2e-3, "warmup": 0.02},
        ),
        "AWD-LSTM": Row(
            "awd-lstm", (),
            {**WORDS, "longest": 70, "budget": 80 * 70, "steps": 10_000, "rate": 3e-3, "warmup": 0.1,
             "betas": (0.9, 0.99), "activation": 2.0, "temporal": 1.0},
        ),
        "GPT": Row(
            "gpt2-mini", shaped(6, WIDE, 6, 0.4),
            {**WORDS, "longest": 128, "budget": 8192, "steps": 7000, "rate": 1e-3, "weight_decay": 0.1},
            Measuring(128, 64),
        ),
        "Transformer-XL": Row(
            "transformer-xl-small", (*shaped(6, WIDE, 6, 0.4), "stack.block.inner_dropout=0.2", "memory=128"),
            {**WORDS, "longest": 64, "budget": 4096, "steps": 6500, "rate": 5e-4, "weight_decay": 0.1},
            Measuring(64),
        ),
    },
    "enwik8": {
        "Transformer-XL": Row("transformer-xl-small", (*XL, "memory=256"), SEGMENTS, Measuring(256, streams=64)),
        "without memory": Row("transformer-xl-small", (*XL, "memory=0"), SEGMENTS, Measuring(256, streams=64)),
    },
}  # fmt: skip
NAMES = {"shakespeare": "Tiny Shakespeare", "ptb": "Penn Treebank", "enwik8": "enwik8"}


def learn(options: Namespace, row: Row, texts: dict[str, Path]) -> None:
    """Train on one text, choose by another, measure on a third, and append what was measured."""
    start, text = time.monotonic(), options.text
    out = options.out / f"{text}-{options.row}-{options.seed}".replace(" ", "-").lower()
    steps = {"steps": options.steps} if options.steps else {}
    reader: Any = pretrain(
        row.preset, [texts["train"]], dev=[texts["valid"]], out=out, corpus=options.out / f"{text}-corpus",
        set=row.set, seed=options.seed, **{**row.settings, **steps},
    )  # fmt: skip
    seconds = time.monotonic() - start
    told: Any = evaluate(reader, [texts["test"]], measuring=row.measuring)
    about = {
        "row": options.row, "data": NAMES[text], "split": "test" if texts["test"] != texts["valid"] else "valid",
        "seed": options.seed, "seconds": round(seconds), "commit": commit(), "device": device_name(),
        "folder": options.results, "parameters": size(reader.model),
        "command": f"python -m recipes.language_models {text} --row '{options.row}' --seed {options.seed}",
    }  # fmt: skip
    if "longest" in row.settings:
        about["flops"] = flops_a_token(reader, row.settings["longest"]) * tokens_read(out)
    for score in told.scores:
        append("language-models", metric=score.metric, value=score.value, **about)
    if curve := evaluations(out):
        append("language-models", metric="valid loss by tokens read", points=curve, **about)
    print(options.row, *told.lines(), sep="\n")


def flops_a_token(reader: Reader, longest: int) -> float:
    """Of training: six for each weight that a token is multiplied with (Kaplan et al. 2020), the words it is compared
    with among them, and twelve for each number of a key that it meets in attention: half a row's, and the memory's."""
    model, config = reader.model, reader.model.encoder.config
    weights = sum(weight.numel() for weight in model.parameters() if weight.ndim == 2)  # the table is the output too
    keys = longest / 2 + getattr(config, "memory", 0) if hasattr(config, "stack") else 0
    return 6 * weights + 12 * config.layers * config.width * keys


def tokens_read(out: Path) -> int:
    return max(line.get("tokens", 0) for line in metrics(out))


def evaluations(out: Path) -> list[tuple[int, float]]:
    """How many tokens had been read, and the loss on the text to choose by."""
    tokens, found = 0, []
    for line in metrics(out):
        tokens = line.get("tokens", tokens)
        if "evaluation" in line:
            found.append((tokens, line["evaluation"]["loss"]))
    return found


def metrics(out: Path) -> list[dict[str, Any]]:
    path = out / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def shakespeare(folder: Path) -> dict[str, Path]:
    """Nine tenths to learn from; the last tenth to choose by, which is also what nanoGPT's loss is on."""
    text = read("tinyshakespeare/input.txt.xz")
    files = written(folder, "shakespeare", text, [0, len(text) * 9 // 10, len(text)])
    return {**files, "test": files["valid"]}


def ptb(folder: Path) -> dict[str, Path]:
    return {part: data_folder() / f"ptb/ptb.{part}.txt.xz" for part in ("train", "valid", "test")}


def enwik8(folder: Path) -> dict[str, Path]:
    """90, 5 and 5 million bytes, as is the custom; a cut inside a character is moved to its end."""
    text = read("enwik8/enwik8.xz")
    return written(folder, "enwik8", text, [0, 90_000_000, 95_000_000, len(text)])


def read(name: str) -> bytes:
    with lzma.open(data_folder() / name) as file:
        return file.read()


def written(folder: Path, name: str, text: bytes, cuts: list[int]) -> dict[str, Path]:
    """Parts of a text as files, for train, valid and test."""
    folder.mkdir(parents=True, exist_ok=True)
    cuts = [cut + next(n for n in range(4) if (text[cut + n : cut + n + 1] or b" ")[0] & 0xC0 != 0x80) for cut in cuts]
    files = {}
    for part, begin, end in zip(("train", "valid", "test"), cuts, cuts[1:], strict=False):
        files[part] = folder / f"{name}-{part}.txt"
        files[part].write_bytes(text[begin:end])
    return files


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("text", choices=ROWS)
    parser.add_argument("--row", required=True, help="; ".join(f"{text}: {', '.join(ROWS[text])}" for text in ROWS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="other than the recipe's, to try it out")
    parser.add_argument("--out", type=Path, default=Path("runs/language-models"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args()
    if options.row not in ROWS[options.text]:
        parser.error(f"{options.text} has no row {options.row!r}; there are: {', '.join(ROWS[options.text])}")
    files = {"shakespeare": shakespeare, "ptb": ptb, "enwik8": enwik8}[options.text](options.out / "texts")
    learn(options, ROWS[options.text][options.row], files)


if __name__ == "__main__":
    main()
