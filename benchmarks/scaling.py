"""How cost grows: time and memory of a training step against length, batch, depth and vocabulary, for every family; and
the lectures' table, self-attention, recurrent and convolution at length 1000 and width 1000, beside measured times.

Models are 256 wide and have 4 layers, 8 rows of 128 tokens and 8000 words where nothing else is said.  Each family has
a process of its own, one after the other; one that fails is left out.

    python -m benchmarks.scaling --families bert gpt2 --axes length
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contest import ready
from benchmarks.costs import grow, layers_of, one_layer_each
from benchmarks.families import FAMILIES
from benchmarks.plan import Plan
from benchmarks.writing import everywhere, facts, run, say
from regard.errors import Problem

AXES = {
    "length": (32, 64, 128, 256, 512, 1024),
    "batch": (2, 4, 8, 16, 32),
    "depth": (1, 2, 4, 8, 16),
    "vocabulary": (1000, 4000, 16_000, 64_000),
}
LARGER = {"length": (2048, 4096), "batch": (64, 128, 256)}  # for a GPU
SMALL = {"length": (16, 32), "batch": (1, 2), "depth": (1, 2), "vocabulary": (100, 200)}  # to see that all of it runs
SIZE = 1000  # length and width of the lectures' layers
MB = 1e6

Points = dict[str, list[list[float]]]  # of an axis: size, seconds, bytes


def asked() -> Namespace:
    parser = ArgumentParser("regard bench scaling", description=__doc__.partition(":")[0])
    some: dict[str, Any] = {"nargs": "+", "metavar": "NAME"}
    parser.add_argument("--families", choices=FAMILIES, help=f"of {', '.join(FAMILIES)}; by default all", **some)
    parser.add_argument("--axes", choices=AXES, help=f"of {', '.join(AXES)}; by default all", **some)
    parser.add_argument("--batch", type=int, default=8, help="rows that the layers of the lectures' table read")
    parser.add_argument("--seconds", type=float, default=0.5, help="that each size is timed for")
    parser.add_argument("--limit", type=int, default=180, help="seconds that a family may take for an axis")
    parser.add_argument("--small", action="store_true", help="two small sizes of each, to see that all of it runs")
    return everywhere(parser, "scaling").parse_args()


def bench(asked: Namespace) -> None:
    from regard.checkpoints.files import write_file

    size = SIZE // 10 if asked.small else SIZE
    plan = Plan("", "", asked.device, asked.threads, asked.batch, 1, 0, longest=size, seconds=asked.seconds)
    layers = table_of_layers(plan, asked.limit)
    what = f"One layer at length {size} and width {size}, forwards, and what the lectures count"
    print(what, *told(layers), "", sep="\n", flush=True)
    sizes = {axis: sizes_of(axis, asked) for axis in asked.axes or AXES}
    curves: dict[str, Points] = {}
    for name in asked.families or FAMILIES:
        try:
            curves[name] = grown(replace(plan, model=name, examples=json.dumps(sizes)), asked.limit)
            print(*lines_of(name, curves[name]), "", sep="\n", flush=True)
        except Problem as problem:
            say(f"left out: {problem}")
    numbers = {**facts("scaling", (), asked), "what": what, "layers": layers, "curves": curves}
    write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())
    if asked.results:
        record(numbers, asked.results)


def sizes_of(axis: str, asked: Namespace) -> tuple[int, ...]:
    if asked.small:
        return SMALL[axis]
    return AXES[axis] + (LARGER.get(axis, ()) if asked.device.startswith("cuda") else ())


def table_of_layers(plan: Plan, limit: float) -> dict[str, dict[str, float]]:
    """FLOPs of one row by the lectures, milliseconds of one row and of several."""
    with ready([("one layer each", one_layer_each, plan)], limit) as [found]:
        one, several = ([1000 * seconds for seconds in row] for row in found.outputs)
    return {
        name: {
            "GFLOP": flops / 1e9,
            "ms, 1 row": one[number],
            f"ms, {plan.batch} rows": several[number],
            f"GFLOP/s, {plan.batch} rows": plan.batch * flops / 1e6 / several[number],
        }
        for number, (name, flops) in enumerate(layers_of(plan.longest).items())
    }


def grown(plan: Plan, limit: float) -> Points:
    axes = list(json.loads(plan.examples))
    with ready([(plan.model, grow, plan)], limit) as [family]:
        points = [family.outputs, *(family.heard() for _ in axes[1:])]
    return dict(zip(axes, points, strict=True))


def told(layers: dict[str, dict[str, float]]) -> Iterator[str]:
    heading = list(next(iter(layers.values())))
    yield "  ".join([f"{'':18}", *(f"{what:>16}" for what in heading)])
    for name, row in layers.items():
        yield "  ".join([f"{name:18}", *(f"{value:16,.2f}" for value in row.values())])


def lines_of(name: str, points: Points) -> Iterator[str]:
    for axis, some in points.items():
        yield f"{name}, {axis}: " + "; ".join(f"{size:g}: {1000 * s:,.1f} ms, {b / MB:,.0f} MB" for size, s, b in some)


def record(numbers: dict[str, Any], folder: Path) -> None:
    """Add the table and the curves to the chapter on speed."""
    from recipes.results import append

    device, commit, command = (numbers[name] for name in ("device", "commit", "command"))
    about = {"split": device, "device": device, "commit": commit, "command": command, "folder": folder}
    for name, row in numbers["layers"].items():
        for metric, value in row.items():
            append("speed", data=numbers["what"], row=name, metric=metric, value=value, **about)
    for name, axes in numbers["curves"].items():
        for axis, points in axes.items():
            for metric, place, unit in (("ms a step", 1, 1e-3), ("MB of training", 2, MB)):
                curve = [[point[0], point[place] / unit] for point in points]
                where = {"data": f"Cost of a training step against {axis}", "row": name, "scale": "log"}
                append("speed", metric=f"{metric} by {axis}", points=curve, **where, **about)


if __name__ == "__main__":
    run(bench, asked())
