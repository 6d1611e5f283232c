"""What a training step takes, and what each part of it that was made fast is worth, in one process.

Cases: BERT-base on hidden words, in rows of 512 and in rows as long as texts are (128 on average); GPT-2 in rows of
1024; and a translator of LSTMs.  Of every row: real tokens a second (the median of steps after the warm-up),
milliseconds a step, the first step's seconds, peak memory, and the last loss, by which a change that computes something
else would be seen.  Profiles of some rows go to profiles.txt: the kernels that take longest, how long the device had
nothing to do, and between which kernels.  Under 120 s on one H200: what tells most comes first, and what finds no time
is named.

    python -m benchmarks.training_parts --out OUT --seconds 120
    python -m benchmarks.training_parts --out /tmp/parts --small --steps 2 --seconds 900    (on a CPU)
"""

from __future__ import annotations

import gc
import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.changes import (
    Change,
    all_scores,
    by_products,
    compiled_embedding,
    filled,
    packed_decoder,
    patched,
    ragged,
    three_products,
    wide_stream,
)
from benchmarks.copying import LENGTHS
from benchmarks.profiles import profile
from benchmarks.reporting import worth
from regard.data.batches import rows_of
from regard.models import ENCODERS, TRANSLATORS
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, Batch
from regard.objectives.translate import Translate
from regard.rows import Tokens
from regard.training.compiled import compiled
from regard.training.parallel import Ranks, here
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import Stepper

