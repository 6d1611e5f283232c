import os
from pathlib import Path

import pytest

from regard.data.describe import Spread, describe_parallel
from regard.data.parallel import Parallel, encode, read_parallel
from regard.text.tokenizer import Tokenizer

WORDS = Tokenizer.train("words", ["a b c d e f g h"])


def test_facts_and_warnings():
    train = Parallel(["a b", "a b", "c", "", "a b c d e", "f z"], ["b a", "b a", "d", "e", "a", "z z"])
    dev = Parallel(["c", "a b", "h"], ["d", "g", "h"])
    told = describe_parallel(train, encode(train, WORDS, WORDS, 4), dev, None, WORDS, WORDS)
    assert (told.pairs, told.empty, told.overlong, told.duplicates) == (6, 1, 1, 1)
    assert (told.source.total, told.target.total) == (7, 7)
    assert told.source.pieces == Spread(2, 2, 2) and told.source.characters == Spread(3, 9, 9)
    assert told.source.unknown == pytest.approx(1 / 7) and told.target.unknown == pytest.approx(2 / 7)
    (overlap,) = told.overlaps
    assert (overlap.name, overlap.pairs, overlap.sources, overlap.both) == ("dev", 3, 2, 1)
    expected = ["dev: 2 of 3", "33% of the pairs", "17% of the training", "14% of the source", "29% of the target"]
    assert all(warning.startswith(start) for warning, start in zip(told.warnings(), expected, strict=True))
    assert told.lines()[-1] == f"warning: {told.warnings()[-1]}"


def test_clean_text_has_no_warnings():
    train, dev, test = (Parallel([one], [other]) for one, other in (("a", "b"), ("c", "d"), ("e", "f")))
    told = describe_parallel(train, encode(train, WORDS, WORDS, 4), dev, test, WORDS, WORDS)
    assert not told.warnings() and [overlap.name for overlap in told.overlaps] == ["dev", "test"]


def test_multi30k():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA does not name a folder of data")
    folder = Path(os.environ["REGARD_DATA"]) / "multi30k"
    names = ("train", "val", "test_2016_flickr")
    train, dev, test = (read_parallel(folder / f"{name}.en.gz", folder / f"{name}.de.gz") for name in names)
    words = Tokenizer.train("words", [*train.sources, *train.targets])
    told = describe_parallel(train, encode(train, words, words, 30), dev, test, words, words)
    assert (told.pairs, told.empty, len(train), len(dev), len(test)) == (29_000, 0, 29_000, 1_014, 1_000)
    assert told.source.words.median == 11 and 0 < told.overlong < 1_000
    assert all(overlap.both == 0 for overlap in told.overlaps)
