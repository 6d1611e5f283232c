"""What is sound without labels worth?  Spoken digits, 8 kHz, of speakers that were never heard in training: wav2vec 2.0
pretrained on the recordings of four speakers without a label, then fine-tuned by CTC with 10, 30 and 100 labelled ones,
beside the same model from nothing.

    REGARD_DATA=FOLDER python -m recipes.speech --together 6

does it all on one GPU, the runs side by side; on a CPU `--small --steps 20` tries every part.
A part alone, each of which goes on where it was stopped:

    ... python -m recipes.speech --part sounds                                   # needs no GPU
    ... python -m recipes.speech --part pretrain
    ... python -m recipes.speech --part probe                                    # what states tell without fine-tuning
    ... python -m recipes.speech --part finetune --start pretrained --labels 10 --seed 0    # or --start scratch

Digits are short, 0.4 s: so a frame is a hundredth of a second, and rows to pretrain on are several digits of one
speaker, one after the other, for a frame's negatives to be of other digits.  Four speakers are few: recordings are
varied (speed, tone, noise) each time they are heard, in both trainings and from both starts; without it a model learns
the labelled recordings by heart.  A model that was pretrained learns from its head down; `--frozen` keeps its
convolutions as they are, as the paper does.
Labelled recordings are drawn by the seed, as many of each digit; the last weights count, chosen by no further labels.
Errors are of the words that are written letter by letter (word and character error rate), and of the digit that the
letters are likeliest to spell (digit error rate, which guessing makes 90): on speakers who were never heard, and on the
labelled recordings themselves, where it must be about 0.  The probe is a linear classifier of the digit from the states
of a layer, as they are, averaged over each third of a recording: what pretraining is worth before any letter.
`--set` tries other settings of the model in pretraining, such as `--set spans.length=20`, in another `--out`.
On one H200, beside other runs: five and a half minutes of pretraining and eighteen fine-tunings of about one.  Digit
errors of speakers never heard, mean of three seeds, pretrained / from nothing: 10 labels 51 / 64, 30 labels 28 / 52,
100 labels 20 / 31.
"""

from __future__ import annotations

import io
import json
import random
import wave
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recipes.apart import apart
from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.checkpoints.files import write_file
from regard.commands.finetune import finetune
from regard.commands.listeners import listener_of
from regard.commands.pretrain import pretrain
from regard.commands.show import size
from regard.data.reading import Reading
from regard.data.recordings import DIGITS, Recording, read_recordings
from regard.data.sound_batches import laid
from regard.data.sounds import read_sound
from regard.objectives.ctc import spelled
from regard.rows import Rows, Tokens
from regard.tasks.device import moved

RATE = 8000
UNHEARD = ("theo", "yweweler")  # of six speakers, those that are tested on
LABELS, SEEDS, STARTS = (10, 30, 100), (0, 1, 2), ("pretrained", "scratch")
TOGETHER, SHUFFLES = 6, 10  # digits of a row to pretrain on; how often all are drawn together anew
DEV, TEST = 40, 1000  # recordings
PRETRAINING: dict[str, Any] = {
    "steps": 3000, "budget": 16_000, "longest": 300, "rate": 8e-4, "warmup": 0.1, "betas": (0.9, 0.98), "varied": 0.5,
}  # fmt: skip
FINETUNING: dict[str, Any] = {"batch": 20, "best": "last character error rate", "varied": 0.5}
RATE_OF = {"pretrained": 3e-4, "scratch": 5e-4}
STEPS = 1500  # of fine-tuning: letters come late
HIDDEN = ("spans.share=0.2", "spans.length=5", "spans.least=0")  # of a digit, a letter or so
THIRDS, DECAY, AT_ONCE = 3, 1e-2, 50  # parts of a recording that is probed; of a probe's weights; recordings


