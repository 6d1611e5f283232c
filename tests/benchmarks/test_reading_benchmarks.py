"""`regard bench embed`, `tokenize` and `memory` in their smallest form: tables, JSON, and lines for the results."""

import json
from pathlib import Path

import pytest
from players import played

from benchmarks import cutters, embed, embedders, memory, mixed, peaks, tokenize, writing
from benchmarks.contest import Stretch, compare
from benchmarks.memory import rows_of
from benchmarks.plan import Plan
from benchmarks.reporting import compared, table
from regard.cli.measuring import bench_app
from regard.commands.bench import BENCHMARKS
from regard.errors import Problem


@pytest.fixture
def texts(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat\na dog\nthe mat and the dog sat too\n\nsat\nthe dog sat and the cat sat and the mat\n")
    return path


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a benchmark, in its smallest form; its numbers, once the table and the results have the same rows."""

    def run(module, *words):
        out = ["--out", tmp_path / "out.json", "--results", tmp_path / "results"]
        monkeypatch.setattr("sys.argv", ["bench", *map(str, [*words, "--threads", 1, "--repetitions", 2, *out])])
        writing.run(module.bench, module.asked())
        heading, *lines = capfd.readouterr().out.splitlines()
        numbers = json.loads((tmp_path / "out.json").read_text())
        assert [line.split()[0] for line in lines] == list(numbers["rows"]) and numbers["device"] == "CPU, 1 threads"
        results = [json.loads(line) for line in (tmp_path / "results/speed.jsonl").read_text().splitlines()]
        metrics = {name for row in numbers["rows"].values() for name in row}
        assert {line["metric"] for line in results} == metrics and all(name in heading for name in metrics)
        return numbers

    return run


def test_all_are_known_to_the_command():
    commands = {command.name for command in bench_app.registered_commands}
    assert {"embed", "tokenize", "memory"} <= set(BENCHMARKS) == commands


def test_embedding(run, small_bert, texts):
    numbers = run(embed, "--model", small_bert, "--data", texts, "--texts", 5, "--batch", 2, "--rows", "regard")
    assert numbers["rows"]["regard"]["texts/s"][0] > 0 and numbers["settings"]["batch"] == 2
    assert numbers["command"].startswith("regard bench embed --model")


def test_tokenising(run, small_bert, texts):
    numbers = run(tokenize, "--model", small_bert, "--data", texts, "--texts", 5, "--rows", "regard", "tokenizers")
    assert list(numbers["rows"]) == ["regard", "tokenizers"] and numbers["rows"]["tokenizers"]["MB/s"][0] > 0


def test_memory(run, small_bert, tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\nthe cat sat\tgood\na dog\tbad\nthe mat and the dog sat too\tgood\n")
    row = run(memory, "--model", small_bert, "--data", data, "--batch", 4, "--steps", 2, "--rows", "regard")["rows"][
        "regard"
    ]
    assert row["peak MB"][0] > 50 and row["peak MB"][0] > row["training MB"][0]


@pytest.mark.parametrize("contenders", [embedders.CONTENDERS, cutters.CONTENDERS], ids=["embed", "tokenize"])
def test_all_compute_the_same(contenders, small_bert, texts, tmp_path, monkeypatch):
    for name in ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "1")
    for name in {name.removesuffix("-sorted") for name in contenders} - {"regard"}:
        pytest.importorskip(name.replace("-", "_"), reason=f"{name} is not installed")
    written = mixed.written(texts.read_text().split("\n\n")[0].splitlines(), tmp_path / "texts.json")
    plan = Plan(str(small_bert), written, "cpu", 1, batch=2, steps=1, stretches=2)
    shown, *ours = played(contenders["regard"], plan)
    for name, work in contenders.items():
        theirs, *stretches = played(work, plan)
        assert compare("regard", shown, name, theirs) < 1e-5
        assert [one.tokens for one in stretches] == [one.tokens for one in ours] and len(stretches) == 2


def test_more_texts_than_there_are_cannot_be_had(texts):
    with pytest.raises(Problem, match="there are 5 texts, and --texts asks for 6"):
        mixed.chosen(texts, 6)


def test_each_is_told_beside_the_others_turn_by_turn():
    ours, theirs = ([Stretch(seconds, 10) for seconds in times] for times in ((9, 1, 2, 4), (9, 4, 4, 4)))
    rows = compared({"ours": ours, "theirs": theirs}, {"texts": 8})
    assert rows["ours"] == {"texts/s": [4, 2, 8], "times ours": [1, 1, 1], "times theirs": [2, 1, 4]}
    heading, line, _ = table(rows)
    assert "texts/s" in heading and "4.0 (2.0 to 8.0)" in line and "2.00 (1.00 to 4.00)" in line


def test_memory_is_the_most_that_was_held_after_the_warm_up():
    held = [peaks.Held(1.0, 10, before=int(2e6), peak=int(size)) for size in (9e6, 5e6, 7e6)]
    assert rows_of({"ours": held}) == {"ours": {"peak MB": [7, 5, 7], "training MB": [5, 3, 5]}}


@pytest.mark.skipif(not peaks.FORGET.exists(), reason="the system does not count anew")
def test_a_peak_is_that_since_it_was_forgotten():
    taken = bytearray(b"x" * 200_000_000)
    high = peaks.peak(on_gpu=False)
    del taken
    peaks.forget(on_gpu=False)
    assert high - peaks.peak(on_gpu=False) > 100e6
