"""Answering: spans in characters, long contexts, questions without an answer; and the reference library's numbers."""

import json
import os
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_tasks import learn, ours, reference, small_reader, theirs, write_questions

from regard.commands.load import load
from regard.data.questions import Question, Questions, read_questions
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.rows import Rows
from regard.tasks.answer import (
    ANSWER,
    DOUBT,
    Answer,
    Found,
    answer_pieces,
    best_spans,
    encoded,
    found_in,
    lay_questions,
)
from regard.tasks.answer_metrics import normalised
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, Tokenizer

KINDS = {
    "animal": ["cat", "dog", "horse", "mouse"],
    "number": ["one", "two", "three"],
    "colour": ["red", "green", "blue"],
}
FILL = ["saw", "the", "in", "went", "to", "and", "then", "."]
WORDS = [*FILL, "which", *KINDS, *(word for words in KINDS.values() for word in words)]


def asked(count: int, seed: int, impossible: float = 0.3) -> list[tuple[str, str, str | None]]:
    """Which animal?  The text, often too long for a row, has one of each kind, but sometimes no animal."""
    draw, made = random.Random(seed), []
    for _ in range(count):
        kind, said = draw.choice([*KINDS]), [(one, draw.choice(KINDS[one])) for one in KINDS]
        draw.shuffle(said)
        none = draw.random() < impossible
        words = []
        for one, word in said:
            words += draw.choices(FILL, k=draw.choice([1, 1, 2, 2, 12])) + [word] * (one != kind or not none)
        made.append((f"which {kind}?", " ".join([*words, draw.choice(FILL)]), None if none else dict(said)[kind]))
    return made


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> tuple[Finetuned, Path]:
    folder = tmp_path_factory.mktemp("answer")
    train, dev = (write_questions(folder / f"{n}.json", asked(count, n)) for n, count in enumerate((300, 40)))
    return learn(folder, "answer", train, dev, WORDS, longest=32), folder


def test_it_is_learned(learned):
    finetuned, folder = learned
    exact, f1 = finetuned.evaluate(read_questions(folder / "1.json"))
    assert (exact.metric, f1.metric, f1.signature) == ("exact match", "token F1", "rules:SQuAD 2.0")
    assert exact.value >= 95 and f1.value >= 95


def test_an_answer_in_the_middle_of_a_long_context(learned):
    finetuned, _ = learned
    context = "the saw " * 40 + "dog, then red. " + "then in " * 40
    found = finetuned("which animal?", context)
    assert (found.text, found.start, found.end) == ("dog", 320, 323) and found.no_answer < 0
    assert finetuned("which colour?", context).start == context.index("red")
    nothing = finetuned("which number?", context)
    assert (nothing.text, nothing.start, nothing.end) == ("", 0, 0) and nothing.no_answer > 0


def test_a_saved_folder_does_the_same(learned):
    finetuned, folder = learned
    again = load(folder / "run", "cpu")
    assert isinstance(again, Finetuned) and again.name == "answer"
    again.reader.longest = 32
    given = [(question, context) for question, context, _ in asked(12, 9)]
    assert again.predict(given) == finetuned.predict(given)
    assert again.task.threshold == json.loads((folder / "run/model/config.json").read_text())[DOUBT] is not None


def test_the_reference_library_gives_the_same_scores(learned):
    finetuned, folder = learned
    model = reference(folder / "run" / "model", "AutoModelForQuestionAnswering")
    framed = lay_questions(finetuned.reader, [(question, context) for question, context, _ in asked(3, 9)]).framed
    for number in range(len(framed)):
        answer = theirs(model, framed, number)
        scores = torch.stack([answer.start_logits[0], answer.end_logits[0]], -1)
        assert torch.allclose(ours(finetuned.reader, "answer", framed, number), scores, atol=1e-5)


def test_the_loss_is_the_reference_librarys(tmp_path):
    reader, task = small_reader("answer", WORDS), Answer(0.0)
    examples = task.examples(reader, read_questions(write_questions(tmp_path / "a.json", asked(8, 4))))
    batch = task.prepare(examples.batch(np.arange(len(examples))))
    result = task.judge(reader.model, batch)
    reader.save(tmp_path / "model")
    model = reference(tmp_path / "model", "BertForQuestionAnswering")
    losses = []
    for number, (start, end) in enumerate(batch["wanted"]):  # alone, since it counts padding among the choices
        tokens, types = examples.framed.batch([number])
        wanted = {"start_positions": start[None], "end_positions": end[None]}
        losses.append(model(input_ids=tokens.ids[None], token_type_ids=types[None], **wanted).loss)
    assert torch.allclose(result.loss / result.count, torch.stack(losses).mean(), atol=1e-5)
    assert 0 < int((batch["wanted"] == 0).all(1).sum()) < len(examples)


