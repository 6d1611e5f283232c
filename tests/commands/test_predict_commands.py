"""classify, choose, tag, answer and evaluate, with models fine-tuned here and with folders that others published."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import Any

import pytest
import torch
from toy_examples import (
    QUESTIONS,
    make_encoder,
    make_examples,
    pairs,
    reviews,
    write_questions,
    write_table,
)

import regard
from regard.tasks.answer_metrics import score_answers
from regard.tasks.entity_metrics import entity_f1
from regard.tasks.label_metrics import accuracy, macro_f1, matthews, pearson, spearman

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders
TASKS = ("classify", "pair", "regress", "choose", "tag", "answer")
COMMANDS = {"pair": "classify", "regress": "classify"}  # of the tasks that have none of their own
GIVEN = {
    "classify": ["the film is good"], "pair": ["a film", "so good"], "regress": ["a dull film"],
    "choose": ["a film", "good", "bad"], "tag": ["the film is good"], "answer": ["what ?", "the film is good"],
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of an encoder, and for each task that of a model and of its examples."""
    folder = tmp_path_factory.mktemp("models")
    make_encoder(folder / "bert")
    for task in TASKS:
        (folder / task).mkdir()
        train, dev = make_examples(folder / task, task, ".csv")
        with contextlib.redirect_stderr(io.StringIO()):
            quick = {"epochs": 2.0, "batch": 8, "rate": 1e-3}
            regard.finetune(folder / "bert", task, train=train, dev=dev, out=folder / task / "run", **quick)
    return folder


def command(task: str) -> str:
    return COMMANDS.get(task, task)


# What is given


@pytest.mark.parametrize("task", TASKS)
def test_one_text_and_lines_and_a_stream_are_answered_alike(call, models, tmp_path, task):
    """In order, one answer for each, blank lines too."""
    run, line = models / task / "run", "\t".join(GIVEN[task])
    one = call(command(task), "--model", run, *GIVEN[task], "--json")
    assert one.code == 0 and one.out.count("\n") == 1, one.err
    text = f"{line}\n\n{line}\r\n"
    stream = call(command(task), "--model", run, "--json", stdin=text.encode())
    assert stream.code == 0, stream.err
    first, blank, last = map(flat, stream.out.splitlines())
    assert first == last == pytest.approx(flat(one.out), abs=1e-5)  # for rows are read together
    assert blank != first
    (tmp_path / "lines.txt").write_text(text)
    file = call(command(task), "--model", run, "--file", tmp_path / "lines.txt", "--json")
    assert file.out == stream.out
    assert call(command(task), "--model", run, "--json", stdin=b"").out == ""


def flat(line: str) -> dict[str, Any]:
    """What a line of JSON says, its numbers beside its words."""
    found = {"": json.loads(line)}
    while inner := {key: value for key, value in found.items() if isinstance(value, dict | list)}:
        for key, value in inner.items():
            items = value.items() if isinstance(value, dict) else enumerate(value)
            found |= {f"{key}.{name}": one for name, one in items}
            del found[key]
    return found


def test_what_is_printed_without_json(call, models):
    label, share = call("classify", "--model", models / "classify/run", "a good film").out.rstrip().split("\t")
    assert label in ("neg", "pos") and 0.5 <= float(share) <= 1
    float(call("classify", "--model", models / "regress/run", "a good film").out)
    index, choice = call("choose", "--model", models / "choose/run", "a film", "good", "bad").out.rstrip().split("\t")
    assert choice == ["good", "bad"][int(index)]
    words = call("tag", "--model", models / "tag/run", "the film's good", "--words").out
    assert [line.split("\t")[0] for line in words.splitlines()] == ["the", "film", "'s", "good", ""]


def test_entities_are_spans_of_their_lines(call, models):
    lines = ["so the film", "", "is it good?"]
    found = call("tag", "--model", models / "tag/run", stdin="\n".join(lines).encode()).out.splitlines()
    for row in found:
        number, _, start, end, text = row.split("\t")
        assert lines[int(number) - 1][int(start) : int(end)] == text


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_is_read_by_its_columns(call, models, tmp_path, suffix):
    path = write_table(tmp_path / f"a{suffix}", pairs(5))
    table = call("classify", "--model", models / "pair/run", "--file", path, "--json")
    lines = "".join(f"{row['premise']}\t{row['hypothesis']}\n" for row in pairs(5))
    assert table.code == 0 and table.out == call("classify", "--model", models / "pair/run", "--json",
                                                 stdin=lines.encode()).out  # fmt: skip
    named = write_table(tmp_path / f"b{suffix}", [{"said": row["sentence"], "id": "x"} for row in reviews(3)])
    told = call("classify", "--model", models / "classify/run", "--file", named, "--text", "said")
    assert told.code == 0 and told.out.count("\n") == 3
    tags = call("tag", "--model", models / "tag/run", "--file", named, "--text", "said", "--json")
    assert json.loads(tags.out.splitlines()[0])["words"] == reviews(1)[0]["sentence"].split()


