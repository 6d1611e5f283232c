"""The tour shows an answer for each command, and writes what a translation looked at."""

from __future__ import annotations

import re

from regard.commands.demo import demo

VERBS = ["translate", "translate", "fill", "generate", "classify", "classify", "tag", "embed", "look"]


def test_the_tour_goes_through(small_box, tmp_path, capsys):
    demo(tmp_path / "demo")
    told = capsys.readouterr().out
    assert re.findall(r"^\$ regard (\w+)", told, re.MULTILINE) == VERBS
    assert "1.00  The government raised taxes." in told
    assert re.search(r"^  (positive|negative)  0\.\d{4}$", told, re.MULTILINE)
    assert "<html" in (tmp_path / "demo" / "view.html").read_text(encoding="utf-8")
    assert "regard serve" in told.splitlines()[-1]
