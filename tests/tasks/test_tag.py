"""Tagging: words and pieces, entities as spans of a text, long sentences; and the reference library's numbers."""

import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_tasks import learn, ours, reference, small_reader, theirs, write_lines

from regard.commands.load import load
from regard.data.labelled import LabelMap
from regard.data.reading import Reading
from regard.data.tagged import Tagged
from regard.errors import Problem
from regard.tasks.finetuned import Finetuned, with_task
from regard.tasks.tag import NOTHING, OTHER, Entity, Sentence, Tag, Tags, lay_words, word_pattern
from regard.tasks.task import unseen_warnings
from regard.text.tokenizer import ENCODER, Tokenizer

FIRST, LAST, TOWNS = ["anna", "boris", "carla", "dora"], ["smith", "jones", "brown"], ["paris", "rome", "oslo", "kyiv"]
FILL = ["saw", "the", "in", "went", "to", "and", "then", ".", ",", "(", ")"]
WORDS = [*FIRST, *LAST, *TOWNS, *FILL]


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    draw, made = random.Random(seed), []
    for _ in range(count):
        sentence = []
        for _ in range(draw.randint(2, 16)):
            names = [(draw.choice(FIRST), "I-PER"), (draw.choice(LAST), "I-PER")]
            kinds = [names, names[:1], [(draw.choice(TOWNS), "I-LOC")], []]
            sentence += [*draw.choice(kinds), (draw.choice(FILL), "O")]
        made.append(sentence)
    return made


def write_tagged(path: Path, made) -> Path:
    return write_lines(path, (line for sentence in made for line in [*(f"{word} {tag}" for word, tag in sentence), ""]))


def read(path: Path, **reading) -> Tagged:
    return Tag.read(path, Reading(**reading))


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> tuple[Finetuned, Path]:
    folder = tmp_path_factory.mktemp("tag")
    train, dev = (write_tagged(folder / f"{n}.txt", sentences(count, n)) for n, count in enumerate((200, 40)))
    return learn(folder, "tag", train, dev, WORDS), folder


def test_it_is_learned(learned):
    finetuned, folder = learned
    assert finetuned.task.watched == "entity f1"
    assert finetuned.task.labels.names == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")  # IOB2, though the files have IOB1
    scores = finetuned.evaluate(read(folder / "1.txt"))
    assert [score.metric for score in scores] == ["entity F1", "tag accuracy", "entity F1 of LOC", "entity F1 of PER"]
    assert all(score.value > 99 for score in scores)


def test_entities_are_spans_of_the_text(learned):
    finetuned, _ = learned
    text = "then  anna smith,carla went\tto paris (rome)."
    found = finetuned(text)
    assert [(one.kind, one.text) for one in found.entities] == [
        ("PER", "anna smith"), ("PER", "carla"), ("LOC", "paris"), ("LOC", "rome"),
    ]  # fmt: skip
    assert all(text[one.start : one.end] == one.text and 0.5 < one.probability <= 1 for one in found.entities)
    assert found.words[:5] == ["then", "anna", "smith", ",", "carla"] and len(found.tags) == len(found.words)


def test_words_are_read_as_given(learned):
    finetuned, _ = learned
    found = finetuned(["then", "anna", "smith", "went"])
    assert found == finetuned("then anna smith went")
    assert (
        found.entities[0].text
        == "anna smith"
        == "then anna smith went"[found.entities[0].start : found.entities[0].end]
    )


def test_a_saved_folder_does_the_same(learned):
    finetuned, folder = learned
    again = load(folder / "run", "cpu")
    texts = ["then anna smith went to rome .", "", "boris", "carla and dora saw oslo " * 20]
    assert isinstance(again, Finetuned) and again.name == "tag"
    assert again.predict(texts) == finetuned.predict(texts)


