"""Long rows: what attention of all with all, by a window, of low rank and by hashing costs as rows grow, and a Reformer
that learns from rows of a million bytes.

    python -m recipes.long cost --out runs/long
    REGARD_DATA=FOLDER python -m recipes.long million --out runs/long --steps 30

`cost` takes six layers of width 256 forwards and backwards over one row, from a thousand tokens to a million, in bf16
on a GPU and in float32 on a CPU.  The layers are reversible, so that what is measured is what the way of looking costs.
A length that would take more than `--seconds` a pass is not tried; one that does not fit in memory is told as such.

`million` trains the preset reformer-million on enwik8, a row of 1,048,576 bytes a step, and tells the loss, the time of
a step and the largest memory.  A run that was stopped goes on where it was.  To try it: `--tokens 2048 --steps 3`.

On an H200 a step of `million` takes 2.2 seconds and 12.4 GB; 30 of them bring a byte from 8.1 bits to 5.1.
"""

from __future__ import annotations

import json
import lzma
import math
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.attention.attention import AttentionConfig
from regard.attention.route import Route
from regard.attention.route_hashed import Hashed
from regard.attention.route_low_rank import LowRank
from regard.attention.route_sorted import Reach
from regard.attention.route_window import Window
from regard.checkpoints.files import load_tensors, write_folder
from regard.config import change
from regard.layers.block import Block, BlockConfig
from regard.layers.reversible import ReversibleStack
from regard.layers.stack import StackConfig
from regard.models.encoder import HeadedEncoder
from regard.models.heads import new_encoder
from regard.models.reformer import PRESETS
from regard.objectives.pieces import answered_in_pieces
from regard.rows import Rows, Tokens
from regard.training.parallel import here

WIDTH, HEADS, LAYERS = 256, 4, 6
SIDE, RANK, ROUNDS = 256, 256, 2  # a window of 512, as published Longformers have
WAYS = ("all with all", "window", "low rank", "hashed")
LENGTHS = tuple(2**power for power in range(10, 21))
SHOWN = (2**12, 2**16, 2**20)  # lengths in the table; the plot has all
VOCAB = 258  # bytes, and what the preset has beside them
TRAINING, RATE, CLIP, SAVED = 90_000_000, 3e-4, 1.0, 20  # bytes of enwik8 by convention; steps between checkpoints


# What a pass costs


