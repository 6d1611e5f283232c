"""The views of two looks beside each other and of recurrent states, in a real browser: what they show is there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import page_looks
import pytest
import views_fixtures
from page_fixtures import box_of, count_work, serving, settle, show, work_of
from page_looks import HOSTILE
from views_fixtures import choose, numbers


@pytest.fixture(scope="module")
def served():
    names = ("encoder", "decoder", "recurrent", "alignment", "hostile", "large")
    makers = {name: page_looks.LOOKS[name] for name in names} | views_fixtures.LOOKS
    with serving({name: make() for name, make in makers.items()}) as server:
        yield server


@pytest.fixture
def page(one_page):
    yield one_page
    assert not one_page.problems


def point(page: Any, figure: int, across: float, down: float) -> str:
    """Points into a picture, at shares of its width and height; what is told of it."""
    over = page.locator(".pictures .over").nth(figure)
    box = box_of(over)
    over.hover(position={"x": box["width"] * across, "y": box["height"] * down})
    return page.locator(".readout").text_content()


def distance(page: Any) -> float:
    return float(page.locator(".distance data").get_attribute("value"))


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Jensen and Shannon's divergence by its other formula: what the mixture's entropy has over the mean of theirs."""
    one, other = one.astype(float), other.astype(float)
    entropy = lambda p: -(p * np.log2(np.where(p > 0, p, 1))).sum(-1)  # noqa: E731
    return float(np.mean(entropy((one + other) / 2) - (entropy(one) + entropy(other)) / 2))


# Side by side


def test_two_heads_their_difference_and_their_distance(page, served):
    show(page, served, "encoder", "compare", layer=1)
    choose(page, "head 0", 3)
    choose(page, "layer 1", 2)
    choose(page, "head 1", 5)
    one, other = (served.looks["encoder"].block(f"encoder/{n}/weights") for n in (1, 2))
    assert page.locator(".pictures figcaption").all_text_contents() == [
        "bert-synthetic, layer 2, head 4",
        "bert-synthetic, layer 3, head 6",
        "left − right",
    ]
    assert distance(page) == pytest.approx(apart(one[3], other[5]), abs=1e-5)
    shown = served.looks["encoder"].header["sides"]["text"]["shown"]
    for figure, across, down in ((0, 0.5, 0.7), (1, 0.9, 0.4), (2, 0.3, 0.9)):
        said = point(page, figure, across, down)
        query, key = re.search(r"head 4: (\S+) → (\S+): ", said).groups()
        found = [(q, k) for q in range(22) for k in range(22) if (shown[q], shown[k]) == (query, key)]
        told = [[one[3, q, k], other[5, q, k], one[3, q, k] - other[5, q, k]] for q, k in found]
        assert any(np.allclose(numbers(said), numbers_of, atol=6e-5) for numbers_of in told), said


def test_what_is_pointed_at_is_marked_in_all_pictures(page, served):
    show(page, served, "encoder", "compare")
    point(page, 0, 0.6, 0.6)
    coloured = "(node) => node.getContext('2d').getImageData(0, 0, node.width, node.height).data.some(Boolean)"
    assert [over.evaluate(coloured) for over in page.locator(".pictures .over").all()] == [True] * 3
    page.mouse.move(2, 2)
    assert [over.evaluate(coloured) for over in page.locator(".pictures .over").all()] == [False] * 3


def test_a_token_that_is_selected_tells_how_far_apart_its_looks_are(page, served):
    show(page, served, "encoder", "compare")
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".readout >> text=bits apart")
    weights = served.looks["encoder"].block("encoder/0/weights")
    assert numbers(page.locator(".readout").text_content()) == [pytest.approx(apart(*weights[:2, :1]), abs=6e-5)]


def test_two_models_by_the_form(page, served):
    show(page, served, "encoder", "compare")
    choose(page, "second model", "other")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("figcaption >> text=bert-other")
    one, other = (served.looks[name].block("encoder/0/weights").mean(0) for name in ("encoder", "other"))
    assert distance(page) == pytest.approx(apart(one, other), abs=1e-5)
    page.locator("#choices").get_by_role("button", name="Words").click()
    page.locator("#choices button[data-value=words][aria-pressed=true]").wait_for()
    settle(page)
    words = [[0], *([i] for i in range(1, 12)), [12, 13], [14], [15, 16], *([i] for i in range(17, 22))]
    joined = [np.stack([m[row].mean(0) for row in words]) for m in (one, other)]
    joined = [np.stack([m[:, row].sum(1) for row in words], 1) for m in joined]
    assert distance(page) == pytest.approx(apart(*joined), abs=1e-5)
    choose(page, "with", "apart")
    assert "bert-other" not in page.locator(".pictures").text_content()
    page.get_by_role("button", name="Remove it").click()
    page.locator("[data-key=remove]").wait_for(state="detached")


