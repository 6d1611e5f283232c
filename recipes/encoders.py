"""Does pretraining pay, and which objective pays more?  A small BERT and an ELECTRA of the same size (4 layers of width
512) are pretrained on the same text for the same FLOPs, then fine-tuned beside a BERT that has learned nothing.

    REGARD_DATA=FOLDER python -m recipes.encoders

does it all, several runs side by side (`--together`): small models leave most of a GPU idle.  A part alone is

    ... python -m recipes.encoders --part finetune --model bert --tasks CoLA RTE --seed 1

Its parts took eight minutes on one H200, eleven at once.  BERT gains on every task: SST-2 accuracy 84.2 (from scratch
81.2), CoNLL-2003 F1 82.6 (62.1).  ELECTRA in two stages gains more there (85.2, 83.0), and less on pairs of sentences;
at once, from nothing, its discriminator does not learn: its F1 is 54.5 (docs/results/encoders.md).
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from recipes.apart import apart
from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.commands.encoders import new_reader, read_tokenizer
from regard.commands.finetune import finetune
from regard.commands.glue import GLUE
from regard.commands.load import load_reader
from regard.commands.pretrain import pretrain
from regard.commands.pretraining_run import SAMPLE, PretrainingRun, some
from regard.commands.settings import PRETRAINING
from regard.config import update
from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.reading import Reading
from regard.models.encoder import Encoder
from regard.rows import Rows, Tokens
from regard.text.tokenizer import ENCODER, Tokenizer

SHAPE = (
    "embedding.width=512", "stack.layers=4", "stack.block.width=512", "stack.block.inner=2048",
    "stack.block.attention.heads=8",
)  # fmt: skip
THEN = ", then "  # between the objectives of a model that is pretrained in stages, each for its share of the FLOPs
MODELS = {  # preset, objective, what it is called in the tables; all have this shape, which is bert-small's
    "bert": ("bert-small", "masked+next-sentence", "BERT"),
    "electra": ("electra-small", "replaced", "ELECTRA"),
    "electra-stages": ("electra-small", f"masked{THEN}replaced", "ELECTRA, in two stages"),
    "scratch": ("bert-small", "", "BERT, not pretrained"),
}
PRETRAINED = ("bert", "electra", "electra-stages")
FILES = {  # train and dev of each task
    "SST-2": ("sst2/train.tsv.xz", "sst2/dev.tsv"),
    "CoLA": ("glue/CoLA/train.tsv.xz", "glue/CoLA/dev.tsv"),
    "MRPC": ("glue/MRPC/train.tsv.xz", "glue/MRPC/dev.tsv"),
    "RTE": ("glue/RTE/train.tsv.xz", "glue/RTE/dev.tsv"),
    "STS-B": ("glue/STS-B/train.tsv.xz", "glue/STS-B/dev.tsv"),
    "CoNLL-2003": ("conll2003/eng.train.xz", "conll2003/eng.testa.xz"),
}
SCORES = {name: (GLUE[name].kind, GLUE[name].scores[0]) for name in FILES if name in GLUE}
SCORES["CoNLL-2003"] = ("tag", "entity f1")
SETTINGS: dict[str, Any] = {
    "longest": 128, "later_longest": 256, "budget": 16_384, "rate": 5e-4, "warmup": 0.05, "generator": 0.5,
}  # fmt: skip
LATER = {"rate": 2e-4}  # of a second stage
VOCABULARY, FLOPS, SEEDS = 16_000, 1.4e16, 3


def pretrain_one(options: Namespace, about: dict[str, Any]) -> None:
    """Pretrain for so many FLOPs, and tell how well hidden words, or replaced ones, are found in held-out text."""
    (model, objective, name), start = MODELS[options.model], time.monotonic()
    objectives, steps = objective.split(THEN), 0
    for number, one in enumerate(objectives, 1):
        out = options.out / (options.model if number == len(objectives) else f"{options.model}-{number}")
        begun: dict[str, Any] = {"tokenizer": options.tokenizer, "set": SHAPE}
        begun = begun if number == 1 else {"filled_by": model, **LATER}
        steps = round(options.flops / len(objectives) / (flops_a_token(model, one, begun) * SETTINGS["budget"])) or 1
        pretrain(
            model, texts(), dev=[held_out()], objective=one, out=out, corpus=options.out / "corpus", steps=steps,
            evaluate_every=0, save_every=max(steps // 4, 1), seed=options.seed, **{**SETTINGS, **begun},
        )  # fmt: skip
        model = str(out / "model")
    again = f"python -m recipes.encoders --part pretrain --model {options.model} --flops {options.flops:g}"
    for metric, value in last_evaluation(out / "metrics.jsonl").items():
        append(
            "encoders", row=f"{name}, {objective}, {steps:,} steps", data="Pretraining", split="held-out text",
            metric=metric.replace("_", " "), value=value, flops=options.flops, seconds=time.monotonic() - start,
            command=f"{again} --seed {options.seed}", **about,
        )  # fmt: skip


def finetune_one(options: Namespace, about: dict[str, Any], task: str) -> None:
    preset, _, name = MODELS[options.model]
    pretrained = options.model in PRETRAINED
    model = options.out / options.model / "model" if pretrained else preset
    begun = {} if pretrained else {"tokenizer": options.tokenizer, "set": SHAPE}
    train, dev = (data_folder() / file for file in FILES[task])
    kind, score = SCORES[task]
    start = time.monotonic()
    out = options.out / f"{options.model}-{task}-{options.seed}"
    finetuned = finetune(
        model, kind, train=train, dev=dev, out=out, seed=options.seed, best=f"highest {score}", **begun
    )
    named = {one.key: one for one in finetuned.evaluate(finetuned.task.read(dev, Reading()))}
    append(
        "encoders", row=name, data="Fine-tuned", split="dev", metric=f"{task} {named[score].metric}",
        value=named[score].value, seconds=time.monotonic() - start,
        command=f"python -m recipes.encoders --part finetune --model {options.model} --seed {options.seed}", **about,
    )  # fmt: skip


def probe_layers(options: Namespace) -> None:
    """What can be read off each layer of a pretrained encoder."""
    where = ["--model", str(options.out / options.model / "model"), "--results", str(options.results)]
    name = f"{MODELS[options.model][2]}, 4 layers of 512"
    run([sys.executable, "-m", "recipes.probes", *where, "--name", name], check=True)


def flops_a_token(model: str, objective: str, begun: dict[str, Any]) -> float:
    """Of training, in rows of the first length: what torch counts in matrix products, and attention by its formula."""
    filled_by = begun.get("filled_by", "")
    settings = update(PRETRAINING, {"objective": objective, "filled_by": filled_by, **SETTINGS})
    wanted = PretrainingRun(settings, model, Path(), Path())
    reader = load_reader(model, "cpu") if filled_by else new_reader(model, read_tokenizer(begun["tokenizer"]), SHAPE)
    _, asked, _ = wanted.asked(reader, reader.published.model.encoder.config, objective.split("+"))
    longest = SETTINGS["longest"]
    tokens = Tokens(torch.randint(5, reader.tokenizer.size, (8 * longest,)), Rows.even(8, longest))
    batch = {"tokens": tokens, "types": torch.zeros(8 * longest, dtype=torch.long), "second": torch.zeros(8).long()}
    with FlopCounterMode(display=False) as counter:
        asked(asked.prepare(batch)).loss.backward()
    encoders = [module for module in asked.modules() if isinstance(module, Encoder)]
    times = [12 if any(p.requires_grad for p in encoder.stack.parameters()) else 4 for encoder in encoders]
    attention = sum(n * longest * e.config.layers * e.config.width for n, e in zip(times, encoders, strict=True))
    return counter.get_total_flops() / (8 * longest) + attention


def last_evaluation(path: Path) -> dict[str, float]:
    told = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["evaluation"] for line in told if "evaluation" in line][-1]


def read_text(options: Namespace) -> None:
    """One vocabulary and one encoding of the text for all, so that only what is asked differs."""
    if not options.tokenizer.exists():
        lines = some(read_documents(texts()), SAMPLE)
        Tokenizer.train("wordpiece", lines, VOCABULARY, lowercase=True, special=ENCODER).save(options.tokenizer)
    tokenizer = Tokenizer.load(options.tokenizer)
    for files, name in ((texts(), "corpus"), ([held_out()], "corpus-dev")):
        Corpus.make(files, tokenizer, options.out / name)


def texts() -> list[Path]:
    return [data_folder() / "pretrain-mini" / f"{part}.txt.xz" for part in ("wiki", "news", "books")]


def held_out() -> Path:
    return data_folder() / "pretrain-mini/valid.txt.xz"


def everything(options: Namespace) -> None:
    """All parts, each in a process of its own: those that need nothing of each other side by side."""
    seeds = [str(seed) for seed in range(SEEDS)]
    tuned = [("finetune", "--model", model, "--seed", seed, "--tasks", task)
             for task in FILES for model in MODELS for seed in seeds]  # fmt: skip
    pretrained, layers = ([(part, "--model", model) for model in PRETRAINED] for part in ("pretrain", "layers"))
    for parts in ([("text",)], pretrained, tuned, layers):
        with ThreadPoolExecutor(options.together) as pool:
            list(pool.map(lambda part: alone(options, *part), parts))


def alone(options: Namespace, part: str, *words: str) -> None:
    told = ["--flops", options.flops, "--out", options.out, "--results", options.results]
    apart("encoders", options.out, "-".join([part, *words[1::2]]), ["--part", part, *words, *told])


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["all", "text", "pretrain", "finetune", "layers"], default="all")
    parser.add_argument("--model", choices=MODELS, help="of a part")
    parser.add_argument("--tasks", nargs="+", choices=FILES, default=[*FILES])
    parser.add_argument("--flops", type=float, default=FLOPS, help="to spend on pretraining each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", type=int, default=1, help="runs side by side")
    parser.add_argument("--out", type=Path, default=Path("runs/encoders"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args()
    options.tokenizer = options.out / "tokenizer.json"
    about = {"commit": commit(), "device": device_name(), "seed": options.seed, "folder": options.results}
    match options.part:
        case "all":
            everything(options)
        case "text":
            read_text(options)
        case "pretrain":
            pretrain_one(options, about)
        case "finetune":
            for task in options.tasks:
                finetune_one(options, about, task)
        case "layers":
            probe_layers(options)


if __name__ == "__main__":
    main()
