"""Choosing: learned, saved, the reference library's numbers, and what cannot be chosen among."""

import random

import numpy as np
import pytest
import torch
from toy_tasks import learn, ours, reference, small_reader, write_jsonl

from regard.commands.load import load
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.rows import Rows
from regard.tasks.choose import Choose, paired
from regard.tasks.finetuned import Finetuned

KINDS = {
    "animal": ["cat", "dog", "horse", "mouse"],
    "number": ["one", "two", "three", "four"],
    "colour": ["red", "green", "blue", "white"],
}
WORDS = ["a", "is", *KINDS, *(word for words in KINDS.values() for word in words)]


def questions(count: int, seed: int) -> list[dict]:
    """What is a colour?  Two or three choices, one of which is."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        kind, *others = draw.sample([*KINDS], draw.randint(2, 3))
        choices = [draw.choice(KINDS[one]) for one in (kind, *others)]
        right = choices[0]
        draw.shuffle(choices)
        rows.append({"context": f"a {kind} is", "choices": choices, "label": choices.index(right)})
    return rows


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> tuple[Finetuned, object]:
    folder = tmp_path_factory.mktemp("choose")
    train, dev = (write_jsonl(folder / f"{n}.jsonl", questions(count, n)) for n, count in enumerate((200, 40)))
    return learn(folder, "choose", train, dev, WORDS, epochs=6.0), folder


def test_it_is_learned(learned):
    finetuned, folder = learned
    [score] = finetuned.evaluate(Choose.read(folder / "1.jsonl", Reading()))
    assert (score.metric, score.value) == ("accuracy", 100)
    found = finetuned("a colour is", "dog", "two", "green", "horse")
    assert (found.index, found.choice) == (2, "green") and sum(found.probabilities) == pytest.approx(1)
    assert finetuned("a colour is", "green", "two").index == 0


def test_a_saved_folder_does_the_same(learned):
    finetuned, folder = learned
    again = load(folder / "run", "cpu")
    asked = [("a number is", "dog", "two"), ("a dog is", "a colour", "a number", "one animal")]
    assert isinstance(again, Finetuned) and again.name == "choose"
    assert again.predict(asked) == finetuned.predict(asked)


def test_the_reference_library_gives_the_same_scores(learned):
    finetuned, folder = learned
    model = reference(folder / "run" / "model", "AutoModelForMultipleChoice")
    framed, _ = paired(finetuned.reader, [("a number is", "dog", "two three")])
    for number in range(2):
        tokens, types = framed.batch([number])
        with torch.no_grad():
            scores = model(input_ids=tokens.ids[None, None], token_type_ids=types[None, None]).logits
        assert torch.allclose(ours(finetuned.reader, "choose", framed, number), scores, atol=1e-5)


def test_the_loss_is_the_reference_librarys(tmp_path):
    reader, task = small_reader("choose", WORDS), Choose()
    rows = [{"context": f"a {kind}", "choices": words[:3], "label": n} for n, (kind, words) in enumerate(KINDS.items())]
    data = Choose.read(write_jsonl(tmp_path / "a.jsonl", rows), Reading())
    batch = task.prepare(task.examples(reader, data).batch(np.arange(3)))
    result = task.judge(reader.model, batch)
    reader.save(tmp_path / "model")
    model = reference(tmp_path / "model", "BertForMultipleChoice")
    rows = batch["tokens"].rows
    asked = {
        "input_ids": batch["tokens"].ids,
        "token_type_ids": batch["types"],
        "attention_mask": torch.ones(rows.total),
    }
    padded = {name: rows.pad(part).view(3, 3, -1) for name, part in asked.items()}
    with torch.no_grad():
        wanted = model(**padded, labels=batch["wanted"])
    assert torch.allclose(result.loss / result.count, wanted.loss, atol=1e-5)
    assert int(result.parts["right"]) == int((wanted.logits.argmax(1) == batch["wanted"]).sum())


def test_questions_of_different_sizes_do_not_touch_each_other(tmp_path):
    reader, task = small_reader("choose", WORDS), Choose()
    data = Choose.read(write_jsonl(tmp_path / "a.jsonl", questions(8, 3)), Reading())
    examples = task.examples(reader, data)
    assert {len(texts) for texts in data.texts} == {3, 4}
    together = task.judge(reader.model, examples.batch(np.arange(8)))
    alone = [task.judge(reader.model, examples.batch(np.array([n]))) for n in range(8)]
    assert torch.allclose(together.loss, sum(one.loss for one in alone), atol=1e-5)
    assert int(together.count) == 8
    together.loss.backward()
    assert reader.model.heads["choose"].out.weight.grad.isfinite().all()


def test_what_leaves_no_choice_is_refused(tmp_path):
    reader, task = small_reader("choose", WORDS), Choose()
    for given in ("a colour is", ("a colour is", "red")):
        with pytest.raises(UsageProblem, match="leaves nothing to choose"):
            task.predict(reader, [given])
    assert task.predict(reader, []) == []
    data = Choose.read(
        write_jsonl(tmp_path / "a.jsonl", [{"context": "a", "choices": ["b", "c"], "label": 7}]), Reading()
    )
    with pytest.raises(Problem, match=r"a\.jsonl, line 1: the label '7' is none of 2 choices"):
        Choose.of(data)


def test_odd_texts_are_texts():
    reader, task = small_reader("choose", WORDS), Choose()
    empty, special, long = task.predict(
        reader, [("", "", " "), ("a [SEP] b", "[CLS]", "dog"), ("a " * 99, "dog", "cat " * 99)]
    )
    assert all(np.isfinite(found.probabilities).all() for found in (empty, special, long))
    framed, groups = paired(reader, [("a [SEP] b", "[CLS] c", "d")])
    tokens, _ = framed.batch([0])
    assert (tokens.ids == reader.tokenizer.end).sum() == 2 and groups.tolist() == [0, 2]
    assert isinstance(tokens.rows, Rows) and max(paired(reader, [("a " * 99, "b " * 99, "c")])[0].lengths) == 48
