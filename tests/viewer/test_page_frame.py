"""The page's frame in a real browser: keys, theme, address, form, errors, looks in a file, hostile text, long texts."""


import numpy as np
import page_looks as made
import pytest
from page_fixtures import (
    box_of,
    cell,
    chosen,
    count_work,
    opened_page,
    press,
    serving,
    settle,
    show,
    weights,
    work_of,
)  # fmt: skip
from page_looks import HOSTILE

VIEWS = ["matrix", "heads", "grid", "text", "rollout", "dimensions", "number", "compare", "states"]


@pytest.fixture(scope="module")
def served():
    names = ("encoder", "decoder", "encoder-decoder", "hostile")
    with serving({name: made.LOOKS[name]() for name in names}) as server:
        yield server


def test_keys(page, served):
    show(page, served, "encoder", "matrix")
    press(page, "2")
    assert chosen(page, "view") == "heads"
    press(page, "ArrowUp ArrowUp ArrowDown")
    assert chosen(page, "layer") == 1
    press(page, "ArrowRight ArrowRight ArrowLeft ArrowLeft")
    assert chosen(page, "tokens") == [21]  # round from the first to the last
    press(page, "Shift+ArrowRight Shift+ArrowRight")
    assert chosen(page, "heads") == [1]
    press(page, "a w s m")
    assert len(chosen(page, "heads")) == 8
    assert [chosen(page, name) for name in ("unit", "specials", "join")] == ["words", False, "max"]
    press(page, "9")
    assert chosen(page, "view") == "heads"  # a transformer has no states
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()


def test_keys_typed_into_a_text_are_text(page, served):
    show(page, served, "encoder", "matrix")
    page.locator("#text").fill("")
    page.locator("#text").press_sequentially("2 was?")
    assert page.locator("#text").input_value() == "2 was?"
    assert [chosen(page, name) for name in ("view", "unit", "specials")] == ["matrix", "pieces", True]


