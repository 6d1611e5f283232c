"""What is held out is a share of every label, whole groups of duplicates, and the same whenever it is asked for."""

import json
import random
from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.columns import Columns
from regard.data.labelled import Labelled
from regard.data.parallel import Parallel
from regard.data.preferences import Preferences
from regard.data.questions import read_questions
from regard.data.recordings import Recording, Recordings
from regard.data.split import ExampleKey, held_out_numbers, hold_out
from regard.data.tagged import Tagged
from regard.errors import Problem


def labelled(texts: list[str], labels: list[str]) -> Labelled:
    some = [(text,) for text in texts]
    return Labelled("some.tsv", Columns("1", None, "label"), some, labels, array("q", range(1, len(texts) + 1)))


def test_a_tenth_of_every_label_is_held_out():
    labels = ["a"] * 600 + ["b"] * 300 + ["c"] * 100
    random.Random(0).shuffle(labels)
    train, dev = hold_out(labelled([f"text {n}" for n in range(1000)], labels), 0)
    assert Counter(dev.labels) == {"a": 60, "b": 30, "c": 10} and len(train) == 900
    assert (train.source, dev.source) == ("some.tsv", "some.tsv (held out)")
    lines = [*train.starts, *dev.starts]
    assert sorted(lines) == list(range(1, 1001)) and list(dev.starts) == sorted(dev.starts)
    assert dev.place(0) == f"some.tsv (held out), line {dev.starts[0]}"


def test_the_seed_decides_and_nothing_else():
    data = labelled([f"text {n}" for n in range(200)], ["a", "b"] * 100)
    held = [tuple(hold_out(data, seed)[1].starts) for seed in (0, 0, 1)]
    assert held[0] == held[1] != held[2]


def test_duplicates_stay_together():
    texts = [f"{'  ' * (n % 3)}Text {n // 4}" for n in range(400)]
    train, dev = hold_out(labelled(texts, ["a", "b"] * 200), 0)
    plain = [{" ".join(text.split()) for (text,) in part.texts} for part in (train, dev)]
    assert not plain[0] & plain[1] and len(dev) == 40


def test_a_pair_stays_with_itself_the_other_way_round():
    pairs = [pair for n in range(50) for pair in ((f"a {n}", f"b {n}"), (f"b {n}", f"a {n}"))]
    data = Labelled("some", Columns("1", "2", "3"), pairs, ["x", "y"] * 50, array("q", range(100)))
    train, dev = hold_out(data, 0)
    assert not {frozenset(pair) for pair in train.texts} & {frozenset(pair) for pair in dev.texts} and len(dev) == 10


def test_training_keeps_a_label_that_occurs_once():
    train, _ = hold_out(labelled([f"text {n}" for n in range(60)], [f"rare {n}" for n in range(20)] + ["b"] * 40), 3)
    assert len(set(train.labels)) == 21


def test_numbers_are_held_out_from_low_to_high():
    labels = [str(n / 100) for n in range(500)]
    random.Random(0).shuffle(labels)
    _, dev = hold_out(labelled([f"text {n}" for n in range(500)], labels), 0)
    assert Counter(int(float(label)) for label in dev.labels) == dict.fromkeys(range(5), 10)


def test_too_few_are_refused():
    with pytest.raises(Problem, match=r"some\.tsv: 3 examples are too few to hold some out; give others with --dev"):
        hold_out(labelled(["a", "b", "c"], ["x", "x", "y"]), 0)
    with pytest.raises(Problem, match="too few"):
        hold_out(labelled(["same"] * 50, ["x", "y"] * 25), 0)


keys = st.lists(
    st.builds(ExampleKey, st.sampled_from("abcdefghijklmnopq"), stratum=st.sampled_from("xyz"), labels=st.just(())),
    max_size=60,
)


@given(keys, st.integers(0, 9))
def test_whole_groups_and_never_all(keys, seed):
    held = set(held_out_numbers(keys, seed))
    assert held == {n for n, key in enumerate(keys) if key.text in {keys[m].text for m in held}}
    assert len(held) < max(len(keys), 1)


def test_sentences_keep_every_tag_in_training():
    tags = [["O", "B-PER"]] * 50 + [["B-LOC", "I-LOC"]] * 49 + [["B-ODD", "O"]]
    words = [[f"w{n}", "x"] for n in range(100)]
    data = Tagged("some", words, tags, array("q", range(100)), "IOB2", 0)
    train, dev = hold_out(data, 0)
    assert len(dev) == 10 and {tag for some in train.tags for tag in some} == {tag for some in tags for tag in some}
    assert Counter(some[0] for some in dev.tags) == {"O": 5, "B-LOC": 5}


@pytest.mark.parametrize("articles", [1, 20])
def test_questions_about_one_text_stay_together(tmp_path, articles):
    data = []
    for n in range(40):
        asked = [
            {"id": f"{n}-{q}", "question": f"what {q} ?", "answers": [{"text": "film", "answer_start": 4}]}
            for q in "ab"
        ]
        data.append({"title": f"T{n % articles}", "paragraphs": [{"context": f"the film {n}", "qas": asked}]})
    (tmp_path / "a.json").write_text(json.dumps({"data": data}))
    train, dev = hold_out(read_questions(tmp_path / "a.json"), 0)
    for part in ("title",) * (articles > 1) + ("context",):
        assert not {getattr(q, part) for q in train} & {getattr(q, part) for q in dev}
    assert len(dev) == 8 and len(train) == 72


def test_preferences_recordings_and_parallel_text():
    pairs = [(f"prompt {n // 2}", f"good {n}", "bad") for n in range(40)]
    train, dev = hold_out(Preferences("some", pairs, array("q", range(40))), 0)
    assert not {pair[0] for pair in train.pairs} & {pair[0] for pair in dev.pairs} and len(dev) == 4
    spoken = [Recording(f"{n}.wav", b"", ("one", "two")[n % 2]) for n in range(40)]
    _, heard = hold_out(Recordings("some", spoken), 0)
    assert Counter(heard.texts) == {"one": 2, "two": 2}
    text = Parallel([f"source {n}" for n in range(95)] + [""] * 5, [f"Ziel {n}" for n in range(100)], "a and b")
    rest, held = hold_out(text, 0)
    assert len(rest) == 90 and all(held.sources) and held.source == "a and b (held out)"
    assert all(source[7:] == target[5:] for source, target in zip(held.sources, held.targets, strict=True))
