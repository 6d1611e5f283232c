"""The views of single numbers in a real browser: what they show of q, k, scores, weights and values is there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import page_looks
import pytest
import views_fixtures
from page_fixtures import Served, box_of, count_work, serving, show, work_of
from page_looks import HOSTILE, softmax
from views_fixtures import choose, number

ROW = 34  # pixels of a key in the view of dimensions


@pytest.fixture(scope="module")
def served():
    names = ("encoder", "decoder", "encoder-decoder", "alignment", "recurrent", "hostile", "large")
    makers = {name: page_looks.LOOKS[name] for name in names} | views_fixtures.LOOKS
    with serving({name: make() for name, make in makers.items()}) as server:
        yield server


@pytest.fixture
def page(one_page):
    yield one_page
    assert not one_page.problems


def values(page: Any, selector: str) -> list[float]:
    """The whole numbers behind what is shown."""
    found = page.locator(selector).evaluate_all("(all) => all.map((one) => one.value)")
    return [float(value.replace("Infinity", "inf")) for value in found]


def go_on(page: Any, step: str) -> None:
    page.locator(".trail button", has_text=step).click()
    page.wait_for_selector(f'.card[data-step="{step}"]')


# Which views there are


@pytest.mark.parametrize("model", ["encoder", "decoder", "encoder-decoder", "alignment", "location"])
def test_views_open_where_queries_and_keys_are_known(page, served, model):
    show(page, served, model, "dimensions")
    for attention in served.looks[model].header["attentions"]:
        for view, drawn in (("dimensions", "canvas.sticky"), ("number", ".agreement[data-agrees=true]")):
            page.evaluate(f"location.hash = 'view={view}&attention={attention['name']}'")
            page.wait_for_selector(f".view:not(.pending)[data-view={view}] {drawn}")
            assert page.locator("#stage .error").count() == 0


@pytest.mark.parametrize("model", ["recurrent", "given"])
def test_views_are_closed_where_they_are_not(page, served, model):
    show(page, served, model, "number")
    for view in ("dimensions", "number"):
        assert page.locator(f"#views button[data-name={view}]").is_disabled()


# Dimensions


def test_a_cell_tells_its_product_and_its_row_the_score(page, served):
    show(page, served, "wide", "dimensions", layer=1)
    choose(page, "query", 4)
    choose(page, "head", 2)
    blocks = {part: served.looks["wide"].block(f"encoder/1/{part}") for part in ("q", "k", "scores", "weights")}
    for x, row in ((180, 0), (333, 5), (560, 13)):
        page.locator("canvas.sticky").hover(position={"x": x, "y": row * ROW + ROW / 2})
        said = page.locator(".dimensions .tooltip").text_content()
        found = re.fullmatch(r"(.+), dimension (\d+): (\S+) × (\S+) = (\S+); score (\S+), weight (\S+)", said)
        assert found[1] == served.looks["wide"].header["sides"]["text"]["shown"][row]
        i, told = int(found[2]) - 1, [number(one) for one in found.groups()[2:]]
        q, k = blocks["q"][2, 4, i], blocks["k"][2, row, i]
        assert np.allclose(
            told, [q, k, q * k, blocks["scores"][2, 4, row], blocks["weights"][2, 4, row]], rtol=0.05, atol=6e-7
        )


def test_a_row_tells_its_sum_and_rows_can_be_sorted(page, served):
    show(page, served, "wide", "dimensions")
    choose(page, "keys", "weight")
    page.locator("canvas.sticky").hover(position={"x": 20, "y": ROW / 2})
    q, k, weights = (served.looks["wide"].block(f"encoder/0/{part}")[0] for part in ("q", "k", "weights"))
    best = int(weights[1].argmax())  # of the first word
    said = page.locator(".dimensions .tooltip").text_content()
    shown = served.looks["wide"].header["sides"]["text"]["shown"]
    assert said.startswith(f"{shown[best]}: q · k ")
    assert number(re.search(r"q · k (\S+),", said)[1]) == pytest.approx(float(q[1] @ k[best]), abs=1e-5)


def test_a_row_that_is_clicked_tells_how_its_number_came(page, served):
    show(page, served, "wide", "dimensions")
    page.locator("canvas.sticky").click(position={"x": 20, "y": 3 * ROW + ROW / 2})
    page.wait_for_selector(".number-page")
    weights = served.looks["wide"].block("encoder/0/weights")
    assert values(page, ".headline data")[0] == pytest.approx(weights[0, 1, 3], abs=1e-6)


def test_other_scores_say_what_can_be_shown(page, served):
    show(page, served, "additive", "dimensions")
    assert "no products" in page.locator("#stage .hint").first.text_content()
    page.locator("canvas.sticky").hover(position={"x": 150, "y": ROW / 2})
    found = re.search(
        r"dimension (\d+): tanh\((\S+) \+ (\S+)\) = (\S+);", page.locator(".dimensions .tooltip").text_content()
    )
    q, k = (served.looks["additive"].block(f"cross/0/{part}")[0, 0, int(found[1]) - 1] for part in "qk")
    assert number(found[4]) == pytest.approx(np.tanh(q + k), abs=1e-6)
    show(page, served, "location", "dimensions")
    assert "from the query alone" in page.locator("#stage .hint").first.text_content()


# How this number came


@pytest.mark.parametrize("model", ["wide", "decoder", "biased", "additive", "alignment"])
def test_the_weight_shown_is_the_models(page, served, model):
    show(page, served, model, "number")
    attention = served.looks[model].header["attentions"][0]
    weights = served.looks[model].block(f"{attention['name']}/0/weights")
    for query, key in ((2, 0), (3, 3), (1, 2)):
        choose(page, "query", query)
        choose(page, "key", key)
        assert values(page, ".headline data")[0] == pytest.approx(weights[0, query, key], abs=1e-6)
        assert page.locator(".agreement").get_attribute("data-agrees") == "true"


def test_products_are_written_out_and_add_up(page, served):
    show(page, served, "wide", "number")
    choose(page, "query", 5)
    choose(page, "key", 7)
    go_on(page, "q · k")
    q, k = (served.looks["wide"].block(f"encoder/0/{part}")[0].astype(float) for part in "qk")
    products = q[5] * k[7]
    largest = np.argsort(-abs(products))[:5]
    rows = page.locator(".sums tbody tr td:last-child data")
    assert values(page, ".sums tbody tr td:last-child data")[:5] == pytest.approx(products[largest], abs=1e-9)
    assert rows.count() == 6 and values(page, ".sums tfoot data") == pytest.approx([products.sum()], abs=1e-9)
    assert sum(values(page, ".sums tbody tr td:last-child data")) == pytest.approx(products.sum(), abs=1e-9)


def test_scores_are_scaled_biased_and_shared_out(page, served):
    show(page, served, "biased", "number")
    choose(page, "query", 3)
    choose(page, "key", 4)
    q, k, bias = (served.looks["biased"].block(f"encoder/0/{part}")[0].astype(float) for part in ("q", "k", "bias"))
    scores = q[3] @ k.T + bias[3]
    told = dict(zip(page.locator(".trail span").all_text_contents(), page.locator(".trail li").all(), strict=True))
    assert list(told) == ["q, k", "q · k", "× 1", "+ bias", "softmax", "Σ w v"]
    assert number(told["+ bias"].locator("b").text_content()) == pytest.approx(scores[4], abs=6e-4)
    go_on(page, "softmax")
    whole = np.exp(scores - scores.max())
    assert values(page, ".sums tr.chosen data") == pytest.approx([scores[4], whole[4], softmax(scores)[4]], abs=1e-6)
    assert values(page, ".sums tfoot data") == pytest.approx([whole.sum(), 1], abs=1e-6)


def test_values_are_summed_by_weight(page, served):
    show(page, served, "wide", "number")
    choose(page, "query", 9)
    go_on(page, "Σ w v")
    weights, v = (served.looks["wide"].block(f"encoder/0/{part}")[0].astype(float) for part in ("weights", "v"))
    result = weights[9] @ v
    heads = page.locator(".sums thead th").all_text_contents()[2:]
    dimensions = [int(re.search(r"i = (\d+)", head)[1]) - 1 for head in heads]
    assert set(dimensions) == set(np.argsort(-abs(result))[:4])
    assert values(page, ".sums tfoot data") == pytest.approx(result[dimensions], abs=1e-5)


def test_what_lies_ahead_is_masked(page, served):
    show(page, served, "decoder", "number")
    choose(page, "query", 2)
    choose(page, "key", 6)
    go_on(page, "mask")
    assert "may not look at" in page.locator(".card").text_content()
    assert values(page, ".card p data") == [-np.inf] and values(page, ".headline data") == [0]
    assert "11 of 14 keys" in page.locator(".card").text_content()


def test_steps_are_gone_through_by_buttons_and_keys(page, served):
    show(page, served, "wide", "number")
    title = page.locator(".card h3")
    assert title.text_content().startswith("1.") and page.get_by_role("button", name="Previous").is_disabled()
    page.get_by_role("button", name="Next").press("Enter")
    page.wait_for_selector('.card[data-step="q · k"]')
    assert page.evaluate("document.activeElement.textContent") == "Next"  # and goes on by Enter again
    page.keyboard.press("n")
    page.wait_for_selector('.card[data-step="÷ √64"]')
    page.keyboard.press("p")
    page.wait_for_selector('.card[data-step="q · k"]')
    page.get_by_label("all steps on one page").check()
    page.wait_for_selector(".card >> nth=4")
    assert title.count() == 5 and page.locator(".card.current h3").text_content().startswith("2.")


def test_a_bar_that_is_clicked_is_the_key(page, served):
    show(page, served, "wide", "number")
    go_on(page, "softmax")
    bars = page.locator("canvas.choosing")
    wide = box_of(bars)["width"] / 22
    bars.click(position={"x": wide * 6.5, "y": 10})
    page.wait_for_selector(".headline >> text=looks at “the”")
    weights = served.looks["wide"].block("encoder/0/weights")
    assert values(page, ".headline data")[0] == pytest.approx(weights[0, 1, 6], abs=1e-6)
    bars.hover(position={"x": wide * 3.5, "y": 10})
    assert number(page.locator(".barrow .tooltip").text_content().split(": ")[1]) == pytest.approx(
        weights[0, 1, 3], rel=0.05
    )


def test_weights_that_do_not_come_of_q_and_k_are_told(page, served):
    show(page, served, "wrong", "number")
    assert page.locator(".agreement").get_attribute("data-agrees") == "false"
    assert "do not agree" in page.locator(".agreement").text_content()


def test_arrow_keys_and_heads_go_to_other_numbers(page, served):
    show(page, served, "wide", "number")
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".headline >> text=layer 2")
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_selector(".headline >> text=layer 2, head 4")
    weights = served.looks["wide"].block("encoder/1/weights")
    assert values(page, ".headline data")[0] == pytest.approx(weights[3, 1].max(), abs=1e-6)


def test_what_is_missing_is_told_and_the_page_lives(page, served):
    show(page, served, "without", "number")
    assert "there is nothing at" in page.locator("#stage .error").text_content()
    page.problems.clear()  # the answer 404 itself
    page.keyboard.press("6")
    page.wait_for_selector("canvas.sticky")


@pytest.mark.parametrize("view", ["dimensions", "number"])
def test_hostile_text_stays_text(page, served, view):
    show(page, served, "hostile", view)
    choose(page, "query", 1)
    assert HOSTILE in page.locator("#stage").text_content()
    assert page.locator("#stage img, #stage script").count() == 0


def test_512_tokens_are_pointed_at_without_drawing_all_again(page, served: Served):
    show(page, served, "large", "dimensions")
    count_work(page)
    hover = """(node) => {
      for (let i = 0; i < 21; i++)
        node.dispatchEvent(new PointerEvent("pointermove", { clientX: 500 + 9 * i, clientY: 420 + 9 * i })); }"""
    work = work_of(page, lambda: page.locator("canvas.sticky").evaluate(hover))
    assert work["calls"] <= 21 * 512 and work["pixels"] == 0 and work["nodes"] <= 21 * 64
    page.keyboard.press("7")
    page.wait_for_selector(".number-page")
    assert page.locator(".agreement").get_attribute("data-agrees") == "true"
