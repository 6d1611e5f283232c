"""One file shows a Look in a real browser: offline, under its own policy, whatever the text is, and in a notebook."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import Problem
from regard.models import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.tokenizer import ENCODER, Tokenizer
from regard.viewer import file
from regard.viewer.contents import details_of, outline_of, weights_of
from regard.viewer.file import NOTEBOOK_LIMIT, PAGE, notebook_cell, page
from regard.viewer.join import joined
from regard.viewer.look import Look
from regard.viewer.looking import look
from regard.viewer.view import View

HOSTILE = "</script><img src=x onerror=window.hacked=1><!--<script>"
TEXTS = ["the cat sat on the mat", "a dog and the cat"]
LISTEN = """window.violations = [];
addEventListener("securitypolicyviolation", ({ violatedDirective }) => violations.push(violatedDirective));"""
DECODE = """([name, number]) => {
  const script = document.getElementById(`block-${number}-${name}`);
  const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
  const kind = { float32: Float32Array, uint16: Uint16Array }[script.dataset.type];
  return [script.dataset.shape, script.dataset.type, [...new kind(bytes.buffer)].map(String)];
}"""


@dataclass
class Opened:
    page: object
    requests: list[str]
    complaints: list[str]

    def settled(self, where=None):
        """The stage, when what was asked for is drawn there."""
        (where or self.page).wait_for_selector('#stage[aria-busy="false"] .view:not(.pending)')

    def check(self, path: Path) -> None:
        """Nothing was asked for but the file, nothing was refused, nothing went wrong."""
        assert self.requests == [path.as_uri()] and self.complaints == []
        for frame in self.page.frames:
            assert frame.evaluate("[window.violations, window.hacked]") == [[], None]


@contextmanager
def opened(browser, path: Path, text: str) -> Iterator[Opened]:
    path.write_text(text, encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1100, "height": 800})
    tab.add_init_script(LISTEN)
    found = Opened(tab, [], [])
    tab.on("request", lambda request: found.requests.append(request.url))
    tab.on("pageerror", lambda error: found.complaints.append(str(error)))
    tab.on("console", lambda told: found.complaints.append(told.text) if told.type in ("error", "warning") else None)
    tab.goto(path.as_uri())
    yield found
    tab.close()


def tokenizer(**more) -> Tokenizer:
    return Tokenizer.train("words", TEXTS * 2, 40, **more)


def reader(layers: int = 2, heads: int = 2, longest: int = 32) -> Reader:
    torch.manual_seed(0)
    words = tokenizer(special=ENCODER)
    return Reader(
        new_encoder("bert", bert.bert(layers, 8 * heads, heads, words.size, longest=longest), {"masked"}), words
    )


def writer() -> Writer:
    torch.manual_seed(0)
    pieces = Tokenizer.train("byte-bpe", TEXTS, 263, special=("<|endoftext|>",))
    return Writer(new_encoder("gpt2", gpt2(2, 16, 2, pieces.size, longest=24), {"write"}), pieces)


def translator(kind: type, config) -> Translator:
    torch.manual_seed(0)
    return Translator(kind(config).eval(), tokenizer(), tokenizer())


LOOKS = {
    "encoder": lambda: look(reader(), TEXTS[0], name="bert"),
    "decoder": lambda: look(writer(), TEXTS[0], write=3, name="gpt"),
    "encoder-decoder": lambda: look(
        translator(Transformer, transformer(2, 16, 2, 32, vocab=tokenizer().size)), TEXTS[0], target=TEXTS[1]
    ),
    "recurrent": lambda: look(
        translator(Seq2Seq, seq2seq("additive", width=16, vocab=tokenizer().size)), TEXTS[0], target=TEXTS[1]
    ),
}


@pytest.mark.parametrize("kind", LOOKS)
def test_every_view_opens_and_nothing_is_fetched(browser, tmp_path, kind):
    with opened(browser, tmp_path / "a.html", page([LOOKS[kind]()])) as found:
        found.settled()
        names = found.page.eval_on_selector_all("#views button:enabled", "all => all.map((one) => one.dataset.name)")
        assert len(names) >= 2
        for name in names:
            found.page.click(f'#views button[data-name="{name}"]')
            found.page.wait_for_selector(f'#stage[aria-busy="false"] .view[data-view="{name}"]:not(.pending)')
            assert found.page.query_selector_all("#stage .error") == [], name
        found.check(tmp_path / "a.html")


@pytest.mark.parametrize("kind", LOOKS)
def test_what_a_file_holds_is_what_the_look_has(kind):
    """Names and shapes are told by the header, before anything is computed."""
    seen = LOOKS[kind]()
    header = seen.header()
    shapes = {**outline_of(header), **weights_of(header), **details_of(header)}
    assert {name for name in shapes if "/explain/" not in name} == set(seen.blocks())
    for name, shape in shapes.items():
        assert seen.block(name).shape == shape, name


def test_the_joined_script_is_one_that_a_browser_reads(browser):
    """Reading it is enough: a name that is declared twice is an error of syntax there."""
    script = joined(PAGE / "main.js")
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    tab = browser.new_page()
    assert tab.evaluate(
        "(text) => { new Function(`'use strict'; return async () => {${text}}`); return 'read'; }", script
    )
    tab.close()


def test_blocks_arrive_as_they_were(browser, tmp_path):
    seen = LOOKS["decoder"]()
    with opened(browser, tmp_path / "a.html", page([seen, seen], "all")) as found:
        for name in ("decoder/0/weights", "decoder/1/scores", "decoder/0/q", "decoder/mean", "decoder/rollout"):
            shape, kind, numbers = found.page.evaluate(DECODE, [name, 1])
            block = seen.block(name)
            assert kind == "float32" and shape == ",".join(map(str, block.shape))
            arrived = np.array([float(n.replace("Infinity", "inf")) for n in numbers]).reshape(block.shape)
            np.testing.assert_array_equal(arrived.astype(np.float32), block)


def test_where_there_is_less_room_weights_are_rounded(browser, tmp_path):
    seen = look(reader(), " ".join(TEXTS * 3))
    whole = page([seen], "all")
    with opened(browser, tmp_path / "a.html", page([seen], 17_000)) as found:
        shape, kind, numbers = found.page.evaluate(DECODE, ["encoder/0/weights", 0])
        block = seen.block("encoder/0/weights")
        assert kind == "uint16" and shape == ",".join(map(str, block.shape))
        rounded = np.array(numbers, dtype=np.float64).reshape(block.shape) / 65535
        assert abs(rounded - block).max() <= 0.51 / 65535
        notes = found.page.text_content("#about .notes")
        assert all(told in notes for told in ("rounded to 1/65535", "does not hold queries", "heads of layer 1 only"))
        assert found.page.evaluate("document.documentElement.outerHTML").count("block-0-") < whole.count("block-0-")
        found.settled()
        found.check(tmp_path / "a.html")


def test_a_long_text_through_many_layers_opens(browser, tmp_path):
    words = (" ".join(TEXTS).split() * 50)[:510]
    seen = look(reader(12, 12, 512), " ".join(words), name="long")
    text = page([seen], view=View(layer=8))
    assert 20_000_000 < len(text) < 33_000_000
    with opened(browser, tmp_path / "a.html", text) as found:
        found.settled()
        assert "the heads of layer 8 only" in found.page.text_content("#about")
        assert "512 pieces" in found.page.text_content("#about")
        found.check(tmp_path / "a.html")


def test_what_cannot_fit_is_said():
    with pytest.raises(Problem, match=r"what m looked at does not fit into 0\.0001 MB, not even one layer"):
        page([look(reader(), TEXTS[0], name="m")], 100)


def test_what_cannot_fit_into_a_notebook_is_said_there(monkeypatch):
    monkeypatch.setattr(file, "NOTEBOOK_LIMIT", 100)
    seen = look(reader(), TEXTS[0], name=HOSTILE)
    assert notebook_cell([seen]).startswith("<p>what &lt;/script&gt;&lt;img src=x")


def test_hostile_text_is_text(browser, tmp_path):
    pieces = [HOSTILE, "\u2028&amp;\ud800", "'\"\x00", "]]>"]
    seen = Look.of_arrays(np.full((1, 1, 4, 4), 0.25), pieces, name=HOSTILE)
    seen.notes.append(HOSTILE)
    for text in (page([seen], view=View(attention=HOSTILE)), notebook_cell([seen])):
        with opened(browser, tmp_path / "a.html", text) as found:
            frame = found.page.frames[-1]
            found.settled(frame)
            told = frame.text_content("#about")
            assert told.count(HOSTILE) == 2
            kept = frame.evaluate("JSON.parse(document.getElementById('looks').textContent)[0].sides.text.pieces")
            assert kept[0] == HOSTILE and kept[2:] == pieces[2:]
            frame.click('#views button[data-name="text"]')
            frame.wait_for_selector('.view[data-view="text"]:not(.pending)')
            assert HOSTILE in frame.text_content("#stage") and frame.query_selector_all("img") == []
            found.check(tmp_path / "a.html")


def test_the_policy_lets_nothing_else_run_or_be_fetched(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", page([LOOKS["encoder"]()])) as found:
        found.settled()
        found.page.evaluate(
            """async () => {
              const script = document.createElement("script");
              script.textContent = "window.hacked = 1";
              document.body.append(script);
              await fetch("https://example.org/").catch(() => {});
              new Image().src = "https://example.org/a.png";
              await new Promise((done) => setTimeout(done, 50));
            }"""
        )
        assert found.page.evaluate("window.hacked") is None
        refused = found.page.evaluate("window.violations")
        assert sorted(refused) == ["connect-src", "img-src", "script-src-elem"]


def test_a_notebook_shows_it_in_a_frame_of_its_own(browser, tmp_path):
    """Also where the notebook has a policy, as the one of VS Code has."""
    cell = notebook_cell([LOOKS["encoder"](), LOOKS["decoder"]()])
    assert len(cell) < NOTEBOOK_LIMIT and 'sandbox="allow-scripts"' in cell
    policy = (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
    )
    host = f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy}"><p>before</p>{cell}'
    with opened(browser, tmp_path / "a.html", host) as found:
        frame = found.page.frames[1]
        found.settled(frame)
        assert frame.text_content("h1") == "bert"
        frame.click('#views button[data-name="heads"]')
        frame.wait_for_selector('.view[data-view="heads"]:not(.pending)')
        frame.click("#theme")
        assert frame.evaluate("window.origin") == "null"
        found.check(tmp_path / "a.html")


def test_the_file_is_a_function_of_the_look():
    first, second = (page([LOOKS["encoder"]()], view=View("heads", layer=2)) for _ in range(2))
    assert first == second
    assert 'id="looks" data-start="view=heads&amp;layer=1"' in first
    assert "http://" not in first.replace("http://www.w3.org", "") and "https://" not in first


def test_headers_are_ascii_and_close_nothing():
    seen = Look.of_arrays(np.full((1, 1, 1, 1), 1.0), ["<>&\u2028\u2029é\ud800"], name="x")
    [inside] = re.findall(r'id="looks"[^>]*>(.*?)</script>', page([seen]))
    assert inside.isascii() and not set(inside) & set("<>&")
    assert json.loads(inside)[0]["sides"]["text"]["pieces"] == ["<>&\u2028\u2029é\ud800"]
    block = r'id="block-0-encoder/0/weights" data-shape="1,1,1" data-type="float32">(.*?)<'
    [stored] = re.findall(block, page([seen]))
    assert np.frombuffer(base64.b64decode(stored), "<f4").tolist() == [1.0]


# the page's own files


@pytest.fixture
def small_page(tmp_path, monkeypatch):
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "main.js").write_text("document.title = 'run';\n")
    (folder / "page.css").write_bytes(b"body {\r\n  color: #123456;\r\n}\r\n")
    index = '<!doctype html>\n<html><head><meta charset="utf-8">\n<link rel="stylesheet" href="page/page.css">\n'
    index += '<script type="module" src="page/main.js"></script>\n</head><body><p>text</p></body></html>\n'
    (folder / "index.html").write_text(index)
    monkeypatch.setattr(file, "PAGE", folder)
    return folder


def test_style_and_script_are_allowed_by_their_hashes(browser, tmp_path, small_page):
    with opened(browser, tmp_path / "a.html", page([])) as found:
        assert found.page.title() == "run"
        assert found.page.evaluate("getComputedStyle(document.body).color") == "rgb(18, 52, 86)"
        found.check(tmp_path / "a.html")


@pytest.mark.parametrize(
    "name, text, told",
    [
        ("index.html", '<img src="https://example.org/a.png">', "cannot fetch: 'src='"),
        ("index.html", '<link rel="preload" href="a.css">', "cannot fetch: 'href='"),
        ("index.html", '<script type="module" src="page/main.js"></script>', "must have one script"),
        ("index.html", "</body>", "must have one script, a module, and once"),
        ("page.css", "a { background: url(https://example.org/a.png) }", "cannot hold 'url\\('"),
        ("page.css", '@import "other.css";', "cannot hold '@import'"),
        ("page.css", "/* </style> */", "cannot hold '</style'"),
        ("main.js", "export default 1;", "cannot be joined"),
    ],
)
def test_a_page_that_cannot_be_one_file_is_refused(small_page, name, text, told):
    with open(small_page / name, "a") as opened_file:
        opened_file.write(text)
    with pytest.raises(Problem, match=told):
        page([])
