"""Language models learn tasks by transformed inputs: what they read, what is new in them, what they learn beside the
task, and that others read what is saved."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from toy_tasks import reference, small_reader, write_jsonl, write_lines

from regard.commands.finetune import finetune
from regard.commands.load import load
from regard.data.reading import Reading
from regard.errors import UsageProblem
from regard.layers.pooling import last, mean
from regard.models.gpt import gpt
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.objectives.with_language import WithLanguage
from regard.tasks.classify import Classify, Regress, Similar
from regard.tasks.finetuned import Finetuned, with_task
from regard.tasks.reader import Reader
from regard.tasks.transformation import with_language
from regard.text.tokenizer import GPT, Tokenizer

GOOD, BAD, FILL = ["good", "great", "fine"], ["bad", "awful", "poor"], ["a", "film", "is", "the", "so"]
TEXT = [" ".join(words) for words in (GOOD, BAD, FILL, ["it", "was", "so", "good"])] * 8
SHAPE = {"layers": 2, "width": 32, "heads": 2, "longest": 64}


def language_model(family: str = "gpt2") -> Reader:
    """One that has learned nothing, but whose numbers are large enough to learn from soon."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("byte-bpe", TEXT, 290, special=GPT)
    config = (gpt if family == "openai-gpt" else gpt2)(vocab=tokenizer.size, **SHAPE)
    published = new_encoder(family, config, {"write"})
    for name, parameter in published.model.named_parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2 if "embed" in name else 0.1)
    return Reader(published, tokenizer)


def said(draw: random.Random, kind: list[str]) -> str:
    return " ".join([*draw.choices(FILL, k=draw.randint(1, 3)), draw.choice(kind), *draw.choices(FILL, k=1)])


def examples(folder: Path, task: str, count: int = 96) -> Path:
    draw, rows = random.Random(count), []
    for _ in range(count):
        first, second = (draw.choice([GOOD, BAD]) for _ in range(2))
        one, other = said(draw, first), said(draw, second)
        rows.append({
            "classify": {"text": one, "label": "pos" if first is GOOD else "neg"},
            "pair": {"text1": one, "text2": other, "label": "yes" if second is GOOD else "no"},
            "similar": {"text1": one, "text2": other, "label": "same" if first is second else "other"},
            "regress": {"text1": one, "text2": other, "score": 3 + (first is GOOD) + (second is GOOD)},
            "choose": {"context": "the film is", "choice1": said(draw, GOOD), "choice2": said(draw, BAD), "label": 0},
        }[task])  # fmt: skip
    if task == "choose":
        for row in rows[::2]:
            row["choice1"], row["choice2"], row["label"] = row["choice2"], row["choice1"], 1
    return write_jsonl(folder / f"{task}-{count}.jsonl", rows)


def learn(folder: Path, task: str, **settings) -> Finetuned:
    language_model().save(folder / "begun")
    told = {"rate": 1e-2, "epochs": 10.0, "batch": 16} | settings
    files = {"train": examples(folder, task), "dev": examples(folder, task, 32)}
    return finetune(folder / "begun", task, out=folder / "run", **files, **told)


TASKS = {"classify": "accuracy", "pair": "accuracy", "regress": "pearson", "choose": "accuracy"}


