"""The command that looks inside."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from regard.box import boxed
from regard.cli.app import app
from regard.cli.options import Boxed, Device, Encoding
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.viewer.look import Look


@app.command()
def look(
    text: Annotated[
        str | None, Argument(help="What the model reads: a text, or a picture's or recording's path; -: stdin.")
    ] = None,
    model: Boxed = None,
    second: Annotated[str | None, Option(metavar="TEXT", help="A second text, read together with the first.")] = None,
    target: Annotated[
        str | None, Option(metavar="TEXT", help="A translation to look at instead of the model's own.")
    ] = None,
    write: Annotated[int, Option(metavar="N", help="Let a language model go on for N tokens first.")] = 0,
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="Write .html, .png, .svg, .pdf, .json or .npz; by default a page is served."),
    ] = None,
    view: Annotated[
        Literal["matrix", "heads", "grid", "rollout", "picture"] | None,
        Option(help="What is shown first, or drawn; by default the matrix, or the picture."),
    ] = None,
    attention: Annotated[
        str | None, Option(help="encoder, decoder or cross; by default cross, where there is one.")
    ] = None,
    layer: Annotated[int | None, Option(metavar="L", help="Show this layer, counted from 1.")] = None,
    head: Annotated[int | None, Option(metavar="H", help="Show this head of the layer alone.")] = None,
    words: Annotated[bool | None, Option("--words/--pieces", help="Show words, or the pieces the model reads.")] = None,
    with_: Annotated[Path | None, Option("--with", metavar="MODEL", help="A second model, to compare with.")] = None,
    from_: Annotated[
        Path | None,
        Option("--from", metavar="FILE", help="Show arrays of an .npz instead: weights, queries, maybe keys."),
    ] = None,
    host: Annotated[str, Option(help="Where the page is served.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="And at which port; 0: any that is free.")] = 0,
    open_: Annotated[bool, Option("--open/--no-open", help="Open a browser, where this is a terminal.")] = True,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """See what a model attends to: on a page, in a file that works offline, or as a picture."""
    from regard.commands.look import look as run
    from regard.viewer.saving import check_format, save
    from regard.viewer.view import View

    chosen = View(view or View.name, attention, layer, head, words)
    if out:
        check_format(out)
    else:
        check_server()
    asked: dict[str, Any] = {"second": second, "target": target, "write": write}
    if from_:
        looks = [look_at_arrays(from_, text=text, model=model, with_=with_, **asked)]
    else:
        asked |= {"text": read_text(text, encoding), "device": device}
        looks = [run(one, **asked) for one in (model or boxed("look"), with_) if one]
    if view is None and looks[0].pictures:
        chosen = replace(chosen, name="picture")
    if out is None:
        serve(looks, chosen.hash(), host, port, open_ and sys.stdout.isatty())
    for path in save(looks, out, chosen) if out else []:
        print(f"wrote {path}", file=sys.stderr)


def read_text(text: str | None, encoding: str) -> str:
    from regard.data.lines import read_lines
    from regard.text.vocabulary import whole

    if text is None:
        raise UsageProblem("look at what? Give a text, - to read it from stdin, or arrays by --from")
    return whole("\n".join(read_lines("-", encoding)) if text == "-" else text)


def look_at_arrays(path: Path, **others: Any) -> Look:
    from regard.viewer.look import Look

    if given := [name.strip("_") for name, value in others.items() if value]:
        raise UsageProblem(f"--from {path} shows arrays as they are: leave out {', '.join(given)}")
    return Look.of_file(path)


def check_server() -> None:
    from regard.commands.serve import wants_extra

    try:
        wants_extra()
    except Problem as problem:
        raise Problem(f"{problem}; or write a file: -o view.html") from None


def serve(looks: list[Look], start: str, host: str, port: int, open_: bool) -> None:
    from regard.commands.serve import serve_look

    serve_look(looks, host, port, open_, start)