def test_all_controls_are_reached_and_seen(page, served):
    show(page, served, "encoder-decoder", "matrix")
    page.locator("#model").focus()
    reached, seen = [], 0
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
                const {activeElement: node} = document;
                return [node.ariaLabel || node.textContent || node.id, getComputedStyle(node).outlineStyle];
            }"""
        )
        reached.append(name)
        seen += outline != "none"
    for name in ("Look", "Cross", "layer", "Head 4", "Words", "Hidden", "Max", "1Matrix", "8Side by side"):
        assert name in reached, reached
    assert seen >= 38
    assert any(name.startswith("Encoder · layer 1") for name in reached)


def test_the_address_says_what_is_seen(page, served):
    show(page, served, "encoder", "text", layer=3, heads="0,2", unit="words", join="max", specials="cut")
    names = ("view", "layer", "heads", "unit", "join", "specials", "renormalise")
    assert [chosen(page, name) for name in names] == ["text", 3, [0, 2], "words", "max", False, False]
    press(page, "1 ArrowDown")
    assert "view=matrix" in page.url
    assert "layer=2" in page.url
    assert "heads=0%2C2" in page.url


def test_senseless_addresses_are_passed_over(page, served):
    show(page, served, "encoder", "nothing", layer="99", heads="x", unit="y", attention="z")
    assert page.locator("#stage .view").get_attribute("data-view") == "matrix"
    assert "layer 4 of 4 · mean of 8 heads" in page.locator(".caption").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_and_the_switch(browser, served, scheme):
    with opened_page(browser, served, color_scheme=scheme) as page:
        show(page, served, "encoder", "matrix")
        ground = (
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
        )
        nothing = "import('/page/draw.js').then(({shade}) => shade(0).match(/\\d+/g).reduce((a, b) => a + +b, 0))"
        dark = scheme == "dark"
        assert (page.evaluate(ground) < 200, page.evaluate(nothing) < 200) == (dark, dark)
        page.click("#theme")
        settle(page)
        assert (page.evaluate(ground) < 200, page.evaluate(nothing) < 200) == (not dark, not dark)
        page.reload()
        settle(page)
        assert (page.evaluate(ground) < 200) == (not dark)  # remembered


def luminance(colour):
    """As WCAG 2 defines it."""
    parts = np.array(colour) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_read_by_lightness_alone_and_words_on_all_of_them(browser, served, scheme):
    with opened_page(browser, served, color_scheme=scheme) as page:
        show(page, served, "encoder", "matrix")
        shades, inks, heads = page.evaluate(
            """import('/page/draw.js').then(({shade, inkOn, colourOfHead}) => {
            const weights = Array.from({length: 101}, (_, i) => i / 100);
            const numbers = (colour) => colour.match(/\\d+/g).map(Number);
            const heads = Array.from({length: 16}, (_, head) => colourOfHead(head));
            return [weights.map((one) => numbers(shade(one))), weights.map((one) => inkOn(one) === "#ffffff"), heads];
        })"""
        )
        light = luminance(shades)
        assert (np.diff(light) * (1 if scheme == "dark" else -1) >= 0).all()
        ink = np.where(inks, 1.0, 0.0)
        contrast = (np.maximum(light, ink) + 0.05) / (np.minimum(light, ink) + 0.05)
        assert contrast.min() >= 4.5
        assert len(set(heads)) == 16


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_no_width_is_overrun(browser, served, width):
    with opened_page(browser, served, viewport={"width": width, "height": 800}) as page:
        show(page, served, "encoder", "matrix")
        for key in "12345":
            press(page, key)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("#stage .error").count() == 0


def test_the_form_asks_for_what_the_model_reads(page, served):
    show(page, served, "encoder", "matrix")
    fields = {"encoder": "second", "decoder": "write", "encoder-decoder": "target"}
    for model, expected in fields.items():
        page.select_option("#model", model)
        assert [name for name in fields.values() if page.locator(f"#{name}").is_visible()] == [expected]


def test_an_error_of_the_server_is_shown_as_text(page, served):
    show(page, served, "encoder", "matrix")
    page.fill("#text", "refuse")
    page.click("form button[type=submit]")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").text_content() == f"the text is refused: {HOSTILE}"
    page.problems.clear()  # the browser itself notes a 422


def test_a_look_that_the_server_let_go_is_asked_for_again(page, served):
    show(page, served, "encoder", "matrix")
    served.forgotten.add("encoder")
    press(page, "ArrowUp")
    assert served.forgotten == set()
    assert page.locator("#stage .error").count() == 0
    assert cell(page, 1, 2)[1] == pytest.approx(weights(served, "encoder", "encoder", 1).mean(0)[1, 2], abs=6e-5)
    page.problems.clear()  # and a 404


def test_hostile_text_is_text(page, served):
    show(page, served, "hostile", "matrix")
    assert page.locator("#about h1").text_content() == HOSTILE
    assert page.locator(".notes li").text_content() == HOSTILE
    assert cell(page, 1, 3)[0] == f"{HOSTILE} → two"
    page.focus("#stage")
    for key in "123456789":
        press(page, f"{key} ArrowRight")
        assert page.locator("#stage .view").get_attribute("data-view") == VIEWS[int(key) - 1]
        assert page.locator("img").count() == 0
    press(page, "4")
    page.locator(".word").nth(1).hover()
    assert page.locator(".numbers h3").text_content() == HOSTILE
    assert f"{HOSTILE} 50%" in page.locator(".numbers").text_content()


def test_a_server_with_a_key_is_given_it(browser):
    with serving({"decoder": made.decoder()}) as served, opened_page(browser, served) as page:
        served.key = "secret"
        page.goto(served.address)
        page.fill("#key", "secret")
        page.get_by_role("button", name="Use it").click()
        settle(page)
        assert page.locator("#about h1").text_content() == "gpt-synthetic"
        page.problems.clear()  # 401 before


def test_looks_that_the_server_was_started_with(browser):
    with (
        serving({"encoder": made.encoder(), "decoder": made.decoder()}) as served,
        opened_page(browser, served) as page,
    ):
        served.given = ["decoder", "encoder"]
        page.goto(served.address)
        settle(page)
        assert page.locator("#about h1").text_content() == "gpt-synthetic"
        assert page.get_by_role("button", name="bert-synthetic").is_visible()  # beside it
        assert "/attention" not in served.asked


def test_nothing_is_asked_of_others(page, served):
    show(page, served, "encoder", "matrix")
    known = ("/page/", "/attention", "/models", "/looks", "/file")
    assert all(path == "/" or path.startswith(known) for path in served.asked)


# ---- looks in a file ------------------------------------------------------------------------------------------------


def test_looks_in_a_file(browser):
    looks = {"encoder": made.encoder(), "decoder": made.decoder()}
    with serving(looks) as served, opened_page(browser, served) as page:
        page.goto(served.address + "file")
        settle(page)
        assert page.locator("form").count() == 0
        assert cell(page, 2, 1) == (
            "animal → the",
            pytest.approx(weights(served, "encoder", "encoder", 0).mean(0)[2, 1], abs=6e-5),
        )
        page.focus("#stage")
        press(page, "ArrowUp")
        assert cell(page, 2, 1)[1] == pytest.approx(weights(served, "encoder", "encoder", 1).mean(0)[2, 1], abs=7e-5)
        page.focus("#stage")
        press(page, "ArrowUp")
        assert "This file does not hold “encoder/2/weights”" in page.locator("#stage .error").text_content()
        page.get_by_role("button", name="gpt-synthetic").click()
        settle(page)
        assert page.locator("#about h1").text_content() == "gpt-synthetic"
        assert not any(path.startswith(("/attention", "/models", "/looks")) for path in served.asked)


# ---- long texts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_text():
    with serving({"large": made.large()}) as server:
        yield server


@pytest.mark.parametrize("view", ["matrix", "heads", "text"])
def test_512_tokens_12_layers_12_heads_cost_no_more_than_they_must(browser, long_text, view):
    """Another layer draws its cells once; the pointer moves an overlay and draws no cell again."""
    tokens, strongest = 512, 5
    with opened_page(browser, long_text) as page:
        show(page, long_text, "large", view)
        count_work(page)
        for _ in range(2):
            switching = work_of(page, lambda: press(page, "ArrowUp"))
            assert switching["pixels"] <= tokens * tokens
            assert switching["calls"] <= tokens * (strongest + 3) and switching["nodes"] <= 3 * tokens
        box = box_of(page.locator(".heatmap .over, .columns .over, .prose").first)
        near = 140 if view == "heads" else box["width"] / 2
        for step in range(3):
            move = (box["x"] + near - step, box["y"] + 90 + 19 * step)
            hovering = work_of(page, lambda move=move: page.mouse.move(*move))
            assert hovering["pixels"] == 0 and hovering["calls"] <= 2 * tokens and hovering["nodes"] <= 64
        kept = page.evaluate("import('/page/state.js').then(({state}) => state.looks[0].kept)")
        assert kept <= 64 * 2**20  # about five layers of twelve


def test_a_long_text_draws_only_the_strongest_lines_and_says_so(browser, long_text):
    with opened_page(browser, long_text) as page:
        show(page, long_text, "large", "heads")
        assert "only the 5 strongest lines are drawn" in page.locator("#stage .hint").last.text_content()


def test_layers_are_fetched_when_they_come_into_sight(browser):
    with serving({"large": made.large()}) as served, opened_page(browser, served) as page:
        show(page, served, "large", "grid")
        page.locator(".gridrow.filled").first.wait_for()
        assert len([path for path in served.asked if path.endswith("/weights")]) < 12
        page.locator(".gridrow").last.scroll_into_view_if_needed()
        page.locator(".gridrow.filled").nth(11).wait_for()
        assert page.evaluate("import('/page/state.js').then(({state}) => state.looks[0].kept)") <= 64 * 2**20