def prepare(options: Namespace) -> None:
    """The recordings as files, tables of them, and rows to pretrain on."""
    if (options.sounds / "ready").exists():
        return
    every = read_recordings(data_folder() / "fsdd" / "fsdd.tar.xz").every
    random.Random(0).shuffle(every)
    (options.sounds / "joined").mkdir(parents=True, exist_ok=True)
    for one in every:
        (options.sounds / Path(one.name).name).write_bytes(bytes(one.source))
    heard = [one for one in every if speaker(one) not in UNHEARD]
    unheard = [one for one in every if speaker(one) in UNHEARD]
    write_table(options.sounds / "test.csv", unheard[: 20 if options.small else TEST])
    write_table(options.sounds / "dev.csv", heard[:DEV])
    for seed in SEEDS:
        for labels in LABELS:
            write_table(options.sounds / f"train-{labels}-{seed}.csv", drawn(heard[DEV:], labels, seed))
    for number, samples in enumerate(joined(heard, 1 if options.small else SHUFFLES)):
        (options.sounds / "joined" / f"{number:05}.wav").write_bytes(wave_of(samples))
    (options.sounds / "ready").touch()


def speaker(one: Recording) -> str:
    return Path(one.name).stem.split("_")[1]


def write_table(path: Path, some: Sequence[Recording]) -> None:
    rows = "".join(f"{Path(one.name).name},{one.text}\n" for one in some)
    write_file(path, f"path,text\n{rows}".encode())