def route_of(way: str, length: int) -> Route:
    if way == "window":
        return Window(SIDE, WIDTH, HEADS, WIDTH // HEADS)
    if way == "low rank":
        return LowRank(length, min(RANK, length), 1, alike=True)
    return Hashed(Reach(), ROUNDS, longest=length) if way == "hashed" else Route()


def stack_of(way: str, length: int) -> ReversibleStack:
    """Layers alike but for the way in which they look; low rank shares its maps, as its paper does."""
    block = BlockConfig(WIDTH, 4 * WIDTH, "gelu", norm_first=True, dropout=0.0, attention=AttentionConfig(HEADS))
    stack, route = ReversibleStack(StackConfig(LAYERS, final_norm=True, block=block)), route_of(way, length)
    for part in stack.blocks:
        attention = cast(Block, part).attention
        attention.route = route
        if way == "hashed":  # a query is its key
            attention.k = attention.q
    return stack


def measured(way: str, length: int, device: torch.device) -> tuple[float, float]:
    """Seconds of a pass forwards and backwards, the fastest of two after one to warm up; the largest memory, in GB."""
    torch.manual_seed(0)
    stack, rows = stack_of(way, length).to(device).train(), Rows.of([length], device)
    x = torch.randn(length, 2 * WIDTH, device=device, requires_grad=True)
    begun, times = memory_of(device, reset=True), []
    for _ in range(3):
        wait(device)
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            stack(x, rows)[0].sum().backward()
        wait(device)
        times.append(time.perf_counter() - start)
    return min(times), memory_of(device) - (begun if device.type == "cpu" else 0.0)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def memory_of(device: torch.device, reset: bool = False) -> float:
    """The largest so far, in GB: of tensors on a GPU, of the process on a CPU."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    if reset:
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 1e9


def point(way: str, length: int, limit: float) -> dict[str, Any]:
    """One measurement, by a process of its own on a CPU, whose memory is nobody else's; or why there is none."""
    told = {"way": way, "length": length}
    if here().type == "cuda":
        try:
            seconds, memory = measured(way, length, here())
        except torch.OutOfMemoryError:
            return told | {"missing": "does not fit in memory"}
        finally:
            torch.cuda.empty_cache()
        return told | {"seconds": seconds, "memory": memory}
    words = [sys.executable, "-m", "recipes.long", "point", "--way", way, "--tokens", str(length)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=4 * limit + 60)
    except subprocess.TimeoutExpired:
        return told | {"missing": f"takes more than {limit:g} s"}
    if done.returncode:
        return told | {"missing": "does not fit in memory"}
    return told | json.loads(done.stdout.splitlines()[-1])


def cost(options: Namespace) -> None:
    file = options.out / f"cost-{here().type}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for way in WAYS:
        for length in LENGTHS[: 4 if options.small else None]:
            found = next((one for one in known if (one["way"], one["length"]) == (way, length)), None)
            found = found or tried(way, length, known, options.seconds)
            if found not in known:
                known.append(found)
                with file.open("a") as out:
                    out.write(json.dumps(found) + "\n")
            print(found, flush=True)
    for way in WAYS:
        written(way, [one for one in known if one["way"] == way], options)


def tried(way: str, length: int, known: list[dict[str, Any]], limit: float) -> dict[str, Any]:
    """A measurement, unless those of shorter rows say that it would take too long, or that there is no memory."""
    before = [one for one in known if one["way"] == way and one["length"] < length]
    if before and "missing" in before[-1]:
        return {"way": way, "length": length, "missing": before[-1]["missing"]}
    grows = 4 if way == "all with all" else 2
    if before and before[-1]["seconds"] * grows * (length / before[-1]["length"]) / 2 > limit:
        return {"way": way, "length": length, "missing": f"takes more than {limit:g} s"}
    return point(way, length, limit)


def written(way: str, found: list[dict[str, Any]], options: Namespace) -> None:
    """The rows of one way: a curve of each measure, numbers at some lengths, and what is missing in words."""
    about = {
        "row": way, "data": "six layers of width 256, forwards and backwards", "split": device_name(),
        "device": device_name(), "commit": commit(), "folder": options.results,
        "command": f"python -m recipes.long cost --seconds {options.seconds:g}",
    }  # fmt: skip
    there = [one for one in found if "missing" not in one]
    for measure, name in (("seconds", "seconds"), ("memory", "memory in GB")):
        if there:
            points = [[one["length"], one[measure]] for one in there]
            append("beyond", metric=f"{name} by tokens of a row", points=points, scale="log", **about)
        for one in there:
            if one["length"] in SHOWN:
                append("beyond", metric=f"{name}, {one['length']:,} tokens", value=one[measure], **about)
    missing = [f"{one['length']:,} tokens: {one['missing']}" for one in found if "missing" in one]
    longest = max((one["length"] for one in there), default=0)
    append("beyond", metric="longest row", value=longest, missing=missing, **about)


# A million tokens


def bytes_of(place: Path, count: int) -> np.ndarray:
    with lzma.open(place) as file:
        return np.frombuffer(file.read(count), np.uint8)


def model_of(tokens: int) -> HeadedEncoder:
    """The preset; for shorter rows its grid of places has fewer rows."""
    config = change(PRESETS["reformer-million"], "embedding.vocab", VOCAB)
    if tokens < config.embedding.longest:
        config = change(config, "axes", [max(tokens // 64, 1), 64])
    torch.manual_seed(0)
    return new_encoder("reformer", config, {"write"}).model.to(here()).train()


def stepped(model: HeadedEncoder, optimizer: Any, row: np.ndarray) -> float:
    """A step on one row: bits a byte."""
    ids = torch.from_numpy(row.astype(np.int64)).to(here())
    tokens, wanted = Tokens(ids[:-1], Rows.of([len(ids) - 1], here())), ids[1:]
    with torch.autocast(here().type, torch.bfloat16, enabled=here().type == "cuda"):
        result = answered_in_pieces(model.logits, model(tokens), wanted, VOCAB)
    (result.loss / result.count).backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad()
    return float(result.loss.detach() / result.count) / math.log(2)


def million(options: Namespace) -> None:
    count, rows = options.tokens, max(TRAINING // (options.tokens + 1), 1)
    text = bytes_of(data_folder() / "enwik8" / "enwik8.xz", min(TRAINING, (options.tokens + 1) * options.steps))
    model = model_of(count)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    told = resumed(model, optimizer, options.out / f"million-{count}")
    memory_of(here(), reset=True)
    for step in range(len(told), options.steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min((step + 1) / 20, 1.0)
        start, begin = time.perf_counter(), step % rows * (count + 1) % (len(text) - count)
        bits = stepped(model, optimizer, text[begin : begin + count + 1])
        wait(here())
        told.append({"bits": bits, "seconds": time.perf_counter() - start, "memory": memory_of(here())})
        print(step + 1, told[-1], flush=True)
        if (step + 1) % SAVED == 0 or step + 1 == options.steps:
            save(model, optimizer, told, options.out / f"million-{count}")
    tell(told, model, options)


def save(model: nn.Module, optimizer: Any, told: list[dict[str, float]], folder: Path) -> None:
    """One folder a checkpoint, whole or not there; the newest is taken up."""
    state = dict(model.state_dict())
    moments = {
        f"{kind} {number}": values[kind]
        for number, values in optimizer.state_dict()["state"].items() for kind in ("step", "exp_avg", "exp_avg_sq")
    }  # fmt: skip
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in (state | moments).items()}
    write_folder(folder / str(len(told)), {"state.safetensors": tensors, "told.json": json.dumps(told).encode()})


def resumed(model: nn.Module, optimizer: Any, folder: Path) -> list[dict[str, float]]:
    steps = sorted(int(place.name) for place in folder.glob("[0-9]*")) if folder.is_dir() else []
    if not steps:
        return []
    newest = folder / str(steps[-1])
    tensors = load_tensors(newest / "state.safetensors")
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    own = optimizer.state_dict()
    numbers = own["param_groups"][0]["params"]
    kinds = ("step", "exp_avg", "exp_avg_sq")
    state = {n: {kind: tensors[f"{kind} {n}"] for kind in kinds} for n in numbers if f"step {n}" in tensors}
    optimizer.load_state_dict({**own, "state": state})
    return json.loads((newest / "told.json").read_text())


def tell(told: list[dict[str, float]], model: nn.Module, options: Namespace) -> None:
    about = {
        "row": f"Reformer, {LAYERS} layers of width {WIDTH}", "data": f"enwik8, rows of {options.tokens:,} bytes",
        "split": "training", "device": device_name(), "commit": commit(), "seed": 0,
        "command": f"python -m recipes.long million --tokens {options.tokens} --steps {options.steps}",
        "parameters": sum(weight.numel() for weight in model.parameters()), "folder": options.results,
        "seconds": sum(one["seconds"] for one in told),
    }  # fmt: skip
    numbers = {
        "bits a byte, first step": told[0]["bits"], "bits a byte, last step": told[-1]["bits"],
        "largest memory, GB": max(one["memory"] for one in told),
        "seconds a step": float(np.median([one["seconds"] for one in told])),
    }  # fmt: skip
    for metric, value in numbers.items():
        append("beyond", metric=metric, value=value, **about)
    points = [[number, one["bits"]] for number, one in enumerate(told, 1)]
    append("beyond", metric="bits a byte by steps", points=points, **about)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["cost", "million", "point"])
    parser.add_argument("--out", type=Path, default=Path("runs/long"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    parser.add_argument("--seconds", type=float, default=60.0, help="the most that one pass may take")
    parser.add_argument("--small", action="store_true", help="short rows alone, to try it")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=2**20)
    parser.add_argument("--way", default="", help="for a single point")
    options = parser.parse_args()
    if options.part == "point":
        seconds, memory = measured(options.way, options.tokens, here())
        print(json.dumps({"seconds": seconds, "memory": memory}))
    else:
        {"cost": cost, "million": million}[options.part](options)