def test_questions_come_from_squad_or_a_table_or_lines(call, models, tmp_path):
    run = models / "answer/run"
    path = write_questions(tmp_path / "a.json", QUESTIONS[:3])
    official = call("answer", "--model", run, "--file", path)
    assert official.code == 0 and list(json.loads(official.out)) == ["q0", "q1", "q2"]
    rows = [{"question": question, "context": context} for question, context, _ in QUESTIONS[:3]]
    table = call("answer", "--model", run, "--file", write_table(tmp_path / "a.csv", rows))
    assert table.out.splitlines() == list(json.loads(official.out).values())
    other = [{"asked": row["question"], "about": row["context"]} for row in rows]
    named = ["--text", "asked", "--second", "about"]
    assert call("answer", "--model", run, "--file", write_table(tmp_path / "b.csv", other), *named).out == table.out


def test_a_text_that_is_too_long_is_cut_and_told(call, models):
    for task in ("classify", "choose"):
        long = call(task, "--model", models / task / "run", *GIVEN[task][1:], "film " * 99, "good")
        assert long.code == 0 and "warning: some inputs are truncated to 40 tokens" in long.err
        assert not call(task, "--model", models / task / "run", *GIVEN[task]).err


# What cannot be


def test_a_line_without_its_other_texts_is_named(call, models, tmp_path):
    for task, least in (("pair", 2), ("choose", 3), ("answer", 2)):
        line = "\t".join(GIVEN[task])
        done = call(command(task), "--model", models / task / "run", stdin=f"{line}\nalone\n".encode())
        assert done.code == 1 and "standard input, line 2 has 1 of the" in done.err and f" {least} texts" in done.err
        assert "put a tab between" in done.err
        assert call(command(task), "--model", models / task / "run", "alone").code == 2
    both = call("classify", "--model", models / "classify/run", "a text", "--file", tmp_path / "a.csv")
    assert both.code == 2 and "both a text, 'a text', and the file" in both.err


def test_a_model_of_another_task_or_of_none_is_refused(call, models):
    for name, task in (("tag", "classify"), ("classify", "answer"), ("answer", "pair"), ("choose", "tag")):
        done = call(name, "--model", models / task / "run", *GIVEN[name])
        assert done.code == 1 and f"was fine-tuned to {task}; this needs one that can {name}" in done.err
    for words in (["classify", "a film"], ["evaluate", models / "classify/dev.csv"]):
        done = call(words[0], "--model", models / "bert", *words[1:])
        assert done.code == 1 and f"regard finetune {models / 'bert'} TASK --train" in done.err
    missing = call("classify", "--model", models / "nowhere", "a")
    assert missing.code == 1 and "there is no such folder" in missing.err


# evaluate


def scores_of(call, models, task, path):
    done = call("evaluate", "--model", models / task / "run", path, "--json")
    assert done.code == 0, done.err
    return [one["value"] for one in json.loads(done.out)["scores"]]


def test_evaluate_gives_what_the_metrics_give(call, models):
    """Of the answers that the predicting commands print."""
    for task in TASKS:
        found = regard.load(models / task / "run", "cpu")
        path = models / task / {"tag": "dev.txt", "answer": "dev.json"}.get(task, "dev.csv")
        data = found.task.read(path, regard.commands.evaluate.READING)
        said = found.predict(found.task.inputs(data))
        if task in ("classify", "pair"):
            labels = [one.label for one in said]
            expected = [of(labels, data.labels).value for of in (accuracy, macro_f1, matthews)]
        elif task == "regress":
            expected = [of(said, list(map(float, data.labels))).value for of in (pearson, spearman)]
        elif task == "choose":
            expected = [accuracy([str(one.index) for one in said], data.labels).value]
        elif task == "tag":
            expected = [entity_f1([one.tags for one in said], data.tags).value]
        else:
            texts = {question.id: one.text for question, one in zip(data, said, strict=True)}
            expected = [score_answers(texts, list(data), metric).value for metric in ("exact match", "token F1")]
        values = scores_of(call, models, task, path)
        assert all(any(value == pytest.approx(one, nan_ok=True) for value in values) for one in expected), task


def test_evaluate_tells_the_file_and_writes_the_answers(call, models, tmp_path):
    path = models / "classify/dev.csv"
    done = call("evaluate", "--model", models / "classify/run", path, "--out", tmp_path / "answers.jsonl")
    assert done.code == 0 and "8 examples" in done.out and "accuracy" in done.out
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    predicted = call("classify", "--model", models / "classify/run", "--file", path, "--json").out.splitlines()
    assert answers == [json.loads(line) for line in predicted]
    odd = write_table(tmp_path / "odd.csv", [*reviews(3), {"sentence": "a film", "label": "mixed"}])
    scored = call("evaluate", "--model", models / "classify/run", odd)
    assert scored.code == 0 and "1 labels did not occur in training and are counted as wrong: 'mixed' (1)" in scored.out
    as_json = json.loads(call("evaluate", "--model", models / "classify/run", odd, "--json").out)
    assert as_json["unseen_labels"] == {"mixed": 1}
    numbers = [{**row, "label": {"neg": "0", "pos": "1"}[row["label"]]} for row in reviews(8)]
    other = write_table(tmp_path / "numbers.csv", numbers)
    refused = call("evaluate", "--model", models / "classify/run", other)
    assert refused.code == 1 and "--label-map 0=neg,1=pos" in refused.err
    mapped = call("evaluate", "--model", models / "classify/run", other, "--label-map", "0=neg,1=pos", "--json")
    named = call("evaluate", "--model", models / "classify/run", write_table(tmp_path / "a.csv", reviews(8)), "--json")
    assert mapped.code == 0 and mapped.out == named.out
    two = call("evaluate", "--model", models / "classify/run", path, path)
    assert two.code == 2 and "is scored on one file of examples; given were 2" in two.err


