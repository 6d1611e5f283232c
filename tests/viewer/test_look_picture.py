"""Looking at a picture: its patches as tokens, the picture as a block, drawn and on the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image as PillowImage

from regard.commands.load import load
from regard.config import change
from regard.data.images import Gallery, read_picture
from regard.data.labelled import LabelMap
from regard.errors import Problem, UsageProblem
from regard.layers.patches import Pictures
from regard.models import VISION
from regard.tasks.image import Image, new_labeller, with_labels
from regard.viewer.looking import look
from regard.viewer.view import View

SMALL = {"embedding.width": 16, "stack.block.width": 16, "stack.block.inner": 16, "stack.block.attention.heads": 2}
SMALL |= {"stack.layers": 3, "embedding.picture": 24}


def model(preset: str = "deit-cifar"):
    config = VISION[preset]
    for path, value in SMALL.items():
        config = change(config, path, value)
    torch.manual_seed(0)
    found = new_labeller(preset.partition("-")[0], config, Image(LabelMap(("cat", "dog", "cow"))), taught=True)
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.normal_(0.2, 0.4)
    return found


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "cat.png"
    pixels = np.random.default_rng(0).integers(0, 255, (24, 24, 3)).astype(np.uint8)
    PillowImage.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def seen(picture):
    return look(model(), str(picture), name="a model")


def test_patches_are_tokens_and_the_picture_is_a_block(seen, picture):
    header = seen.header()
    assert header["pictures"] == {"picture": {"shape": [24, 24, 3], "rows": 6, "columns": 6, "first": 2}}
    side = header["sides"]["picture"]
    assert side["pieces"][:4] == ["[class]", "[teacher]", "1:1", "1:2"] and len(side["pieces"]) == 38
    assert side["special"][:3] == [True, True, False] and side["words"] == list(range(38))
    assert "picture/picture" in seen.blocks()
    pixels = np.asarray(PillowImage.open(picture)) / 255
    np.testing.assert_allclose(seen.block("picture/picture"), pixels, atol=1e-6)
    assert seen.block("encoder/2/weights").shape == (2, 38, 38)
    np.testing.assert_allclose(seen.block("encoder/rollout").sum(-1), 1, atol=1e-5)


def test_what_is_told_is_what_is_predicted(picture):
    one = model()
    [told] = look(one, str(picture)).header()["output"]["predictions"]
    assert told["at"] == 0 and told["top"][0][0] == one(str(picture)).label
    assert told["top"][0][1] == pytest.approx(one(str(picture)).probability, abs=1e-5)


def test_looking_changes_nothing(picture):
    one = model("vit-cifar")
    given = Pictures((one.reader.prepared(picture)[None],))
    before = one.model(given)
    look(one, str(picture))
    assert torch.equal(one.model(given), before)


@pytest.mark.parametrize("query", [0, 5])
def test_what_an_output_rests_on(seen, query):
    found = seen.block(f"encoder/explain/{query}")
    assert found.shape == (4, 38) and np.isfinite(found).all()
    np.testing.assert_allclose(abs(found).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("end", [".html", ".png", ".svg", ".json", ".npz"])
def test_it_is_saved(seen, tmp_path, end):
    path = tmp_path / f"look{end}"
    seen.save(path, View("picture", layer=2, head=1))
    assert path.stat().st_size > 1000
    if end == ".json":
        [saved] = json.loads(path.read_text())
        assert np.array(saved["blocks"]["picture/picture"]).shape == (24, 24, 3)


def test_what_cannot_be_looked_at_is_told(picture, tmp_path):
    with pytest.raises(Problem, match="cannot be read"):
        look(model(), str(tmp_path / "none.png"))
    with pytest.raises(UsageProblem, match="asked of a model that reads pictures"):
        look(model(), str(picture), second="more")
    bare = new_labeller("convolutional", VISION["convolutional-small"], Image(LabelMap(("a", "b"))), taught=False)
    with pytest.raises(Problem, match="nothing to look at in a convolutional"):
        look(bare, str(picture))


def test_the_page_shows_the_picture_lit(seen, tmp_path, browser):
    seen.save(tmp_path / "look.html", View("picture"))
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "look.html").as_uri())
    page.wait_for_selector('#stage[aria-busy=false] > .view[data-view="picture"]:not(.pending) canvas')
    assert page.locator("#stage h3").all_text_contents()[1] == "Rollout up to layer 1"
    assert "[class] looks at:" in page.locator("#stage").text_content()
    first = page.locator("#stage canvas").first
    before = first.evaluate("node => node.toDataURL()")
    weight = seen.block("encoder/0/weights").mean(0)[0, 2 + 4 * 6 + 1]
    tip, wanted = page.locator("#stage .tooltip").first, f"row 5, column 2: {weight:.4f}"
    for _ in range(50):  # a page that has just been laid out draws its view again, as wide as it has become
        width, height = first.evaluate("node => [node.clientWidth, node.clientHeight]")
        first.hover(position={"x": width * 0.25, "y": height * 0.75})
        if tip.text_content() == wanted:
            break
        page.mouse.move(0, 0)
        page.wait_for_timeout(100)
    assert tip.text_content() == wanted
    first.click(position={"x": width * 0.25, "y": height * 0.75})
    page.wait_for_selector("#stage p:has-text('patch 5:2')")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector("#stage h3:has-text('Rollout up to layer 2')")
    assert page.locator("#stage canvas").first.evaluate("node => node.toDataURL()") != before
    page.screenshot(path=tmp_path / "shot.png")
    assert problems == []


def test_a_picture_of_several_labels_is_answered_by_sigmoid(picture, tmp_path):
    single = model()
    single.reader.published.theirs["problem_type"] = "multi_label_classification"
    single.save(tmp_path / "several")
    found = load(tmp_path / "several", "cpu")
    [answer] = found.predict([str(picture)])
    logits = single.reader.scores([str(picture)])[0]
    assert [*answer.probabilities.values()] == pytest.approx(logits.sigmoid().tolist(), abs=1e-6)
    assert answer.labels == [name for name, share in sorted(answer.probabilities.items(), key=lambda item: -item[1])
                             if share >= 0.5] and answer.picture == str(picture)  # fmt: skip
    [shown] = look(found, str(picture)).output["predictions"]
    assert dict(shown["top"]) == pytest.approx(answer.probabilities, abs=1e-5)
    with pytest.raises(Problem, match="one label per picture"):
        found.task.check(Gallery("a", [str(picture)], ["cat"], read_picture))
    trained, fresh = with_labels(found.reader, Image(found.task.labels), found.model.encoder.config, taught=True)
    assert fresh and trained.reader.published.theirs["problem_type"] == "single_label_classification"
