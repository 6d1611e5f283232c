"""The page in a real browser: its views show the numbers there are, for every kind of model."""

import numpy as np
import page_looks as made
import pytest
from page_fixtures import box_of, cell, chosen, press, said, serving, settle, show, weights

KINDS = ["encoder", "decoder", "encoder-decoder", "recurrent", "alignment"]
FIVE = ["matrix", "heads", "grid", "text", "rollout"]


@pytest.fixture(scope="module")
def served():
    with serving({name: made.LOOKS[name]() for name in [*KINDS, "hostile"]}) as server:
        yield server


# ---- every view, for every kind -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_that_fits_opens(page, served, kind):
    show(page, served, kind)
    tabs = page.locator("#views button:enabled")
    names = tabs.evaluate_all("buttons => buttons.map((button) => button.dataset.name)")
    for name in names:
        page.click(f"#views button[data-name={name}]")
        settle(page)
        view = page.locator("#stage .view")
        assert view.get_attribute("data-view") == name
        assert view.locator(".error").filter(visible=True).count() == 0
        assert view.locator("canvas, .prose, table, svg").count() > 0
    expected = {"recurrent": [], "alignment": ["matrix", "heads", "grid", "text"]}.get(kind, FIVE)
    assert [name for name in names if name in FIVE] == expected
    assert ("states" in names) == (kind in ("recurrent", "alignment"))


def test_every_attention_of_a_translator(page, served):
    show(page, served, "encoder-decoder", "matrix", attention="cross")
    for key in "12345":
        press(page, key)
        for name, title in [("encoder", "Encoder"), ("decoder", "Decoder"), ("cross", "Cross")]:
            page.get_by_role("button", name=title, exact=True).click()
            settle(page)
            assert chosen(page, "attention") == name
            assert page.locator("#stage .error").count() == 0


# ---- (1) matrix -----------------------------------------------------------------------------------------------------


def test_matrix_shows_the_weight_under_the_pointer(page, served):
    show(page, served, "encoder-decoder", "matrix", attention="cross", layer=1)
    mean = weights(served, "encoder-decoder", "cross", 1).mean(0)
    box = box_of(page.locator(".heatmap .over"))
    seen = {}
    for x in range(90, int(box["width"]), 41):
        for y in range(90, int(box["height"]), 37):
            page.mouse.move(box["x"] + x, box["y"] + y)
            words, number = said(page.locator(".heatmap .tooltip"))
            seen[words] = number
    target, source = (served.looks["encoder-decoder"].header["sides"][side]["shown"] for side in ("target", "source"))
    expected = {f"{q} → {k}": mean[i, j] for i, q in enumerate(target) if q != "a" for j, k in enumerate(source)}
    known = [words for words in seen if words in expected]
    assert len(known) > 30
    assert all(seen[words] == pytest.approx(expected[words], abs=6e-5) for words in known)


def test_rows_are_kept_by_a_click_and_by_enter(page, served):
    show(page, served, "encoder", "matrix")
    assert cell(page, 2, 1)[0] == "animal → the"
    press(page, "Enter")
    assert chosen(page, "tokens") == [2]
    assert said(page.locator(".heatmap .tooltip"))[0] == "animal → the"  # drawn anew, and still there
    press(page, "Escape")
    assert chosen(page, "tokens") == []


def test_mean_max_and_heads(page, served):
    show(page, served, "encoder", "matrix", layer=2)
    every = weights(served, "encoder", "encoder", 2)
    assert cell(page, 3, 2)[1] == pytest.approx(every[:, 3, 2].mean(), abs=6e-5)
    press(page, "m")
    assert cell(page, 3, 2)[1] == pytest.approx(every[:, 3, 2].max(), abs=6e-5)
    for head in (1, 4, 5, 6, 7, 8):
        page.get_by_role("button", name=f"Head {head}", exact=True).click()
    settle(page)
    assert cell(page, 3, 2)[1] == pytest.approx(every[1:3, 3, 2].max(), abs=6e-5)
    page.get_by_role("button", name="none").click()
    settle(page)
    assert "No head is chosen" in page.locator("#stage").text_content()


