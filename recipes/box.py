"""The models that come with regard: two translators, an encoder, a classifier and a tagger fine-tuned from it, and a
language model, small enough to lie in the package (regard/box).

    REGARD_DATA=FOLDER python -m recipes.box --together 6
    python -m recipes.box --part install

The first trains and scores each and writes it into runs/box/models, in half precision and with a card; given again, it
goes on where it stopped, and `--part NAME` does one alone.  The second puts those folders into the package.  What needs
no GPU, to encode the text, can be done before: `--part encoder-text` and `--part language-model-text`.
"""

from __future__ import annotations

import json
import shutil
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from recipes.apart import apart
from recipes.box_cards import card
from recipes.box_data import HELD_OUT, NAMED, PHRASES, TEXTS, phrases, small_data
from recipes.run_facts import commit, data_folder, device_name
from regard.box import MODELS
from regard.checkpoints.files import MANIFEST, WEIGHTS, check_folder, load_tensors
from regard.commands.encoders import new_reader
from regard.commands.evaluate import evaluate, evaluate_translator
from regard.commands.finetune import finetune
from regard.commands.language_run import LanguageRun, is_language
from regard.commands.load import load_finetuned, load_reader, load_translator
from regard.commands.pretrain import pretrain
from regard.commands.pretraining_run import PretrainingRun, judged
from regard.commands.settings import PRETRAINING
from regard.commands.train import train
from regard.config import update
from regard.data.corpus import Corpus
from regard.data.pretraining import CorpusBatches
from regard.data.reading import Reading
from regard.errors import Problem
from regard.models.folder import CONFIG, save_files
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked
from regard.tasks.measuring import Measuring
from regard.training.parallel import here

README, MOST = "README.md", 30_000_000  # bytes of all models together
Scores = dict[str, float]


def shaped(stack: str, width: int, layers: int, heads: int, inner: int) -> tuple[str, ...]:
    return (
        f"{stack}.layers={layers}", f"{stack}.block.width={width}", f"{stack}.block.inner={inner}",
        f"{stack}.block.attention.heads={heads}",
    )  # fmt: skip


TRANSLATOR = ("embedding.width=160", *shaped("encoder", 160, 3, 5, 320), *shaped("decoder", 160, 3, 5, 320))
TRANSLATION = {"vocab": 5000, "budget": 8192}
TRAINING = {"steps": 4000, "evaluate_every": 1000, "save_every": 200, "average": 8}
RATE, WARMUP = 4e-3, 0.25  # the highest, and the share of the steps over which it rises

ALBERT = ("embedding.longest=256", *shaped("stack", 256, 6, 4, 1024))  # its table of words is 128 wide
MASKED: dict[str, Any] = {
    "objective": "masked", "pieces": "wordpiece", "vocab": 7000, "longest": 128, "later_longest": 256, "budget": 65_536,
    "steps": 4500, "rate": 8e-4, "warmup": 0.1, "evaluate_every": 0,
}  # fmt: skip
DROPOUT = ("embedding.dropout=0.1", "stack.block.dropout=0.1")  # of fine-tuning: pretraining has more to read

GPT = (
    "embedding.width=192", "embedding.longest=256", *shaped("stack", 192, 5, 6, 768), "embedding.dropout=0.0",
    "stack.block.dropout=0.0",
)  # fmt: skip
WRITING = {
    "vocab": 6000, "longest": 256, "budget": 65_536, "steps": 4500, "rate": 2e-3, "schedule": "cosine", "warmup": 0.05,
    "weight_decay": 0.1, "betas": (0.9, 0.95), "evaluate_every": 1000,
}  # fmt: skip
FROM_TEXT = {"encoder": ("albert-base", ALBERT, MASKED), "language-model": ("gpt2-mini", GPT, WRITING)}
SMALL = {"vocab": 400, "budget": 512, "steps": 2}  # to see that everything goes through


def learn_to_translate(options: Namespace, out: Path, languages: tuple[str, str]) -> None:
    told = settings(options, TRANSLATION | TRAINING)
    optimizer = {"rate": RATE, "warmup": int(WARMUP * told["steps"])}
    train(
        "translate", model="transformer-tiny", out=out, set=TRANSLATOR, train=captions(options, "train", languages),
        dev=captions(options, "val", languages), **{key: told.pop(key) for key in TRANSLATION},
        training={**told, "precision": precision(), "optimizer": optimizer},
    )  # fmt: skip


def score_translations(options: Namespace, folder: Path, languages: tuple[str, str]) -> Scores:
    found = evaluate_translator(load_translator(folder), captions(options, "test_2016_flickr", languages))
    return {f"Multi30k test 2016, {score.metric}": score.value for score in (found.bleu, found.chrf)}