def test_the_reference_library_gives_the_same_scores_and_names(learned):
    finetuned, folder = learned
    model = reference(folder / "run" / "model", "AutoModelForTokenClassification")
    assert model.config.id2label == dict(enumerate(finetuned.task.labels.names))
    framed = lay_words(finetuned.reader, [["anna", "went", "to", "unknownland"]]).framed
    assert torch.allclose(ours(finetuned.reader, "tag", framed, 0), theirs(model, framed, 0).logits[0], atol=1e-5)


def test_the_loss_is_the_reference_librarys(tmp_path):
    data = read(write_tagged(tmp_path / "a.txt", sentences(6, 2)))
    task = Tag.of(data)
    finetuned, _ = with_task(small_reader("tag", WORDS, outputs=5), "tag", task)
    finetuned.save(tmp_path / "model")
    raw = task.examples(finetuned.reader, data).batch(np.arange(6))
    batch = task.prepare(raw)
    result = task.judge(finetuned.model, batch)
    model = reference(tmp_path / "model", "BertForTokenClassification")
    rows = batch["tokens"].rows
    labels = rows.pad(raw["wanted"].long()).masked_fill(~rows.real, NOTHING)
    with torch.no_grad():
        wanted = model(
            input_ids=rows.pad(batch["tokens"].ids), attention_mask=rows.real.long(), labels=labels,
            token_type_ids=rows.pad(batch["types"]),
        )  # fmt: skip
    assert torch.allclose(result.loss / result.count, wanted.loss, atol=1e-5)
    assert int(result.count) == sum(map(len, data.words)) == len(batch["places"])


def test_only_first_pieces_have_a_target(tmp_path):
    data = read(
        write_tagged(tmp_path / "a.txt", [[("anna", "I-PER"), ("xyz", "O"), ("\u200b", "O"), ("rome", "I-LOC")]])
    )
    reader, task = small_reader("tag", WORDS, outputs=5), Tag.of(data)
    examples = task.examples(reader, data)
    names = [task.labels.names[label] if label >= 0 else "" for label in examples.wanted[0]]
    pieces = [reader.tokenizer.piece(id) for id in examples.framed.ids[0]]
    assert pieces == ["[CLS]", "▁anna", "▁x", "y", "z", "▁rome", "[SEP]"]
    assert names == ["", "B-PER", "O", "", "", "B-LOC", ""]
    assert examples.notes == ["warning: 1 words have no pieces, and teach nothing"]
    [found] = task.predict(reader, data.words)
    assert (found.unread, found.tags[2], len(found.tags)) == (1, "O", 4)


def test_a_long_sentence_is_tagged_to_its_end(learned):
    """Words at the end are told as well as those at the start: each is read once, amid its neighbours."""
    finetuned, _ = learned
    words = ["carla", "saw", "rome", "and", "boris", "smith", "went", "to", "oslo", "."] * 30
    found = finetuned(words)
    wanted = ["B-PER", "O", "B-LOC", "O", "B-PER", "I-PER", "O", "O", "B-LOC", "O"] * 30
    assert np.mean([said == was for said, was in zip(found.tags, wanted, strict=True)]) > 0.97
    assert found.unread == 0 and found.entities[-1].end <= len(" ".join(words))


@given(st.lists(st.sampled_from([*WORDS, "unknown", "\u200b", "x-y-z"]), max_size=60), st.integers(3, 20))
def test_every_word_has_its_place_once(words, longest):
    reader = READER
    reader.longest = longest
    laid = lay_words(reader, [words, ["rome"]])
    ids = laid.framed.ids.ids
    assert max(laid.framed.lengths) <= longest
    for sentence, places in zip([words, ["rome"]], laid.places, strict=True):
        for word, place in zip(sentence, places.tolist(), strict=True):
            pieces = reader.tokenizer.encode_words([word])[0]
            assert (place == -1) == (not pieces)
            assert not pieces or ids[place] == pieces[0]
        known = places[places >= 0]
        assert len(set(known.tolist())) == len(known) and (np.diff(known) > 0).all()


READER = small_reader("tag", WORDS)