def test_a_row_is_a_question_and_a_stretch_of_its_context():
    reader = small_reader("answer", WORDS, longest=20)
    laid = lay_questions(reader, [("which animal", "the dog saw the cat " * 5), ("which " * 40, "red"), ("", "")])
    assert laid.question.tolist() == [0, 0, 0, 1, 2] and laid.framed.lengths.tolist() == [20, 20, 14, 12, 3]
    rows = [[reader.tokenizer.piece(id).strip("▁") for id in laid.framed.ids[row]] for row in range(5)]
    assert rows[0] == ["[CLS]", "which", "animal", "[SEP]", *("the dog saw the cat " * 3).split(), "[SEP]"]
    assert rows[1][4:11] == rows[0][-8:-1] and rows[2][4:11] == rows[1][-8:-1]  # they share seven
    assert rows[3] == ["[CLS]", *["which"] * 8, "[SEP]", "red", "[SEP]"] and rows[4] == ["[CLS]", "[SEP]", "[SEP]"]
    assert set(laid.framed.types[0][:4]) == {0} and set(laid.framed.types[0][4:]) == {1}


def test_an_answer_is_wanted_only_of_the_stretch_that_holds_it(tmp_path):
    reader = small_reader("answer", WORDS, longest=20)
    context = "the saw " * 10 + "dog and cat " + "then " * 10
    path = write_questions(tmp_path / "a.json", [("which animal", context, "dog and"), ("which colour", context, None)])
    examples = Answer().examples(reader, read_questions(path))
    inside = [
        [reader.tokenizer.piece(id).strip("▁") for id in examples.framed.ids[row][start : end + 1]]
        for row, (start, end) in enumerate(examples.wanted.tolist())
    ]
    assert inside.count(["dog", "and"]) == 1 or inside.count(["dog", "and"]) == 2  # where stretches overlap, two
    assert all(words in (["dog", "and"], ["[CLS]"]) for words in inside)
    assert examples.notes == [f"2 questions in {len(examples)} rows of at most 20 pieces"]


def test_best_spans_are_those_that_a_search_finds():
    torch.manual_seed(0)
    lengths = [40, 7, 3, 55, 12]
    rows = Rows.of(lengths)
    scores = torch.randn(rows.total, 2)
    begin, end = torch.tensor([4, 2, 1, 10, 5]), torch.tensor([39, 6, 2, 54, 5])  # the last has no context
    found = best_spans(scores, rows, begin, end)
    for row, part in enumerate(rows.split(scores)):
        pairs = [
            (float(part[first, 0] + part[last, 1]), first, last)
            for first in range(begin[row], end[row])
            for last in range(first, min(first + ANSWER, end[row]))
        ]
        assert float(found[row, 3]) == pytest.approx(float(part[0].sum()), abs=1e-6)
        if pairs:
            assert found[row, :3].tolist() == pytest.approx(max(pairs), abs=1e-6)
        else:
            assert found[row, 0] < -1e38


def test_a_row_alone_answers_as_in_a_batch():
    reader, task = small_reader("answer", WORDS), Answer()
    given = [(question, context) for question, context, _ in asked(10, 5)]
    together, alone = task.predict(reader, given), [task.predict(reader, [one])[0] for one in given]
    assert [found.text for found in together] == [found.text for found in alone]
    assert [found.score for found in together] == pytest.approx([found.score for found in alone], abs=1e-5)


MIXED = [
    "naïve Café in Zürich, 1973 (İstanbul)",
    "漢字とかな 한국어",
    "e\u0301 हिन्दी 👩‍👩‍👧 🇫🇷",
    "a\u200bb \u00adc ﬁ Ⅻ ½ \ufeffx",
]
KINDS_OF_TOKENIZER = ["wordpiece", "byte-bpe", "unigram"]


@cache
def mixed(kind: str, lowercase: bool = False) -> Tokenizer:
    return Tokenizer.train(kind, MIXED * 4, 300, lowercase=lowercase, special=ENCODER)


odd_text = st.text(st.sampled_from("".join(MIXED) + " \t\n\ud800[]"), max_size=30)


@pytest.mark.filterwarnings("ignore:asked for")
@pytest.mark.parametrize("kind", KINDS_OF_TOKENIZER)
@given(context=odd_text, places=st.tuples(st.integers(0, 29), st.integers(1, 8)))
@settings(max_examples=60, deadline=None)
def test_pieces_of_an_answer_hold_it_and_no_more(kind, context, places):
    start, end = places[0], min(places[0] + places[1], len(context))
    if start >= end or not context[start:end].strip():
        return
    [(ids, spans)] = encoded(mixed(kind), [context])
    question = Question("1", "", "?", context, ((context[start:end], start),), False)
    first, last = answer_pieces(question, spans)
    touching = [n for n, (a, b) in enumerate(spans.tolist()) if set(range(a, b)) & set(range(start, end))]
    assert len(ids) == len(spans) and (first, last) == ((touching[0], touching[-1]) if touching else (-1, -1))
    assert ((spans >= 0) & (spans <= len(context))).all()


@pytest.mark.filterwarnings("ignore:asked for")
@pytest.mark.parametrize("kind", KINDS_OF_TOKENIZER)
@given(contexts=st.lists(odd_text, max_size=4))
@settings(max_examples=15, deadline=None)
def test_an_answer_is_what_the_context_has_there(kind, contexts):
    reader = reader_of(kind)
    for context, found in zip(contexts, Answer().predict(reader, [("é [SEP]?", one) for one in contexts]), strict=True):
        assert context[found.start : found.end] == found.text == found.text.strip()
        assert np.isfinite([found.score, found.no_answer]).all()


