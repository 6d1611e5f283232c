"""Folders and what their models were fine-tuned for: ours say, and others' are known by their heads."""

import json

import pytest
from toy_tasks import small_reader

from regard.commands.load import load
from regard.data.labelled import LabelMap
from regard.tasks.answer import Answer
from regard.tasks.classify import Classify, Pair, Regress
from regard.tasks.finetuned import NAME, TASKS, Finetuned, finetuned, task_name, with_task
from regard.tasks.reader import Reader

HEADS = [
    ("classify", 2, "classify"),
    ("classify", 1, "regress"),
    ("choose", 1, "choose"),
    ("tag", 3, "tag"),
    ("answer", 2, "answer"),
]


@pytest.mark.parametrize("role, outputs, name", HEADS)
def test_a_head_says_what_it_is_for(role, outputs, name, tmp_path):
    reader = small_reader(role, outputs=outputs)
    reader.save(tmp_path / "published")
    found = load(tmp_path / "published", "cpu")
    assert isinstance(found, Finetuned) and found.name == name and type(found.task) is TASKS[name]
    assert found.task.outputs == outputs


def test_an_encoder_without_such_a_head_only_reads():
    assert isinstance(finetuned(small_reader("masked")), Reader)


def test_what_the_config_says_counts_if_the_head_is_there():
    reader = small_reader("classify")
    for said, name in {"pair": "pair", "regress": "regress", "tag": "classify", "unheard": "classify"}.items():
        reader.published.theirs[NAME] = said
        assert task_name(reader.published) == name


def test_a_folder_goes_back_as_it_came(tmp_path):
    """What is loaded and saved again without training gains no keys and changes no number."""
    reader = small_reader("answer")
    reader.save(tmp_path / "published")
    load(tmp_path / "published", "cpu").save(tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "published" / name).read_bytes()


LABELS, OTHERS = LabelMap(("bad", "good")), LabelMap(("no", "yes"))


def test_a_head_goes_on_only_with_the_same_task_and_labels():
    begun, fresh = with_task(small_reader("masked"), "classify", Classify(LABELS))
    out = ["classifier.bias", "classifier.weight"]
    assert fresh == ["bert.pooler.dense.bias", "bert.pooler.dense.weight", *out]
    assert begun.reader.published.theirs[NAME] == "classify"
    assert with_task(begun.reader, "classify", Classify(LABELS))[1] == []
    assert with_task(begun.reader, "classify", Classify(OTHERS))[1] == out
    assert with_task(begun.reader, "pair", Pair(LABELS))[1] == out
    assert with_task(begun.reader, "regress", Regress())[1] == out
    assert with_task(begun.reader, "answer", Answer())[1] == ["qa_outputs.bias", "qa_outputs.weight"]


def test_what_others_trained_goes_on():
    reader = small_reader("answer")  # whose config names no task and no labels
    assert with_task(reader, "answer", Answer(0.0))[1] == []
    reader = small_reader("classify")
    reader.published.theirs["id2label"] = {"0": "bad", "1": "good"}
    assert with_task(reader, "pair", Pair(LABELS))[1] == []


def test_names_of_an_earlier_task_do_not_stay(tmp_path):
    begun, _ = with_task(small_reader("masked"), "classify", Classify(LabelMap(("a", "b", "c"))))
    answers, _ = with_task(begun.reader, "answer", Answer())
    answers.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}  # or the reference library would expect three outputs
    assert config[NAME] == "answer" and config["architectures"] == ["BertForQuestionAnswering"]
