"""Which objective makes the most of the same arithmetic?  Models of one size (6 layers of width 256, about 9 million
parameters) read the same text for the same FLOPs, each asked something else, and are fine-tuned on the small tasks of
GLUE: the lectures' picture of GLUE against compute.

    REGARD_DATA=FOLDER python -m recipes.objectives --together 11

does it all: three budgets, three seeds of fine-tuning, side by side, since models as small as these leave most of a
GPU idle.  A part alone is, say,

    ... python -m recipes.objectives --part pretrain --model masked --flops 1e15
    ... python -m recipes.objectives --part finetune --model masked --flops 1e15 --seed 1

What an objective costs is counted, not guessed (`--part costs`): ELECTRA's generator, T5's decoder and the scores of
all words where all are asked for are paid from the same budget.  Every budget is a training of its own.
It was run on one H200, in several parts (docs/results/objectives.md).
"""

from __future__ import annotations

import json
from argparse import SUPPRESS, ArgumentParser, Namespace
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from shutil import rmtree
from statistics import fmean
from typing import Any

from recipes.apart import apart
from recipes.encoders import LATER
from recipes.objectives_as_text import judged, named, spoken, zip_labelled
from recipes.objectives_costs import cost_of
from recipes.objectives_plan import (
    BUDGETS,
    FILES,
    METRICS,
    NOTHING,
    ROWS,
    SEEDS,
    SETTINGS,
    SPECIALS,
    TUNING,
    VOCABULARY,
    Row,
)
from recipes.results import RESULTS, append, read
from recipes.run_facts import commit, data_folder, device_name
from regard.checkpoints.files import write_file
from regard.commands.encoders import new_reader
from regard.commands.finetune import finetune
from regard.commands.glue import GLUE
from regard.commands.load import load_reader, load_translator
from regard.commands.pretrain import pretrain
from regard.commands.pretraining_run import SAMPLE, some
from regard.commands.show import size
from regard.commands.train import train
from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.lines import read_lines
from regard.data.reading import Reading
from regard.tasks.finetuned import TASKS
from regard.text.tokenizer import Tokenizer
from regard.training.parallel import here

MEAN, CURVE = "mean", "mean score by FLOPs of pretraining"