def test_words_specials_and_what_rows_sum_to(page, served):
    show(page, served, "encoder", "matrix")
    mean = weights(served, "encoder", "encoder", 0).mean(0)
    pieces = made.ENGLISH
    tired, play = pieces.index("tire"), pieces.index("play")  # each of two pieces
    press(page, "w")
    words, number = cell(page, tired, play - 1)  # one word before them has two pieces
    assert words == "tired → playing"
    assert number == pytest.approx(mean[tired : tired + 2, play : play + 2].sum(1).mean(), abs=6e-5)
    press(page, "s w")
    words, number = cell(page, 0, 1)
    row = mean[1, 1:-1]
    assert words == "the → animal"
    heads = weights(served, "encoder", "encoder", 0)[:, 1, 1:-1]
    assert number == pytest.approx((heads / heads.sum(1, keepdims=True)).mean(0)[1], abs=6e-5)
    assert "rows sum to 1 again" in page.locator(".caption").text_content()
    page.get_by_role("checkbox").uncheck()
    settle(page)
    assert cell(page, 0, 1)[1] == pytest.approx(row[1], abs=6e-5)
    assert "rows as they were" in page.locator(".caption").text_content()


# ---- (2) heads ------------------------------------------------------------------------------------------------------


def columns(page):
    return box_of(page.locator(".columns .over"))


def test_a_hovered_token_shows_only_its_lines_as_thick_as_the_weight(page, served):
    show(page, served, "encoder", "heads", layer=1, heads=2)
    head = weights(served, "encoder", "encoder", 1)[2]
    box = columns(page)
    for aside in range(20):  # a view that is drawn anew under the pointer knows of it once it moves
        page.mouse.move(box["x"] + 150 + aside, box["y"] + 8 + 25 * 4.5)  # the fifth token
        page.locator(".under.faded").wait_for()
        if page.locator(".pane .tooltip").is_visible():
            break
    best = int(head[4].argmax())
    words, number = said(page.locator(".pane .tooltip"))
    assert words == f"not → {made.ENGLISH[best]}"
    assert number == pytest.approx(head[4, best], abs=6e-5)
    # where lines end, beside the key's name
    count = """(node, [x, y]) => {
        const ratio = node.width / node.clientWidth;
        const {data} = node.getContext("2d").getImageData(x * ratio, (y - 12) * ratio, 1, 24 * ratio);
        return data.filter((value, i) => i % 4 === 3 && value > 20).length / ratio;
    }"""
    x = box["width"] - 170 - 9
    thick = [
        page.locator(".columns .over").evaluate(count, [x, 8 + 25 * (key + 0.5)]) for key in range(len(made.ENGLISH))
    ]
    for key, weight in enumerate(head[4]):
        expected = max(0.5, 7 * weight) if weight >= 0.01 else 0
        assert abs(thick[key] - expected) <= 1.6
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    assert page.locator(".under.faded").count() == 0


def test_several_tokens_are_kept(page, served):
    show(page, served, "encoder", "heads")
    for place in (1, 3):
        box = columns(page)
        page.mouse.click(box["x"] + 150, box["y"] + 8 + 25 * (place + 0.5))
        settle(page)
    assert chosen(page, "tokens") == [1, 3]
    inked = page.locator(".columns .under").evaluate(
        """node => {
        const ratio = node.width / node.clientWidth;
        const pixel = (x, y) => node.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data;
        const at = (place) => pixel(180, 8 + 25 * (place + 0.5))[3];
        return Array.from({length: 22}, (_, place) => at(place) > 0);
    }"""
    )
    assert [place for place, ink in enumerate(inked) if ink] == [1, 3]


# ---- (3) grid -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opens", ["matrix", "heads"])
def test_a_thumbnail_opens_its_head(page, served, opens):
    show(page, served, "encoder", "grid")
    page.locator(".gridrow.filled").nth(3).wait_for()
    assert page.locator(".thumbnail").count() == 4 * 8
    page.locator(".choice").get_by_role("button", name=opens.capitalize()).click()
    settle(page)
    page.get_by_role("button", name="Layer 3, head 6").click()
    settle(page)
    assert [chosen(page, name) for name in ("view", "layer", "heads")] == [opens, 2, [5]]
    assert "layer 3 of 4 · head 6" in page.locator(".caption").text_content()


def test_thumbnails_are_darkest_where_the_weight_is_largest(page, served):
    show(page, served, "encoder", "grid")
    page.locator(".gridrow.filled").nth(1).wait_for()
    sums = (
        page.get_by_role("button", name="Layer 2, head 1", exact=True)
        .locator("canvas")
        .evaluate(
            """node => {
        const {data, width} = node.getContext("2d").getImageData(0, 0, node.width, node.height);
        return Array.from({length: 22 * 22}, (_, i) => {
            const [y, x] = [Math.floor(i / 22), i % 22].map((place) => Math.floor((place + 0.5) * width / 22));
            return data[4 * (y * width + x)];
        });
    }"""
        )
    )
    head = weights(served, "encoder", "encoder", 1)[0]
    assert head.ravel()[np.argmin(sums)] > 0.9 * head.max()
    assert np.corrcoef(-np.array(sums), np.sqrt(head).ravel())[0, 1] > 0.95


