"""A Look drawn: every view of any text, the same file each time, and dark where the weight is."""

from __future__ import annotations

import sys
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.errors import Problem, UsageProblem
from regard.viewer.look import Look
from regard.viewer.pictures import FAINTEST, STRONGEST, Sides, colour_of, grid, lines, picture, thumbnail
from regard.viewer.sides import Side
from regard.viewer.view import View

ODD = ["日本語", "$x_1$", "\\frac", "\x1b[2J", "a\u2028b", "👨\u200d👩", "שלום", "</svg><script>", "w" * 90]
PIECES = ["[CLS]", "▁play", "ing", "▁chess", "."]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).random(shape) ** 4
    return drawn / drawn.sum(-1, keepdims=True)


@pytest.fixture
def encoder() -> Look:
    return Look.of_arrays(weights(3, 4, 5, 5), PIECES, name="small")


@pytest.fixture
def translator() -> Look:
    return Look.of_arrays(weights(2, 1, 3, 5), ["▁er", "▁spielt", "▁schach"], PIECES, name="pair")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize("name", ["matrix", "heads", "grid", "rollout"])
def test_every_view_of_odd_texts_is_the_same_file_each_time(tmp_path, name, suffix):
    odd, written = Look.of_arrays(weights(2, 2, len(ODD), len(ODD)), ODD), []
    for twin in (tmp_path / f"a{suffix}", tmp_path / f"b{suffix.upper()}"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            picture(odd, twin, View(name, words=False))
        written.append(twin.read_bytes())
    assert written[0] == written[1] and len(written[0]) > 1000
    if suffix == ".svg":
        ElementTree.fromstring(written[0])


def test_a_matrix_is_darkest_where_the_weight_is(tmp_path):
    from matplotlib.image import imread

    only = Look.of_arrays(np.eye(2)[None, None], ["▁a", "▁b"])
    picture(only, tmp_path / "a.png")
    pixels = imread(tmp_path / "a.png")[..., :3].mean(axis=2)
    above, left = pixels.shape[0] - 45, pixels.shape[1] - 45  # a weight is 45 pixels wide
    assert pixels[above - 30, left - 30] < 0.02 and pixels[above + 15, left + 15] < 0.02
    assert pixels[above - 30, left + 15] > 0.98 and pixels[above + 15, left - 30] > 0.98


def test_a_layer_and_a_head_make_other_pictures(tmp_path, encoder):
    views = [View(), View(layer=1), View(layer=1, head=2), View("heads"), View("heads", layer=1), View(words=False)]
    for number, view in enumerate(views):
        picture(encoder, tmp_path / f"{number}.png", view)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == len(views)


def test_words_look_as_their_pieces_do():
    side = Side.of(PIECES, special=[0]).header()
    header = {"sides": {"text": side}}
    sides = Sides.of(header, {"queries": "text", "keys": "text"}, True)
    assert sides.queries == sides.keys == ["[CLS]", "playing", "chess", "."]
    pieces = weights(2, 5, 5)
    words = sides.joined(pieces)
    np.testing.assert_allclose(words.sum(-1), 1)
    np.testing.assert_allclose(words[:, 1, 1], pieces[:, 1:3, 1:3].sum(-1).mean(-1))
    apart = Sides.of(header, {"queries": "text", "keys": "text"}, False)
    assert apart.keys == ["[CLS]", "play", "ing", "chess", "."]
    np.testing.assert_array_equal(apart.joined(pieces), pieces)


def test_lines_are_the_strongest_of_each_query():
    drawn = weights(20, 30)
    ends, strengths = lines(drawn)
    assert strengths.min() >= FAINTEST and (ends[:, 0, 0] == 0).all() and (ends[:, 1, 0] == 1).all()
    queries, keys = ends[:, 0, 1].astype(int), ends[:, 1, 1].astype(int)
    np.testing.assert_array_equal(strengths, drawn[queries, keys])
    for query, row in enumerate(drawn):
        kept = np.sort(strengths[queries == query])
        strongest = np.sort(row)[-STRONGEST:]
        np.testing.assert_array_equal(kept, strongest[strongest >= FAINTEST])


def test_heads_have_colours_of_their_own():
    assert len({colour_of(head) for head in range(32)}) == 32
    assert (colour_of(0), colour_of(8), colour_of(32)) == ("#e69f00", "#8a5f00", "#e69f00")


def test_the_grid_has_every_head_in_its_place(encoder):
    whole, height, width = grid(encoder, encoder.header()["attentions"][0])
    for layer in range(3):
        for head in range(4):
            there = whole[layer * height :, head * width :][:5, :5]
            np.testing.assert_array_equal(there, encoder.block(f"encoder/{layer}/weights")[head])
    assert np.isnan(whole).any()


def test_a_thumbnail_keeps_a_thin_line():
    large = np.zeros((512, 100))
    large[77] = 1
    small = thumbnail(large)
    assert small.shape == (48, 48) and small.max(axis=0).min() == 1 and small.sum() == 48


def test_the_attention_from_target_to_source_is_shown_unless_another_is_named(translator):
    assert View().attention_of(translator.header())["name"] == "cross"


@pytest.mark.parametrize(
    "view, kind, told",
    [
        (View(layer=4), UsageProblem, "encoder has no layer 4; it has 1 to 3"),
        (View(layer=0), UsageProblem, "no layer 0"),
        (View(layer=1, head=5), UsageProblem, "layer 1 has no head 5; it has 1 to 4"),
        (View(attention="cross"), UsageProblem, "no attention 'cross' can be shown as matrix; there are: encoder"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, encoder, view, kind, told):
    with pytest.raises(kind, match=told):
        picture(encoder, tmp_path / "a.png", view)
    assert not list(tmp_path.iterdir())


def test_a_view_that_cannot_be_is_refused(tmp_path, translator):
    with pytest.raises(UsageProblem, match="no view is called 'cube'; there are: matrix, heads"):
        View("cube")
    with pytest.raises(UsageProblem, match="head 2 of which layer"):
        View(head=2)
    with pytest.raises(Problem, match="pair has no self attention"):
        picture(translator, tmp_path / "a.png", View("rollout"))
    states = Look("lstm", "lstm", "recurrent", {"text": Side.of(["▁a"])})
    with pytest.raises(Problem, match="lstm has no attention to draw; the page shows its states"):
        picture(states, tmp_path / "a.png")


def test_without_matplotlib_the_remedy_is_named(tmp_path, encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("matrix", "heads"):
        with pytest.raises(Problem, match=r"pip install 'regard\[plot\]'"):
            picture(encoder, tmp_path / "a.png", View(name))


def test_a_view_is_told_to_the_page():
    assert View().hash() == ""
    assert View("heads", "cross", 1, 4, words=True).hash() == "view=heads&attention=cross&layer=0&unit=words&heads=3"
    assert View(attention="a&b=<c>").hash() == "attention=a%26b%3D%3Cc%3E"