def read_text(options: Namespace) -> None:
    """Vocabularies of the same kind and size from the same text, and the text encoded in three ways: in sentences, for
    encoders and for T5, and whole, for language models."""
    for name, special in SPECIALS.items():
        place = tokenizer_of(options, name)
        if not place.exists():
            lines = some(read_documents(texts(options)), SAMPLE // 4)
            Tokenizer.train("wordpiece", lines, options.vocabulary, lowercase=True, special=special).save(place)
        for files, end in ((texts(options), ""), ([held_out()], "-dev")):
            folder = options.out / f"text-{name}{end}"
            Corpus.make(files, Tokenizer.load(place), folder, whole=name == "whole")


def pretrain_one(options: Namespace) -> None:
    """Pretrain for so many FLOPs, one stage after the other."""
    row, out = ROWS[options.model], run_folder(options)
    model: str | Path = row.preset
    for number, objective in enumerate(row.stages, 1):
        begun: dict[str, Any] = {"tokenizer": tokenizer_of(options, row.text), "set": row.set, "rate": row.rate}
        begun = begun if number == 1 else {"filled_by": str(model), **LATER}
        steps = max(round(options.flops / len(row.stages) / (cost(options, objective) * options.budget)), 1)
        folder = out if number == len(row.stages) else out.with_name(f"{out.name}-{number}")
        pretrain(
            model, texts(options), dev=[held_out()], objective=objective, out=folder, steps=steps, seed=0,
            corpus=options.out / f"text-{row.text}", evaluate_every=0, save_every=max(steps // 4, 1), launch=row.launch,
            **SETTINGS | {"budget": options.budget} | begun,
        )  # fmt: skip
        model = folder / "model"


def finetune_one(options: Namespace) -> None:
    """Score all tasks with a seed; what was scored in an earlier call is not done again."""
    row = NOTHING if options.model == "nothing" else ROWS[options.model]
    place = run_folder(options).with_name(f"{run_folder(options).name}-scores-{options.seed}.json")
    found: dict[str, float] = json.loads(place.read_text()) if place.exists() else {}
    for task in [task for task in FILES if task not in found]:
        out = run_folder(options).with_name(f"{run_folder(options).name}-{task}-{options.seed}")
        found[task] = (as_text if row.text == "spans" else by_head)(options, row, task, out)
        write_file(place, json.dumps(found).encode())
        rmtree(out)  # of hundreds that are fine-tuned, scores are kept
    flops = options.flops if options.model != "nothing" else 0
    told = {
        "row": row.objective, "data": f"GLUE after {flops:.3g} FLOPs" if flops else "GLUE without pretraining",
        "split": "dev", "seed": options.seed, "flops": flops, "parameters": parameters(options), **about(options),
    }  # fmt: skip
    for task, value in found.items():
        append("objectives", metric=f"{task} {METRICS[task]}", value=value, **told)
    append("objectives", metric=MEAN, value=fmean(found.values()), **told)


def by_head(options: Namespace, row: Row, task: str, out: Path) -> float:
    """A new head on the model, as everyone fine-tunes: on the first token, the last, or the last of both ways."""
    pretrained = options.model != "nothing"
    begun: dict[str, Any] = {} if pretrained else {"tokenizer": tokenizer_of(options, row.text), "set": row.set}
    model = run_folder(options) / "model" if pretrained else row.preset
    (data, dev), kind = files_of(options, task), GLUE[task].kind
    score = METRICS[task]
    told = TUNING | {"epochs": options.epochs, "seed": options.seed, "best": f"highest {score}"}
    found = finetune(model, kind, train=data, dev=dev, out=out, **begun, **told)
    scores = found.evaluate(found.task.read(dev, Reading()))
    return {one.key: one.value for one in scores}[score]


def as_text(options: Namespace, row: Row, task: str, out: Path) -> float:
    """T5's way: the task is named before the text, and the label is written."""
    read_as, files = TASKS[GLUE[task].kind], files_of(options, task)
    pairs = [read_as.read(path, Reading()) for path in files]
    places = [out.with_name(f"{out.name}-{part}.jsonl") for part in ("train", "dev")]
    for place, data in zip(places, pairs, strict=True):
        rows = ({"text": named(task, texts), "label": spoken(task, label)} for texts, label in zip_labelled(data))
        write_file(place, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    steps = max(round(options.epochs * len(pairs[0]) / 32), 1)
    every, best = max(steps // 4, 1), "lowest loss" if task == "STS-B" else "highest exact"
    training = {
        "steps": steps, "seed": options.seed, "evaluate_every": every, "save_every": every, "keep": 1, "best": best,
        "precision": "bf16" if here().type == "cuda" else "float32",
        "optimizer": {"rate": 1e-3, "schedule": "linear", "warmup": steps // 10},
    }  # fmt: skip
    model = run_folder(options) / "model"
    translator: Any = train(
        "text", model=str(model), out=out, training=training, train=[str(places[0])], dev=[str(places[1])],
        smoothing=0.0, longest=256, budget=1536,
    )  # fmt: skip
    asked = [json.loads(line)["text"] for line in places[1].read_text().splitlines()]
    said = ["".join(best[0].text.split()) for best in translator.translate(asked)]
    return judged(task, said, [spoken(task, label) for _, label in zip_labelled(pairs[1])])


def cost(options: Namespace, objective: str) -> float:
    """FLOPs of training a token, as they were counted."""
    return json.loads((options.out / "costs.json").read_text())[objective]


def count_costs(options: Namespace) -> None:
    found: dict[str, float] = {}
    for row in ROWS.values():
        pieces = Tokenizer.load(tokenizer_of(options, row.text))
        found |= {each: cost_of(row, each, pieces) for each in row.stages if each not in found}
    write_file(options.out / "costs.json", json.dumps(found, indent=1).encode())
    for objective, value in found.items():
        told = {"row": objective, "data": "What an objective costs", "command": about(options)["command"]}
        append("objectives", metric="million FLOPs a token", value=value / 1e6, folder=options.results, **told)


def parameters(options: Namespace) -> int:
    if options.model == "nothing":
        return size(new_reader(NOTHING.preset, Tokenizer.load(tokenizer_of(options, "encoder")), NOTHING.set).model)
    folder = run_folder(options) / "model"
    spans = ROWS[options.model].text == "spans"
    return size(load_translator(folder, "cpu").model if spans else load_reader(folder, "cpu").model)


def draw(options: Namespace) -> None:
    """The curve of each objective, for each seed that has all budgets; without pretraining it is level."""
    lines = [line for line in read(options.results / "objectives.jsonl") if line["metric"] == MEAN]
    for row in (*ROWS.values(), NOTHING):
        for seed in range(options.seeds):
            mine = [line for line in lines if (line["row"], line["seed"]) == (row.objective, seed)]
            found = {line["flops"]: line["value"] for line in mine}
            points = [(flops, found.get(flops, found.get(0))) for flops in options.budgets]
            if all(value is not None for _, value in points):
                told: dict[str, Any] = {"row": row.objective, "data": "GLUE by compute", "split": "dev", "seed": seed}
                append("objectives", metric=CURVE, points=points, **told, **about(options))


def about(options: Namespace) -> dict[str, Any]:
    return {
        "command": "python -m recipes.objectives", "commit": commit(), "device": device_name(),
        "folder": options.results,
    }  # fmt: skip


def texts(options: Namespace) -> list[Path]:
    parts = ("valid",) if options.small else ("wiki", "news", "books")
    return [data_folder() / "pretrain-mini" / f"{part}.txt.xz" for part in parts]


def held_out() -> Path:
    return data_folder() / "pretrain-mini/valid.txt.xz"


def files_of(options: Namespace, task: str) -> tuple[Path, Path]:
    train_file, dev = (data_folder() / file for file in FILES[task])
    if not options.small:
        return train_file, dev
    few = options.out / f"few-{dev.parent.name}.tsv"
    write_file(few, "".join(f"{line}\n" for line in islice(read_lines(dev), 40)).encode())
    return few, few


def tokenizer_of(options: Namespace, name: str) -> Path:
    return options.out / f"tokenizer-{name}.json"


def run_folder(options: Namespace) -> Path:
    flops = "" if options.model == "nothing" else f"-{options.flops:.3g}"
    return options.out / f"{options.model}{flops}"


def everything(options: Namespace) -> None:
    """All parts, each in a process of its own: models side by side, those with the largest budgets first, and each seed
    of fine-tuning as soon as there is a model for it."""
    budgets = [str(flops) for flops in sorted(options.budgets, reverse=True)]
    models = [("--model", model, "--flops", flops) for flops in budgets for model in ROWS]
    alone(options, "text")
    alone(options, "costs")
    with ThreadPoolExecutor(options.together) as pool:

        def scored(*model: str) -> list[Future]:
            return [pool.submit(alone, options, "finetune", *model, "--seed", str(n)) for n in range(options.seeds)]

        def learned(*model: str) -> list[Future]:
            alone(options, "pretrain", *model)
            return scored(*model)

        begun = [pool.submit(learned, *model) for model in models]
        for each in [*scored("--model", "nothing"), *(each for one in begun for each in one.result())]:
            each.result()
    alone(options, "draw")


def alone(options: Namespace, part: str, *words: str) -> None:
    """A part in a process of its own; one that was finished is not done again."""
    name = "-".join([part, *words[1::2]])
    done = options.out / "done" / name
    if done.exists():
        return
    folders = ["--out", options.out, "--results", options.results, *["--small"] * options.small]
    apart("objectives", options.out, name, ["--part", part, *words, *folders])
    write_file(done, b"")


def smaller() -> None:
    """Rows of the same kinds whose models are learned in a second."""
    for name, row in ROWS.items():
        shape = tuple(one.replace("256", "32").replace("512", "64") for one in row.set)
        ROWS[name] = replace(row, set=shape, launch="plain")


PARTS = {
    "text": read_text, "costs": count_costs, "pretrain": pretrain_one, "finetune": finetune_one, "draw": draw,
    "all": everything,
}  # fmt: skip


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="all")
    parser.add_argument("--model", choices=[*ROWS, "nothing"], default="nothing", help="of a part")
    parser.add_argument("--flops", type=float, default=BUDGETS[0], help="to spend on pretraining, of a part")
    parser.add_argument("--seed", type=int, default=0, help="of fine-tuning, of a part")
    parser.add_argument("--together", type=int, default=1, help="runs side by side")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help=SUPPRESS)
    options = parser.parse_args()
    options.budget, options.epochs, options.vocabulary = SETTINGS["budget"], TUNING["epochs"], VOCABULARY
    options.budgets, options.seeds = BUDGETS, SEEDS
    if options.small:  # to see that everything goes through
        smaller()
        options.budget, options.epochs, options.vocabulary = 512, 0.1, 1000
        options.budgets, options.seeds = (1e9, 4e9), 1
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
