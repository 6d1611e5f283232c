"""From runs to pages: a recipe appends a line to docs/results/CHAPTER.jsonl for each number it measured, and
`python -m recipes.results` writes CHAPTER.md and its plots from those lines, after CHAPTER.intro.md if there is one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from regard.errors import Problem

Line = dict[str, Any]
Item = TypeVar("Item", bound=Hashable)

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
REQUIRED, BAND = ("row", "data", "metric", "command"), ("low", "high", "count", "value")
KINDS = ("value", "bands", "points", "outcome")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888")  # Okabe and Ito 2008
MARKERS = "os^Dv"
RENAMED = {  # what lines of earlier runs call a metric -> what it is called now
    "F1": "f1_macro", "MRPC F1": "MRPC f1 of 1", "MRPC f1": "MRPC f1 of 1",
}  # fmt: skip
COSTS = ("parameters", "seconds", "flops")


def append(chapter: str, *, folder: Path = RESULTS, **fields: Any) -> None:
    """Add a result to a chapter, with today's date.

    Needs `row`, `data`, `metric`, `command`, and one of `value`, `bands` (LengthBand or dicts with low, high, count and
    value), `points` (pairs of numbers, for a metric called "this by that", whose height is drawn as a logarithm if
    `scale` is "log") and `outcome` (a word for how one of many trials ended, with the number of the `trial`); takes
    whatever else is known: split, seed, commit, device, parameters, seconds, flops, signature, and the `least` and the
    `most` of what a value is the median of."""
    if not re.fullmatch(r"[a-z0-9-]+", chapter):
        raise Problem(f"a chapter cannot be called {chapter!r}; use lower-case letters, digits and hyphens")
    today = datetime.now(UTC).date().isoformat()
    line = json.loads(json.dumps({"chapter": chapter, **fields, "date": today}, default=asdict))
    _check(line, f"a result for {chapter}")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{chapter}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def write(folder: Path = RESULTS) -> list[Path]:
    """Write the page of every chapter in the folder; the pages are returned."""
    pages = []
    for source in sorted(folder.glob("*.jsonl")):
        introduction = source.with_suffix(".intro.md")
        title = f"# {source.stem.replace('-', ' ').capitalize()}"
        opening = introduction.read_text(encoding="utf-8").strip() if introduction.exists() else title
        notice = f"<!-- Written by `make results` from {source.name} and {introduction.name}: change those. -->"
        parts = [notice, opening, *_body(read(source), source)]
        pages.append(source.with_suffix(".md"))
        pages[-1].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return pages


def read(path: Path) -> list[Line]:
    """The results of a chapter; one that was measured again, with the same seed, replaces the one before."""
    newest: dict[tuple[Any, ...], Line] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not text.strip():
            continue
        try:
            line = dict(json.loads(text))
        except (ValueError, TypeError) as problem:
            raise Problem(f"{path}, line {number}: not a JSON object ({problem}); mend or remove it") from None
        _check(line, f"{path}, line {number}")
        line["metric"] = RENAMED.get(line["metric"], line["metric"])
        key = tuple(line.get(name) for name in ("data", "split", "row", "metric", "signature", "seed", "trial"))
        newest[key] = {**line, "number": number}
    return list(newest.values())


def _check(line: Line, place: str) -> None:
    _has(line, (*REQUIRED, "trial") if "outcome" in line else REQUIRED, place)
    if sum(kind in line for kind in KINDS) != 1:
        raise Problem(f"{place}: has none or several of {', '.join(KINDS)}; give the one that was measured")
    for band in line.get("bands", []):
        _has(band, BAND, f"{place}, band {band}")
    numbers = [line["value"]] if "value" in line else [band["value"] for band in line.get("bands", [])]
    for number in [*numbers, *(number for point in line.get("points", []) for number in point)]:
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise Problem(f"{place}: the value is {number!r}, which is not a finite number; give what was measured")


def _has(fields: Line, names: tuple[str, ...], place: str) -> None:
    missing = [name for name in names if name not in fields]
    if missing:
        raise Problem(f"{place}: lacks {', '.join(missing)}; give {', '.join(names)}")


def _body(lines: list[Line], source: Path) -> list[str]:
    parts: list[str] = []
    commands: dict[tuple[str, str], list[Line]] = {}
    for data, split in _distinct((line["data"], line.get("split", "")) for line in lines):
        group = [line for line in lines if (line["data"], line.get("split", "")) == (data, split)]
        parts.append(f"## {data}, {split}" if split else f"## {data}")
        parts += _numbers([line for line in group if "value" in line])
        parts += _bands([line for line in group if "bands" in line], source)
        parts += _curves([line for line in group if "points" in line], source)
        parts += _outcomes([line for line in group if "outcome" in line])
        for row, runs in _rows(group).items():
            newest = max(runs, key=lambda run: run["number"])
            commands.setdefault((row, newest["command"]), []).extend(runs)
    return [*parts, "## Commands", *(_provenance(*which, runs) for which, runs in commands.items())]


def _numbers(lines: list[Line]) -> list[str]:
    """A table with a row a model and a column a metric.  Numbers computed in different ways stand in different
    columns, each with its signature below."""
    if not lines:
        return []
    columns = _distinct((line["metric"], line.get("signature")) for line in lines)
    signed = [signature for _, signature in columns if signature]
    marks = {signature: f" ({number})" for number, signature in enumerate(_distinct(signed), 1)}
    rows = []
    for row, runs in _rows(lines).items():
        measured = [[run for run in runs if (run["metric"], run.get("signature")) == column] for column in columns]
        rows.append([row, *map(_spread, measured), *_costs(runs)])
    header = [
        "",
        *(metric + marks.get(signature, "") for metric, signature in columns),
        "seeds",
        "parameters",
        "time",
        "FLOPs",
    ]
    notes = [f"{mark.strip()} `{signature}`" for signature, mark in marks.items()]
    return [_table(_without_empty_columns([header, *rows])), *notes]


def _outcomes(lines: list[Line]) -> list[str]:
    """A table with a row for each row, and how many of its trials ended in which way."""
    ways = _distinct(line["outcome"] for line in lines)
    rows = [[row, *_counted(runs, ways)] for row, runs in (_rows(lines) | {"*all*": lines}).items()]
    return [_table([["", "trials", *ways], *rows])] if lines else []


def _counted(runs: list[Line], ways: list[str]) -> list[str]:
    return [str(len(runs)), *(str(sum(run["outcome"] == way for run in runs)) for way in ways)]


def _curves(lines: list[Line], source: Path) -> list[str]:
    """A plot for each metric that was measured again and again."""
    parts: list[str] = []
    for metric in _distinct(line["metric"] for line in lines):
        chosen = [line for line in lines if line["metric"] == metric]
        picture = _picture(source, chosen[0], "curve")
        _plot_curves(metric, _over_seeds(chosen), picture, log=all(line.get("scale") == "log" for line in chosen))
        parts += [f"### {metric[0].upper()}{metric[1:]}", f"![{metric}]({picture.name})"]
    return parts


def _over_seeds(lines: list[Line]) -> dict[str, list[Any]]:
    """The points of each row; of several seeds at the same lengths, their mean with the least and the most of them."""
    curves: dict[str, list[Any]] = {}
    for row, runs in _rows(lines).items():
        lengths, heights = zip(*(zip(*run["points"], strict=True) for run in runs), strict=True)
        if len(runs) > 1 and len(set(lengths)) == 1:
            each = zip(lengths[0], zip(*heights, strict=True), strict=True)
            curves[row] = [(length, fmean(some), min(some), max(some)) for length, some in each]
        else:
            curves |= {row if len(runs) < 2 else f"{row}, seed {run['seed']}": run["points"] for run in runs}
    return curves


def _picture(source: Path, line: Line, last: str) -> Path:
    words = (source.stem, line["data"], line.get("split", ""), line["metric"], last)
    return source.with_name(re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()) + ".svg")


def _bands(lines: list[Line], source: Path) -> list[str]:
    """A plot and a table for each metric that was measured in bands."""
    parts: list[str] = []
    columns = _distinct((line["metric"], line.get("signature", "")) for line in lines)
    for number, (metric, signature) in enumerate(columns, 1):
        chosen = [line for line in lines if (line["metric"], line.get("signature", "")) == (metric, signature)]
        picture = _picture(source, chosen[0], str(number))
        parts += [f"### {metric}", f"![{metric}]({picture.name})", _band_table(chosen, metric, picture)]
        parts += [f"`{signature}`"] if signature else []
    return parts


def _band_table(lines: list[Line], metric: str, picture: Path) -> str:
    """Values averaged over seeds, which are also plotted."""
    counts = {(band["low"], band["high"]): band["count"] for line in lines for band in line["bands"]}
    edges = sorted(counts, key=lambda edge: edge[0])
    values = {row: [_mean(_in_band(runs, edge)) for edge in edges] for row, runs in _rows(lines).items()}
    labels = [f"{low}+" if high is None else f"{low}–{high}" for low, high in edges]
    _plot(metric, labels, values, picture)
    table = [["", *labels], ["*sentences*", *(str(counts[edge]) for edge in edges)]]
    table += [[row, *("" if value is None else _number(value) for value in line)] for row, line in values.items()]
    return _table(table)


def _in_band(runs: list[Line], edge: tuple[int, int | None]) -> list[float]:
    return [band["value"] for run in runs for band in run["bands"] if (band["low"], band["high"]) == edge]


def _plot(metric: str, labels: list[str], values: dict[str, list[float | None]], picture: Path) -> None:
    known = {
        row: [(place, value) for place, value in enumerate(line) if value is not None] for row, line in values.items()
    }
    figure, axes = _drawn(metric, known)
    axes.set(xticks=range(len(labels)), xticklabels=labels)
    axes.set_ylim(bottom=0)
    _save(figure, picture)


def _plot_curves(metric: str, curves: dict[str, list[list[float]]], picture: Path, log: bool = False) -> None:
    """`log` is of the height; the length always is."""
    figure, axes = _drawn(metric, curves)
    axes.set_xscale("log")
    if log:
        axes.set_yscale("log")
    _save(figure, picture)


def _drawn(metric: str, lines: dict[str, list[Any]]) -> tuple[Any, Any]:
    """A line for each row through its points, under axes that are named as the metric says: height by length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for number, (row, points) in enumerate(lines.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        lengths, heights, *ends = zip(*points, strict=True)
        axes.plot(lengths, heights, label=row, color=colour, marker=marker, linewidth=1.5, markersize=5)
        if ends:  # of a bar
            axes.vlines(lengths, *ends, color=colour, linewidth=1)
    height, _, length = metric.partition(" by ")
    axes.set(xlabel=length, ylabel=height)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)
    return figure, axes