# ---- (4) text -------------------------------------------------------------------------------------------------------


def bars(page):
    names = page.locator(".bars .name").all_text_contents()
    return list(zip(names, map(float, page.locator(".bars .value").all_text_contents()), strict=True))


def strongest(row, names, count=6):
    return [(names[i], pytest.approx(row[i], abs=6e-5)) for i in np.argsort(-row, kind="stable")[:count]]


def word(page, place):
    return page.locator(".prose").first.locator(".word").nth(place)


def test_a_hovered_word_lights_what_it_looks_at(page, served):
    show(page, served, "decoder", "text", layer=1)
    mean = weights(served, "decoder", "decoder", 1).mean(0)
    names = served.looks["decoder"].header["sides"]["text"]["shown"]
    assert page.locator(".prose").text_content() == "<|endoftext|> Once upon a time, there was a whale who sang."
    word(page, 9).hover()
    assert bars(page) == strongest(mean[9], names)
    assert "ale 61%" in page.locator(".numbers").text_content()
    lit = "node => getComputedStyle(node).backgroundColor"
    best = int(mean[9].argmax())
    page.wait_for_timeout(150)  # colours fade in
    assert word(page, best).evaluate(lit) == page.evaluate(
        "import('/page/draw.js').then(({shade}) => shade(1).replaceAll(' ', ', '))"
    )
    assert word(page, 12).evaluate(lit) == "rgba(0, 0, 0, 0)"  # what comes later is not seen
    page.mouse.move(5, 5)
    assert bars(page) == []
    word(page, 4).click()
    word(page, 6).click()
    settle(page)
    page.mouse.move(5, 5)
    assert bars(page) == strongest(mean[[4, 6]].mean(0), names)


def test_the_other_direction_and_the_other_side(page, served):
    show(page, served, "encoder-decoder", "text", attention="cross", join="max")
    most = weights(served, "encoder-decoder", "cross", 0).max(0)
    target, source = (served.looks["encoder-decoder"].header["sides"][side]["shown"] for side in ("target", "source"))
    word(page, 5).hover()
    assert bars(page) == strongest(most[5], source)
    page.get_by_role("button", name="is looked at by").click()
    settle(page)
    word(page, 4).hover()
    assert bars(page) == strongest(most[:, 4], target)


def test_words_are_reached_by_keys(page, served):
    show(page, served, "encoder", "text")
    word(page, 0).focus()
    press(page, "ArrowRight ArrowRight")
    assert page.locator(".numbers h3").text_content() == "animal"
    press(page, "Enter")
    assert chosen(page, "tokens") == [2]
    assert page.evaluate("document.activeElement.textContent") == "animal"


# ---- (5) rollout ----------------------------------------------------------------------------------------------------


def test_rollout_flow_and_raw_side_by_side(page, served):
    show(page, served, "encoder", "rollout", layer=2)
    assert "Attention alone is not an explanation" in page.locator("#stage").text_content()
    blocks = [served.looks["encoder"].block(f"encoder/{name}") for name in ("rollout", "flow", "mean")]
    for picture, block in enumerate(blocks):
        expected = block[2] if block.ndim == 3 else block
        assert cell(page, 4, 3, picture) == ("not → did", pytest.approx(expected[4, 3], abs=6e-5))


def test_four_accounts_of_a_token(page, served):
    show(page, served, "encoder", "rollout")
    press(page, "ArrowRight ArrowRight")
    page.locator(".accountbars canvas").wait_for()
    box = box_of(page.locator(".accountbars canvas"))
    accounts = served.looks["encoder"].block("encoder/explain/1")
    column = (box["width"] - 120) / 4
    for row, name in enumerate(made.EXPLANATIONS):
        page.mouse.move(box["x"] + 120 + (row + 0.5) * column, box["y"] + 30 + 20 * 2.5)
        words, number = said(page.locator(".accountbars .tooltip"))
        assert words == f"{name}: animal"
        assert number == pytest.approx(accounts[row, 2], abs=6e-5)
    assert not any(path.endswith("/explain/2") for path in served.asked)  # only what was asked for is computed