def captions(options: Namespace, part: str, languages: tuple[str, str]) -> list[str]:
    return [str(options.data / "multi30k" / f"{part}.{language}.gz") for language in languages]


def learn_from_text(options: Namespace, out: Path) -> None:
    model, set, asked = FROM_TEXT[out.name]
    told = settings(options, asked)
    texts, corpus = [options.data / name for name in TEXTS], options.out / f"{out.name}-text"
    every = max(told["steps"] // 4, 1)
    pretrain(model, texts, dev=[options.data / HELD_OUT], out=out, corpus=corpus, set=set, save_every=every, **told)


def read_text(options: Namespace, name: str) -> None:
    """Learn the vocabulary of a model and encode its text, as its training would: this needs no GPU."""
    (model, set, asked), texts = FROM_TEXT[name], [str(options.data / one) for one in TEXTS]
    wanted = update(PRETRAINING, {"texts": texts, "dev": [str(options.data / HELD_OUT)], **settings(options, asked)})
    kind = LanguageRun if is_language(model, wanted.objective) else PretrainingRun
    reading = kind(wanted, model, options.out / name, options.out / f"{name}-text")
    tokenizer = new_reader(model, reading.learned(), set).tokenizer
    for corpus in (reading.made(texts, reading.corpus, tokenizer), reading.held_out(tokenizer)):
        print(*corpus.lines(), sep="\n")


@torch.inference_mode()
def score_filling(options: Namespace, folder: Path) -> Scores:
    """Of held-out text, how many of the hidden pieces are told."""
    reader = load_reader(folder)
    tokenizer = reader.tokenizer
    text = Corpus.make([options.data / HELD_OUT], tokenizer, options.out / "encoder-text-dev")
    asked = Asked(reader.model, Masked(Hiding(tokenizer.mask, tokenizer.size, tuple(tokenizer.specials))))
    found = judged(asked, CorpusBatches(text, tokenizer.frame, MASKED["longest"], 16_384, 0, "none"))
    return {"held-out text, hidden pieces that are told, %": 100 * found["right"]}


def score_writing(options: Namespace, folder: Path) -> Scores:
    told: Any = evaluate(load_reader(folder), [options.data / HELD_OUT], measuring=Measuring(256, 128))
    return {f"held-out text, {score.metric}": score.value for score in told.scores}


def learn_sentiments(options: Namespace, out: Path) -> None:
    train, dev = (options.data / name for name in PHRASES)
    files = {
        "train": phrases(train, options.out / "phrases-train.tsv", every=2),
        "dev": phrases(dev, options.out / "phrases-dev.tsv"),
    }
    learn_task(options, out, "classify", **files, best="highest accuracy", epochs=3, batch=64, rate=3e-4, longest=128)


def score_sentiments(options: Namespace, folder: Path) -> Scores:
    found, dev = {}, options.data / PHRASES[1]
    for how, every in (("", 0), (" as people write", 1)):
        place = phrases(dev, options.out / f"phrases-{folder.parent.name}-{every}.tsv", every)
        found[f"SST-2 dev{how}, accuracy"] = task_scores(folder, place)["accuracy"]
    return found


def learn_entities(options: Namespace, out: Path) -> None:
    train, dev = (options.data / name for name in NAMED[:2])
    learn_task(options, out, "tag", train=train, dev=dev, best="highest entity f1", epochs=10, batch=32, rate=4e-4)


def score_entities(options: Namespace, folder: Path) -> Scores:
    return {
        f"CoNLL-2003 {part}, entity F1": task_scores(folder, options.data / name)["entity f1"]
        for part, name in zip(("dev", "test"), NAMED[1:], strict=True)
    }


def learn_task(options: Namespace, out: Path, task: str, *, epochs: float, **told: Any) -> None:
    encoder = options.out / "encoder" / "model"
    if not encoder.is_dir():
        raise Problem(f"{encoder} is not there yet; train it first: --part encoder")
    epochs = 0.1 if options.small else epochs * options.scale
    finetune(encoder, task, out=out, set=DROPOUT, epochs=epochs, **told)


def task_scores(folder: Path, path: Path) -> Scores:
    finetuned = load_finetuned(folder)
    scores = finetuned.evaluate(finetuned.task.read(path, Reading()))
    return {score.key: score.value for score in scores}


class Part(NamedTuple):
    learn: Callable[[Namespace, Path], None]  # into the folder of a run
    score: Callable[[Namespace, Path], Scores]  # the model of a folder


GERMAN, ENGLISH = ("de", "en"), ("en", "de")
FINETUNED = {
    "sentiment": Part(learn_sentiments, score_sentiments),
    "entities": Part(learn_entities, score_entities),
}
FIRST = {  # need nothing of each other
    "encoder": Part(learn_from_text, score_filling),
    "language-model": Part(learn_from_text, score_writing),
    "translate-de-en": Part(
        partial(learn_to_translate, languages=GERMAN), partial(score_translations, languages=GERMAN)
    ),
    "translate-en-de": Part(
        partial(learn_to_translate, languages=ENGLISH), partial(score_translations, languages=ENGLISH)
    ),
}
PARTS = {**FIRST, **FINETUNED}
READ = {f"{name}-text": name for name in FROM_TEXT}


def settings(options: Namespace, usual: dict[str, Any]) -> dict[str, Any]:
    """Those of a part; of a small run, or one of other length, with what differs."""
    if options.small:
        return usual | SMALL | {"evaluate_every": 0}
    return usual | {"steps": max(round(usual["steps"] * options.scale), 1)}


def precision() -> str:
    return "bf16" if here().type == "cuda" else "float32"


def make(options: Namespace, name: str) -> None:
    """Train a model, write it in half precision, score it both ways, and say so on its card."""
    part, out, folder = PARTS[name], options.out / name, options.out / "models" / name
    part.learn(options, out)
    halve(out / "model", folder)
    full, half = (part.score(options, place) for place in (out / "model", folder))
    facts = {
        "parameters": f"{sum(tensor.numel() for tensor in load_tensors(folder / WEIGHTS).values()):,}",
        "made by": f"`python -m recipes.box --part {name}` at commit {commit()}, on {device_name()}",
    }
    halve(out / "model", folder, card(name, facts, {metric: (full[metric], half[metric]) for metric in full}))
    print(name, *(f"{metric} {full[metric]:.3f}, in half {half[metric]:.3f}" for metric in full), sep="\n  ")


def halve(model: Path, folder: Path, readme: str = "") -> None:
    """Write the model of a folder into another, its numbers in half precision."""
    kept = [path for path in model.iterdir() if path.name not in (MANIFEST, WEIGHTS, README)]
    tensors = load_tensors(model / WEIGHTS)
    half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    save_files(folder, {path.name: compact(path) for path in kept} | {WEIGHTS: half, README: readme.encode()})


def compact(path: Path) -> bytes:
    """A file, JSON without the spaces that are for people: they are half of a vocabulary."""
    if path.suffix != ".json" or path.name == CONFIG:
        return path.read_bytes()
    return json.dumps(json.loads(path.read_bytes()), ensure_ascii=False, separators=(",", ":")).encode()


def install(made: Path, models: Path) -> None:
    """Put all finished models where the package has them, in place of those that were there."""
    folders = [made / name for name in PARTS if (made / name).is_dir()]
    if missing := PARTS.keys() - {folder.name for folder in folders}:
        print(f"not finished, and left as they are: {', '.join(sorted(missing))}", file=sys.stderr)
    for folder in folders:
        check_folder(folder)
        shutil.rmtree(models / folder.name, ignore_errors=True)
        shutil.copytree(folder, models / folder.name)
    sizes = {name: sum(path.stat().st_size for path in (models / name).glob("*")) for name in PARTS}
    print(*(f"{size:>12,} {name}" for name, size in sizes.items()), f"{sum(sizes.values()):>12,} bytes", sep="\n")
    if sum(sizes.values()) > MOST:
        raise Problem(f"{models} holds more than {MOST:,} bytes; make the models smaller")


def everything(options: Namespace) -> None:
    """All parts, each in a process of its own, as many side by side as were asked for."""
    with ThreadPoolExecutor(options.together) as pool:
        begun = {name: pool.submit(alone, options, name) for name in FIRST}
        begun["encoder"].result()
        later = [pool.submit(alone, options, name) for name in FINETUNED]
        for done in (*begun.values(), *later):
            done.result()


def alone(options: Namespace, name: str) -> None:
    words = ["--part", name, "--out", options.out, "--scale", options.scale, *["--small"] * options.small]
    apart("box", options.out, name, words)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["all", *PARTS, *READ, "install"], default="all")
    parser.add_argument("--together", type=int, default=1, help="runs side by side")
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps, to train for longer or shorter")
    parser.add_argument("--out", type=Path, default=Path("runs/box"))
    parser.add_argument("--models", type=Path, default=MODELS, help="where install puts them")
    parser.add_argument("--small", action="store_true", help=SUPPRESS)  # a dry run of everything
    options = parser.parse_args()
    if options.part == "install":
        install(options.out / "models", options.models)
        return
    options.data = options.out / "data" if options.small else data_folder()
    if options.small and not options.data.is_dir():
        small_data(options.data)
    if options.part == "all":
        everything(options)
    elif options.part in READ:
        read_text(options, READ[options.part])
    else:
        make(options, options.part)


if __name__ == "__main__":
    main()
