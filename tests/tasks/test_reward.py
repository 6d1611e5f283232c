"""What a text is worth: learned from pairs, by language models and encoders; and the reference library's numbers."""

from __future__ import annotations

import json

import pytest
import torch
from toy_tasks import learn, reference, write_jsonl

from regard.commands.finetune import finetune
from regard.data.reading import Reading
from regard.errors import Problem
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.tasks.finetuned import finetuned
from regard.tasks.reader import Reader
from regard.tasks.reward import Reward, laid
from regard.text.tokenizer import GPT, Tokenizer

WORDS = ["good", "bad", "film", "the", "is", "so"]
PAIRS = [
    {"prompt": f"the film {'so ' * (n % 3)}", "chosen": f"is {'so ' * (n % 2)}good", "rejected": "is bad"}
    for n in range(48)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return write_jsonl(folder / "train.jsonl", PAIRS), write_jsonl(folder / "dev.jsonl", PAIRS[:12])


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("lm") / "lm"
    tokenizer = Tokenizer.train("byte-bpe", [" ".join(WORDS)] * 8, 274, special=GPT)
    Reader(new_encoder("gpt2", gpt2(1, 32, 2, tokenizer.size, longest=32), {"write"}), tokenizer).save(folder)
    return folder


@pytest.fixture(scope="module")
def judge(files, language_model, tmp_path_factory):
    out = tmp_path_factory.mktemp("judge") / "run"
    told = {"epochs": 12.0, "rate": 5e-3, "batch": 16}
    return finetune(language_model, "reward", train=files[0], dev=files[1], out=out, **told), out


def test_a_language_model_learns_to_judge(judge, files):
    model, _ = judge
    assert model("the film ", "is good") > model("the film ", "is bad")
    assert model(("the film ", "is good")) == model("the film is good")  # a text is read as one with its prompt
    [accuracy, margin] = model.evaluate(Reward.read(files[1], Reading()))
    assert accuracy.value == 100 and margin.value > 0.5


def test_texts_are_worth_nothing_on_average(judge, files):
    model, _ = judge
    found = model.predict(model.task.inputs(Reward.read(files[1], Reading())))
    assert sum(found) / len(found) == pytest.approx(0, abs=1e-4)


def test_the_folder_is_everyones(judge):
    model, out = judge
    theirs = reference(out / "model", "GPT2ForSequenceClassification")
    assert theirs.config.num_labels == 1
    framed, _ = laid(model.reader, ["the film is good"])
    tokens, _ = framed.batch([0])
    with torch.no_grad():
        scores = theirs(input_ids=tokens.ids[None]).logits
    assert scores.shape == (1, 1) and scores.item() == pytest.approx(model("the film is good"), abs=1e-4)
    again = finetuned(Reader.load(out / "model", "cpu"))
    assert again.name == "reward" and again("the film is good") == pytest.approx(model("the film is good"), abs=1e-5)


def test_others_reward_models_give_numbers_too(judge):
    model, out = judge
    config = out / "model" / "config.json"
    told = json.loads(config.read_text())
    published = model.reader.published
    bare = {key: value for key, value in published.theirs.items() if key != "regard_task"}
    assert told["regard_task"] == "reward"
    published.theirs.clear()
    published.theirs.update(bare)
    assert finetuned(model.reader).name == "regress"
    published.theirs["regard_task"] = "reward"


def test_an_encoder_learns_to_judge(files, tmp_path):
    model = learn(tmp_path, "reward", files[0], files[1], WORDS)
    assert model.evaluate(Reward.read(files[1], Reading()))[0].value == 100


def test_language_modelling_is_not_asked_beside_it(judge):
    _, out = judge
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    assert {"right", "margin"} <= first.keys() and "language_loss" not in first


def test_what_is_too_long(judge, tmp_path):
    model, _ = judge
    long = {"prompt": "", "chosen": "so " * 40, "rejected": "bad"}
    deep = {"prompt": "so " * 40, "chosen": "is good", "rejected": "is bad"}
    data = Reward.read(write_jsonl(tmp_path / "a.jsonl", [PAIRS[0], long, deep]), Reading())
    examples = model.task.examples(model.reader, data)
    assert len(examples) == 2
    assert "1 of 3 pairs are left out" in examples.notes[0] and "line 2" in examples.notes[0]
    assert "2 texts lose the beginning" in examples.notes[1]
    with pytest.warns(UserWarning, match="their ends are read"):
        assert model("so " * 40 + "is good") > model("so " * 40 + "is bad")
    only = Reward.read(write_jsonl(tmp_path / "b.jsonl", [long]), Reading())
    with pytest.raises(Problem, match="1 of 1 pairs are left out"):
        model.task.examples(model.reader, only)