def _save(figure: Any, picture: Path) -> None:
    import matplotlib

    # neither date nor version nor random identifiers: the same lines make the same file
    with matplotlib.rc_context({"svg.hashsalt": "regard"}):
        figure.savefig(picture, metadata={"Date": None, "Creator": None})


def _provenance(row: str, command: str, runs: list[Line]) -> str:
    """How a row was made: the command of its newest run, and what is known of all its runs."""
    seeds = _seeds(runs)
    known = [f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"] if seeds else []
    known += _distinct(run["device"] for run in runs if "device" in run)
    known += _distinct(f"commit {run['commit'][:10]}" for run in runs if "commit" in run)
    known.append(max(run.get("date", "") for run in runs))
    return f"**{row}** ({'; '.join(filter(None, known))})\n\n```sh\n{command}\n```"


def _costs(runs: list[Line]) -> list[str]:
    """How many seeds, and the size, the time and the arithmetic of one run; empty where unknown."""
    size, seconds, flops = (_mean(run[name] for run in runs if name in run) for name in COSTS)
    return [
        str(len(_seeds(runs)) or ""),
        "" if size is None else f"{size / 1e6:,.1f} M",
        "" if seconds is None else _duration(seconds),
        "" if flops is None else f"{flops:.1e}",
    ]


def _rows(lines: list[Line]) -> dict[str, list[Line]]:
    return {row: [line for line in lines if line["row"] == row] for row in _distinct(line["row"] for line in lines)}


def _seeds(runs: list[Line]) -> list[int]:
    return sorted({run["seed"] for run in runs if "seed" in run})


def _spread(runs: list[Line]) -> str:
    """The mean, and from where to where the seeds lie when there are several, or what was measured of one."""
    if not runs:
        return ""
    middle = _number(fmean(run["value"] for run in runs))
    known = [float(run[name]) for run in runs for name in ("least", "value", "most") if name in run]
    if len(runs) < 2 and min(known) == max(known):
        return middle
    return f"{middle} ({_number(min(known))}–{_number(max(known))})"


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


def _number(value: float) -> str:
    digits = next((digits for least, digits in ((1000, 0), (100, 1), (10, 2), (1, 3)) if abs(value) >= least), 4)
    return f"{value:,.{digits}f}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _without_empty_columns(table: list[list[str]]) -> list[list[str]]:
    columns = [column for column in zip(*table, strict=True) if any(column[1:])]
    return [list(row) for row in zip(*columns, strict=True)]


def _table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" + "|---:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def _distinct(items: Iterable[Item]) -> list[Item]:
    return list(dict.fromkeys(items))


if __name__ == "__main__":
    try:
        print(*write(), sep="\n")
    except Problem as problem:
        raise SystemExit(str(problem)) from None
