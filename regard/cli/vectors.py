"""Commands on word vectors: learn them, ask them, score them, convert them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli.app import app, default_sigpipe, plain
from regard.cli.options import Device, Encoding
from regard.commands.vectors import VECTORS

vectors_app = plain(help="Word vectors: learn, ask, score, convert them.")
app.add_typer(vectors_app, name="vectors")
File = Annotated[Path, Option("--vectors", help="word2vec's text or binary form, or GloVe's; .gz and .xz too.")]
SkipBad = Annotated[int, Option(metavar="N", help="Leave out up to N faulty vectors.", min=0)]
Best = Annotated[int, Option(help="How many words.", min=1)]
Form = Annotated[
    Literal["text", "binary", "glove"] | None,
    Option(help="word2vec's text or binary form, or GloVe's text; by default binary for .bin, else text."),
]


@vectors_app.command("train")
def train(
    kind: Annotated[Literal["skip-gram", "cbow", "glove"], Argument(help="How vectors are learned.")],
    texts: Annotated[list[Path], Argument(help="Text files, JSON lines or Parquet; .gz and .xz too.")],
    out: Annotated[Path, Option(help="Where to write them.")] = Path("vectors.txt"),
    form: Form = None,
    size: Annotated[int, Option(help="Numbers of a vector.")] = VECTORS.size,
    window: Annotated[int, Option(help="Words to each side that are near.")] = VECTORS.window,
    epochs: Annotated[
        int, Option(help="Times that the text, or its counts, are gone through; 0: 5, for glove 15.")
    ] = VECTORS.epochs,
    min_count: Annotated[int, Option(help="Words that occur less often are left out.")] = VECTORS.min_count,
    vocab: Annotated[int, Option(help="Keep so many words, the most frequent; 0: all.")] = VECTORS.vocab,
    negatives: Annotated[int, Option(help="Noise words to a near one; not for glove.")] = VECTORS.negatives,
    sample: Annotated[
        float, Option(help="Words are left out by chance above this share of the text; 0: none. Not for glove.")
    ] = VECTORS.sample,
    common: Annotated[float, Option(help="For glove: the count from which pairs weigh alike.")] = VECTORS.common,
    rate: Annotated[float, Option(help="The highest learning rate; 0: the kind's own.")] = VECTORS.rate,
    lowercase: Annotated[bool, Option(help="Forget upper case.")] = VECTORS.lowercase,
    spaces: Annotated[bool, Option("--spaces", help="Words are what spaces separate.")] = VECTORS.spaces,
    seed: Annotated[int, Option(help="Of everything random.")] = VECTORS.seed,
    column: Annotated[str | None, Option(help="Of JSON lines or Parquet, the one that holds the text.")] = None,
    encoding: Encoding = "utf-8",
    device: Device = None,
) -> None:
    """Learn a vector for each word of a text."""
    from regard.commands.vectors import train_vectors as run

    found = run(
        kind, texts, out=out, form=form, device=device, encoding=encoding, column=column, size=size, window=window,
        epochs=epochs, min_count=min_count, vocab=vocab, negatives=negatives, sample=sample, common=common, rate=rate,
        lowercase=lowercase, spaces=spaces, seed=seed,
    )  # fmt: skip
    print(f"{out}: {len(found):,} words of {found.width} numbers", file=sys.stderr)


@vectors_app.command("near")
def near(
    words: Annotated[list[str], Argument(help="One word, or several.")],
    vectors: File,
    best: Best = 10,
    skip_bad: SkipBad = 0,
) -> None:
    """The words nearest to a word: similarity and word, tab-separated; of several, first the one asked for."""
    from regard.commands.vectors import vectors as read

    default_sigpipe()
    known = read(vectors, skip_bad)
    answers = [(word, known.near(word, best)) for word in words]
    for word, found in answers:
        for one in found:
            print(f"{word}\t" * (len(words) > 1) + f"{one.similarity:.4f}\t{one.word}")


@vectors_app.command("analogy")
def analogy(
    one: Annotated[str, Argument(help="As this word,")],
    other: Annotated[str, Argument(help="is to this one,")],
    third: Annotated[str, Argument(help="so is this word to what is looked for.")],
    vectors: File,
    best: Best = 10,
    skip_bad: SkipBad = 0,
) -> None:
    """As man is to king, so is woman to: similarity and word, tab-separated."""
    from regard.commands.vectors import vectors as read

    default_sigpipe()
    for found in read(vectors, skip_bad).analogy(one, other, third, best):
        print(f"{found.similarity:.4f}\t{found.word}")


@vectors_app.command("score")
def score(
    vectors: Annotated[Path, Argument(help="A file of vectors.")],
    data: Annotated[
        Path | None,
        Option(
            help="Holds wordsim353.tsv, simlex999.txt, questions-words.txt; by default $REGARD_DATA/word-similarity."
        ),
    ] = None,
    skip_bad: SkipBad = 0,
) -> None:
    """How good vectors are: by pairs that people have compared, and by analogies; of those whose words are known."""
    from regard.commands.vectors import score_vectors
    from regard.commands.vectors import vectors as read

    for name, one in score_vectors(read(vectors, skip_bad), data).items():
        print(f"{name:<50} {one.metric} {one.value:6.2f}  ({one.detail})")


@vectors_app.command("convert")
def convert(
    source: Annotated[Path, Argument(help="A file of vectors.")],
    out: Annotated[Path, Argument(help="The new file; packed if it is called .gz or .xz.")],
    form: Form = None,
    skip_bad: SkipBad = 0,
) -> None:
    """Write vectors in another form."""
    from regard.commands.vectors import convert_vectors as run

    found = run(source, out, form, skip_bad)
    print(f"{out}: {len(found):,} words of {found.width} numbers", file=sys.stderr)