def drawn(every: Sequence[Recording], labels: int, seed: int) -> list[Recording]:
    """So many recordings, as many of each digit."""
    draw = random.Random(1000 * seed + labels)
    return [one for digit in DIGITS for one in draw.sample([one for one in every if one.text == digit], labels // 10)]


def joined(every: Sequence[Recording], shuffles: int) -> Iterator[np.ndarray]:
    """Several digits of one speaker, one after the other."""
    draw = random.Random(0)
    for who in sorted({speaker(one) for one in every}):
        waves = [read_sound(one.source, RATE, one.name) for one in every if speaker(one) == who]
        for _ in range(shuffles):
            draw.shuffle(waves)
            yield from (np.concatenate(waves[at : at + TOGETHER]) for at in range(0, len(waves), TOGETHER))


def wave_of(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writing:
        writing.setparams((1, 2, RATE, 0, "NONE", ""))
        writing.writeframes((32767 * np.clip(samples, -1, 1)).astype("<i2").tobytes())
    return file.getvalue()


def learn_without_labels(options: Namespace) -> None:
    steps = options.steps or PRETRAINING["steps"]
    every = -(-steps // 6)
    told = {**PRETRAINING, "steps": steps} | ({"budget": 800} if options.small else {})
    pretrain(
        options.model, [options.sounds / "joined"], dev=[options.sounds / "dev.csv"], objective="contrast",
        out=options.out / "pretrained", evaluate_every=every, save_every=every, report_every=max(steps // 30, 1),
        precision=options.precision, set=tuple(options.set), **told,
    )  # fmt: skip


def learn_letters(options: Namespace) -> None:
    sounds = options.sounds
    train = sounds / f"train-{options.labels}-{options.seed}.csv"
    per_epoch = -(-options.labels // FINETUNING["batch"])
    out = options.out / f"{options.start}-{options.labels}-{options.seed}"
    found = finetune(
        begun_from(options, options.start), "transcribe", train=train, dev=sounds / "dev.csv", out=out,
        epochs=(options.steps or STEPS) / per_epoch, rate=RATE_OF[options.start], seed=options.seed,
        set=(*HIDDEN, *(options.set if options.start == "scratch" else ())), precision=options.precision,
        frozen=options.frozen and options.start == "pretrained", **FINETUNING,
    )  # fmt: skip
    facts = {"seconds": seconds(options, out), "parameters": size(found.model)}
    for table, split in ((sounds / "test.csv", UNHEARD_SPLIT), (train, "the labelled recordings themselves")):
        data = found.task.read(table, Reading())
        errors = {score.metric: score.value for score in found.evaluate(data)}
        errors["digit error rate"] = digit_errors(found, data.every)
        for metric, value in errors.items():
            record(options, WORDS[options.start], split=split, metric=metric, value=value, **facts)
        told = {name: round(value, 2) for name, value in errors.items()}
        print(options.start, options.labels, options.seed, split, told, flush=True)


def begun_from(options: Namespace, start: str) -> Path | str:
    return options.out / "pretrained" / "model" if start == "pretrained" else options.model


def record(options: Namespace, how: str, **measured: Any) -> None:
    append(
        "beyond", row=f"wav2vec 2.0, {how}", data=f"Spoken digits, {options.labels} labelled", seed=options.seed,
        command=command(options), commit=commit(), device=device_name(), folder=options.results, **measured,
    )  # fmt: skip


WORDS = {"pretrained": "pretrained without labels", "scratch": "from nothing"}
UNHEARD_SPLIT = "two speakers never heard"


@torch.inference_mode()
def digit_errors(found: Any, every: Sequence[Recording]) -> float:
    """How often another digit than the one that was said is the likeliest to be spelled, in percent."""
    listener, wrong = found.reader, 0
    letters = Tokens.of([listener.letters.encode(digit)[0] for digit in DIGITS])
    waves = [listener.ears.ready(read_sound(one.source, RATE), listener.waves.reach) for one in every]
    for one, scores in zip(every, listener.scores("transcribe", waves), strict=True):
        losses = [one_loss(scores, row, listener.letters.blank) for row in letters.tolist()]
        wrong += DIGITS[int(np.argmin(losses))] != one.text
    return 100 * wrong / len(every)


def one_loss(scores: torch.Tensor, letters: list[int], blank: int) -> float:  # (T, V)
    loss = float(spelled(scores, Rows.of([len(scores)]), Tokens.of([letters]), blank).loss)
    return loss or float("inf")  # none: there are too few frames for it


def probe(options: Namespace) -> None:
    """How well a linear classifier tells the digit from the states of each layer, pretrained and new."""
    for start in STARTS:
        listener, _ = listener_of(begun_from(options, start), options.set if start == "scratch" else ())
        moved(listener.model, None)
        asked, answers = pooled(listener, options.sounds / "test.csv")
        middle = len(asked) // 2  # chosen before anything was measured
        for options.labels, options.seed in product(LABELS, SEEDS):
            known, digits = pooled(listener, options.sounds / f"train-{options.labels}-{options.seed}.csv")
            told = [classify(states, digits, others) for states, others in zip(known, asked, strict=True)]
            errors = [100 * (one != answers).float().mean().item() for one in told]
            how = f"{WORDS[start]}, states of layer {middle} probed"
            record(options, how, split=UNHEARD_SPLIT, metric="digit error rate", value=errors[middle])
            print("probe", start, options.labels, options.seed, *(f"{error:.1f}" for error in errors), flush=True)


@torch.no_grad()
def pooled(listener: Any, table: Path) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Of the recordings of a table: for every layer the states of each third averaged, (R, 3 W), and the digits."""
    every = read_recordings(table).every
    waves = [listener.ears.ready(read_sound(one.source, RATE, one.name), listener.waves.reach) for one in every]
    parts: list[list[torch.Tensor]] = []
    for start in range(0, len(waves), AT_ONCE):
        batch = laid(waves[start : start + AT_ONCE])
        rows = Rows.of([listener.waves.frames(length) for length in batch["lengths"]])
        layers = listener.model.encoder.layers(batch["wave"].to(listener.device), batch["lengths"])
        parts.append([torch.stack([thirds(row) for row in rows.split(states.float().cpu())]) for states in layers])
    digits = torch.tensor([DIGITS.index(one.text or "") for one in every])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)], digits


def thirds(states: torch.Tensor) -> torch.Tensor:  # (T, W) -> (3 W,)
    return torch.cat([part.mean(0) for part in states.tensor_split(THIRDS)])


def classify(known: torch.Tensor, digits: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:  # (R, D), (R,), (Q, D)
    """Logistic regression on features of mean 0 and variance 1: the digits that it tells."""
    mean, spread = known.mean(0), known.std(0) + 1e-5
    known, asked = (known - mean) / spread, (asked - mean) / spread
    weights = torch.zeros(known.shape[1], len(DIGITS), requires_grad=True)
    steps = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        steps.zero_grad()
        found = torch.nn.functional.cross_entropy(known @ weights, digits) + DECAY * weights.square().sum()
        found.backward()
        return found

    steps.step(loss)
    return (asked @ weights.detach()).argmax(1)


def seconds(options: Namespace, out: Path) -> int:
    folders = [out, *[options.out / "pretrained"] * (options.start == "pretrained")]
    return round(sum(last_report(folder)["seconds"] for folder in folders))


def last_report(folder: Path) -> dict[str, float]:
    told = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in told if "seconds" in line][-1]


def command(options: Namespace) -> str:
    told = [*[f"--steps {options.steps}"] * bool(options.steps), *(f"--set {one}" for one in options.set)]
    begun = " ".join(["python -m recipes.speech", *told, *["--frozen"] * options.frozen])
    parts = [f"{begun} --part pretrain"] * (options.start == "pretrained")
    if options.part == "probe":
        return "\n".join([f"{begun} --part pretrain", f"{begun} --part probe"])
    how = f"--start {options.start} --labels {options.labels} --seed {options.seed}"
    return "\n".join([*parts, f"{begun} --part finetune {how}"])


def everything(options: Namespace) -> None:
    """All parts, each in a process of its own; what begins from nothing need not wait for pretraining."""
    alone(options, "sounds")
    seeds = SEEDS[:1] if options.small else SEEDS

    def make(start: str, labels: int, seed: int) -> None:
        if start == "pretrained":
            pretrained.result()
        alone(options, "finetune", "--start", start, "--labels", str(labels), "--seed", str(seed))

    def probe() -> None:
        pretrained.result()
        alone(options, "probe")

    with ThreadPoolExecutor(options.together) as pool:
        pretrained = pool.submit(alone, options, "pretrain")
        probed = pool.submit(probe)
        runs = [(start, labels, seed) for start in reversed(STARTS) for labels in LABELS for seed in seeds]
        for made in [pool.submit(make, *one) for one in runs]:
            made.result()
        probed.result()


def alone(options: Namespace, part: str, *told: str) -> None:
    folders = ["--out", options.out, "--sounds", options.sounds, "--results", options.results]
    how = ["--steps", options.steps, *["--precision", options.precision] * bool(options.precision)]
    how += [word for one in options.set for word in ("--set", one)]
    words = ["--part", part, *told, *folders, *how, *["--small"] * options.small, *["--frozen"] * options.frozen]
    apart("speech", options.out, "-".join([part, *told[1::2]]), words)


PARTS = {
    "all": everything, "sounds": prepare, "pretrain": learn_without_labels, "probe": probe, "finetune": learn_letters,
}  # fmt: skip


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="all")
    parser.add_argument("--start", choices=STARTS, default="pretrained", help="of fine-tuning")
    parser.add_argument("--labels", type=int, choices=LABELS, default=LABELS[0])
    parser.add_argument("--seed", type=int, choices=SEEDS, default=0, help="of fine-tuning, and of what is labelled")
    parser.add_argument("--steps", type=int, default=0, help="of each training; by default the recipe's")
    parser.add_argument("--precision", choices=["", "float32", "bf16"], default="", help="by default bf16 on a GPU")
    parser.add_argument("--frozen", action="store_true", help="keep the convolutions of what was pretrained")
    parser.add_argument("--together", type=int, default=1, help="runs side by side")
    parser.add_argument("--set", action="append", default=[], help="PATH=VALUE, of the model that is pretrained")
    parser.add_argument("--out", type=Path, default=Path("runs/speech"))
    parser.add_argument("--sounds", type=Path, help="where recordings lie; by default in --out")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help=SUPPRESS)
    options = parser.parse_args()
    options.sounds = options.sounds or options.out / "sounds"
    options.model = "wav2vec2-tiny" if options.small else "wav2vec2-small"
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
