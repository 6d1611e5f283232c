"""A small run of every kind that `regard` trains, and a way to stop it: for tests of run folders."""

from __future__ import annotations

import signal
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from toy import DEV, RECURRENT, TRAIN, make_corpus
from toy_examples import SHAPE, make_encoder, make_examples, reviews, write_stories, write_table
from toy_preferences import make_language_model, pairs, write_pairs, write_prompts

import regard
from regard.training.step import Stepper

OFTEN = {"steps": 6, "evaluate_every": 2, "save_every": 2, "report_every": 1}
TEXT = {**OFTEN, "budget": 200, "longest": 32}
BERT = (*SHAPE, "embedding.width=16")
SIDE = ("layers=1", "block.width=16", "block.inner=16", "block.attention.heads=2", "block.attention.size=8")
T5 = ("embedding.width=16", *(f"{side}.{one}" for side in ("encoder", "decoder") for one in SIDE))
MEMORY = (*SHAPE, "embedding.width=16", "memory=8")
SOUND = (
    "stack.layers=1", "stack.block.width=16", "stack.block.inner=16", "stack.block.attention.heads=2", "around=4",
    "waves.widths=[16,16,16]", "waves.kernels=[16,8,4]", "waves.strides=[8,5,4]", "codebook.negatives=5",
)  # fmt: skip
VISION = (
    "embedding.width=16", "stack.block.width=16", "stack.block.inner=16", "stack.block.attention.heads=2",
    "stack.layers=1", "embedding.picture=8",
)  # fmt: skip


SUFFIXES = {"tag": "txt", "answer": "json", "reward": "jsonl"}


def make_data(folder: Path) -> Path:
    """All files that the runs read."""
    make_corpus(folder)
    write_stories(folder / "stories.txt")
    make_encoder(folder / "bert")
    make_language_model(folder / "lm")
    for task in ("classify", "pair", "regress", "choose", "tag", "answer"):
        (folder / task).mkdir()
        make_examples(folder / task, task)
    for name, count in (("train", 24), ("dev", 8)):
        write_table(folder / f"{name}.csv", reviews(count))
        write_pairs(folder / f"{name}.jsonl", pairs(count))
    write_prompts(folder / "prompts.txt", 16)
    finetune("reward", "lm", epochs=1.0)(folder, folder / "judge")
    write_pictures(folder / "pictures")
    write_sounds(folder / "sounds")
    return folder


def write_pictures(folder: Path) -> None:
    draw = np.random.default_rng(0)
    for name in ("dark", "bright"):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 100, (8, 8, 3)).astype(np.uint8) + 120 * (name == "bright")
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")


def write_sounds(folder: Path) -> None:
    folder.mkdir()
    draw = np.random.default_rng(0)
    for number in range(8):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((3000 * draw.standard_normal(4000)).astype("<i2").tobytes())
        (folder / f"{number}.txt").write_text("ab"[number % 2] + "c")


def translate(data: Path, out: Path, **more: Any) -> Any:
    files = {"train": [str(data / name) for name in TRAIN], "dev": [str(data / name) for name in DEV]}
    shape = tuple(f"{name}={value}" for name, value in RECURRENT.items())
    how = {"tokenizer": "words", "vocab": 60, "budget": 256, "shared": False, "training": OFTEN | {"average": 2}}
    how["training"] |= {"optimizer": {"rate": 0.01, "warmup": 2}}
    return regard.train("translate", model="rnn-general", set=shape, out=out, **files, **(how | more))


def text_to_text(data: Path, out: Path) -> Any:
    files = {"train": [str(data / "train.csv")], "dev": [str(data / "dev.csv")]}
    training = OFTEN | {"optimizer": {"rate": 0.01, "warmup": 2}}
    how = {"template": "{sentence} => {label}", "vocab": 150, "training": training}
    return regard.train("text", model="t5-tiny", set=T5, out=out, **files, **how)


