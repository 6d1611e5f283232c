"""Where the time of a training step goes, and what would save some: each change alone and all together, in one process.

Cases: BERT-base on hidden words, in rows of 512 and in rows as long as texts are (128 on average); GPT-2 in rows of
1024; a translator of LSTMs; and fine-tuning's small batches.  Of every row: real tokens a second (the median of steps
after the warm-up), milliseconds a step, the first step's seconds, peak memory, and the last loss, by which a change
that computes something else would be seen.  Profiles of some rows go to profiles.txt: the kernels that take longest,
how long the device had nothing to do, and between which kernels.  About 150 s on one H200: what is quick comes first,
and what finds no time is named.

    python -m benchmarks.probe_training --out OUT --seconds 150
    python -m benchmarks.probe_training --out /tmp/probe --small        --steps 2 --seconds 900    (on a CPU)
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

from benchmarks.copying import LENGTHS
from benchmarks.probe_changes import (
    Change,
    compiled_embedding,
    counted,
    filled,
    joined,
    known_lengths,
    linear_head,
    narrow_stream,
    patched,
    torchs_loss,
    waiting,
)
from benchmarks.probe_profile import profile
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
from regard.training.graphs import replayed
from regard.training.parallel import Ranks, here
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import Stepper

WARM_UP = 4  # steps, or fewer where fewer are timed
DISTINCT = 8  # batches, which come again and again
COMPILING, PLAIN = 28.0, 5.0  # seconds that a row is thought to take, on an H200
SPREAD = 0.8  # of the logarithms of lengths of texts
MASK, FIRST = 4, 5  # ids


@dataclass(frozen=True)
class Row:
    name: str
    changes: tuple[Change, ...] = ()
    launch: str = "plain"  # or graphs, compiled, static: compiled for the shapes of the first batch
    profiled: bool = False
    later: bool = False  # if there is time

    @property
    def turn(self) -> int:
        """What is quick comes first, then what matters most."""
        return 2 if self.later else int(self.seconds == COMPILING)

    @property
    def seconds(self) -> float:
        return PLAIN if self.launch in ("plain", "graphs") else COMPILING


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
    before = Row("before", (torchs_loss, waiting), profiled=True)
    return {
        "bert": Case(
            hidden_words(bert), rows_of_text(np.full(4096, long), budget, words), (
                before, Row("plain"), Row("linear head", (linear_head,)), Row("joined", (linear_head, joined)),
                Row("narrow", (linear_head, narrow_stream)),
                Row("compiled", (linear_head,), "compiled", profiled=True),
                Row("compiled, all", (linear_head, narrow_stream, joined, compiled_embedding), "compiled", True),
                Row("compiled, narrow", (linear_head, narrow_stream), "compiled", later=True),
                Row("static", (linear_head,), "static", later=True),
                Row("compiled, joined", (linear_head, joined), "compiled", later=True),
            ),
        ),
        "gpt2": Case(
            encoder(gpt, "write", lambda vocab: Next()), rows_of_text(np.full(4096, longer), budget, pieces), (
                before, Row("own loss", (waiting,)), Row("plain"), Row("narrow", (narrow_stream,)),
                Row("compiled", (), "compiled", profiled=True),
                Row("compiled, narrow, joined", (narrow_stream, joined), "compiled", profiled=True, later=True),
                Row("static", (), "static", later=True),
            ),
        ),
        "bert-mixed": Case(
            hidden_words(bert), rows_of_text(text_lengths(mean, long), budget, words), (
                before, Row("plain", (linear_head,)),
                Row("compiled", (linear_head,), "compiled", profiled=True),
                Row("filled, static", (linear_head, filled(budget + 8)), "static", later=True),
            ),
        ),
        "lstm": Case(
            translator, sentence_pairs(64 if small else 4096, TRANSLATORS["rnn-dot"].embedding.vocab), (
                Row("before", (torchs_loss, waiting)), Row("plain"), Row("counted", (counted,)),
                Row("counted, known lengths", (counted, known_lengths), profiled=True),
            ),
        ),
        "short": Case(
            hidden_words(bert), rows_of_text(text_lengths(13, 32), 64 if small else 430, words), (
                Row("plain"), Row("graphs", (), "graphs"),
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
    if launch in ("compiled", "static"):
        return compiled(asked, dynamic=True if launch == "compiled" else None)
    return replayed(asked) if launch == "graphs" else ExitStack()


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
        took = median(ticks.seconds())
        if row.profiled:
            profile(lambda: list(steps.go(2)), f"{name}, {row.name}", asked_for.out / "profiles.txt", on_gpu)
    tokens = [sum(part.rows.total for part in batch.values() if isinstance(part, Tokens)) for batch in case.batches]
    peak = torch.cuda.max_memory_allocated() / 1e9 if on_gpu else 0.0
    return {
        "tokens/s": float(np.mean(tokens)) / took, "ms a step": 1e3 * took, "first step s": first, "peak GB": peak,
        "loss": losses[-1],
    }  # fmt: skip


def cells_alone(case: Case, steps: int) -> dict[str, Any]:
    """What cuDNN takes for a translator's cells by themselves, packed, there and back: the bound of its training."""
    from torch.nn.utils.rnn import PackedSequence

    from regard.layers.recurrent import Packing

    model, device, on_gpu = translator().model, here(), here().type == "cuda"
    batch: Batch = {name: part for name, part in case.batches[0].items() if isinstance(part, Tokens)}
    runs = []
    for tokens, cells in zip(batch.values(), (model.encoder.cells, model.decoder.cells), strict=True):  # type: ignore
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
    parser = ArgumentParser("python -m benchmarks.probe_training", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder for probe.json and profiles.txt")
    parser.add_argument("--seconds", type=float, default=150.0, help="that it may take in all")
    parser.add_argument("--cases", nargs="+", help="of bert, gpt2, bert-mixed, lstm, short; by default all")
    parser.add_argument("--rows", nargs="+", help="names of rows; by default all")
    parser.add_argument("--steps", type=int, default=12, help="that are timed of each row")
    parser.add_argument("--small", action="store_true", help="tiny models, to see that all of it runs")
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
    expected = {"plain": PLAIN, "graphs": PLAIN, "compiled": COMPILING, "static": COMPILING}
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
    print(f"{time.perf_counter() - start:.0f} s")


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
    (out / "probe.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
