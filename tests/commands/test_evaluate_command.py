"""`regard evaluate`: the numbers are sacreBLEU's, of the translations it writes."""

from __future__ import annotations

import json

import pytest
import sacrebleu
from toy import TEST, files_of_at_most

import regard


@pytest.fixture
def data(corpus):
    return [corpus / name for name in TEST]


def test_the_scores_are_those_of_what_it_writes(call, model, data, tmp_path):
    done = call("evaluate", "--model", model, *data, "--json", "--out", tmp_path / "new" / "out.de")
    assert done.code == 0
    written = (tmp_path / "new" / "out.de").read_text().split("\n")
    references = data[1].read_text().split("\n")
    assert len(written) == 21 and written[-1] == ""
    told = json.loads(done.out)
    scores = {score["metric"]: score for score in told["scores"]}
    assert scores["BLEU"]["value"] == sacrebleu.corpus_bleu(written[:-1], [references[:-1]]).score > 50
    assert scores["chrF2"]["value"] == sacrebleu.corpus_chrf(written[:-1], [references[:-1]]).score
    right = sum(one == other for one, other in zip(written[:-1], references[:-1], strict=True))
    assert scores["exact match"]["value"] == 100 * right / 20
    assert sum(band["count"] for band in told["by_length"]) == 20 and told["cut"] == 0
    assert "|tok:13a|" in scores["BLEU"]["signature"]


def test_what_is_written_is_what_translate_says(call, model, data, tmp_path):
    call("evaluate", "--model", model, *data, "--beam", 2, "--penalty", 0.5, "--out", tmp_path / "out")
    said = call("translate", "--model", model, "--file", data[0], "--beam", 2, "--penalty", 0.5)
    assert (tmp_path / "out").read_text() == said.out


def test_for_people_it_prints_lines(call, model, data):
    lines = call("evaluate", "--model", model, *data, "--lowercase").out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["BLEU", "chrF2", "exact", "by"]
    assert "case:lc" in lines[0] and all("words: BLEU" in line for line in lines[4:])


def test_the_function_is_the_command(call, model, data):
    scored = regard.evaluate(model, data)
    assert call("evaluate", "--model", model, *data).out == "\n".join(scored.lines()) + "\n"


def test_sources_that_are_cut_are_counted(call, model, tmp_path):
    files = tmp_path / "long.en", tmp_path / "long.de"
    files[0].write_text("man " * 1030 + "\na man\n")
    files[1].write_text("mann\nein mann\n")
    done = call("evaluate", "--model", model, *files, "--beam", 1)
    assert done.code == 0 and done.out.endswith("warning: sources too long to be read to the end: 1\n")


def test_faults_are_told(call, model, data, corpus, tmp_path):
    unequal = call("evaluate", "--model", model, data[0], corpus / "train.de")
    assert unequal.code == 1 and "test.en has 20 lines" in unequal.err
    missing = call("evaluate", "--model", model, data[0], tmp_path / "missing.de")
    assert missing.code == 1 and "missing.de cannot be read" in missing.err
    with files_of_at_most(50):
        full = call("evaluate", "--model", model, *data, "--out", tmp_path / "out")
    assert full.code == 1 and "out could not be written" in full.err and not any(tmp_path.iterdir())
    assert call("evaluate", "--model", model).code == 2
    assert call("evaluate", "--model", model, *data, "--beam", 0).code == 2