def pretrain(model: str, **how: Any) -> Callable[[Path, Path], Any]:
    def run(data: Path, out: Path) -> Any:
        text, given = data / "stories.txt", {name: how[name] for name in how if name != "tokenizer"}
        tokenizer = data / "bert" if how.get("tokenizer") else None
        return regard.pretrain(model, [text], dev=[text], out=out, tokenizer=tokenizer, **(TEXT | given))

    return run


def hear(data: Path, out: Path) -> Any:
    sounds = [data / "sounds"]
    how = OFTEN | {"budget": 200, "longest": 60}
    return regard.pretrain("wav2vec2-tiny", sounds, dev=sounds, objective="contrast", out=out, set=SOUND, **how)


def finetune(task: str, model: str = "bert", epochs: float = 3.0, **more: Any) -> Callable[[Path, Path], Any]:
    def run(data: Path, out: Path) -> Any:
        folder = data if task == "reward" else data / task
        train, dev = (folder / f"{name}.{SUFFIXES.get(task, 'tsv')}" for name in ("train", "dev"))
        return regard.finetune(data / model, task, train=train, dev=dev, out=out, batch=8, epochs=epochs, **more)

    return run


def transcribe(data: Path, out: Path) -> Any:
    how = {"train": data / "sounds", "dev": data / "sounds", "batch": 4, "epochs": 3.0, "set": SOUND}
    return regard.finetune("wav2vec2-tiny", "transcribe", out=out, **how)


def image(data: Path, out: Path) -> Any:
    how = {"epochs": 3, "batch": 6, "rate": 3e-3, "evaluations": 3}
    return regard.train("image", model="vit-cifar", set=VISION, train=[data / "pictures"], out=out, **how)


def direct(data: Path, out: Path) -> Any:
    files = {"train": data / "train.jsonl", "dev": data / "dev.jsonl"}
    return regard.align(data / "lm", objective="direct", out=out, batch=4, epochs=1.0, evaluate_every=2, **files)


def clipped(data: Path, out: Path) -> Any:
    how = {"steps": 6, "texts": 8, "batch": 4, "passes": 2, "most": 4, "evaluate_every": 2, "save_every": 2}
    return regard.align(data / "lm", reward=data / "judge", prompts=data / "prompts.txt", out=out, **how)


RUNS: dict[str, Callable[[Path, Path], Any]] = {
    "translate": translate,
    "text": text_to_text,
    "spans": pretrain("t5-tiny", objective="spans", vocab=170, set=T5),
    "masked": pretrain("bert-tiny", tokenizer=True, set=BERT),
    "replaced": pretrain("electra-small", tokenizer=True, set=(*SHAPE, "embedding.width=8")),
    "next": pretrain("gpt2-tiny", vocab=280, set=("stack.layers=1",)),
    "streams": pretrain("transformer-xl-small", vocab=60, set=MEMORY),
    "both": pretrain("bilstm-tiny", objective="both", vocab=60),
    "contrast": hear,
    "classify": finetune("classify", rate=1e-3),
    "pair": finetune("pair"),
    "regress": finetune("regress", rate=1e-2),
    "choose": finetune("choose"),
    "tag": finetune("tag", epochs=6.0),
    "answer": finetune("answer", epochs=6.0),
    "reward": finetune("reward", "lm"),
    "transcribe": transcribe,
    "image": image,
    "direct": direct,
    "clipped": clipped,
}


def stop(run: Callable[[Path, Path], Any], data: Path, out: Path, after: int = 3) -> None:
    """A run that hears SIGTERM as it takes one of its steps, counted from 1, and ends after the next."""
    take = Stepper.take

    def signalled(self: Stepper, step: int, *rest: Any) -> Any:
        if step + 1 == after:
            signal.raise_signal(signal.SIGTERM)
        return take(self, step, *rest)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(Stepper, "take", signalled)
        run(data, out)
    assert ended.value.code == 143
