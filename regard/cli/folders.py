"""Commands on files: vocabularies, folders of models, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.app import app
from regard.cli.options import Encoding, Kind, Settings


@app.command()
def show(
    model: Annotated[str | None, Argument(help="A preset or a folder; without one, the presets are listed.")] = None,
    settings: Settings = None,
) -> None:
    """Show a model: config, modules, parameters, FLOPs a token."""
    from regard.commands.show import presets
    from regard.commands.show import show as run

    print("\n".join(run(model, tuple(settings or ())).lines() if model else presets()))


@app.command()
def tokenizer(
    kind: Annotated[Kind, Argument(help="How text is cut into pieces.")],
    texts: Annotated[list[Path], Argument(help="Text files; .gz and .xz too.")],
    out: Annotated[Path, Option(help="Where to write it.")] = Path("tokenizer.json"),
    vocab: Annotated[int, Option(help="How many pieces.")] = 8000,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Learn a vocabulary from text and write tokenizer.json."""
    from regard.commands.tokenizer import tokenizer as run

    trained = run(kind, texts, vocab=vocab, lowercase=lowercase, out=out, encoding=encoding)
    print(f"{out}: {trained.size} pieces")


@app.command()
def convert(
    source: Annotated[
        Path, Argument(help="Pickled weights (.bin, .pt, .pth, .ckpt), or ELMo's (.hdf5); or a folder with them.")
    ],
    out: Annotated[Path, Argument(help="The new folder.")],
    strip: Annotated[str, Option(metavar="PREFIX", help="Taken off the names of tensors.")] = "",
    config: Annotated[Path | None, Option(help="The model's config.json, if it is not beside the weights.")] = None,
    ignore: Annotated[
        list[str] | None,
        Option("--ignore-tensors", metavar="PATTERN", help="Leave out tensors by name, such as 'lm_head.*'."),
    ] = None,
) -> None:
    """Make pickled weights into safetensors, and leave tensors out; nothing in them is run."""
    from regard.commands.convert import convert as run

    print(run(source, out, strip=strip, config=config, ignore=ignore or ()))


@app.command()
def verify(folder: Annotated[Path, Argument(help="The folder of a model, or of a run.")]) -> None:
    """See that files are as they were written, and that every number of the model is there and finite."""
    from regard.commands.verify import verify as run

    for line in run(folder):
        print(line, flush=True)
