"""Learning from preferences: a small language model of film reviews, a reward model from pairs of a praising passage
and a damning one, and the model taught by it to praise: by PPO, and beside it by direct preference optimisation.

    REGARD_DATA=FOLDER python -m recipes.preferences --together 2

does it all, from FOLDER/imdb (or `--text FOLDER`: train, test and unsup .jsonl.xz, with label and text), on one
GPU.  Each part can be had alone, and goes on where it stopped (`--part`).  Who says
whether what is written praises is a classifier that has learned from other reviews than the reward model.
On an H200 that many other runs shared it takes ten minutes: what PPO makes of the model is called positive in 99 % of
512 texts, what it wrote before in 51 % (docs/results/beyond.md).
"""

from __future__ import annotations

import copy
import json
import math
import random
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from recipes.apart import apart
from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.checkpoints.files import write_file
from regard.commands.align import align
from regard.commands.finetune import finetune
from regard.commands.generate import load_writer
from regard.commands.load import load_finetuned
from regard.commands.pretrain import pretrain
from regard.commands.show import size
from regard.data.lines import read_lines
from regard.data.reading import Reading
from regard.data.table import parse_json
from regard.objectives.continued import summed
from regard.rows import Tokens
from regard.tasks.rollouts import Rollouts, probabilities
from regard.training.parallel import here

Review = tuple[int, str]  # label, and text without its line breaks

SHAPE = (
    "embedding.width=384", "embedding.longest=128", "stack.layers=6", "stack.block.width=384", "stack.block.inner=1536",
    "stack.block.attention.heads=6",
)  # fmt: skip
LANGUAGE = {
    "objective": "next", "vocab": 10_000, "longest": 128, "budget": 65_536, "steps": 3000, "rate": 1.5e-3,
    "schedule": "cosine", "warmup": 0.05, "weight_decay": 0.1, "betas": (0.9, 0.95), "evaluate_every": 1000,
    "save_every": 500, "launch": "compiled",
}  # fmt: skip
SMALL = {"steps": 20, "budget": 512, "vocab": 400, "launch": "plain"}  # to see that it runs
JUDGING = {"longest": 128, "batch": 64, "epochs": 2.0}  # of the reward model and of the classifier
MOST = 48  # tokens to write
PPO = {
    "most": MOST, "texts": 512, "batch": 128, "passes": 2, "steps": 320, "rate": 1e-4, "kl": 0.03, "target_kl": 10.0,
    "kl_gain": 0.2, "evaluate_every": 80, "save_every": 80, "report_every": 8,
}  # fmt: skip
DPO = {"batch": 64, "epochs": 2.0, "rate": 5e-5, "beta": 0.1, "ends": False, "longest": 128}
BOUND = 20.0  # nats of KL a text that an aligned model may have

REPEATED = 4  # pairs in which each review stands, every time with other words of it
WHOLE, LEAST, SOME = 80, 20, 60  # words of a passage: the review's last ones; or from so many to so many, from anywhere
PROMPTS, ASKED, DRAWN = 5000, 512, 4  # to learn from, and to be judged by; texts of each that pairs are drawn from
AHEAD = range(8, 17)  # tokens of a prompt
TOGETHER = 512  # texts written at once
ROWS = {"lm": "language model", "ppo": "PPO", "dpo": "direct preference optimisation"}