# What others published


NAMES = {0: "bad", 1: "so so", 2: "good"}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
DISTILLED = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}


def publish(models, folder, family: str, head: str, **settings):
    """A folder as the reference library saves one, with the vocabulary of our encoder; and its model."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    torch.manual_seed(1)
    sizes = DISTILLED if family == "DistilBert" else SIZES
    config = getattr(transformers, f"{family}Config")(
        vocab_size=regard.load(models / "bert", "cpu").tokenizer.size, max_position_embeddings=32, pad_token_id=0,
        **sizes, **settings,
    )  # fmt: skip
    model = getattr(transformers, f"{family}For{head}")(config).eval()
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((models / "bert" / name).read_bytes())
    return model


def inputs_of(models, folder, *texts: str) -> dict[str, torch.Tensor]:
    reader = getattr(found := regard.load(folder, "cpu"), "reader", found)
    [(ids, types)] = reader.rows([texts])
    return {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "Albert", "Electra"])
def test_published_classifiers_give_their_labels_and_probabilities(call, models, tmp_path, family):
    more = {"type_vocab_size": 1} if family == "Roberta" else {}
    labels = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
    model = publish(models, tmp_path / "published", family, "SequenceClassification", **labels, **more)
    for texts in (["the film is good"], ["the film is good", "a dull film"]):
        given = inputs_of(models, tmp_path / "published", *texts)
        if family in ("Roberta", "DistilBert"):  # which tell no segments apart
            del given["token_type_ids"]
        with torch.no_grad():
            shares = model(**given).logits.softmax(-1)[0].tolist()
        found = json.loads(call("classify", "--model", tmp_path / "published", *texts, "--json").out)
        assert found["label"] == NAMES[shares.index(max(shares))]
        assert [found["probabilities"][NAMES[i]] for i in range(3)] == pytest.approx(shares, abs=1e-5)


def test_a_published_tagger_gives_its_tags(call, models, tmp_path):
    names = {0: "O", 1: "B-X", 2: "I-X"}
    model = publish(models, tmp_path / "published", "Bert", "TokenClassification", id2label=names)
    given = inputs_of(models, tmp_path / "published", "the film is good")
    with torch.no_grad():
        best = model(**given).logits[0, 1:-1].argmax(-1).tolist()
    found = json.loads(call("tag", "--model", tmp_path / "published", "the film is good", "--json").out)
    pieces = regard.load(models / "bert", "cpu").tokenizer.encode_words(found["words"])[1]
    raw = [names[best[pieces.index(word)]] for word in range(4)]
    assert [tag[2:] for tag in found["tags"]] == [tag[2:] for tag in raw]  # IOB2 may call an I- a B-


def test_a_published_answerer_gives_its_span(call, models, tmp_path):
    model = publish(models, tmp_path / "published", "Bert", "QuestionAnswering")
    question, context = "what is good ?", "the film is so good"
    given = inputs_of(models, tmp_path / "published", question, context)
    with torch.no_grad():
        said = model(**given)
    inside = given["token_type_ids"][0].bool().clone()
    inside[-1] = False
    starts, ends = (scores[0].masked_fill(~inside, -1e9) for scores in (said.start_logits, said.end_logits))
    best = max(float(starts[first] + ends[last]) for last in range(len(inside)) for first in range(last + 1))
    found = json.loads(call("answer", "--model", tmp_path / "published", question, context, "--json").out)
    assert found["score"] == pytest.approx(best, abs=1e-4)
    assert context[found["start"] : found["end"]] == found["text"] != ""


def test_what_is_saved_is_read_alike_by_others(models):
    """Of a pair the reference library makes the same rows, segments too, and cuts them at the same length."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    theirs = transformers.AutoTokenizer.from_pretrained(models / "pair/run/model")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(models / "pair/run/model").eval()
    ours = regard.load(models / "pair/run", "cpu")
    pair = ("the film is good", "a dull film")
    given = theirs(*pair, return_tensors="pt")
    assert "token_type_ids" in given and theirs.model_max_length == 40
    with torch.no_grad():
        shares = model(**given).logits.softmax(-1)[0].tolist()
    assert list(ours(*pair).probabilities.values()) == pytest.approx(shares, abs=1e-5)
    assert len(theirs("film " * 99, truncation=True)["input_ids"]) == 40
