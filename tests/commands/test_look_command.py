"""regard look: from a text to a file, a picture or numbers; what cannot be is refused before a model is loaded."""

from __future__ import annotations

import json
import re
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
from toy import spawn

import regard
from regard.viewer.look import Look

TEXT = "the cat sat on the mat"


def got(address: str):
    """What a server answers, which may have told its address a moment before it listens."""
    for _ in range(100):
        try:
            return urlopen(address, timeout=280)
        except URLError:
            time.sleep(0.1)
    raise TimeoutError(address)


def test_a_file_of_an_encoder(call, small_bert, tmp_path):
    done = call("look", TEXT, "--model", small_bert, "-o", tmp_path / "view.html", "--view", "heads", "--layer", 2)
    assert done.code == 0 and done.out == "" and done.err == f"wrote {tmp_path / 'view.html'}\n"
    text = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert '"model": "bert"' in text and 'data-start="view=heads&amp;layer=1"' in text
    assert "block-0-encoder/2/weights" in text


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf", "a.json", "a.npz"])
def test_every_other_format(call, model, tmp_path, name):
    done = call("look", "a man sees a dog .", "--model", model, "--out", tmp_path / name)
    assert done.code == 0, done.err
    assert (tmp_path / name).stat().st_size > 1000


def test_numbers_are_those_of_the_look(call, small_bert, tmp_path):
    call("look", TEXT, "--model", small_bert, "-o", tmp_path / "a.json")
    seen = regard.look(small_bert, TEXT)
    [written] = json.loads((tmp_path / "a.json").read_text())
    assert written["look"] == seen.header() and written["look"]["model"] == "bert"
    np.testing.assert_allclose(written["blocks"]["encoder/1/weights"], seen.block("encoder/1/weights"), atol=1e-7)


def test_a_text_from_standard_input_and_a_second_one(call, small_bert, tmp_path):
    done = call("look", "-", "--second", "a dog", "--model", small_bert, "-o", tmp_path / "a.json", stdin=b"the cat\n")
    assert done.code == 0, done.err
    [written] = json.loads((tmp_path / "a.json").read_text())
    assert written["look"]["sides"]["text"]["shown"].count("[SEP]") == 2


def test_a_given_translation_is_looked_at(call, model, tmp_path):
    done = call("look", "a man .", "--target", "ein mann .", "--model", model, "-o", tmp_path / "a.json")
    assert done.code == 0, done.err
    [written] = json.loads((tmp_path / "a.json").read_text())
    assert {one["name"] for one in written["look"]["attentions"]} == {"encoder", "decoder", "cross"}
    assert "mann" in "".join(written["look"]["sides"]["target"]["shown"])


def test_two_models_side_by_side(call, small_bert, model, tmp_path):
    words = ["look", TEXT, "--model", small_bert, "--with", model]
    assert call(*words, "-o", tmp_path / "a.html").code == 0
    assert "block-1-cross/0/weights" in (tmp_path / "a.html").read_text(encoding="utf-8")
    done = call(*words, "-o", tmp_path / "a.png", "--pieces")
    assert done.err == f"wrote {tmp_path / 'a-1.png'}\nwrote {tmp_path / 'a-2.png'}\n"


def test_arrays_of_anybody_are_shown(call, small_bert, tmp_path):
    np.savez(tmp_path / "given.npz", weights=np.full((1, 2, 2, 2), 0.5), queries=np.array(["a", "b"]))
    done = call("look", "--from", tmp_path / "given.npz", "-o", tmp_path / "a.npz")
    assert done.code == 0, done.err
    assert Look.of_file(tmp_path / "a.npz").model == "given"
    done = call("look", TEXT, "--from", tmp_path / "given.npz", "--model", small_bert, "-o", tmp_path / "a.npz")
    assert done.code == 2 and "leave out text, model" in done.err


@pytest.mark.parametrize(
    "words, told",
    [
        (["-o", "a.html"], "look at what? Give a text"),
        ([TEXT, "-o", "a.gif"], "a.gif: what was looked at is not written as .gif; use .html"),
        ([TEXT, "-o", "a.png", "--head", "1"], "head 1 of which layer? Say it by --layer"),
        ([TEXT, "-o", "a.png", "--view", "cube"], "'cube' is not one of"),
        ([TEXT, "-o", "a.png", "--port", "70000"], "Invalid value for '--port'"),
    ],
)
def test_wrong_words_are_refused_before_a_model_is_loaded(call, words, told):
    done = call("look", *words, "--model", "/nowhere")
    assert done.code == 2 and told in done.err.replace("\n", " ")


def test_problems_are_told_in_a_line(call, small_bert, tmp_path):
    done = call("look", " ", "--model", small_bert, "-o", tmp_path / "a.html")
    assert done.code == 1 and done.err.startswith("regard: ") and done.err.count("\n") == 1
    done = call("look", TEXT, "--model", small_bert, "-o", tmp_path / "a.png", "--layer", 9)
    assert done.code == 2 and "encoder has no layer 9; it has 1 to 3" in done.err
    assert list(tmp_path.iterdir()) == []


def test_without_a_server_the_remedy_is_named_before_a_model_is_loaded(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    done = call("look", TEXT, "--model", "/nowhere")
    assert done.code == 1 and "pip install 'regard[serve]'; or write a file: -o view.html" in done.err


def test_without_a_file_a_page_is_served(small_bert):
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    words = ["look", TEXT, "--model", small_bert, "--port", 0, "--view", "heads", "--no-open"]
    with spawn(*words, text=True) as running:
        try:
            address, start = re.search(r"(http://127\.0\.0\.1:\d+)/#(.*)", running.stdout.readline()).groups()
            assert start == "view=heads"
            [served] = json.load(got(f"{address}/looks"))
            assert served["look"]["model"] == "bert" and b"page/main.js" in got(address).read()
            block = got(f"{address}/attention/{served['id']}/encoder/0/weights")
            assert block.headers["X-Shape"] == "2,8,8"
        finally:
            running.terminate()
        running.communicate(timeout=280)
    assert running.returncode == 0


def test_without_a_model_the_one_in_the_box_is_used(call, small_bert, tmp_path, monkeypatch):
    box = tmp_path / "box"
    box.mkdir()
    (box / "encoder").symlink_to(small_bert)
    monkeypatch.setenv("REGARD_BOX", str(box))
    done = call("look", TEXT, "-o", tmp_path / "a.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "a.json").read_text())[0]["look"]["model"] == "encoder"


def test_in_python_it_saves_and_shows_itself(small_bert, tmp_path):
    seen = regard.look(regard.load(small_bert), TEXT, name="mine")
    seen.save(tmp_path / "a.html")
    assert '"model": "mine"' in (tmp_path / "a.html").read_text(encoding="utf-8")
    seen.save(tmp_path / "a.png")
    assert seen.json()["look"] == seen.header()
    assert seen._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