@pytest.fixture(scope="module", params=TASKS)
def learned(request, tmp_path_factory) -> tuple[str, Finetuned, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, learn(folder, request.param), folder


# What is learned, and what others read


def test_each_task_is_learned(learned):
    task, found, folder = learned
    data = type(found.task).read(examples(folder, task, 48), Reading())
    assert {score.metric.lower(): score.value for score in found.evaluate(data)}[TASKS[task]] > 85


def test_what_is_saved_answers_the_same(learned):
    task, found, folder = learned
    again = load(folder / "run", "cpu")
    assert isinstance(again, Finetuned) and again.name == task
    inputs = [("a good film", "so poor"), ("the awful film is", "great")]
    asked = [text for pair in inputs for text in pair] if task == "classify" else inputs
    asked = [(*given, "bad") for given in inputs] if task == "choose" else asked
    assert again.predict(asked) == found.predict(asked)


def test_the_reference_library_reads_it_unchanged(learned):
    """Framed by its tokenizer, padded in its way, read off the last token that is no padding."""
    task, found, folder = learned
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    head, name = ("DoubleHeadsModel", "mc_logits") if task == "choose" else ("ForSequenceClassification", "logits")
    model = reference(folder / "run" / "model", f"GPT2{head}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "run" / "model")
    texts = [("a good film",), ("the film is so awful",)] if task == "classify" else [("a film", "so good"), ("x", "y")]
    asked = tokenizer(*map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt")
    framed = found.reader.framed(texts)
    for row, number in zip(asked["input_ids"].tolist(), range(len(texts)), strict=True):
        ids = framed.batch([number])[0].ids.tolist()
        assert row[: len(ids)] == ids
    if task == "choose":  # which does not look for the end of a row
        asked["mc_token_ids"] = asked["attention_mask"].sum(-1) - 1
    with torch.no_grad():
        wanted = model(**asked)[name].view(len(texts), -1)
    [(numbers, scores, _)] = found.reader.scores(found.task.role, framed)
    torch.testing.assert_close(scores, wanted[numbers], atol=1e-5, rtol=0)


def load_task(name: str, path: Path):
    from regard.tasks.finetuned import TASKS as KINDS

    return KINDS[name].of(KINDS[name].read(path, Reading()))


def test_words_are_tagged(tmp_path):
    lines = [f"{word}\t{'B-VIEW' if word in GOOD else 'O'}" for word in ["a", "good", "film", "is", "fine"]]
    path = write_lines(tmp_path / "words.tsv", [*lines, "", *lines])
    language_model().save(tmp_path / "begun")
    found = finetune(tmp_path / "begun", "tag", out=tmp_path / "run", train=path, dev=path, rate=5e-3, epochs=20.0)
    assert found("a good film is fine").tags == ["O", "B-VIEW", "O", "O", "B-VIEW"]
    reference(tmp_path / "run" / "model", "GPT2ForTokenClassification")


# How texts are transformed


def test_texts_stand_in_a_frame_of_new_tokens(tmp_path):
    reader = language_model()
    found, fresh = with_task(reader, "classify", load_task("classify", examples(tmp_path, "classify")))
    assert fresh == ["score.weight", "the embeddings of <start>, <delimiter>, <extract>"]
    tokenizer = found.reader.tokenizer
    start, delimiter, extract = range(reader.tokenizer.size, reader.tokenizer.size + 3)
    one, two = tokenizer.encode("a film"), tokenizer.encode("so good")
    rows = [ids for ids, _ in found.reader.rows([("a film",), ("a film", "so good"), ("",)])]
    assert rows == [[start, *one, extract], [start, *one, delimiter, *two, extract], [start, extract]]
    assert tokenizer.encode("<start> <extract>")[0] not in (start, extract)  # a text that spells them is text
    long = found.reader.rows([("film " * 99, "good " * 99)])
    assert next(long)[0][-1] == extract  # what is cut keeps its end


def test_only_new_rows_are_new(tmp_path):
    reader = language_model()
    found, _ = with_task(reader, "classify", load_task("classify", examples(tmp_path, "classify")))
    was, now = reader.model.encoder.state_dict(), found.reader.model.encoder.state_dict()
    size = reader.tokenizer.size
    assert now["embed.tokens.weight"].shape == (size + 3, 32)
    assert all(torch.equal(now[name][: len(was[name])], was[name]) for name in was)
    assert len(now["embed.tokens.weight"][size:].unique()) > 90


def test_a_folder_that_has_its_frame_goes_on_with_it(tmp_path):
    task = load_task("classify", examples(tmp_path, "classify"))
    found, _ = with_task(language_model(), "classify", task)
    found.save(tmp_path / "model")
    again, fresh = with_task(Reader.load(tmp_path / "model"), "classify", task)
    assert fresh == [] and again.reader.tokenizer.size == found.reader.tokenizer.size


def test_spare_rows_of_a_table_are_used(tmp_path):
    reader = language_model()
    wide = new_encoder("gpt2", gpt2(vocab=320, **SHAPE), {"write"})
    found, _ = with_task(
        Reader(wide, reader.tokenizer), "classify", load_task("classify", examples(tmp_path, "classify"))
    )
    assert found.reader.model.encoder.config.embedding.vocab == 320


def test_an_encoder_is_left_as_it_is(tmp_path):
    reader = small_reader("masked")
    found, fresh = with_task(reader, "classify", load_task("classify", examples(tmp_path, "classify")))
    assert found.reader.tokenizer.size == reader.tokenizer.size and not any("<start>" in name for name in fresh)


def test_the_first_gpt_learns_too(tmp_path):
    reader = language_model("openai-gpt")
    found, _ = with_task(reader, "classify", load_task("classify", examples(tmp_path, "classify")))
    found.save(tmp_path / "model")
    model = reference(tmp_path / "model", "OpenAIGPTForSequenceClassification")
    framed = found.reader.framed([("a good film",)])
    with torch.no_grad():
        wanted = model(framed.batch([0])[0].ids[None]).logits
    [(_, scores, _)] = found.reader.scores("classify", framed)
    torch.testing.assert_close(scores, wanted, atol=1e-5, rtol=0)


def test_a_preset_begins_from_nothing(tmp_path):
    Tokenizer.train("byte-bpe", TEXT, 290, special=GPT).save(tmp_path / "tokenizer.json")
    path = examples(tmp_path, "classify", 16)
    found = finetune(
        "gpt2-tiny", "classify", tokenizer=tmp_path / "tokenizer.json", out=tmp_path / "run", train=path, dev=path,
        epochs=1.0, set=("stack.layers=1", "stack.block.width=16", "embedding.width=16", "stack.block.inner=16"),
    )  # fmt: skip
    assert found("a good film").label in ("pos", "neg")


def test_a_text_without_tokens_can_be_read_without_a_frame(tmp_path):
    """As of a classifier that others published."""
    tokenizer = language_model().tokenizer
    published = new_encoder("gpt2", gpt2(vocab=tokenizer.size, **SHAPE), {"classify"})
    task, reader = Classify.load(published), Reader(published, tokenizer)
    alone, *_ = task.predict(reader, [""])
    assert alone == task.predict(reader, ["good", "", "film"])[1]
    assert task.predict(reader, []) == []


# Both orders


@pytest.mark.parametrize("task", ["similar", "regress"])
def test_the_order_of_two_texts_makes_no_difference(tmp_path, task):
    found, _ = with_task(language_model(), task, load_task(task, examples(tmp_path, task)))
    one, other = found.predict([("a good film", "so poor"), ("so poor", "a good film")])
    assert one == pytest.approx(other) if task == "regress" else one.probability == pytest.approx(other.probability)
    assert found.predict([]) == []


@torch.no_grad()
def test_the_scores_of_both_orders_are_the_head_of_their_mean_state(tmp_path):
    data = Similar.read(examples(tmp_path, "similar", 5), Reading())
    task = Similar.of(data)
    found, _ = with_task(language_model(), "similar", task)
    model, batch = found.reader.model, task.examples(found.reader, data).batch(np.arange(5))
    tokens = batch["tokens"]
    assert len(tokens) == 10
    states = mean(last(model(tokens), tokens.rows), batch["groups"])  # (10, W) -> (5, W)
    wanted = F.cross_entropy(model.heads["classify"].out(states), batch["wanted"], reduction="sum")
    torch.testing.assert_close(task.judge(model, batch).loss, wanted)


def test_one_text_has_one_order(tmp_path):
    path = write_lines(tmp_path / "a.tsv", ["text\tscore", "a good film\t3", "so bad\t1", "fine\t2"])
    data = Regress.read(path, Reading())
    task = Regress.of(data)
    found, _ = with_task(language_model(), "regress", task)
    made = task.examples(found.reader, data)
    assert len(made.framed) == len(made) == 3


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_a_head_without_a_bias_can_be_given_the_units_of_its_numbers(tmp_path, family):
    """Into the norm before it; and they can be taken out again."""
    texts = [("a good film", "so poor"), ("fine", "the film")]
    task = Regress(mean=1990.0, spread=7.0)
    found, _ = with_task(language_model(family), "regress", task)
    before = found.predict(texts)
    task.finish(found.model)
    assert (task.mean, task.spread) == (0.0, 1.0)
    assert found.predict(texts) == pytest.approx(before, rel=1e-5) and min(before) > 1900
    task.mean, task.spread = 1990.0, 7.0
    task.begin(found.model)
    assert found.predict(texts) == pytest.approx(before, rel=1e-5)


# Language modelling beside the task


@torch.no_grad()
def test_the_loss_is_the_tasks_and_a_share_of_the_languages(tmp_path):
    data = Classify.read(examples(tmp_path, "classify", 6), Reading())
    task = Classify.of(data)
    found, _ = with_task(language_model(), "classify", task)
    model, plain = found.reader.model, task.examples(found.reader, data).batch(np.arange(6))
    both = WithLanguage(task, 0.5)
    result = both.judge(model, both.prepare(plain))
    table = model.encoder.embed.tokens.weight
    gains = []
    for row in plain["tokens"].tolist():  # each row alone, token by token
        states = model(type(plain["tokens"]).of([row]))
        shares = (states @ table.T).log_softmax(-1)
        gains += [shares[place, row[place + 1]] for place in range(len(row) - 1)]
    asked = task.judge(model, plain)
    wanted = asked.loss / 6 - 0.5 * torch.stack(gains).mean()
    torch.testing.assert_close(result.loss / result.count, wanted)
    assert torch.equal(result.count, asked.count)
    torch.testing.assert_close(result.parts["task_loss"], asked.loss)


def test_the_weight_is_by_default_the_papers_for_language_models_alone(tmp_path):
    task = load_task("classify", examples(tmp_path, "classify"))
    causal, encoder = language_model().model, small_reader("classify").model
    assert with_language(task, causal).weight == 0.5 and with_language(task, causal, 0.2).weight == 0.2
    assert with_language(task, causal, 0.0) is with_language(task, encoder) is task
    with pytest.raises(UsageProblem, match=r"language weight 0\.3"):
        with_language(task, encoder, 0.3)
    with pytest.raises(UsageProblem, match="language weight -1"):
        WithLanguage(task, -1)


def test_telling_the_texts_is_learned_beside_the_task(tmp_path):
    """The rows of the embedding that the task alone does not touch learn too."""
    found = learn(tmp_path, "classify", epochs=2.0)
    data = Classify.read(examples(tmp_path, "classify", 32), Reading())
    batch = found.task.examples(found.reader, data).batch(np.arange(32))

    def told(model):
        both = WithLanguage(found.task)
        with torch.no_grad():
            result = both.judge(model, both.prepare(batch))
        return result.parts["language_loss"] / result.count

    begun, _ = with_task(Reader.load(tmp_path / "begun"), "classify", found.task)
    assert told(found.reader.model) < told(begun.reader.model) - 1