def prepare(options: Namespace) -> None:
    """Plain files for all that follows.  The reward model and the classifier see different halves of the reviews."""
    every = {part: list(reviews(options, part)) for part in ("train", "test", "unsup")}
    draw, folder = random.Random(options.seed), options.out / "text"
    folder.mkdir(parents=True, exist_ok=True)
    for some in every.values():
        draw.shuffle(some)  # the files have one kind of reviews after the other
    write(folder / "reviews.jsonl", ({"text": text} for part in ("train", "unsup") for _, text in every[part]))
    held_out = every["test"]
    write(folder / "held-out.jsonl", ({"text": text} for _, text in held_out[::50]))
    for name, half in (("pairs", every["train"][::2]), ("pairs-dev", held_out[::10])):
        write(folder / f"{name}.jsonl", pairs(half, draw, whole=name != "pairs"))
    for name, half in (("labelled", every["train"][1::2]), ("labelled-dev", held_out[1::10])):
        rows = [(label, passage(text, draw)) for label, text in half for _ in range(2)]
        write(folder / f"{name}.jsonl", ({"label": str(label), "text": text} for label, text in rows))
    beginnings = [" ".join(text.split()[: AHEAD[-1]]) for _, text in held_out[2::5] + held_out[3::5]]
    draw.shuffle(beginnings)
    write(folder / "beginnings.jsonl", ({"text": text} for text in beginnings[: PROMPTS + ASKED]))


def reviews(options: Namespace, part: str) -> Iterator[Review]:
    path = options.text / f"{part}.jsonl.xz"
    for number, line in enumerate(read_lines(path)):
        if options.small and number % 100:
            continue
        review = parse_json(line, f"{path}, line {number + 1}")
        yield int(review["label"]), " ".join(review["text"].replace("<br />", " ").split())


def pairs(some: list[Review], draw: random.Random, whole: bool) -> Iterator[dict[str, str]]:
    """Of two reviews the one that praises is preferred.  Held-out pairs are ends of reviews, where the verdict is."""
    praise, blame = ([text for label, text in some if label == wanted] for wanted in (1, 0))
    for _ in range(1 if whole else REPEATED):
        draw.shuffle(blame)
        for two in zip(praise, blame, strict=False):
            ends = whole or draw.random() < 0.5
            chosen, rejected = (end(text) if ends else passage(text, draw) for text in two)
            yield {"chosen": chosen, "rejected": rejected}


def end(text: str) -> str:
    return " ".join(text.split()[-WHOLE:])


def passage(text: str, draw: random.Random) -> str:
    """Some words of a review, as many as are read of what is written, or about so."""
    words, length = text.split(), draw.randint(LEAST, SOME)
    first = draw.randrange(max(len(words) - length, 0) + 1)
    return " ".join(words[first : first + length])


def write(path: Path, rows: Iterable[dict[str, str]]) -> None:
    write_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def learn_language(options: Namespace) -> None:
    text, told = options.out / "text", settings(options, LANGUAGE, SMALL)
    pretrain(
        "gpt2-mini", [text / "reviews.jsonl"], dev=[text / "held-out.jsonl"], out=options.out / "lm",
        corpus=options.out / "corpus", set=options.shape, column="text", seed=options.seed, **told,
    )  # fmt: skip
    cut_prompts(options)


