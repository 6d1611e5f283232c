"""What is a language model worth to a classifier?  Sentiment of IMDb's reviews, by the share of the test set that is
judged wrongly.  Errors in the papers: an LSTM from nothing 13.5, from word vectors 10.0, from its own language model
7.64, from a sequence autoencoder (not here) 7.24 (Dai and Le, 2015); ULMFiT 4.6 of two models that read both ways, 5.3
of one (Howard and Ruder, 2018).

    REGARD_DATA=FOLDER python -m recipes.imdb --together 4 --effort 0.5

does it all, the rows side by side, in seven minutes on one H200: errors of 12.5, 11.3, 9.0 and 6.6.  A part alone,
each of which goes on where it was stopped:

    ... python -m recipes.imdb --part text                     # words cut once; needs no GPU, and can be carried
    ... python -m recipes.imdb --part corpora                  # what language models read
    ... python -m recipes.imdb --part vectors
    ... python -m recipes.imdb --part language --row ulmfit    # or --row language
    ... python -m recipes.imdb --part classify --row ulmfit    # or scratch, vectors, language

The first three rows are one LSTM as in Dai and Le: 1024 cells, words of 512, judged by its last state, which has read
the last 400 words of a review.  The fourth is ULMFiT's AWD-LSTM.  All have one vocabulary, of the 30,000 words that are
most frequent in the reviews to learn from, in lower case.  Weights are chosen by 2,500 reviews that are held out of the
training set.
"""

from __future__ import annotations

import json
import lzma
import re
import time
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from recipes.apart import apart
from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.checkpoints.files import write_file
from regard.commands.encoders import between_ends
from regard.commands.finetune import finetune
from regard.commands.pretrain import pretrain
from regard.commands.show import size
from regard.commands.vectors import train_vectors
from regard.data.corpus import Corpus
from regard.data.lines import read_lines
from regard.data.reading import Reading
from regard.data.table import parse_json
from regard.text.tokenizer import Tokenizer

