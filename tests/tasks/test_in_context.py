"""Learning from examples in the context: how they are drawn and written down, and what the model answers after them."""

import numpy as np
import pytest
from copying import copying

from regard.data.labelled import LabelMap, read_labelled
from regard.decoding.generate import Limits
from regard.errors import Problem, UsageProblem
from regard.tasks.in_context import (
    BETWEEN,
    FIELDS,
    TEMPLATES,
    Example,
    InContext,
    Template,
    check_verbal,
    drawn_shots,
    examples_of,
)

GOOD, BAD = ["good", "great", "fine", "lovely"], ["bad", "awful", "poor", "dull"]
PLAIN = Template("{text} {label}", ("text",))
OPTIONS = ("no", "yes")


def example(word: str) -> Example:
    return Example({"text": f"a film so {word}"}, OPTIONS, int(word in GOOD))


SHOTS = [example(word) for word in [*GOOD, *BAD]]


@pytest.fixture(scope="module")
def writer():
    return copying([PLAIN.whole(one) for one in SHOTS] + ["Text: Label: N/A x y no yes yes yes"])


def test_an_example_is_written_as_the_template_says():
    shown = {"text": "It {label} rains.", "second": "It is wet."}
    pair = Template(TEMPLATES["pair"], FIELDS["pair"])
    assert pair.question(shown) == "First: It {label} rains.\nSecond: It is wet.\nLabel:"
    assert pair.answer("yes") == " yes", "the space belongs to the answer, as pieces have it"
    assert pair.whole(Example(shown, OPTIONS, 1)).endswith("\nLabel: yes")
    assert Template("{text}\n{label}", ("text",)).answer("no") == "no"


@pytest.mark.parametrize(
    "text, told",
    [
        ("{text}: {labell}", "did you mean|there are"),
        ("{label}: {text}", "must end with"),
        ("{text} {label} {label}", "nowhere else"),
        ("{text} {second} {label}", "second"),
        ("what? {label}", "does not show"),
        ("{text}", "must end with"),
    ],
)
def test_a_template_that_cannot_be_asked_is_refused(text, told):
    with pytest.raises(UsageProblem, match=told):
        Template(text, ("text",))


def test_examples_are_drawn_alike_of_every_label_and_fewer_begin_more():
    many = [Example({"text": str(number)}, OPTIONS, int(number < 90)) for number in range(100)]
    for seed in range(5):
        sixteen = drawn_shots(many, 16, seed, balanced=True)
        assert sum(one.right for one in sixteen) == 8
        assert len({one.shown["text"] for one in sixteen}) == 16
        assert drawn_shots(many, 4, seed, balanced=True) == sixteen[:4]
        assert sum(one.right for one in drawn_shots(many, 30, seed, balanced=True)) == 20, "of ten, all"
    assert drawn_shots(many, 16, 0, balanced=True) != drawn_shots(many, 16, 1, balanced=True)
    assert drawn_shots(many, 0, 0, balanced=True) == []
    with pytest.raises(Problem, match=r"101 examples.*only 100"):
        drawn_shots(many, 101, 0, balanced=False)


def test_more_examples_are_better_answered(writer):
    """The model can answer for a word it was shown: with eight shots for all, with four for half, without for none."""
    model, asked = InContext(writer, PLAIN), SHOTS[::-1]
    right = [one.right for one in asked]
    assert model.answers(SHOTS, asked).chosen == right
    few = [one for one in SHOTS if one.shown["text"].split()[-1] in ("good", "great", "bad", "awful")]
    shares = [np.mean(np.equal(model.answers(shots, asked).chosen, right)) for shots in ([], few, SHOTS)]
    assert shares == [0.5, 0.75, 1.0]


@pytest.mark.parametrize("rank", ["total", "mean", "calibrated"])
def test_options_are_ranked_by_their_log_probability(writer, rank):
    asked = [
        Example({"text": "a film so good"}, ("yes", "no yes yes", "x y"), 0),
        Example({"text": "so fine"}, ("x", "y x"), 1),
    ]
    found = InContext(writer, PLAIN, rank).answers(SHOTS[:3], asked)
    for chosen, one in zip(found.chosen, asked, strict=True):
        assert chosen == int(np.argmax([value(writer, SHOTS[:3], one, option, rank) for option in one.options]))
    assert (found.dropped, found.cut) == (0, 0)


def value(writer, shots, one: Example, option: str, rank: str) -> float:
    """The same by one word after the other."""

    def told(shown: str) -> tuple[float, int]:
        prompt = BETWEEN.join([*(PLAIN.whole(shot) for shot in shots), shown])
        total, words = 0.0, option.split()
        for word in words:
            total += writer.log_probabilities([prompt], [f" {word}"])[0].log_probability
            prompt += f" {word}"
        return total, len(words)

    total, count = told(one.shown["text"])
    if rank == "calibrated":
        return total - told("N/A")[0]
    return total / count if rank == "mean" else total


def test_calibration_undoes_a_bias(writer):
    """The model was led to say yes, most of all after `N/A`: after x it says yes less than it would to nothing."""
    shots = [Example({"text": "x"}, OPTIONS, right) for right in (1, 1, 0)] + [Example({"text": "N/A"}, OPTIONS, 1)] * 4
    asked = [Example({"text": "x"}, OPTIONS, 0)]
    assert InContext(writer, PLAIN).answers(shots, asked).chosen == [1]
    assert InContext(writer, PLAIN, "calibrated").answers(shots, asked).chosen == [0]
    with pytest.raises(UsageProblem, match="calibrate"):
        InContext(writer, PLAIN, "calibrate")


def test_what_does_not_fit_is_dropped_from_the_left(writer):
    class Small(type(writer)):
        limits = Limits(writer.end, 14, writer.tokenizer.size)

    small = Small(writer.published, writer.tokenizer)
    model = InContext(small, PLAIN)
    prompt, dropped = model.fitted(SHOTS[:4], SHOTS[0])  # five words and two ends of line an example
    assert prompt == BETWEEN.join([PLAIN.whole(SHOTS[3]), SHOTS[0].shown["text"]])
    assert dropped == 3
    long = Example({"text": "so " * 20 + "good"}, OPTIONS, 1)
    found = model.answers(SHOTS[:4], [SHOTS[0], long])
    assert (found.dropped, found.cut) == (3 + 4, 1)


def test_labels_are_said_as_they_are_called(tmp_path):
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\t0\nc\td\t1\n")
    data = read_labelled(tmp_path / "pairs.tsv", "pair")
    labels = LabelMap.of(data.labels)
    first, second = examples_of(data, "pair", labels, {"0": "different"})
    assert first == Example({"text": "a", "second": "b"}, ("different", "1"), 0)
    assert second.right == 1
    assert [one.right for one in examples_of(data, "pair", LabelMap(("1", "2")), {})] == [-1, 0]  # 0 is no option
    check_verbal({"0": "different"}, labels)
    with pytest.raises(UsageProblem, match="no label is called '2'"):
        check_verbal({"2": "x"}, labels)
    with pytest.raises(UsageProblem, match="said alike"):
        check_verbal({"0": "1"}, labels)


def test_choices_are_their_own_options(tmp_path):
    (tmp_path / "choose.csv").write_text("ctx,ending0,ending1,label\nIt is,wet,dry,1\n")
    data = read_labelled(tmp_path / "choose.csv", "choose")
    assert examples_of(data, "choose", LabelMap.of([]), {}) == [Example({"text": "It is"}, ("wet", "dry"), 1)]
