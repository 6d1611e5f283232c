"""What the README and docs/looking.md say of looking inside is done here, on small models; and so is the example."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest

from regard.cli import main
from regard.models.transformer import Transformer, transformer
from regard.tasks.translate import Translator
from regard.text.tokenizer import Tokenizer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "looking.md").read_text("utf-8")


@pytest.fixture
def small_box(small_bert, tmp_path, monkeypatch) -> Path:
    """A box with an encoder and a translator that have learned nothing; the folder beside it is worked in."""
    box = tmp_path / "box"
    shutil.copytree(small_bert, box / "encoder")
    tokenizer = Tokenizer.train("words", ["Ein Mann fährt Fahrrad."] * 3, 40)
    model = Transformer(transformer(1, 16, 2, 32, vocab=tokenizer.size))
    Translator(model.eval(), tokenizer, tokenizer).save(box / "translate-de-en")
    monkeypatch.setenv("REGARD_BOX", str(box))
    monkeypatch.chdir(tmp_path)
    pipe = signal.getsignal(signal.SIGPIPE)
    yield tmp_path
    signal.signal(signal.SIGPIPE, pipe)


def test_the_commands_of_the_readme_write_their_files(small_box, monkeypatch, capsys):
    section = re.search(r"^## Look inside\n.*?^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    lines = [line for line in section.splitlines() if " -o " in line]  # the others serve
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, capsys.readouterr().err
    assert len(lines) == 2
    assert (small_box / "look.html").read_text("utf-8").startswith("<!doctype html>")
    assert (small_box / "alignment.png").read_bytes().startswith(b"\x89PNG")


def test_the_python_of_the_page_runs(small_box):
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    (small_box / "page.py").write_text(code, "utf-8")
    found = runpy.run_path(str(small_box / "page.py"))
    assert (small_box / "look.html").exists()
    assert found["look"]._repr_html_().startswith("<iframe ")
    [calls] = found["seen"].values()
    assert {call[0].shape[0] for call in calls} == {1}  # one head was asked for


def test_the_page_tells_of_every_view_and_its_picture():
    sources = [path.read_text("utf-8") for path in (ROOT / "regard/viewer/page/views").glob("*.js")]
    shown = re.compile(r'name: "(\w+)",\s+title: "([^"]+)",\s+key: "(\d)"')
    views = [found.groups() for source in sources if (found := shown.search(source))]
    assert len(views) == 10
    for name, title, key in views:
        assert f"**{key} {title}.**" in PAGE and f"(views/{name}.png)" in PAGE


def test_the_example(small_bert, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["look.py", str(small_bert), "the cat sat on the mat", "cat"])
    runpy.run_path(str(ROOT / "examples" / "look.py"))
    *layers, last = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in layers] == ["layer 1", "layer 2", "layer 3"]
    shares = [[float(share) for share in re.findall(r"\d\.\d\d", line)] for line in layers]
    assert all(some == sorted(some, reverse=True) and 0 < sum(some) <= 1.02 for some in shares)
    assert last.startswith("look.html") and (tmp_path / "look.html").exists()