WORD = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|[^\W_]+?(?=n't\b)|[^\W_]+|\.\.\.|[^\w\s]")
HELD_OUT = 10  # of so many reviews to train on, one is held out: the file has the bad ones first, so alike of both
PARAGRAPHS = 400_000  # of general text: more could not be read in the time, and all that is cut takes 62 MiB
ROOM = 3  # for the ends around a review, and for one word more, so that nobody is warned of words that were cut
REVIEWS, GENERAL = ("train.jsonl.xz", "unsup.jsonl.xz"), ("general.txt.xz",)  # what language models learn from
VALID = {REVIEWS: "valid.jsonl.xz", GENERAL: "general-valid.txt.xz"}
LSTM = (
    "tied=false", "embedding.width=512", "recurrent.layers=1", "recurrent.width=1024", "recurrent.last=1024",
    "embedding.dropout=0.2", "dropout=0.2",
)  # fmt: skip
AWD = (  # 1152 for the paper's 1150: tensor cores want multiples of eight.  Less is dropped, for less is read so often
    "recurrent.width=1152", "embedding.dropout=0.2", "recurrent.dropout=0.1", "recurrent.weight_dropout=0.2",
    "dropout=0.2", "word_dropout=0.05",
)  # fmt: skip
DROPPED = (  # by ULMFiT's classifier: half of what was published, for the same reason
    "embedding.dropout=0.2", "recurrent.dropout=0.2", "recurrent.weight_dropout=0.2", "dropout=0.2",
    "word_dropout=0.05",
)  # fmt: skip
STREAMS = {"longest": 70, "budget": 256 * 70, "betas": (0.9, 0.99)}


@dataclass(frozen=True)
class Stage:
    """A language model's training, from nothing or from the stage before."""

    name: str
    texts: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def corpus(self) -> str:
        return "reviews" if self.texts == REVIEWS else "general"


@dataclass(frozen=True)
class Row:
    """A line of the table: the model, how language was learned, and how sentiment."""

    name: str
    preset: str
    set: tuple[str, ...]
    longest: int  # words of a review that are read: its last ones
    learning: dict[str, Any]
    changed: tuple[str, ...] = ()  # of what was learned, in learning sentiment
    stages: tuple[Stage, ...] = ()
    vectors: bool = False


@dataclass(frozen=True)
class Sizes:
    """What all rows have in common."""

    vocabulary: int = 30_000
    vectors: dict[str, Any] = field(default_factory=lambda: {"size": 512, "epochs": 5})


SCRATCH = Row("LSTM from scratch", "lstm", LSTM, 400, {"epochs": 10.0, "batch": 128, "rate": 1e-3})
ROWS = {
    "scratch": SCRATCH,
    "vectors": replace(SCRATCH, name="LSTM from word vectors", vectors=True),
    "language": replace(
        SCRATCH, name="LSTM from its language model",
        learning={"epochs": 6.0, "batch": 128, "rate": 1e-3, "ulmfit": False},
        stages=(Stage("reviews", REVIEWS, {"steps": 8000, "rate": 2e-3, **STREAMS}),),
    ),
    "ulmfit": Row(
        "ULMFiT, forward", "awd-lstm", AWD, 600, {"epochs": 10.0, "batch": 128, "rate": 1e-2}, DROPPED,
        stages=(
            # at 3e-3, reached after 200 steps, it never told more than how frequent words are
            Stage("general", GENERAL, {"steps": 4000, "rate": 1e-3, "warmup": 0.2, **STREAMS}),
            # One rate for all layers: general text is read but once, and lower layers that are slower learn little more
            Stage("reviews", REVIEWS, {"steps": 6000, "rate": 4e-3, "warmup": 0.1, **STREAMS}),
        ),
    ),
}  # fmt: skip


def prepare(options: Namespace) -> None:
    """Cut all text into words, hold some reviews out, learn the vocabulary, and write what is known by it: what is
    unknown takes less room."""
    source, folder = data_folder(), options.text
    folder.mkdir(parents=True, exist_ok=True)
    cut = {part: list(reviews(source / f"imdb/{part}.jsonl.xz")) for part in ("train", "test", "unsup")}
    cut["valid"] = cut["train"][::HELD_OUT]
    del cut["train"][::HELD_OUT]
    learned = (text for part in ("train", "unsup") for _, text in cut[part])
    tokenizer = between_ends(Tokenizer.train("words", learned, options.sizes.vocabulary))
    known = {tokenizer.piece(id)[1:] for id in range(tokenizer.size)}  # without the mark of a space
    for part, rows in cut.items():
        lines = (json.dumps({"label": label, "text": told(text, known)}, ensure_ascii=False) for label, text in rows)
        write(folder / f"{part}.jsonl.xz", lines)
    for name, parts in ((GENERAL[0], ("wiki", "books")), (VALID[GENERAL], ("valid",))):
        paths = (source / f"pretrain-mini/{part}.txt.xz" for part in parts)
        lines = (" ".join(words(line)) for path in paths for line in read_lines(path) if line.strip())
        write(folder / name, (told(line, known) for line in islice(lines, PARAGRAPHS)))
    tokenizer.save(options.tokenizer)  # the last, so that it says that all is there


def reviews(path: Path) -> Iterator[tuple[int, str]]:
    """Labels and texts, their words between spaces."""
    for line in read_lines(path):
        review = parse_json(line, str(path))
        yield review["label"], " ".join(words(review["text"].replace("<br />", " ")))


def told(text: str, known: set[str]) -> str:
    return " ".join(word if word in known else "<unk>" for word in text.split())


def words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("’", "'"))


def write(path: Path, lines: Iterable[str]) -> None:
    with lzma.open(path, "wt", encoding="utf-8", preset=6) as file:
        file.writelines(f"{line}\n" for line in lines)