def test_looks_of_other_sizes_have_no_difference(page, served):
    show(page, served, "encoder", "compare")
    choose(page, "second model", "decoder")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("figcaption >> text=gpt-synthetic")
    assert page.locator(".pictures figure").count() == 2 and page.locator(".distance").count() == 0
    assert "no difference by place" in page.locator("#stage").text_content()
    page.get_by_label("text for the second model").fill("refuse")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#stage .error")
    assert HOSTILE in page.locator("#stage .error").text_content()
    page.problems.clear()  # the answer 422 itself


def test_512_tokens_are_pointed_at_without_drawing_all_again(page, served):
    show(page, served, "large", "compare")
    count_work(page)
    hover = """(node) => { const box = node.getBoundingClientRect();
      for (let i = 0; i < 21; i++) {
        const [clientX, clientY] = [box.x + 9 * i + 5, box.y + 9 * i + 5];
        node.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
      } }"""
    work = work_of(page, lambda: page.locator(".pictures .over").first.evaluate(hover))
    assert work["calls"] <= 21 * 512 and work["pixels"] == 0 and work["nodes"] <= 21 * 64


# States


@pytest.mark.parametrize("model", ["recurrent", "gru", "vanilla", "projected"])
def test_a_cell_tells_its_unit_token_and_every_part(page, served, model):
    show(page, served, model, "states")
    (about,) = served.looks[model].header["states"]
    block = served.looks[model].block(f"states/{about['name']}/0")
    assert [
        text.split("0 to 1")[0].split("±")[0] for text in page.locator(".pictures figcaption").all_text_contents()
    ] == about["parts"]
    said = point(page, 0, 0.4, 0.3)
    unit, token = re.match(r"unit (\d+), (.+?): ", said).groups()
    t = about["side"] and served.looks[model].header["sides"]["text"]["shown"].index(token)
    parts = about["parts"][:-1] if model == "projected" else about["parts"]
    assert re.findall(r"([a-z]+) −?\d", said.split(": ")[1]) == parts
    assert numbers(said) == pytest.approx(block[: len(parts), t, int(unit) - 1], abs=6e-5)


def test_units_are_sorted_by_variance_or_number(page, served):
    show(page, served, "recurrent", "states")
    block = served.looks["recurrent"].block("states/forwards/0")
    assert int(re.match(r"unit (\d+)", point(page, 5, 0.5, 0.001))[1]) - 1 == int(block[-1].var(0).argmax())
    choose(page, "order", "number")
    assert point(page, 5, 0.5, 0.001).startswith("unit 1,")
    choose(page, "layer", 1)
    block = served.looks["recurrent"].block("states/forwards/1")
    assert numbers(point(page, 0, 0.01, 0.001)) == pytest.approx(block[:, 0, 0], abs=6e-5)


def test_a_projected_state_has_units_of_its_own(page, served):
    show(page, served, "projected", "states")
    assert "projected to 6 units" in page.locator("#stage .hint").first.text_content()
    said = point(page, 5, 0.5, 0.1)
    assert re.findall(r"([a-z]+) −?\d", said.split(": ")[1]) == ["state"] and int(re.match(r"unit (\d+)", said)[1]) <= 6


def test_gates_are_open_on_average_as_told(page, served):
    show(page, served, "recurrent", "states")
    chart = page.locator("figure.lines canvas").first
    chart.hover(position={"x": 60, "y": 40})
    said = page.locator("figure.lines .tooltip").first.text_content()
    means = served.looks["recurrent"].block("states/forwards/0")[:, 0].mean(-1)
    assert said.startswith("<|endoftext|>: input ") and numbers(said) == pytest.approx(means[[0, 1, 3]], abs=6e-5)


def test_a_unit_that_is_clicked_is_drawn_over_the_text(page, served):
    show(page, served, "recurrent", "states")
    unit = int(re.match(r"unit (\d+)", point(page, 2, 0.5, 0.5))[1])
    box = box_of(page.locator(".pictures .over").nth(2))
    page.locator(".pictures .over").nth(2).click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    page.wait_for_selector(f"h3 >> text=Unit {unit} over the text")
    page.locator(".unit canvas").nth(1).hover(position={"x": 60, "y": 40})
    said = page.locator(".unit .tooltip").nth(1).text_content()
    block = served.looks["recurrent"].block("states/forwards/0")
    assert numbers(said) == pytest.approx(block[[0, 1, 3], 0, unit - 1], abs=6e-5)


@pytest.mark.parametrize(("model", "fits"), [("encoder", False), ("alignment", True), ("recurrent", True)])
def test_states_are_there_for_recurrent_models(page, served, model, fits):
    show(page, served, model, "states")
    assert page.locator("#views button[data-name=states]").is_enabled() == fits
    assert page.locator("#views button[data-name=compare]").is_enabled() == (model != "recurrent")


@pytest.mark.parametrize(("model", "view"), [("hostile", "compare"), ("dangerous", "states")])
def test_hostile_text_stays_text(page, served, model, view):
    show(page, served, model, view)
    point(page, 0, 0.5, 0.4)
    assert HOSTILE in page.locator("#stage").text_content()
    assert page.locator("#stage img, #stage script").count() == 0 and page.evaluate("window.hacked") is None
