"""Several labels per text: learned by binary cross-entropy, answered by sigmoid, scored as scikit-learn does, saved as
Hugging Face transformers has it."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_tasks import learn, reference, small_reader, theirs, write_jsonl

import regard
from regard.commands.evaluate import evaluate
from regard.commands.load import load
from regard.data.labelled import LabelMap
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.tasks.classify import Classify
from regard.tasks.finetuned import Finetuned, finetuned, goes_on
from regard.tasks.label_metrics import exact_sets, f1_of_sets
from regard.tasks.multi_label import JudgedLabels, MultiLabel
from regard.viewer.looking import look

FILL, SAID = ["a", "film", "is", "the", "so"], {"insult": "fool", "threat": "beware", "toxic": "vile"}
WORDS = [*FILL, *SAID.values()]


def comments(count: int, seed: int) -> list[dict]:
    draw, rows = random.Random(seed), []
    for _ in range(count):
        labels = [label for label in SAID if draw.random() < 0.4]
        words = [*draw.choices(FILL, k=3), *(SAID[label] for label in labels)]
        draw.shuffle(words)
        rows.append({"text": " ".join(words), "labels": labels})
    return rows


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> tuple[Finetuned, Path]:
    folder = tmp_path_factory.mktemp("several")
    train, dev = (write_jsonl(folder / f"{n}.jsonl", comments(count, n)) for n, count in enumerate((240, 40)))
    return learn(folder, "classify", train, dev, WORDS, epochs=12.0), folder


def test_several_labels_are_learned(learned):
    found, folder = learned
    assert found.name == "multi-label" and isinstance(found.task, MultiLabel)  # since labels are JSON lists
    scores = found.evaluate(found.task.read(folder / "1.jsonl", Reading()))
    assert [score.key for score in scores[:3]] == ["f1_micro", "f1_macro", "exact match"] and scores[0].value > 95
    assert found("beware vile film").labels in (["threat", "toxic"], ["toxic", "threat"])
    assert found("the film is so") == JudgedLabels([], found("the film is so").probabilities)


def test_a_saved_folder_answers_the_same_and_says_what_it_is(learned):
    found, folder = learned
    config = json.loads((folder / "run/model/config.json").read_text())
    assert config["problem_type"] == "multi_label_classification" and config["regard_threshold"] == 0.5
    assert config["id2label"] == {"0": "insult", "1": "threat", "2": "toxic"}
    again = load(folder / "run", "cpu")
    assert again.name == "multi-label" and again.predict(["fool vile"]) == found.predict(["fool vile"])


def test_transformers_gives_the_same_probabilities_and_the_same_loss(learned):
    found, folder = learned
    model = reference(folder / "run" / "model", "AutoModelForSequenceClassification")
    assert model.config.problem_type == "multi_label_classification"
    texts = ["the fool is vile", "so a film", ""]
    framed = found.reader.framed([(text,) for text in texts])
    for number, answer in enumerate(found.predict(texts)):
        expected = theirs(model, framed, number).logits.sigmoid()[0].tolist()
        assert list(answer.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    data = found.task.read(folder / "1.jsonl", Reading())
    examples = found.task.examples(found.reader, data)
    ours = found.task.judge(found.model, examples.batch(np.arange(2)))
    one, other = (
        model(
            input_ids=tokens.ids[None], token_type_ids=types[None], labels=torch.from_numpy(examples.wanted[[number]])
        )
        for number in range(2)
        for tokens, types in [examples.framed.batch([number])]
    )
    assert ours.loss.item() == pytest.approx((one.loss + other.loss).item(), abs=1e-5) and int(ours.count) == 2


def test_the_pipeline_of_transformers_agrees(learned):
    transformers = pytest.importorskip("transformers")
    found, folder = learned
    place = str(folder / "run" / "model")
    pipeline = transformers.pipeline("text-classification", model=place, tokenizer=place, top_k=None, device="cpu")
    for text in ("the fool is vile", "beware"):
        expected = {one["label"]: one["score"] for one in pipeline([text])[0]}
        assert found(text).probabilities == pytest.approx(expected, abs=1e-5)


def test_a_folder_that_others_published_is_answered_by_sigmoid(tmp_path):
    reader = small_reader("classify", WORDS, outputs=3)
    names = {"0": "a", "1": "b", "2": "c"}
    reader.published.theirs.update(problem_type="multi_label_classification", id2label=names)
    reader.save(tmp_path / "theirs")
    found = load(tmp_path / "theirs", "cpu")
    scores = Classify.load(reader.published).predict(reader, ["a film"])[0].probabilities
    probabilities = found("a film").probabilities
    assert found.name == "multi-label" and sum(scores.values()) == pytest.approx(1)
    logits = {name: np.log(share / (1 - share)) for name, share in probabilities.items()}  # sigmoid backwards
    shares = np.exp([*logits.values()]) / np.exp([*logits.values()]).sum()
    assert shares == pytest.approx([*scores.values()], abs=1e-5)
    alone = small_reader("classify", WORDS, outputs=1)
    alone.published.theirs["problem_type"] = "multi_label_classification"
    assert finetuned(alone).name == "multi-label"


def test_a_head_that_answered_by_softmax_does_not_go_on(learned):
    found, _ = learned
    same = LabelMap(("insult", "threat", "toxic"))
    assert goes_on(found.reader.published, "multi-label", MultiLabel(same))
    assert not goes_on(found.reader.published, "classify", Classify(same))
    other = small_reader("classify", outputs=2).published
    assert not goes_on(other, "multi-label", MultiLabel(LabelMap(("LABEL_0", "LABEL_1"))))


def test_the_threshold_says_which_labels_hold(learned):
    found, folder = learned
    text, path = "vile film", folder / "1.jsonl"
    assert found(text).labels == ["toxic"]
    [every] = regard.classify(found, [text], threshold=1e-6)
    assert set(every.labels) == set(SAID) and every.probabilities == found(text).probabilities
    low, high = (evaluate(found, [path], threshold=at).scores for at in (1e-6, 0.5))
    assert low[0].value < high[0].value
    for wrong in (0.0, 1.0):
        with pytest.raises(UsageProblem, match="threshold"):
            list(regard.classify(found, [text], threshold=wrong))
    with pytest.raises(UsageProblem, match="only multi-label has one"):
        list(regard.classify("sentiment", [text], threshold=0.3))


def test_labels_that_training_lacks_are_counted_as_wrong(learned, tmp_path):
    found, _ = learned
    rows = [{"text": "vile film", "labels": ["toxic", "rude"]}, {"text": "the film", "labels": []}]
    data = found.task.read(write_jsonl(tmp_path / "a.jsonl", rows), Reading())
    scores = found.evaluate(data)
    assert found.task.unseen(data) == {"rude": 1} and [score.key for score in scores] == found.task.metrics(data)
    assert scores[0].value == pytest.approx(200 / 3) and scores[2].value == 50.0
    with pytest.raises(Problem, match="'rude' did not occur in training"):
        found.task.examples(found.reader, data)
    other = found.task.read(write_jsonl(tmp_path / "b.jsonl", [{"text": "x", "labels": ["rude"]}]), Reading())
    with pytest.raises(Problem, match=r"none of its labels \(rude\).*--label-map rude=insult"):
        found.evaluate(other)


def test_sets_of_labels_are_scored_as_scikit_learn_does():
    sklearn = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(0)
    for _ in range(20):
        said, wanted = chance.random((2, 12, 4)) < chance.random(4)
        micro, macro, *each = f1_of_sets(said, wanted, "abcd")
        f1 = {how: sklearn.f1_score(wanted, said, average=how, zero_division=0) for how in ("micro", "macro", None)}
        assert (micro.value, macro.value) == pytest.approx((100 * f1["micro"], 100 * f1["macro"]))
        assert [one.value for one in each] == pytest.approx(100 * f1[None])
        assert exact_sets(said, wanted).value == pytest.approx(100 * sklearn.accuracy_score(wanted, said))
    assert [one.metric for one in each] == ["f1 of a", "f1 of b", "f1 of c", "f1 of d"]


def test_what_cannot_be_learned(tmp_path):
    rows = [{"text": "x", "labels": []}, {"text": "y", "labels": []}]
    with pytest.raises(Problem, match="no example has a label"):
        MultiLabel.of(MultiLabel.read(write_jsonl(tmp_path / "a.jsonl", rows), Reading()))
    same = [{"text": text, "labels": ["a"]} for text in "xy"]
    with pytest.raises(Problem, match="all examples have the labels"):
        MultiLabel.of(MultiLabel.read(write_jsonl(tmp_path / "b.jsonl", same), Reading()))


def test_a_look_shows_the_probability_of_each_label(learned):
    found, _ = learned
    [shown] = look(found, "fool vile film").output["predictions"]
    assert dict(shown["top"]) == pytest.approx(found("fool vile film").probabilities, abs=1e-5)