@cache
def reader_of(kind: str) -> Reader:
    small = small_reader("answer", (f"w{number}" for number in range(300)), longest=24)
    return Reader(small.published, mixed(kind))


def test_a_context_without_pieces_has_no_answer():
    reader = small_reader("answer", WORDS)
    for found in (
        *Answer().predict(reader, [("which?", ""), ("", " \u200b")]),
        *Answer(0.0).predict(reader, [("?", "")]),
    ):
        assert (found.text, found.start, found.end) == ("", 0, 0) and found.no_answer > 1e38
    assert Answer().predict(reader, []) == []


def test_text_that_spells_special_tokens_is_text():
    reader = small_reader("answer", WORDS)
    laid = lay_questions(reader, [("which [SEP]", "the [SEP] dog [CLS]")])
    assert (laid.framed.ids[0] == reader.tokenizer.end).sum() == 2 and len(laid.framed) == 1


@pytest.mark.parametrize("given", ["which animal?", ("which animal?",), ("a", "b", "c")])
def test_what_is_no_question_with_its_text_is_refused(given):
    with pytest.raises(UsageProblem, match="is no question with its text"):
        Answer().predict(small_reader("answer", WORDS), [given])


def test_answers_that_are_not_in_their_context_teach_nothing(tmp_path):
    path = write_questions(
        tmp_path / "a.json", [("which animal?", "the dog", "dog"), ("which colour?", "the red", "red")]
    )
    content = json.loads(path.read_text())
    content["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["text"] = "blue"
    path.write_text(json.dumps(content))
    data = Answer.read(path, Reading())
    examples = Answer.of(data).examples(small_reader("answer", WORDS), data)
    assert len(examples) == 1 and examples.notes[0].startswith("1 questions in 1 rows")
    content["data"][0]["paragraphs"].pop(0)
    path.write_text(json.dumps(content))
    with pytest.raises(Problem, match=r"a\.json has no question whose answer is in its context"):
        Answer.of(Answer.read(path, Reading()))


def test_an_answer_that_no_piece_shows_is_left_out():
    question = Question("1", "", "which?", "the \u200b dog", (("\u200b", 4),), False)
    examples = Answer().examples(small_reader("answer", WORDS), Questions("a.json", [question], {}))
    assert len(examples) == 0 and examples.notes[1].startswith("warning: 1 rows are left out")


def question(identity: str, *answers: str, impossible: bool = False) -> Question:
    return Question(identity, "", "?", " ".join(answers), tuple((text, 0) for text in answers), impossible)


def test_questions_of_which_nothing_is_known_are_not_scored():
    data = Questions("a", [question("1", "dog"), question("2"), question("3", impossible=True)], {})
    exact, _ = Answer().score(
        [Found("The dog.", 0, 8, 1.0, 0.0), Found("x", 0, 1, 1.0, 0.0), Found("", 0, 0, 1.0, 0.0)], data
    )
    assert exact.value == 100


@pytest.mark.parametrize("before", [-100.0, 0.0, 100.0, None])
def test_the_threshold_moves_only_to_score_better_and_is_kept(learned, tmp_path, before):
    _, folder = learned
    dev, again = read_questions(folder / "1.json"), load(folder / "run", "cpu")
    again.task.threshold = before  # nothing is answered, what is likelier than nothing, or all
    was = again.evaluate(dev)[1].value
    again.tune(dev)
    now = again.evaluate(dev)[1].value
    assert now >= was and (now > was) == (again.task.threshold != before)
    assert before is None or now >= 95
    again.save(tmp_path / "tuned")
    assert load(tmp_path / "tuned", "cpu").task.threshold == again.task.threshold


def test_real_questions_are_encoded():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    whole = read_questions(Path(os.environ["REGARD_DATA"]) / "squad" / "dev-v2.0.json.xz")
    data = Questions(whole.source, whole.questions[:400], {})
    contexts = sorted({question.context for question in data})
    small = small_reader("answer", longest=128)
    for kind in ("wordpiece", "byte-bpe"):
        reader, task = Reader(small.published, Tokenizer.train(kind, contexts, 1500, special=ENCODER)), Answer.of(data)
        examples, laid = task.examples(reader, data), lay_questions(reader, task.inputs(data))
        assert len(examples) == len(laid.framed) and max(examples.framed.lengths) == 128
        exact, sure = 0, set()
        for row, (start, end) in enumerate(examples.wanted.tolist()):
            asked = data[laid.question[row]]
            if start:
                found = found_in(asked.context, laid, row, np.array([0, start, end, 0]), 0)
                assert asked.answers[0][0] in found.text and asked.context[found.start : found.end] == found.text
                exact += normalised(found.text) == normalised(asked.answers[0][0])
                sure.add(asked.id)
        answerable = {question.id for question in data if not question.impossible}
        assert sure == answerable and exact >= 0.98 * (examples.wanted[:, 0] > 0).sum()