@pytest.mark.parametrize(
    "text, words",
    [
        ("Jean-Pierre O'Neill's U.N. visit cost $1,234.50.", "Jean-Pierre O'Neill 's U.N. visit cost $ 1,234.50 ."),
        ("AT&T (New York): 'yes'", "AT&T ( New York ) : ' yes '"),
        ("at 3:30 p.m., don’t", "at 3:30 p.m. , don’t"),
        ("naïve हिन्दी cafe\u0301", "naïve हिन्दी cafe\u0301"),
        (" \t\n", ""),
        ("🙂🙂!", "🙂 🙂 !"),
    ],
)
def test_how_a_text_is_cut(text, words):
    assert Sentence.of(text).words == words.split()


@given(st.text(max_size=40))
def test_a_cut_loses_nothing_but_spaces(text):
    spans = [found.span() for found in word_pattern().finditer(text)]
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
    assert all(start < end for start, end in spans) and spans == sorted(spans)


@given(st.lists(st.text(max_size=5), max_size=8))
def test_spans_of_given_words(words):
    assert Sentence.of(words).words == words


def test_an_entity_without_a_beginning_is_one_all_the_same():
    task = Tag(LabelMap(("B-LOC", "B-PER", "I-LOC", "I-PER", "O")), "O")
    labels, shares = np.array([4, 3, 3, 2, 4]), np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    found = task.tagged(Sentence.of(["on", "anna", "smith", "oslo", "."]), np.arange(5), labels, shares)
    assert found.tags == ["O", "B-PER", "I-PER", "B-LOC", "O"]
    assert found.entities == [Entity("PER", 3, 13, "anna smith", 0.7), Entity("LOC", 14, 18, "oslo", 0.6)]


def test_parts_of_speech(tmp_path):
    rows = [[("the", "DET"), ("dog", "NOUN"), ("and", "CONJ"), ("cat", "NOUN")]]
    data = read(write_tagged(tmp_path / "a.txt", rows))
    task = Tag.of(data)
    assert (task.watched, task.other, task.labels.names) == ("tag accuracy", "NOUN", ("CONJ", "DET", "NOUN"))
    reader = small_reader("tag", outputs=3)
    finetuned, fresh = with_task(reader, "tag", task)
    assert fresh == ["classifier.bias", "classifier.weight"]  # a head of as many outputs, but of other names
    found = finetuned(["the", "\u200b"])
    assert (found.tags[1], found.entities, found.unread) == ("NOUN", [], 1)
    assert [score.metric for score in finetuned.evaluate(data)] == ["tag accuracy"]
    finetuned.save(tmp_path / "model")
    again = load(tmp_path / "model", "cpu")
    assert again.task.other == "NOUN" and again.reader.published.theirs[OTHER] == "NOUN"
    assert again.predict(data.words) == finetuned.predict(data.words)


def test_columns_may_be_named(tmp_path):
    path = write_lines(tmp_path / "a.txt", ["1 DET the", "2 NOUN dog"])
    data = read(path, text="3", label="2")
    assert (data.words, data.tags) == ([["the", "dog"]], [["DET", "NOUN"]])
    assert data.lines() == [f"{path}: 1 sentences, 2 words; 2 tags: DET, NOUN"]


def test_facts_of_entities(tmp_path):
    path = write_tagged(tmp_path / "a.txt", [[("a", "B-X"), ("b", "O"), ("c", "I-X")], [("d", "B-Y")]])
    assert read(path).lines() == [
        f"{path}: 2 sentences, 4 words; entities of 2 kinds: X, Y",
        "warning: 1 entities begin with no B-: they are taken as they stand",
    ]
    path = write_tagged(tmp_path / "b.txt", [[("a", "O")]])
    assert read(path).lines()[1] == "warning: all words have the tag 'O': nothing can be learned from them"