def cut_prompts(options: Namespace) -> None:
    """Beginnings of held-out reviews, of 8 to 16 tokens each: some to learn from, others to be judged by."""
    writer, draw = load_writer(options.out / "lm", "cpu"), random.Random(options.seed)
    texts = [row["text"] for row in lines(options.out / "text" / "beginnings.jsonl")]
    cut = [writer.tokenizer.decode(ids[: draw.choice(AHEAD)]).strip() for ids in writer.encoded(texts)]
    prompts = [{"prompt": text} for text in cut if text]
    asked = min(ASKED, len(prompts) // 4)
    write(options.out / "asked.jsonl", prompts[:asked])
    write(options.out / "prompts.jsonl", prompts[asked:])


def learn_reward(options: Namespace) -> None:
    """A model of what is preferred, and how many held-out pairs it judges rightly."""
    text, out = options.out / "text", options.out / "reward"
    files = {"train": text / "pairs.jsonl", "dev": text / "pairs-dev.jsonl"}
    found = finetune(options.out / "lm", "reward", out=out, seed=options.seed, **files, **judging(options))
    scores = found.evaluate(found.task.read(files["dev"], Reading()))
    tell(options, "reward model", "held-out pairs", {"pairs right": scores[0].value}, parameters=size(found.model))


def learn_to_classify(options: Namespace) -> None:
    """Who says in the end whether a text praises: trained on passages of reviews that the reward model never saw."""
    text, out = options.out / "text", options.out / "classifier"
    files = {"train": text / "labelled.jsonl", "dev": text / "labelled-dev.jsonl"}
    found = finetune(options.out / "lm", "classify", out=out, seed=options.seed + 1, **files, **judging(options))
    scores = found.evaluate(found.task.read(files["dev"], Reading()))
    tell(options, "independent classifier", "held-out passages", {"accuracy": scores[0].value})


def judging(options: Namespace) -> dict[str, Any]:
    return settings(options, JUDGING, {"epochs": 0.2, "batch": 16})


def by_ppo(options: Namespace) -> None:
    told = settings(options, PPO, {"steps": 8, "texts": 16, "batch": 8, "evaluate_every": 4, "save_every": 4})
    out = options.out / "ppo"
    files = {"prompts": options.out / "prompts.jsonl", "dev": options.out / "asked.jsonl"}
    align(options.out / "lm", reward=options.out / "reward", out=out, seed=options.seed, **files, **told)
    records = [row for row in lines(out / "metrics.jsonl") if "loss" in row]
    a_step = told["texts"] / (told["passes"] * told["texts"] // told["batch"])
    for name, called in (("reward", "reward"), ("kl", "KL in nats a text")):
        points = [(row["step"] * a_step, row[name]) for row in records]
        append("beyond", metric=f"{called} by texts written", points=points, **about(options, "PPO", "as it learns"))


def by_pairs(options: Namespace) -> None:
    """Pairs that the model wrote itself: of a few texts after each prompt, what is worth most and least."""
    place = options.out / "written.jsonl"
    if not place.exists():
        prompts = [row["prompt"] for row in lines(options.out / "prompts.jsonl")]
        found = written(options, options.out / "lm", [prompt for prompt in prompts for _ in range(DRAWN)])
        groups = [found[at : at + DRAWN] for at in range(0, len(found), DRAWN)]
        ranked = [sorted(group, key=lambda one: one["reward"]) for group in groups]
        rows = [{"prompt": one[0]["prompt"], "chosen": one[-1]["text"], "rejected": one[0]["text"]} for one in ranked]
        write(place, rows)
    held = max(len(lines(place)) // 20, 1)
    write(options.out / "written-dev.jsonl", lines(place)[:held])
    write(options.out / "written-train.jsonl", lines(place)[held:])
    told = settings(options, DPO, {"batch": 8})
    files = {name: options.out / f"written-{name}.jsonl" for name in ("train", "dev")}
    align(options.out / "lm", objective="direct", out=options.out / "dpo", seed=options.seed, **files, **told)


def written(options: Namespace, model: Path, prompts: list[str]) -> list[dict[str, Any]]:
    """What a model writes after prompts: the text, what it is worth, and how the first model finds it."""
    writer, first = load_writer(model), load_writer(options.out / "lm")
    judge = load_finetuned(options.out / "reward")
    rollouts = Rollouts(writer, copy.deepcopy(first.model), judge.predict, options.most)
    rows: list[dict[str, Any]] = []
    for at in range(0, len(prompts), TOGETHER):
        some = prompts[at : at + TOGETHER]
        found = rollouts(writer.model, Tokens.of(writer.begun(some), here()), options.seed * 1000 + at)
        with torch.no_grad():
            told = probabilities(writer.model, found)
        sums = {"first": summed(found["reference"], found["written"]), "own": summed(told, found["written"])}
        for number, words in enumerate(found["written"].split(found["words"])):
            each = {name: values[number].item() for name, values in {**sums, "reward": found["worth"]}.items()}
            text = writer.tokenizer.decode(words.tolist())
            rows.append({"prompt": some[number], "text": text, "tokens": len(words), **each})
    return rows


def score(options: Namespace) -> None:
    """What the models write after held-out prompts: does it praise, how far have they gone, is it still fluent?"""
    prompts = [row["prompt"] for row in lines(options.out / "asked.jsonl")]
    classifier = load_finetuned(options.out / "classifier")
    shown = []
    for name, row in ROWS.items():
        found = written(options, options.out / name, prompts)
        labels = [answer.label for answer in classifier.predict([one["text"] for one in found])]
        tokens = sum(one["tokens"] for one in found)
        numbers = {
            "called positive, %": 100 * labels.count("1") / len(labels),
            "reward": mean(one["reward"] for one in found),
            "KL in nats a text": mean(one["own"] - one["first"] for one in found),
            "perplexity under the first model": math.exp(-sum(one["first"] for one in found) / tokens),
            "different pairs of words, %": distinct(one["text"] for one in found),
        }
        tell(options, row, "held-out prompts", numbers)
        print(f"{row}: " + ", ".join(f"{metric} {value:.4g}" for metric, value in numbers.items()))
        if name != "lm" and numbers["KL in nats a text"] > BOUND:
            print(f"{row} has gone further than {BOUND:g} nats a text", file=sys.stderr)
        shown += [f"## {row}", *(f"- {one['prompt']} **{one['text'].strip()}**" for one in found[:20])]
    write_file(options.out / "samples.md", "\n\n".join(shown).encode())


def distinct(texts: Iterable[str]) -> float:
    """The share of pairs of neighbouring words that do not occur twice in all texts together: low where a model writes
    the same again and again."""
    found = [pair for text in texts for pair in zip(text.split(), text.split()[1:], strict=False)]
    return 100 * len(set(found)) / max(len(found), 1)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def settings(options: Namespace, told: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    return {**told, **small} if options.small else told


def tell(options: Namespace, row: str, split: str, numbers: dict[str, float], **more: Any) -> None:
    for metric, value in numbers.items():
        append("beyond", metric=metric, value=value, **more, **about(options, row, split))


def about(options: Namespace, row: str, split: str) -> dict[str, Any]:
    return {
        "row": row, "data": "Preferences of film reviews", "split": split, "seed": options.seed, "commit": commit(),
        "device": device_name(), "folder": options.results,
        "command": f"python -m recipes.preferences --seed {options.seed}",
    }  # fmt: skip


PARTS = {
    "text": prepare, "language": learn_language, "reward": learn_reward, "classifier": learn_to_classify,
    "ppo": by_ppo, "dpo": by_pairs, "score": score,
}  # fmt: skip
ORDER = (
    ("text",),
    ("language",),
    ("reward", "classifier"),
    ("ppo", "dpo"),
    ("score",),
)  # what stands together may run so


def everything(options: Namespace) -> None:
    for parts in ORDER:
        with ThreadPoolExecutor(options.together) as pool:
            list(pool.map(lambda part: alone(options, part), parts))


def alone(options: Namespace, part: str) -> None:
    """A part in a process of its own; one that was finished is not done again."""
    done = options.out / "done" / part
    if done.exists():
        return
    folders = ["--out", options.out, "--text", options.text, "--results", options.results]
    told = ["--part", part, "--seed", options.seed, *folders, *["--small"] * options.small]
    apart("preferences", options.out, part, told)
    write_file(done, b"")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["all", *PARTS], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", type=int, default=1, help="parts side by side, where they can be")
    parser.add_argument("--out", type=Path, default=Path("runs/preferences"))
    parser.add_argument("--text", type=Path, help="where the reviews lie; by default REGARD_DATA/imdb")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help=SUPPRESS)
    options = parser.parse_args()
    options.text = options.text or data_folder() / "imdb"
    options.most = MOST
    options.shape = SHAPE
    if options.small:
        options.shape = tuple(one.replace("384", "32").replace("1536", "64").replace("=6", "=2") for one in SHAPE)
    (everything if options.part == "all" else PARTS[options.part])(options)


if __name__ == "__main__":
    main()
