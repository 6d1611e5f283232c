"""The recipe of frozen features from text to table, on a toy language."""

import json
import lzma

import numpy as np
import pytest

from recipes import word_features
from regard.commands.load import load_reader
from regard.text.vectors import Vectors

PLACES, PEOPLE = ("He was in {}.", "They flew to {}, yesterday."), ("He met {}.", "They spoke with {}, yesterday.")
NAMES = ("Jordan", "Lincoln", "Sydney", "Florence")


def write(path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode()))


def sentences():
    for frames, tag in ((PLACES, "LOC"), (PEOPLE, "PER")):
        for frame in frames:
            for name in NAMES:
                yield frame.format(name), name, tag


def conll() -> str:
    """Names are places' and people's: a word alone does not tell."""
    rows = []
    for sentence, name, tag in sentences():
        words = sentence.replace(".", " .").replace(",", " ,").split()
        rows.append("".join(f"{word} X X {f'I-{tag}' if word == name else 'O'}\n" for word in words))
    return "\n".join(rows * 12)


@pytest.fixture
def data(tmp_path, monkeypatch):
    text = "\n".join(sentence for sentence, _, _ in sentences())
    for part in ("wiki", "news", "books", "valid"):
        write(tmp_path / "data/pretrain-mini" / f"{part}.txt.xz", "\n".join([text] * 10))
    for part in ("train", "testa"):
        write(tmp_path / "data/conll2003" / f"eng.{part}.xz", conll())
    words = ["he", "was", "in", "they", "flew", "to", "met", "spoke", "with", *map(str.lower, NAMES)]
    glove = Vectors(words, np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32))
    glove.write(tmp_path / "glove.txt", "glove")
    write(tmp_path / "data/glove-6b-50d/glove.6B.50d.top20k.txt.xz", (tmp_path / "glove.txt").read_text())
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGARD_COMMIT", "toy")
    monkeypatch.setattr(word_features, "packaged", lambda: None)  # it may be installed, and knows other words
    monkeypatch.setattr(word_features, "BERT", ("last",))
    monkeypatch.setitem(word_features.SETTINGS, "budget", 256)
    monkeypatch.setitem(word_features.SETTINGS, "longest", 16)
    return tmp_path


def test_from_text_to_table(data):
    where = ["--out", str(data / "run"), "--results", str(data / "results")]
    word_features.main(["--part", "vectors", *where])
    small = ["--preset", "elmo-tiny", "--steps", "20", "--read", "60", "--told", "12"]
    word_features.main(["--part", "elmo", *small, *where])
    word_features.main(["--part", "probe", "--bert", str(data / "run/elmo/model"), *where])  # any encoder will do
    lines = [json.loads(line) for line in (data / "results/language-models.jsonl").read_text().splitlines()]
    f1 = {line["row"]: line["value"] for line in lines if line["metric"] == "entity F1"}
    assert sum(row.startswith("ELMo") for row in f1) == 5 and "BERT, 2 layers of 32: last" in f1
    static = [value for row, value in f1.items() if row.startswith(("GloVe", "Skip-gram"))]
    assert len(static) == 4 and all(alone < around for alone, around in zip(static[::2], static[1::2], strict=True))
    assert f1["ELMo, 2 layers of 32: all side by side"] > f1["ELMo, 2 layers of 32: characters"]
    written = load_reader(data / "run/elmo/model").model.heads["write"]
    assert written.out.out_features == 12
