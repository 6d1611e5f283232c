"""Pictures of the page for docs/looking.md: one of each view, and one in the dark.

    regard train image MNIST/train-images-idx3-ubyte.gz --no-flip --crop none --mixed 0 --epochs 1 --out runs/digits
    python -m recipes.screenshots --seer runs/digits --picture digit.png

Other models are those in the box, unless they are named (--encoder, --translator, --writer); where it lacks one,
another takes its place.  States and gates are those of an LSTM that learns first to write dates (two minutes of a CPU
core; kept in --work).  Needs playwright and a chromium; Pillow, where it is installed, makes the files smaller.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from regard.box import boxes
from regard.checkpoints.files import write_file
from regard.commands.demo_dates import corpus
from regard.commands.look import look
from regard.commands.settings import TranslationSettings
from regard.commands.translation_run import TranslationRun
from regard.models.seq2seq import seq2seq
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.viewer.look import Look

SIZE = {"width": 1280, "height": 800}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAUSE = 800  # milliseconds: rows of the grid come when they are in sight, bars when they are computed
DRAWN = "#stage[aria-busy=false] > .view:not(.pending)"  # when a view is whole
COLOURS = (256, 128, 64, 32)  # of a picture: the most with which it is small enough
LARGEST = 120_000  # bytes
TEXT = "The animal did not cross the street because it was too tired."
GERMAN = "Ein Mann fährt mit dem Fahrrad durch den Park."
DATE = "Saturday, 24 December 2011"
BEGINNING = "The old man looked at the sea"
BOXED = {"encoder": "encoder", "translator": "translate-de-en", "writer": "language-model"}  # role -> name in the box


@dataclass(frozen=True)
class Picture:
    """A view of a look, as the page's address has it."""

    file: str
    look: str  # whose: a role, or several of which the first that is there is taken
    address: str
    token: str = ""  # that is chosen, if any
    keys: str = ""  # pressed after that
    scroll: str = ""  # what is to be in sight, by its selector
    theme: str = "light"


PICTURES = (
    Picture("picture.png", "seer", "view=picture"),
    Picture("matrix.png", "translator rnn", "view=matrix&attention=cross"),
    Picture("heads.png", "encoder", "view=heads&layer=2", "it"),
    Picture("grid.png", "encoder", "view=grid"),
    Picture("text.png", "encoder", "view=text&layer=2", "it"),
    Picture("rollout.png", "encoder", "view=rollout&layer=2&specials=hidden", "it", scroll=".accountbars"),
    Picture("dimensions.png", "encoder", "view=dimensions&layer=2", "it"),
    Picture("number.png", "encoder", "view=number&layer=2", "it", keys="n n n"),
    Picture("compare.png", "encoder", "view=compare&layer=2&specials=hidden"),
    Picture("states.png", "rnn", "view=states"),
    Picture("dark.png", "writer encoder", "view=heads&layer=1", theme="dark"),
)


def main() -> None:
    options = asked()
    torch.set_num_threads(1)
    looks = looks_of(options)
    files = {role: options.work / f"{role}.html" for role in looks}
    for role, seen in looks.items():
        seen.save(files[role])
    with browser(options.chromium) as opened:
        for picture in PICTURES:
            shown = next((role for role in picture.look.split() if role in looks), None)
            if shown is None:
                print(f"{picture.file} is left out: no model for {picture.look}")
                continue
            content = smaller(taken(opened, picture, looks[shown], files[shown]))
            write_file(options.out / picture.file, content)
            print(f"{options.out / picture.file}: {shown}, {len(content):,} bytes")


def asked() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    for role, name in BOXED.items():
        parser.add_argument(f"--{role}", type=Path, help=f"its folder; {name} of the box, if not given")
    parser.add_argument("--seer", type=Path, help="the folder of a model that reads pictures")
    parser.add_argument("--picture", type=Path, help="for it to look at")
    parser.add_argument("--out", type=Path, default=Path("docs/views"))
    parser.add_argument("--work", type=Path, default=Path("runs/screenshots"), help="where the LSTM is kept")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    return parser.parse_args()


# What is looked at


def looks_of(options: Namespace) -> dict[str, Look]:
    """A look by each role whose model is there."""
    given = {role: getattr(options, role) or boxes().get(name) for role, name in BOXED.items()}
    texts = {"encoder": {"text": TEXT}, "translator": {"text": GERMAN}, "writer": {"text": BEGINNING, "write": 12}}
    looks = {role: look(folder, **texts[role]) for role, folder in given.items() if folder}  # type: ignore[arg-type]
    if options.seer:
        looks["seer"] = look(options.seer, str(options.picture))
    return {**looks, "rnn": look(dates(options.work), DATE, name="LSTM that writes dates")}


def dates(work: Path) -> Any:
    """An LSTM with attention that has learned to write dates the ISO way."""
    files = corpus(work / "dates")
    optimizer = OptimizerConfig(rate=4e-3, schedule="linear", warmup=100)
    training = TrainingConfig(steps=1500, optimizer=optimizer)
    told = TranslationSettings(
        files["train"], files["dev"], tokenizer="characters", budget=768, smoothing=0.0, training=training
    )
    return TranslationRun(told, seq2seq("cosine", cell="lstm", width=128, dropout=0.0), work / "lstm").go()


# How it is shown


@contextmanager
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


def taken(opened: Any, picture: Picture, seen: Look, file: Path) -> bytes:
    """The page of a file, with what is to be seen chosen."""
    context = opened.new_context(viewport=SIZE, color_scheme=picture.theme)
    page = context.new_page()
    page.goto(f"{file.resolve().as_uri()}#{picture.address}")
    page.wait_for_selector(DRAWN)
    for key in ["ArrowRight"] * steps_to(seen, picture) + picture.keys.split():
        page.keyboard.press(key)
        page.wait_for_selector(DRAWN)
    if picture.scroll:
        page.locator(picture.scroll).scroll_into_view_if_needed()
    page.wait_for_timeout(PAUSE)
    content = page.screenshot()
    context.close()
    return content


def steps_to(seen: Look, picture: Picture) -> int:
    """How often the arrow key is pressed until the token is chosen."""
    if not picture.token:
        return 0
    side = seen.sides["text"].header()
    hidden = "specials=hidden" in picture.address
    tokens = [text for text, special in zip(side["shown"], side["special"], strict=True) if not (special and hidden)]
    return tokens.index(picture.token) + 1


def smaller(content: bytes) -> bytes:
    """The same picture in few colours, if there is what makes it so."""
    if find_spec("PIL") is None:
        return content
    from PIL import Image

    picture = Image.open(BytesIO(content)).convert("RGB")
    for colours in COLOURS:
        found = BytesIO()
        picture.quantize(colours).save(found, "PNG", optimize=True)
        if found.tell() <= LARGEST:
            break
    return found.getvalue()


if __name__ == "__main__":
    main()
