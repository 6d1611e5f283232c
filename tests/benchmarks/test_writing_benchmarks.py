"""`regard bench translate` and `generate`: the same weights and texts for all, what they write compared, then timed."""

from __future__ import annotations

import json

import pytest
from players import played

from benchmarks import generate, translate, translators, writers, writing
from benchmarks.contest import compare
from benchmarks.copying import captions, lay_out
from benchmarks.plan import Plan
from benchmarks.translators import by_length, cut, shown
from regard.decoding.beam import Beam
from regard.decoding.sample import GREEDY
from regard.errors import Problem
from regard.tasks.translate import Translator

pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")
TINY = {"vocab": 900, "layers": 2, "width": 512, "heads": 8, "inner": 64}  # wide, or it could not tell words apart


@pytest.fixture(scope="module")
def texts() -> list[str]:
    words = [f"w{number}" for number in range(400)]
    return [" ".join(words[first : first + 3 + first % 9]) for first in range(0, 380, 5)]


@pytest.fixture(scope="module")
def copying(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("copying") / "model"
    lay_out(folder, texts, "word", **TINY)
    return folder


@pytest.mark.parametrize("how", [GREEDY, Beam(4)], ids=["greedy", "beam"])
def test_what_is_made_writes_about_what_it_reads(copying, texts, how):
    translator = Translator.load(copying, "cpu")
    found = translator.translate(texts, how)
    lengths = [(len(best.tokens), len(text.split())) for (best,), text in zip(found, texts, strict=True)]
    assert sum(abs(one - other) <= 1 for one, other in lengths) > 0.9 * len(texts)


def test_captions_are_as_long_as_multi30ks():
    lengths = sorted(len(text.split()) for text in captions(4000))
    assert lengths[2000] == 11 and abs(sum(lengths) / 4000 - 11.9) < 0.3 and lengths[-1] <= 37


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("peer", ["transformers", "ctranslate2"])
def test_translators_agree(copying, texts, tmp_path, peer, beams):
    for needed in ("transformers", peer):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    (tmp_path / "texts.json").write_text(json.dumps(texts[:64]))
    plan = Plan(str(copying), str(tmp_path / "texts.json"), "cpu", 1, 8, 2, 2, beams=beams)
    (shown, *ours), (theirs, *laps) = (played(translators.CONTENDERS[name], plan) for name in ("regard", peer))
    assert compare("regard", shown, peer, theirs) == 0
    counts = [one.tokens for one in ours]
    assert counts == [one.tokens for one in laps] and len(counts) == 2 and min(counts) > 16


def test_writers_agree(tmp_path):
    pytest.importorskip("transformers", reason="the reference library is not installed: make oracles")
    prompts = captions(20)
    generate.lay_out(tmp_path / "model", "gpt2-tiny", prompts)
    (tmp_path / "prompts.json").write_text(json.dumps(prompts))
    plan = Plan(str(tmp_path / "model"), str(tmp_path / "prompts.json"), "cpu", 1, 3, 2, 2, most=5)
    (shown, *ours), (theirs, *laps) = (played(writers.CONTENDERS[name], plan) for name in ("regard", "transformers"))
    assert compare("regard", shown, "transformers", theirs) == 0
    assert [one.tokens for one in ours] == [one.tokens for one in laps] == [30, 30]


def test_a_table_is_printed_and_json_written(tmp_path, monkeypatch, capfd):
    out = tmp_path / "out.json"
    words = ["--model", "gpt2-tiny", "--prompts", 3, "--most", 5, "--threads", 1, "--repetitions", 1, "--out", out]
    monkeypatch.setattr("sys.argv", ["bench", *map(str, words), "--rows", "regard"])
    writing.run(generate.bench, generate.options())
    load, heading, line, _ = capfd.readouterr().out.split("\n")[:4]
    assert load == "3 prompts" and "real tokens/s" in heading and line.startswith("regard")
    told = json.loads(out.read_text())
    assert told["command"].startswith("regard bench generate --model gpt2-tiny") and told["versions"]["torch"]
    assert told["loads"]["3 prompts"]["regard"]["stretches"][0]["tokens"] == 15


def test_what_cannot_be_run_is_told(capsys, monkeypatch):
    for part, words, told in (
        (generate, ["--model", "gpt3"], "gpt3 is neither a folder nor one of gpt2-tiny"),
        (translate, ["--beams", "4", "0"], "--beams 0: give 1 or more"),
    ):
        monkeypatch.setattr("sys.argv", ["bench", *words])
        with pytest.raises(SystemExit, match="2"):
            writing.run(part.bench, part.options())
        assert told in capsys.readouterr().err
    monkeypatch.setattr(writing, "installed", lambda name: None)
    plan = Plan("", "", "cpu", 1, 4, 1, 2)
    assert [name for name, *_ in writing.entries(translators.CONTENDERS, None, plan)] == ["regard"]
    with pytest.raises(Problem, match="pip install ctranslate2"):
        list(writing.entries(translators.CONTENDERS, ["ctranslate2"], plan))


def test_batches_are_sorted_and_answers_are_not():
    sizes = []

    def batch(texts: list[str]) -> list[list[int]]:
        sizes.append([len(text) for text in texts])
        return [[len(text)] for text in texts]

    assert by_length(batch, 2)(["a", "bbb", "cc"]) == [[1], [3], [2]] and sizes == [[3, 2], [1]]
    assert cut([5, 6, 0, 0], 0) == [5, 6] and cut([5, 6], 0) == [5, 6]
    assert shown([5, 6])[:4] == [2.0, 5.0, 6.0, -1.0] and len(shown([])) == len(shown([1] * 99))