WARM_UP = 4  # steps, or fewer where fewer are timed
DISTINCT = 8  # batches, which come again and again
COMPILING, PLAIN = 20.0, 4.0  # seconds that a row is thought to take, on an H200
SPREAD = 0.8  # of the logarithms of lengths of texts
MASK, FIRST = 4, 5  # ids
WORDS = {
    "bert": "training BERT-base, rows of 512", "gpt2": "training GPT-2, rows of 1024",
    "bert-mixed": "training BERT-base, rows as long as texts", "lstm": "training a translator of LSTMs",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    name: str
    changes: tuple[Change, ...] = ()
    launch: str = "compiled"  # or plain; or static: compiled for the shapes of the first batch
    profiled: bool = False
    turn: int = 1  # what tells most comes first


@dataclass(frozen=True)
class Case:
    asked: Callable[[], Asked]
    batches: list[Batch]
    rows: tuple[Row, ...]


class Repeated:
    """The same batches over and over."""

    def __init__(self, batches: list[Batch]):
        self.batches = batches

    def at(self, position: int) -> Batch:
        return dict(self.batches[position % len(self.batches)])

    def epoch_of(self, position: int) -> tuple[int, int]:
        return divmod(position, len(self.batches))


def encoder(preset: str, role: str, objective: Callable[[int], Any]) -> Callable[[], Asked]:
    def made() -> Asked:
        torch.manual_seed(0)
        config = ENCODERS[preset]
        model = new_encoder("bert" if role == "masked" else "gpt2", config, {role}).model  # type: ignore[arg-type]
        return Asked(model, objective(config.embedding.vocab)).to(here()).train()

    return made


def hidden_words(preset: str) -> Callable[[], Asked]:
    return encoder(preset, "masked", lambda vocab: Masked(Hiding(MASK, vocab, tuple(range(MASK)))))


def rows_of_text(lengths: np.ndarray, budget: int, vocab: int) -> list[Batch]:
    """Batches of at most so many tokens, of rows as long as these, with the token that follows each."""
    random, batches = np.random.default_rng(0), []
    for _ in range(DISTINCT):
        drawn = random.permutation(lengths)
        sizes = drawn[: max(np.searchsorted(drawn.cumsum(), budget, "right"), 1)]
        ids = torch.from_numpy(random.integers(FIRST, vocab, sizes.sum() + 1))
        types = torch.zeros(len(ids) - 1, dtype=torch.long)
        batches.append({"tokens": Tokens(ids[:-1], rows_of(sizes)), "types": types, "wanted": ids[1:].clone()})
    return batches


def text_lengths(mean: int, longest: int, count: int = 4096) -> np.ndarray:
    drawn = np.random.default_rng(1).lognormal(np.log(mean) - SPREAD**2 / 2, SPREAD, count)
    return np.clip(drawn.round().astype(int), 8, longest)


def sentence_pairs(budget: int, vocab: int) -> list[Batch]:
    random, batches = np.random.default_rng(0), []
    for _ in range(DISTINCT):
        sizes = np.interp(random.random(budget // 12), list(LENGTHS), list(LENGTHS.values())).round().astype(int)
        other = np.maximum(sizes + random.integers(-2, 3, len(sizes)), 1)
        source, target = (torch.from_numpy(random.integers(FIRST, vocab, n.sum())) for n in (sizes, other))
        batches.append({
            "source": Tokens(source, rows_of(sizes)), "target_in": Tokens(target, rows_of(other)), "target_out": target,
        })  # fmt: skip
    return batches


def translator() -> Asked:
    torch.manual_seed(0)
    return Asked(Seq2Seq(TRANSLATORS["rnn-dot"]), Translate()).to(here()).train()


def cases(small: bool) -> dict[str, Case]:
    bert, gpt, budget = ("bert-tiny", "gpt2-tiny", 256) if small else ("bert-base", "gpt2-small", 32_768)
    long, longer, mean = (32, 64, 16) if small else (512, 1024, 128)
    words, pieces = ENCODERS[bert].embedding.vocab, ENCODERS[gpt].embedding.vocab
    now, plain = Row("compiled", profiled=True, turn=0), Row("plain", launch="plain", turn=1)
    return {
        "bert": Case(
            hidden_words(bert), rows_of_text(np.full(4096, long), budget, words), (
                now, plain, Row("compiled, ragged", (ragged,), turn=2), Row("static", launch="static", turn=2),
                Row("compiled, wide stream", (wide_stream,), turn=3),
                Row("compiled, embedding too", (compiled_embedding,), turn=3),
                Row("compiled, all scores", (all_scores,), turn=4),
                Row("compiled, three products", (three_products,), turn=4),
            ),
        ),
        "gpt2": Case(
            encoder(gpt, "write", lambda vocab: Next()), rows_of_text(np.full(4096, longer), budget, pieces), (
                now, plain, Row("plain, all scores", (all_scores,), "plain"),
                Row("compiled, ragged", (ragged,), turn=2), Row("static", launch="static", turn=3),
                Row("compiled, all scores", (all_scores,), turn=3),
            ),
        ),
        "bert-mixed": Case(
            hidden_words(bert), rows_of_text(text_lengths(mean, long), budget, words), (
                now, Row("filled, static", (filled(budget + 8),), "static", turn=4),
            ),
        ),
        "lstm": Case(
            translator, sentence_pairs(64 if small else 4096, TRANSLATORS["rnn-dot"].embedding.vocab), (
                Row("plain", launch="plain", profiled=True), Row("plain, again", launch="plain"),
                Row("plain, by products", (by_products,), "plain", profiled=True),
                Row("plain, packed decoder", (packed_decoder,), "plain"),
            ),
        ),
    }  # fmt: skip


@dataclass
class Ticks:
    """The time at the end of each step, on the device, which is not waited for."""

    on_gpu: bool

    def __post_init__(self) -> None:
        self.times: list[Any] = []

    def tick(self) -> None:
        if self.on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.times.append(event)
        else:
            self.times.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Between each tick and the next."""
        if self.on_gpu:
            torch.cuda.synchronize()
            return [one.elapsed_time(other) / 1e3 for one, other in zip(self.times, self.times[1:], strict=False)]
        return np.diff(self.times).tolist()


class Steps:
    """A training that is stepped through, as the loop does."""

    def __init__(self, asked: Asked, batches: list[Batch]):
        optimizer = OptimizerConfig(1e-4, "constant", warmup=0)
        config = TrainingConfig(precision="bf16", optimizer=optimizer)
        self.stepper = Stepper(asked, Repeated(batches), config, Ranks())
        self.stream, self.under_way, self.step = self.stepper.micro_batches(0), [], 0  # type: ignore[var-annotated]

    def go(self, count: int) -> Iterator[float]:
        """So many steps; the loss of each that has been heard of."""
        for _ in range(count):
            self.under_way.append(self.stepper.take(self.step, self.stream, stop=False))
            self.step += 1
            while len(self.under_way) > self.stepper.late:
                sums = self.stepper.measured(self.under_way.pop(0)).sums
                yield sums["loss"] / sums["count"]
            if self.stepper.late and self.step == 1:
                yield float("nan")


def launched(asked: Asked, launch: str) -> Any:
    torch.compiler.reset()
    return ExitStack() if launch == "plain" else compiled(asked, dynamic=True if launch == "compiled" else None)


def probe(case: Case, row: Row, name: str, asked_for: Namespace) -> dict[str, Any]:
    """Time one row."""
    gc.collect()  # what the row before held
    asked, on_gpu = case.asked(), here().type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with ExitStack() as stack:
        for change in row.changes:
            stack.enter_context(change(asked))
        stack.enter_context(launched(asked, row.launch))
        steps = Steps(asked, case.batches)
        stack.enter_context(closing(steps.stream))
        start = time.perf_counter()
        list(steps.go(1))
        if on_gpu:
            torch.cuda.synchronize()
        first = time.perf_counter() - start
        list(steps.go(min(WARM_UP, asked_for.steps)))
        ticks, losses = Ticks(on_gpu), []
        ticks.tick()
        for loss in steps.go(asked_for.steps):
            losses.append(loss)
            ticks.tick()
        seconds = ticks.seconds()
        took = median(seconds)
        if row.profiled:
            profile(lambda: list(steps.go(2)), f"{name}, {row.name}", asked_for.out / "profiles.txt", on_gpu)
    tokens = [sum(part.rows.total for part in batch.values() if isinstance(part, Tokens)) for batch in case.batches]
    peak = torch.cuda.max_memory_allocated() / 1e9 if on_gpu else 0.0
    return {
        "tokens/s": float(np.mean(tokens)) / took, "ms a step": 1e3 * took, "least ms": 1e3 * min(seconds),
        "most ms": 1e3 * max(seconds), "first step s": first, "peak GB": peak,
        "loss": losses[-1],
    }  # fmt: skip


def cells_alone(case: Case, steps: int) -> dict[str, Any]:
    """What cuDNN takes for a translator's cells by themselves, packed, there and back: the bound of its training."""
    from torch.nn.utils.rnn import PackedSequence

    from regard.layers.recurrent import Packing

    model: Any = translator().model
    device, on_gpu = here(), here().type == "cuda"
    batch: Batch = {name: part for name, part in case.batches[0].items() if isinstance(part, Tokens)}
    runs = []
    for tokens, cells in zip(batch.values(), (model.encoder.cells, model.decoder.cells), strict=True):
        sizes = Packing.of(tokens.rows).sizes
        runs.append((cells, torch.randn(tokens.rows.total, cells.input_size, device=device), sizes))
    ticks = Ticks(on_gpu)
    for _ in range(WARM_UP + steps):
        ticks.tick()
        for cells, x, sizes in runs:
            with torch.autocast(device.type, torch.bfloat16):
                states = cells(PackedSequence(x, sizes))[0].data
            states.float().sum().backward()
    ticks.tick()
    took = median(ticks.seconds()[WARM_UP:])
    return {"tokens/s": sum(len(x) for _, x, _ in runs) / took, "ms a step": 1e3 * took}


def options() -> Namespace:
    parser = ArgumentParser("python -m benchmarks.training_parts", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder for parts.json and profiles.txt")
    parser.add_argument("--seconds", type=float, default=120.0, help="that it may take in all")
    parser.add_argument("--cases", nargs="+", help="of bert, gpt2, bert-mixed, lstm; by default all")
    parser.add_argument("--rows", nargs="+", help="names of rows; by default all")
    parser.add_argument("--steps", type=int, default=12, help="that are timed of each row")
    parser.add_argument("--small", action="store_true", help="tiny models, to see that all of it runs")
    parser.add_argument("--results", type=Path, help="a folder of results, to add the medians to")
    return parser.parse_args()


def main() -> None:
    asked = options()
    quick = partial(torch.compile, backend="aot_eager")  # code as it is: what a CPU makes of it says nothing of a GPU
    with patched(torch, "compile", quick) if asked.small else nullcontext():
        run(asked)


def run(asked: Namespace) -> None:
    start = time.perf_counter()
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "profiles.txt").unlink(missing_ok=True)
    found: dict[str, dict[str, Any]] = {}
    expected = {"plain": PLAIN, "compiled": COMPILING, "static": COMPILING}
    every = cases(asked.small)
    todo = [(name, row) for name, case in every.items() for row in case.rows]
    for name, row in sorted(todo, key=lambda one: one[1].turn):
        if (asked.cases and name not in asked.cases) or (asked.rows and row.name not in asked.rows):
            continue
        began = time.perf_counter()
        enough = asked.seconds - (began - start) > expected[row.launch]
        told(found, f"{name}: {row.name}", partial(probe, every[name], row, name, asked) if enough else dict, asked.out)
        if enough:
            expected[row.launch] = time.perf_counter() - began
    if not asked.cases or "lstm" in asked.cases:
        told(found, "lstm: cuDNN's cells alone", partial(cells_alone, every["lstm"], asked.steps), asked.out)
    if asked.results:
        for name in every:
            rows = {label.partition(": ")[2]: row for label, row in found.items() if label.startswith(f"{name}: ")}
            timed = {label: spread(row) for label, row in rows.items() if "least ms" in row}
            worth(WORDS[name], timed, "benchmarks.training_parts", asked.results)
    print(f"{time.perf_counter() - start:.0f} s")


def spread(row: dict[str, Any]) -> dict[str, list[float]]:
    return {"ms a step": [row["ms a step"], row["least ms"], row["most ms"]], "peak GB": [row["peak GB"]] * 3}


def told(found: dict[str, Any], label: str, measure: Callable[[], dict[str, Any]], out: Path) -> None:
    """Measure, print and write at once: what comes later may fail."""
    try:
        numbers = measure()
    except Exception as error:
        numbers = {"failed": f"{type(error).__name__}: {error}"}
    found[label] = numbers
    words = "  ".join(
        f"{name} {value:,.4g}" if not isinstance(value, str) else value for name, value in numbers.items()
    )
    print(f"{label:44}{words or 'no time was left'}", flush=True)
    (out / "parts.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
