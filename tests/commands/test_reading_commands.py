"""embed, fill and probe, from the command line and as functions."""

import io
import json
import sys

import numpy as np
import pytest

import regard
from regard.cli import main
from regard.commands import probe
from regard.errors import Problem, UsageProblem
from regard.tasks.reader import CHOICES


def command(monkeypatch, capsys, *words, stdin=""):
    """The exit code, output and messages of a command."""
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err


@pytest.fixture
def animals(tmp_path):
    """Texts that a vector can tell apart: each is of one animal."""
    rows = [f"the {animal} sat on the mat {'too ' * (i % 3)}\t{animal}" for i in range(40) for animal in ("cat", "dog")]
    path = tmp_path / "animals.tsv"
    path.write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def tagged(tmp_path):
    sentence = "the O\ncat B-ANIMAL\nsat O\nand O\na O\ndog B-ANIMAL\n"
    path = tmp_path / "tagged.txt"
    path.write_text("\n".join([sentence] * 200))
    return path


def test_embed_writes_a_list_a_line_or_one_array(small_bert, tmp_path, monkeypatch, capsys):
    texts = "the cat\n\na dog sat\n"
    code, out, _ = command(monkeypatch, capsys, "embed", "--model", small_bert, stdin=texts)
    vectors = np.array([json.loads(line) for line in out.splitlines()])
    assert code == 0 and vectors.shape == (3, 16)
    (tmp_path / "texts").write_text(texts)
    array = tmp_path / "new" / "vectors.npy"
    code, out, _ = command(
        monkeypatch, capsys, "embed", "--model", small_bert, "--file", tmp_path / "texts", "--out", array
    )
    assert code == 0 and not out
    assert np.allclose(np.load(array), vectors, atol=1e-6)
    assert np.allclose(regard.embed(small_bert, texts.split("\n")[:3]), vectors, atol=1e-6)


def test_fill_reads_lines_of_a_file_or_of_a_stream(small_bert, tmp_path, monkeypatch, capsys):
    texts = "the [MASK] sat\n\na [MASK] on the [MASK]\n"
    code, out, _ = command(monkeypatch, capsys, "fill", "--model", small_bert, "--best", 1, stdin=texts)
    assert code == 0 and [line.split("\t")[:2] for line in out.splitlines()] == [["1", "1"], ["3", "1"], ["3", "2"]]
    (tmp_path / "texts").write_text(texts)
    same = command(monkeypatch, capsys, "fill", "--model", small_bert, "--best", 1, "--file", tmp_path / "texts")
    assert same == (0, out, "")
    code, _, told = command(monkeypatch, capsys, "fill", "--model", small_bert, stdin="the [MASK]\nno mask\n")
    assert code == 1 and "line 2: nothing is hidden in 'no mask'" in told
    code, _, told = command(
        monkeypatch, capsys, "fill", "--model", small_bert, "a [MASK]", "--file", tmp_path / "texts"
    )
    assert code == 2 and "leave one of them out" in told


def test_fill_ranks_words(small_bert, monkeypatch, capsys):
    code, out, _ = command(monkeypatch, capsys, "fill", "--model", small_bert, "the [MASK] sat", "--best", 3)
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and [row[0] for row in rows] == ["1"] * 3
    [found] = regard.fill(small_bert, "the [MASK] sat", best=3)
    assert [row[2] for row in rows] == [word.word for word in found]


WRONG = (["fill", "no mask here"], ["embed", "--layers", "fourth"], ["embed", "--pooling", "x"])


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_cannot_be_is_a_usage_problem(small_bert, words, monkeypatch, capsys):
    code, _, err = command(monkeypatch, capsys, words[0], "--model", small_bert, *words[1:], stdin="a\n")
    assert code == 2 and err.startswith("regard: ") and "Traceback" not in err


def test_an_encoder_cannot_translate_and_says_so(small_bert, monkeypatch, capsys):
    code, _, err = command(monkeypatch, capsys, "translate", "--model", small_bert, stdin="a\n")
    assert code == 1 and "is an encoder" in err


def test_probe_reads_labels_off_vectors(small_bert, animals, monkeypatch, capsys):
    code, out, _ = command(monkeypatch, capsys, "probe", "classify", animals, "--model", small_bert, "--layers", "all")
    assert code == 0 and all(f"{choice} " in out for choice in CHOICES)
    assert "60 to train, 20 to test" in out
    [found] = regard.probe(small_bert, "classify", animals, layers=["concat last 4"])
    assert found.scores[0].value == 100
    [apart] = regard.probe(small_bert, "classify", animals, animals)
    assert (apart.trained_on, apart.tested_on) == (80, 80)


def test_probe_reads_tags_off_words(small_bert, tagged):
    [found] = regard.probe(small_bert, "tag", tagged)
    assert [score.metric for score in found.scores] == ["entity F1", "tag accuracy"]
    assert found.scores[0].value == 100
    assert (found.trained_on, found.tested_on) == (150, 50)


def test_probe_learns_a_mix_that_embed_takes(small_bert, animals, monkeypatch, capsys):
    words = ["probe", "classify", animals, "--model", small_bert, "--layers", "learned mix"]
    code, out, _ = command(monkeypatch, capsys, *words)
    table, shares = out.splitlines()
    assert code == 0 and table.startswith("learned mix") and "accuracy 100.00" in table and shares.count("%") == 4
    [found] = regard.probe(small_bert, "classify", animals, layers=["learned mix"])
    assert f'--layers "{found.mix}"' in shares
    code, out, _ = command(monkeypatch, capsys, "embed", "--model", small_bert, "--layers", found.mix, stdin="a dog\n")
    assert code == 0 and np.allclose(
        json.loads(out), regard.embed(small_bert, ["a dog"], layers=found.mix)[0], atol=1e-3
    )


def test_probe_learns_a_mix_for_words_from_as_many_as_there_is_room_for(small_bert, tagged, monkeypatch):
    monkeypatch.setattr(probe, "ROOM", 4 * 16 * 6 * 50)  # four layers of 16 numbers, for 50 sentences of six words
    with pytest.warns(UserWarning, match="from 50 of 150 examples"):
        [found] = regard.probe(small_bert, "tag", tagged, layers=["learned mix"])
    assert found.scores[0].value == 100 and len(found.mix.weights) == 4


def test_a_probe_of_one_label_or_no_task_is_refused(small_bert, tmp_path, animals):
    one = tmp_path / "one.tsv"
    one.write_text("sentence\tlabel\n" + "the cat\tcat\n" * 8)
    with pytest.raises(UsageProblem, match="nothing to tell apart"):
        regard.probe(small_bert, "classify", one)
    with pytest.raises(UsageProblem, match="classify, tag"):
        regard.probe(small_bert, "answer", animals)
    with pytest.raises(Problem, match="no such folder"):
        regard.probe(tmp_path / "nowhere", "classify", animals)
