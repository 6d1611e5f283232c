"""Every part of IMDb's recipe, on made-up reviews and models that are learned in a second."""

import json
import lzma
import random

import pytest

from recipes import imdb
from regard.data.lines import read_lines
from regard.text.tokenizer import Tokenizer

NEUTRAL = ["the", "film", "has", "a", "plot", "and", "some", "actors", "who", "say", "what", "they", "were", "told"]
PRAISE, BLAME = "It's wonderful, isn't it?<br /><br />Loved it!", "Don't watch it... I can't say how bad it was."


def packed(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def review(number, label, draw):
    verdict = {1: PRAISE, 0: BLAME, -1: ""}[label]
    return json.dumps(
        {"id": number, "label": label, "text": f"{' '.join(draw.choices(NEUTRAL, k=30))}. {verdict}".strip()}
    )


@pytest.fixture
def data(tmp_path, monkeypatch):
    draw = random.Random(0)
    labels = {"train": [0] * 20 + [1] * 20, "test": [0] * 5 + [1] * 5, "unsup": [-1] * 10}
    for part, of in labels.items():
        packed(tmp_path / f"imdb/{part}.jsonl.xz", [review(n, label, draw) for n, label in enumerate(of)])
    for part in ("wiki", "news", "books", "valid"):
        packed(tmp_path / f"pretrain-mini/{part}.txt.xz", [" ".join(draw.choices(NEUTRAL, k=60)), "", "Zyzzyva!"])
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_COMMIT", "none")
    return tmp_path


def recipe(folder, monkeypatch, *told):
    folders = ["--out", str(folder / "runs"), "--results", str(folder / "results")]
    monkeypatch.setattr("sys.argv", ["imdb", *told, *folders, "--small"])
    imdb.main()


def test_words_are_cut_as_in_the_treebank():
    assert " ".join(imdb.words("I can’t say it's GOOD... 7/10!")) == "i ca n't say it 's good ... 7 / 10 !"


def test_every_row_gets_its_error(data, monkeypatch):
    recipe(data, monkeypatch, "--part", "text")
    text = data / "runs/text"
    rows = {part: list(read_lines(text / f"{part}.jsonl.xz")) for part in ("train", "valid", "test")}
    assert {part: len(lines) for part, lines in rows.items()} == {"train": 36, "valid": 4, "test": 10}
    assert [json.loads(line)["label"] for line in rows["valid"]] == [0, 0, 1, 1]
    assert "<unk> !" in list(read_lines(text / "general.txt.xz"))
    tokenizer = Tokenizer.load(text / "tokenizer.json")
    assert tokenizer.unknown not in tokenizer.encode("was n't it wonderful ?")

    recipe(data, monkeypatch, "--part", "corpora")
    for name in imdb.ROWS:
        for part in imdb.parts_of(name):
            recipe(data, monkeypatch, "--part", part, "--row", name)
    lines = [json.loads(line) for line in (data / "results/language-models.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [row.name for row in imdb.ROWS.values()]
    assert all(0 <= line["value"] <= 100 and line["flops"] > 0 and line["metric"] == "error" for line in lines)
    assert lines[2]["flops"] > lines[0]["flops"]  # telling words is work too


def test_a_review_is_judged_by_its_end(data, monkeypatch):
    recipe(data, monkeypatch, "--part", "text")
    recipe(data, monkeypatch, "--part", "classify", "--row", "scratch")
    read = [json.loads(line)["text"] for line in read_lines(data / "runs/train-20.jsonl")]
    assert all(len(text.split()) == 20 for text in read)
    assert read[0].endswith("how bad it was .") and read[-1].endswith("loved it !")


def test_a_row_is_asked_for(data, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        recipe(data, monkeypatch, "--part", "language")
    assert "--part language needs --row" in capsys.readouterr().err