def encode(options: Namespace) -> None:
    """The text of language models as ids: before any of them, for only one process may do it."""
    tokenizer = Tokenizer.load(options.tokenizer)
    for stage in ROWS["ulmfit"].stages:
        for texts, name in ((stage.texts, stage.corpus), ((VALID[stage.texts],), f"{stage.corpus}-dev")):
            Corpus.make([options.text / text for text in texts], tokenizer, options.out / name, whole=True)


def learn_vectors(options: Namespace) -> None:
    """Skip-gram's, of the same words."""
    if options.vectors.with_suffix(".json").exists():
        return
    start, texts = time.monotonic(), [options.text / name for name in REVIEWS]
    how = {"spaces": True, "lowercase": False, "min_count": 1, "vocab": options.sizes.vocabulary}
    train_vectors("skip-gram", texts, out=options.vectors, column="text", **how, **options.sizes.vectors)
    options.vectors.with_suffix(".json").write_text(json.dumps({"seconds": time.monotonic() - start}))


def learn_language(options: Namespace, row: Row) -> None:
    model: str | Path = row.preset
    for stage in row.stages:
        steps = max(round(options.effort * stage.settings["steps"]), 1)
        begun = {} if isinstance(model, Path) else {"tokenizer": options.tokenizer, "set": row.set}
        out = options.out / f"{options.row}-{stage.name}"
        pretrain(
            model, [options.text / name for name in stage.texts], dev=[options.text / VALID[stage.texts]], out=out,
            objective="next", corpus=options.out / stage.corpus, precision=options.precision, **begun,
            **stage.settings | {"steps": steps, "evaluate_every": -(-steps // 4), "save_every": -(-steps // 4)},
        )  # fmt: skip
        model = out / "model"


def classify(options: Namespace, row: Row) -> None:
    files = {part: shortened(options, part, row.longest) for part in ("train", "valid", "test")}
    stages = [options.out / f"{options.row}-{stage.name}" for stage in row.stages]
    begun: dict[str, Any] = {"set": row.changed} if stages else {"set": row.set, "tokenizer": options.tokenizer}
    begun |= {"vectors": options.vectors} if row.vectors else {}
    out = options.out / f"{options.row}-classify-{options.seed}"
    found = finetune(
        stages[-1] / "model" if stages else row.preset, "classify", train=files["train"], dev=files["valid"], out=out,
        longest=row.longest + ROOM, seed=options.seed, precision=options.precision, **begun,
        **row.learning | {"epochs": options.effort * row.learning["epochs"]},
    )  # fmt: skip
    scores = found.evaluate(found.task.read(files["test"], Reading()))
    error = 100 - next(score.value for score in scores if score.metric.lower() == "accuracy")
    reports = [last_report(folder) for folder in (*stages, out)]
    seconds = sum(line["seconds"] for line in reports)
    if row.vectors:
        seconds += json.loads(options.vectors.with_suffix(".json").read_text())["seconds"]
    append(
        "language-models", row=row.name, data="IMDb", split="test", metric="error", value=error, seed=options.seed,
        seconds=round(seconds), parameters=size(found.model),
        flops=sum(line["tokens"] * flops for line, flops in zip(reports, flops_a_token(row, found.model), strict=True)),
        command=command(options), commit=commit(), device=device_name(), folder=options.results,
    )  # fmt: skip
    print(f"{row.name}: error {error:.2f}, {seconds:.0f} s of training")


def shortened(options: Namespace, part: str, most: int) -> Path:
    """The last words of each review: there is the verdict."""
    path = options.out / f"{part}-{most}.jsonl"
    if not path.exists():
        rows = (parse_json(line, part) for line in read_lines(options.text / f"{part}.jsonl.xz"))
        last = (row | {"text": " ".join(row["text"].split()[-most:])} for row in rows)
        write_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in last).encode())
    return path