def test_tags_that_were_never_learned_are_counted_as_wrong(tmp_path):
    train = read(write_tagged(tmp_path / "train.txt", sentences(5, 0)))
    task = Tag.of(train)
    dev = read(write_tagged(tmp_path / "dev.txt", [[("a", "O")], [("b", "B-LOC"), ("c", "B-ORG")]]))
    task.check(dev)
    assert task.unseen(dev) == {"B-ORG": 1} and "'B-ORG' (1)" in unseen_warnings(task.unseen(dev), dev.source)[0]
    said = [Tags(["a"], ["O"], []), Tags(["b", "c"], ["B-LOC", "O"], [])]
    entity, accuracy, *kinds = task.score(said, dev)
    assert (entity.value, accuracy.value) == pytest.approx((200 / 3, 200 / 3))
    assert [score.key for score in (entity, accuracy, *kinds)] == task.metrics(dev)
    with pytest.raises(Problem, match=r"dev\.txt, sentence at line 3: the label 'B-ORG' did not occur in training"):
        task.examples(READER, dev)
    other = read(write_tagged(tmp_path / "other.txt", [[("b", "B-PLACE"), ("c", "O")]]))
    with pytest.raises(Problem, match=r"none of its labels \(PLACE\).*model's \(LOC, PER\).*--label-map PLACE=LOC"):
        task.check(other)
    named = Tag.read(tmp_path / "other.txt", Reading(label_map=("PLACE=LOC",)))
    assert named.tags == [["B-LOC", "O"]] and not task.unseen(named)


def test_tags_of_one_kind_cannot_be_learned(tmp_path):
    one = read(write_tagged(tmp_path / "one.txt", [[("a", "O"), ("b", "O")]]))
    with pytest.raises(Problem, match="all words have the tag 'O'"):
        Tag.of(one)


def test_a_kind_that_only_ever_begins_may_go_on_elsewhere(tmp_path):
    task = Tag.of(read(write_tagged(tmp_path / "train.txt", [[("a", "B-X"), ("b", "O")]])))
    task.check(read(write_tagged(tmp_path / "dev.txt", [[("a", "B-X"), ("b", "I-X")]])))


def test_a_model_of_another_scheme_is_scored(tmp_path):
    """One that says BIOES answers in IOB2, and is compared in it."""
    task = Tag(LabelMap(("B-X", "E-X", "I-X", "O", "S-X")), "O")
    data = read(write_tagged(tmp_path / "a.txt", [[("a", "B-X"), ("b", "I-X"), ("c", "O"), ("d", "B-X")]]))
    said = task.tagged(Sentence.of(data.words[0]), np.arange(4), np.array([0, 1, 3, 4]), np.ones(4))
    assert [score.value for score in task.score([said], data)] == [100, 100, 100]


@pytest.mark.parametrize("text", ["", " ", "\u200b", "[SEP] [CLS] [MASK]", "word " * 500, "漢字 🙂 \ud800"])
def test_odd_texts(text):
    READER.longest = 48
    task = Tag(LabelMap(("B-X", "O")), "O")
    [found] = task.predict(READER, [text])
    assert len(found.words) == len(found.tags) and all(text[one.start : one.end] == one.text for one in found.entities)
    framed = lay_words(READER, [found.words]).framed
    assert sum((framed.ids[row] == READER.tokenizer.end).sum() for row in range(len(framed))) == len(framed)
    assert task.predict(READER, []) == []


def test_real_entities_are_encoded():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    whole = read(Path(os.environ["REGARD_DATA"]) / "conll2003" / "eng.testa.xz")
    data = replace(whole, words=whole.words[:300], tags=whole.tags[:300])
    reader = small_reader("tag")
    reader.tokenizer = Tokenizer.train("wordpiece", map(" ".join, data.words), 800, special=ENCODER)
    task = Tag.of(whole)
    assert len(task.labels) == 9
    examples = task.examples(reader, data)
    wanted = [task.labels.names[label] for label in examples.wanted.ids if label >= 0]
    assert wanted == [tag for tags in data.tags for tag in tags]  # each word once, in its order, long sentences too
    assert max(examples.framed.lengths) == 48 and len(examples) > 300
