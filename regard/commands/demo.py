"""demo: a tour of the models in the box: what each command answers when no model is named, and where to see more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from regard.box import boxed
from regard.commands.embed import embed
from regard.commands.fill import fill
from regard.commands.generate import generate
from regard.commands.look import look
from regard.commands.predict import classify, tag
from regard.commands.translate import translate
from regard.decoding.generate import Writing
from regard.viewer.saving import save

GERMAN = "Ein Mann fährt mit dem Fahrrad durch den Park."
ENGLISH = "Two children are playing with a dog in the snow."
HIDDEN = "She opened the [MASK] and went into the house."
BEGUN = "The old man looked at the sea"
REVIEWS = ("A warm, funny film that I would gladly see again.", "The plot is dull and the jokes fall flat.")
NEWS = "Angela Merkel met the head of Siemens in Munich on Friday."
ALIKE = ("The government raised taxes.", "Taxes were increased by the state.", "A cat slept on the sofa.")
WRITING = Writing(most=40, temperature=0.7, top_p=0.9, penalty=1.1)
PICTURE = "view.html"


def demo(out: str | Path = "runs/demo") -> None:
    """Show each command with its answer, and how long all of them took."""
    start = time.perf_counter()
    page = Path(out) / PICTURE
    steps: list[tuple[str, Callable[[], Iterator[str]]]] = [
        (f"translate {quoted(GERMAN)}", partial(translated, GERMAN, "en")),
        (f"translate --to de {quoted(ENGLISH)}", partial(translated, ENGLISH, "de")),
        (f"fill {quoted(HIDDEN)}", filled),
        (f"generate {quoted(BEGUN)} --most 40 --temperature 0.7 --top-p 0.9 --penalty 1.1", written),
        *((f"classify {quoted(review)}", partial(classified, review)) for review in REVIEWS),
        (f"tag {quoted(NEWS)}", tagged),
        (f"embed {quoted(*ALIKE)}", compared),
        (f"look --model translate-de-en {quoted(GERMAN)} -o {page}", partial(looked, page)),
    ]
    for command, answer in steps:
        print(f"$ regard {command}", flush=True)
        print(*(f"  {line}" for line in answer()), "", sep="\n", flush=True)
    print(f"All of this took {time.perf_counter() - start:.0f} s.  {page} opens in any browser, without a network.")
    print("The page, for texts of your own: regard serve, and then open http://127.0.0.1:8000")


def quoted(*texts: str) -> str:
    return " ".join(f'"{text}"' for text in texts)


def translated(text: str, target: str) -> Iterator[str]:
    for found in translate(boxed("translate", target=target), [text]):
        yield found[0].text


def filled() -> Iterator[str]:
    [words] = fill(boxed("fill"), HIDDEN)
    yield from (f"{one.probability:.4f}  {one.word}" for one in words)


def written() -> Iterator[str]:
    for found in generate(boxed("generate"), [BEGUN], WRITING):
        yield from (BEGUN + found.text).splitlines()


def classified(text: str) -> Iterator[str]:
    for found in classify(boxed("classify"), [text]):
        yield f"{found.label}  {found.probability:.4f}"


def tagged() -> Iterator[str]:
    for found in tag(boxed("tag"), [NEWS]):
        yield from (f"{one.kind:<5} {one.text}" for one in found.entities)


def compared() -> Iterator[str]:
    """Vectors say little to people: how near each is to the first, by the cosine."""
    vectors = embed(boxed("embed"), ALIKE)
    yield f"{len(vectors)} vectors of {vectors.shape[1]} numbers; how near each text is to the first, by their cosine:"
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    yield from (f"{nearness:.2f}  {text}" for nearness, text in zip(vectors @ vectors[0], ALIKE, strict=True))


def looked(page: Path) -> Iterator[str]:
    for path in save([look(boxed("translate"), GERMAN)], page):
        yield f"wrote {path}: which words each word of the translation looked at"