def flops_a_token(row: Row, model: Any) -> Iterator[float]:
    """Of each language model and of the classifier: six for each weight that a token is multiplied with (Kaplan et al.,
    2020), and a language model's states are compared with all words."""
    config = model.encoder.config
    body = sum(p.numel() for p in model.encoder.ways.parameters() if p.ndim == 2)
    for _ in row.stages:
        yield 6.0 * (body + config.embedding.vocab * config.recurrent.last)
    yield 6.0 * body


def last_report(folder: Path) -> dict[str, float]:
    told = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in told if "seconds" in line][-1]


def command(options: Namespace) -> str:
    parts = [*parts_of(options.row)]
    begun = "python -m recipes.imdb" + (f" --effort {options.effort:g}" if options.effort != 1 else "")
    return "\n".join(f"{begun} --part {part} --row {options.row} --seed {options.seed}" for part in parts)


def parts_of(name: str) -> Iterator[str]:
    row = ROWS[name]
    yield from ["vectors"] * row.vectors + ["language"] * bool(row.stages) + ["classify"]


def everything(options: Namespace) -> None:
    """All parts, each in a process of its own: what needs nothing of each other side by side."""
    if not options.tokenizer.exists():
        alone(options, "text")

    def make(name: str) -> None:
        if ROWS[name].stages:
            encoded.result()
        for part in parts_of(name):
            alone(options, part, "--row", name, "--seed", str(options.seed))

    with ThreadPoolExecutor(options.together) as pool:
        encoded = pool.submit(alone, options, "corpora")
        list(pool.map(make, ROWS))


def alone(options: Namespace, part: str, *told: str) -> None:
    folders = ["--out", options.out, "--text", options.text, "--results", options.results]
    how = ["--effort", options.effort, *["--precision", options.precision] * bool(options.precision)]
    words = ["--part", part, *told, *folders, *how, *["--small"] * options.small]
    apart("imdb", options.out, "-".join([part, *told[1:2]]), words)


def smaller(row: Row) -> Row:
    """A row of the same kind that is learned in a second, to see that everything fits together."""
    few = {"steps": 3, "budget": 64, "longest": 8}
    stages = tuple(replace(stage, settings=stage.settings | few) for stage in row.stages)
    learning, dropouts = {**row.learning, "epochs": 2.0, "batch": 16}, [s for s in row.set if "dropout" in s]
    return replace(
        row, preset=f"{row.preset}-tiny", set=tuple(dropouts), stages=stages, learning=learning, longest=20
    )  # fmt: skip


PARTS = {"language": learn_language, "classify": classify}  # of a row
COMMON = {"text": prepare, "corpora": encode, "vectors": learn_vectors, "all": everything}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=[*COMMON, *PARTS], default="all")
    parser.add_argument("--row", choices=ROWS, help="of a part")
    parser.add_argument("--effort", type=float, default=1.0, help="times the steps and epochs")
    parser.add_argument("--seed", type=int, default=0, help="of the classifiers")
    parser.add_argument("--precision", choices=["", "float32", "bf16"], default="", help="by default bf16 on a GPU")
    parser.add_argument("--together", type=int, default=1, help="rows side by side")
    parser.add_argument("--out", type=Path, default=Path("runs/imdb"))
    parser.add_argument("--text", type=Path, help="where the cut text lies; by default in --out")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--small", action="store_true", help=SUPPRESS)
    options = parser.parse_args()
    if options.part in PARTS and not options.row:
        parser.error(f"--part {options.part} needs --row")
    start(options)


def start(options: Namespace) -> None:
    options.text = options.text or options.out / "text"
    options.tokenizer, options.vectors = options.text / "tokenizer.json", options.out / "vectors.bin"
    options.sizes = Sizes(200, {"size": 32, "epochs": 1}) if options.small else Sizes()
    if options.part in COMMON:
        COMMON[options.part](options)
    else:
        row = ROWS[options.row]
        PARTS[options.part](options, smaller(row) if options.small else row)


if __name__ == "__main__":
    main()
