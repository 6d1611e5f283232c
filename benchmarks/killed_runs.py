"""The runs that `benchmarks.kills` kills: small files of every sort, and a command of a few seconds for each."""

from __future__ import annotations

import json
import random
import wave
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

Words = list[object]
SEED = 0  # of all that is made here
BLOCK = ("stack.layers=1", "stack.block.width=16", "stack.block.inner=32", "stack.block.attention.heads=2")
TEXT_MODEL = (*BLOCK, "embedding.width=16")
SIDE = ("layers=1", "block.width=32", "block.inner=64")
TRANSLATOR = ("embedding.width=32", *(f"{side}.{setting}" for side in ("encoder", "decoder") for setting in SIDE))
PICTURE_MODEL = (*TEXT_MODEL, "embedding.picture=8")
SOUND_MODEL = (
    "stack.layers=1", "stack.block.width=32", "stack.block.inner=32", "stack.block.attention.heads=2",
    "around=4", "waves.widths=[32,32,32]", "waves.kernels=[16,8,4]", "waves.strides=[8,5,4]", "codebook.negatives=5",
)  # fmt: skip
SAVING: Words = ["--save-every", 2, "--report-every", 1]
PRETRAINING: Words = ["--budget", 400, "--longest", 32, "--vocab", 300, "--steps", 12, *SAVING]


def changes(settings: Sequence[str]) -> Words:
    return [word for setting in settings for word in ("--set", setting)]


def make_data(folder: Path) -> None:
    """Texts, pairs of texts, labelled examples, preferences, pictures and recordings."""
    folder.mkdir(parents=True)
    draw = random.Random(SEED)
    words = ["".join(draw.choices("abdegilmnorstu", k=draw.randint(3, 7))) for _ in range(60)]
    for name, size in (("train", 160), ("dev", 16)):
        lines = [" ".join(draw.choices(words, k=draw.randint(4, 9))) for _ in range(size)]
        write(folder / f"{name}.txt", (line + "\n" * (1 + (number % 5 == 4)) for number, line in enumerate(lines)))
        write(folder / f"{name}.source", (f"{line}\n" for line in lines))
        write(folder / f"{name}.target", (" ".join(reversed(line.split())) + "\n" for line in lines))
        labels = ["long" if len(line) > 35 else "short" for line in lines]
        write(folder / f"{name}.tsv", ["text\tlabel\n", *(f"{a}\t{b}\n" for a, b in zip(lines, labels, strict=True))])
        write(folder / f"{name}.jsonl", (json.dumps(preference(line)) + "\n" for line in lines))
        make_pictures(folder / f"{name}-pictures", size // 8)
        make_recordings(folder / f"{name}-recordings", size // 8)
    write(folder / "prompts.txt", (f"{' '.join(draw.choices(words, k=3))}\n" for _ in range(40)))


def write(path: Path, lines: Sequence[str] | Iterator[str]) -> None:
    path.write_text("".join(lines))


def preference(line: str) -> dict[str, str]:
    """The longer of two continuations was chosen."""
    prompt, *rest = line.split()
    return {"prompt": prompt, "chosen": " " + " ".join(rest), "rejected": " " + rest[0]}


def make_pictures(folder: Path, count: int) -> None:
    from PIL import Image

    draw = np.random.default_rng(SEED)
    for channel, name in enumerate(("red", "green", "blue")):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = draw.integers(0, 100, (8, 8, 3)).astype(np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def make_recordings(folder: Path, count: int) -> None:
    """Noise and a tone, with a table of the files."""
    folder.mkdir()
    draw = np.random.default_rng(SEED)
    for number in range(count):
        times = np.arange(draw.integers(3000, 6000)) / 8000
        samples = 8000 * np.sin(2 * np.pi * draw.integers(300, 1500) * times) + 200 * draw.standard_normal(len(times))
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())
    write(folder / "files.csv", ["path\n", *(f"{number}.wav\n" for number in range(count))])


# Each takes the folder of the data and gives a command, without the folder of the run


def translate(data: Path) -> Words:
    files = ["--train", data / "train.source", data / "train.target", "--dev", data / "dev.source", data / "dev.target"]
    how = ["--tokenizer", "bpe", "--vocab", 120, "--budget", 256, "--warmup", 2, "--steps", 12, "--evaluate-every", 4]
    return ["train", "translate", *files, "--model", "transformer-tiny", *changes(TRANSLATOR), *how, *SAVING]


def pretrain(model: str, *more: object, settings: Sequence[str] = TEXT_MODEL) -> Callable[[Path], Words]:
    return lambda data: ["pretrain", model, data / "train.txt", *changes(settings), *PRETRAINING, *more]


def finetune(data: Path) -> Words:
    files = ["--train", data / "train.tsv", "--dev", data / "dev.tsv"]
    return ["finetune", data / "encoder" / "model", "classify", *files, "--epochs", 2, "--batch", 16, "--rate", "1e-3"]


def train_image(data: Path) -> Words:
    files = [data / "train-pictures", "--dev", data / "dev-pictures", "--model", "vit-cifar"]
    return ["train", "image", *files, *changes(PICTURE_MODEL), "--epochs", 4, "--batch", 12, "--evaluations", 4]


def pretrain_sound(data: Path) -> Words:
    files = [data / "train-recordings" / "files.csv", "--dev", data / "dev-recordings" / "files.csv"]
    how = ["--objective", "contrast", "--steps", 8, "--budget", 200, "--longest", 60, "--evaluate-every", 4]
    return ["pretrain", "wav2vec2-tiny", *files, *changes(SOUND_MODEL), *how, *SAVING]


def align_ppo(data: Path) -> Words:
    files = ["--reward", data / "reward", "--prompts", data / "prompts.txt"]
    how = ["--steps", 8, "--texts", 16, "--batch", 8, "--passes", 2, "--most", 6, "--rate", "1e-3"]
    return ["align", data / "writer" / "model", *files, *how, *SAVING]


def align_dpo(data: Path) -> Words:
    files = ["--objective", "direct", "--train", data / "train.jsonl", "--dev", data / "dev.jsonl"]
    how = ["--epochs", 1, "--batch", 16, "--longest", 32, "--rate", "1e-3"]
    return ["align", data / "writer" / "model", *files, *how, *SAVING]


def reward(data: Path) -> Words:
    files = ["--train", data / "train.jsonl", "--dev", data / "dev.jsonl"]
    return ["finetune", data / "writer" / "model", "reward", *files, "--epochs", 1, "--batch", 16, "--rate", "1e-3"]


STARTING_MODELS: dict[str, Callable[[Path], Words]] = {  # what other runs begin with, by its folder beside the data
    "encoder": pretrain("bert-tiny", "--pieces", "wordpiece"),
    "writer": pretrain("gpt2-tiny", "--pieces", "byte-bpe"),
    "reward": reward,
}
RUNS: dict[str, Callable[[Path], Words]] = {
    "train translate": translate,
    "pretrain BERT, WordPiece learned": pretrain("bert-tiny", "--pieces", "wordpiece"),
    "pretrain BERT, Unigram learned": pretrain("bert-tiny", "--pieces", "unigram"),
    "pretrain Transformer-XL": pretrain("transformer-xl-small", "--pieces", "words"),
    "finetune classify": finetune,
    "train image": train_image,
    "pretrain wav2vec 2.0": pretrain_sound,
    "align, PPO": align_ppo,
    "align, DPO": align_dpo,
}
