"""An alignment says the same in every form it is written in, and any sentence can be drawn."""

import json
import sys
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from regard.errors import Problem, UsageProblem
from regard.viewer.alignment import Alignment, by_words, write_alignments

ODD = ["日本語", "e\u0301", "$x_1$", "\\frac", "\x1b[2J", "a\u2028b", "👨\u200d👩", "", "שלום", "\ud800", "w" * 90]


@pytest.fixture
def crossed() -> Alignment:
    weights = np.array([[0.8, 0.1, 0.1], [0.05, 0.05, 0.9], [0.0, 0.6, 0.4], [0.3, 0.3, 0.4]], dtype=np.float32)
    return Alignment(["the", "white", "house"], ["la", "maison", "blanche", "."], weights)


def uniform(source: list[str], target: list[str]) -> Alignment:
    return Alignment(source, target, np.full((len(target), len(source)), 1 / max(len(source), 1)))


EMPTY = uniform([], [])


def test_weights_must_fit_the_pieces():
    with pytest.raises(Problem, match=r"shape \(2, 1\) for 1 target and 2 source"):
        Alignment(["a", "b"], ["c"], np.ones((2, 1)))


def test_text_is_the_source_piece_each_target_piece_looked_at_most(crossed):
    assert crossed.text() == "0-0 2-1 1-2 2-3"
    assert EMPTY.text() == uniform([], ["a"]).text() == uniform(["a"], []).text() == ""


def test_json_keeps_tokens_and_weights(crossed):
    kept = json.loads(json.dumps(crossed.json()))
    assert kept["source"] == crossed.source and kept["target"] == crossed.target
    assert kept["weights"][1] == [0.05, 0.05, 0.9]


def test_terminal_drawing(crossed):
    assert crossed.terminal(40).split("\n") == [
        "          w h",
        "          h o",
        "        t i u",
        "        h t s",
        "        e e e",
        "     la ██░░░░",
        " maison · · ██",
        "blanche · ▓▓▒▒",
        "      . ▒▒▒▒▒▒",
        "",
        "░ 0.1  ▒ 0.25  ▓ 0.5  █ 0.75 or more",
    ]


def test_terminal_drawing_continues_below_when_it_is_too_wide(crossed):
    lines = crossed.terminal(10).split("\n")
    assert max(map(len, lines[:-1])) <= 10
    rows = [line for line in lines[:-1] if "la" in line]
    assert "".join(row.removeprefix(" la ") for row in rows) == "██░░░░"


@given(st.lists(st.sampled_from(ODD), max_size=9), st.lists(st.sampled_from(ODD), max_size=5), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_terminal_columns_stay_aligned_for_any_characters(source, target, width):
    drawing = uniform(source, target).terminal(width)
    if not source or not target:
        assert drawing == ""
        return
    assert all(character.isprintable() for line in drawing.split("\n") for character in line)
    blocks = drawing.split("\n\n")[:-1]
    rows = [line for block in blocks for line in block.split("\n")[-len(target) :]]
    longest = max(map(cell_len, rows))
    assert longest <= max(width, 4)
    filled = [row for row in rows[: len(target)] if len(source) <= 10]  # 1/10 is the faintest shade
    assert {cell_len(row) for row in filled} <= {longest}


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf", "A.PNG"])
def test_pictures_of_odd_sentences(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uniform(ODD, ODD[:4]).picture(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000
    if name.endswith("svg"):
        ElementTree.parse(tmp_path / name)


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_a_picture_is_a_function_of_the_alignment(tmp_path, crossed, name):
    written = []
    for _ in range(2):
        crossed.picture(tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


def test_a_picture_is_darkest_where_the_weight_is(tmp_path):
    from matplotlib.image import imread

    Alignment(["a", "b"], ["c", "d"], np.eye(2)).picture(tmp_path / "a.png")
    pixels = imread(tmp_path / "a.png")[..., :3].mean(axis=2)
    above, left = pixels.shape[0] - 45, pixels.shape[1] - 45  # a weight is 45 pixels wide
    assert pixels[above - 30, left - 30] < 0.02 and pixels[above + 15, left + 15] < 0.02
    assert pixels[above - 30, left + 15] > 0.98 and pixels[above + 15, left - 30] > 0.98


def test_without_matplotlib_the_remedy_is_named(tmp_path, crossed, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Problem, match=r"pip install 'regard\[plot\]'"):
        crossed.picture(tmp_path / "a.png")


def test_text_and_json_files_have_a_line_a_sentence(tmp_path, crossed):
    assert write_alignments(tmp_path / "a.txt", [crossed, EMPTY, crossed]) == [tmp_path / "a.txt"]
    assert (tmp_path / "a.txt").read_text() == "0-0 2-1 1-2 2-3\n\n0-0 2-1 1-2 2-3\n"
    odd = uniform(ODD, ODD[:2])
    write_alignments(tmp_path / "a.json", [crossed, EMPTY, odd])
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == [crossed.json(), {"source": [], "target": [], "weights": []}, odd.json()]
    assert len(text.split("\n")) == 6


def test_several_pictures_are_numbered_like_their_sentences(tmp_path, crossed):
    assert write_alignments(tmp_path / "one.svg", [crossed]) == [tmp_path / "one.svg"]
    several = write_alignments(tmp_path / "many.svg", [crossed, EMPTY, crossed])
    assert several == [tmp_path / "many-1.svg", tmp_path / "many-3.svg"]
    assert sorted(tmp_path.iterdir()) == [*several, tmp_path / "one.svg"]


@pytest.mark.parametrize("alignments", [[], [EMPTY], [EMPTY, EMPTY]])
def test_nothing_to_draw_is_said(tmp_path, alignments):
    with pytest.raises(Problem, match="nothing to draw"):
        write_alignments(tmp_path / "a.png", alignments)


@pytest.mark.parametrize("name", ["a.gif", "a"])
def test_unknown_extensions_are_refused_with_the_known(tmp_path, crossed, name):
    with pytest.raises(UsageProblem, match=r"use \.txt, \.json, \.png, \.svg, \.pdf"):
        write_alignments(tmp_path / name, [crossed])


def test_pieces_join_to_words():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.0, 1.0]])
    pieces = Alignment(["▁wh", "ite", "▁house", "</s>"], ["▁mai", "son", "▁blanche", "</s>"], weights)
    words = by_words(pieces)
    assert words.source == ["white", "house", "</s>"] and words.target == ["maison", "blanche", "</s>"]
    np.testing.assert_allclose(words.weights, [[0.45, 0.2, 0.35], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])


def test_words_of_odd_pieces():
    joined = by_words(uniform(["<s>", "no", "▁", "x", "▁"], ["a"]))
    assert joined.source == ["<s>", "no", "x", "▁"]
    assert by_words(EMPTY).is_empty
