"""Labels and numbers for texts: learned, saved, the reference library's numbers, and labels that cannot be."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_tasks import learn, ours, reference, small_reader, theirs, write_lines

from regard.commands.load import load
from regard.data.labelled import LabelMap
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.tasks.classify import Classify, Judged, Pair, Regress
from regard.tasks.finetuned import Finetuned, with_task
from regard.tasks.task import unseen_warnings

GOOD, BAD, FILL = (
    ["good", "great", "fine", "lovely"],
    ["bad", "awful", "poor", "dull"],
    ["a", "film", "is", "the", "so"],
)
WORDS = [*GOOD, *BAD, *FILL]


def said(draw: random.Random, words: list[str]) -> str:
    return " ".join([*draw.choices(FILL, k=draw.randint(1, 4)), draw.choice(words), *draw.choices(FILL, k=2)])


def reviews(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    labels = [draw.choice(["neg", "pos"]) for _ in range(count)]
    return ["sentence\tlabel", *(f"{said(draw, BAD if label == 'neg' else GOOD)}\t{label}" for label in labels)]


def pairs(count: int, seed: int) -> list[str]:
    """Does the second text like it, whatever the first says?"""
    draw, rows = random.Random(seed), ["text1\ttext2\tlabel"]
    for _ in range(count):
        one, other = draw.choice([GOOD, BAD]), draw.choice([GOOD, BAD])
        rows.append(f"{said(draw, one)}\t{said(draw, other)}\t{int(other is GOOD)}")
    return rows


def stars(count: int, seed: int) -> list[str]:
    """How many good words there are, from 10 on."""
    draw, rows = random.Random(seed), ["text\tscore"]
    for _ in range(count):
        good = draw.randint(0, 3)
        words = [*draw.choices(GOOD, k=good), *draw.choices(BAD, k=3 - good)]
        draw.shuffle(words)
        rows.append(f"{' '.join(words)}\t{10 + 2.5 * good}")
    return rows


MADE = {"classify": reviews, "pair": pairs, "regress": stars}


@pytest.fixture(scope="module", params=MADE)
def learned(request, tmp_path_factory) -> tuple[Finetuned, Path]:
    folder, made = tmp_path_factory.mktemp(request.param), MADE[request.param]
    train, dev = (write_lines(folder / f"{n}.tsv", made(count, n)) for n, count in enumerate((240, 40)))
    epochs = {"classify": 4.0, "pair": 10.0, "regress": 10.0}[request.param]
    return learn(folder, request.param, train, dev, WORDS, epochs=epochs), folder


GIVEN = {
    "classify": ["the film is good", "a awful film", ""],
    "pair": [("the film is good", "so lovely film"), ("a film so dull", "great")],
    "regress": ["good great bad", "awful bad poor"],
}


def test_it_is_learned(learned):
    finetuned, folder = learned
    scores = finetuned.evaluate(type(finetuned.task).read(folder / "1.tsv", Reading()))
    assert scores[0].value > 95
    if finetuned.name == "classify":
        found = finetuned("the film is lovely")
        assert isinstance(found, Judged) and found.label == "pos" and found.probability == found.probabilities["pos"]
        assert sum(found.probabilities.values()) == pytest.approx(1)
    if finetuned.name == "regress":
        assert finetuned("good great fine") == pytest.approx(17.5, abs=1) and finetuned("bad bad dull") < 12


def test_a_saved_folder_does_the_same(learned):
    finetuned, folder = learned
    again = load(folder / "run", "cpu")
    assert isinstance(again, Finetuned) and again.name == finetuned.name
    assert again.predict(GIVEN[finetuned.name]) == finetuned.predict(GIVEN[finetuned.name])


def test_the_reference_library_gives_the_same_scores_and_names(learned):
    finetuned, folder = learned
    model = reference(folder / "run" / "model", "AutoModelForSequenceClassification")
    texts = [(given,) if isinstance(given, str) else given for given in GIVEN[finetuned.name]]
    framed = finetuned.reader.framed(texts)
    for number in range(len(texts)):
        scores = ours(finetuned.reader, "classify", framed, number)
        assert torch.allclose(scores, theirs(model, framed, number).logits, atol=1e-5)
    if finetuned.name == "regress":
        assert model.config.problem_type == "regression"
        assert finetuned.predict(GIVEN["regress"])[-1] == pytest.approx(float(scores))  # in its own units
    else:
        assert model.config.id2label == dict(enumerate(finetuned.task.labels.names))


def test_numbers_that_were_learned_go_on_in_other_units(tmp_path):
    reader = small_reader("classify", WORDS, outputs=1)
    reader.published.theirs["problem_type"] = "regression"
    before = Regress().predict(reader, ["a good film", "dull"])
    finetuned, fresh = with_task(reader, "regress", Regress(10.0, 4.0))
    assert fresh == []
    finetuned.model.eval()
    assert finetuned.predict(["a good film", "dull"]) == pytest.approx(before, abs=1e-4)
    finetuned.task.finish(finetuned.model)
    assert finetuned.predict(["a good film", "dull"]) == pytest.approx(before, abs=1e-4)


def test_two_halves_of_a_batch_are_the_whole(tmp_path):
    for kind, lines in ((Classify, reviews(6, 3)), (Pair, pairs(6, 3)), (Regress, stars(6, 3))):
        data = kind.read(write_lines(tmp_path / "a.tsv", lines), Reading())
        task = kind.of(data)
        reader = small_reader("classify", WORDS, outputs=task.outputs)
        examples = task.examples(reader, data)
        whole, *halves = (
            task.judge(reader.model, examples.batch(n)) for n in (np.arange(6), np.arange(3), np.arange(3, 6))
        )
        assert torch.allclose(whole.loss, sum(half.loss for half in halves), atol=1e-5) and int(whole.count) == 6


def test_labels_that_cannot_be_learned_or_scored(tmp_path):
    train = Classify.read(write_lines(tmp_path / "train.tsv", reviews(9, 0)), Reading())
    dev = Classify.read(
        write_lines(tmp_path / "dev.tsv", ["sentence\tlabel", "a film\tpos", "the film\tmixed"]), Reading()
    )
    task = Classify.of(train)
    with pytest.raises(Problem, match=r"dev\.tsv, line 3: the label 'mixed' did not occur in training"):
        task.examples(small_reader("classify"), dev)
    one = Classify.read(
        write_lines(tmp_path / "one.tsv", ["sentence\tlabel", "a film\tpos", "the film\tpos"]), Reading()
    )
    with pytest.raises(Problem, match="all examples have the label 'pos'"):
        Classify.of(one)
    same = Regress.read(write_lines(tmp_path / "same.tsv", ["text\tscore", "a\t2", "b\t2"]), Reading())
    with pytest.raises(Problem, match="all examples have the number 2"):
        Regress.of(same)
    words = write_lines(tmp_path / "words.tsv", ["text\tscore", "a\t2", "b\tfour"])
    with pytest.raises(Problem, match=r"words\.tsv, line 3: the label 'four' is no finite number"):
        Regress.read(words, Reading())


def judged(*labels: str) -> list[Judged]:
    return [Judged(label, 1.0, {}) for label in labels]


def test_labels_that_were_never_learned_are_counted_as_wrong(tmp_path):
    task = Classify.of(Classify.read(write_lines(tmp_path / "train.tsv", reviews(9, 0)), Reading()))
    rows = ["sentence\tlabel", "a film\tpos", "the film\tmixed", "film\tmixed"]
    dev = Classify.read(write_lines(tmp_path / "dev.tsv", rows), Reading())
    task.check(dev)
    assert task.unseen(dev) == {"mixed": 2}
    [warning] = unseen_warnings(task.unseen(dev), dev.source)
    assert "dev.tsv: 2 labels did not occur in training and are counted as wrong: 'mixed' (2)" in warning
    scores = task.score(judged("pos", "pos", "neg"), dev)
    assert [score.key for score in scores] == task.metrics(dev) == ["accuracy", "f1 of pos", "f1_macro", "matthews"]
    sklearn = pytest.importorskip("sklearn.metrics")
    macro = sklearn.f1_score(dev.labels, ["pos", "pos", "neg"], average="macro", zero_division=0)
    assert (scores[0].value, scores[2].value) == pytest.approx((100 / 3, 100 * macro))


def test_a_label_map_lets_names_meet(tmp_path):
    task = Classify(LabelMap(("negative", "positive")))
    path = write_lines(tmp_path / "dev.tsv", ["sentence\tlabel", "a film\t1", "the film\t-1", "film\tpositive"])
    with pytest.raises(Problem, match=r"none of its labels \(1\).*negative, positive.*--label-map 1=negative"):
        task.check(Classify.read(write_lines(tmp_path / "ones.tsv", ["sentence\tlabel", "a film\t1"]), Reading()))
    assert Classify.read(path, Reading()).unlabelled == 1
    renamed = Classify.read(path, Reading(label_map=("-1=negative", "1=positive")))
    assert renamed.labels == ["positive", "negative", "positive"] and not task.unseen(renamed)
    for entries, says in ((("1",), "give a label of the file"), (("1=a", "1=b"), "called both 'a' and 'b'")):
        with pytest.raises(UsageProblem, match=says):
            Reading(label_map=entries)


def test_rows_that_are_cut_are_told(tmp_path):
    data = Classify.read(write_lines(tmp_path / "a.tsv", [*reviews(3, 0), "film " * 99 + "\tpos"]), Reading())
    examples = Classify.of(data).examples(small_reader("classify", WORDS), data)
    assert examples.notes == [f"warning: 1 of {len(examples)} examples truncated to 48 tokens"]


def test_odd_texts_are_texts():
    reader = small_reader("classify", WORDS)
    task = Classify.load(reader.published)
    found = task.predict(reader, ["", "[SEP] [CLS]", "film " * 500, ("a", ""), "漢字 🙂 \ud800"])
    assert [judged.label in ("LABEL_0", "LABEL_1") for judged in found] == [True] * 5
    assert (np.array(reader.row("[SEP] [CLS]")[0]) == reader.tokenizer.end).sum() == 1
    assert task.predict(reader, []) == []
    with pytest.raises(UsageProblem, match="3 texts together"):
        task.predict(reader, [("a", "b", "c")])
