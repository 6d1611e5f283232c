"""`regard bench finetune`: the same work for all, measured turn by turn, told in a table and in JSON."""

import json
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
from players import counting, failing, played

from benchmarks import finetune, ours, texts
from benchmarks.contest import Contender, Stretch, check_tokens, compare, contest
from benchmarks.layout import lay_out
from benchmarks.plan import Plan
from benchmarks.table import summary, table
from regard.commands.bench import bench
from regard.data.labelled import read_labelled
from regard.errors import Problem, UsageProblem
from regard.tasks.reader import Reader


def has(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@pytest.fixture
def small(small_bert, tmp_path) -> list[str]:
    """Options for the smallest benchmark; its texts are short, as the model has few places."""
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\nthe cat sat\tgood\na dog\tbad\nthe mat and the dog sat too\tgood\n")
    words = ["--model", small_bert, "--data", data, "--device", "cpu", "--threads", 1, "--batch", 4, "--steps", 2]
    return [str(word) for word in [*words, "--repetitions", 2, "--out", tmp_path / "out.json"]]


def test_a_table_is_printed_and_json_written(small, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("sys.argv", ["bench", *small, "--rows", "regard", "regard-plain"])
    finetune.main()
    heading, *lines = capfd.readouterr().out.splitlines()
    assert "real tokens/s" in heading and [line.split()[0] for line in lines] == ["regard", "regard-plain"]
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["command"].startswith("regard bench finetune --model") and told["versions"]["torch"]
    assert told["settings"]["batch"] == 4 and told["device"] == "CPU, 1 threads"
    for row in told["rows"].values():
        assert len(row["stretches"]) == 2 and all(stretch["tokens"] > 0 for stretch in row["stretches"])
        assert row["tokens_per_second"][0] > 0


@pytest.mark.skipif(not all(map(has, finetune.NEEDED)), reason="the Trainer is not installed")
def test_the_trainer_computes_the_same(small_bert, small, tmp_path):
    from benchmarks import trainer

    where = str(tmp_path / "model"), str(tmp_path / "examples.jsonl")
    plan = Plan(*where, "cpu", 1, batch=4, steps=2, stretches=2)
    lay_out(plan, str(small_bert), tmp_path / "data.tsv")
    (shown, *stretches), (theirs, *laps) = played(ours.finetune, plan), played(trainer.finetune, plan)
    assert compare("regard", shown, "trainer", theirs) < 1e-5
    assert [one.tokens for one in stretches] == [one.tokens for one in laps] and len(laps) == 2


@pytest.mark.parametrize("missing", [("accelerate",), ("transformers", "accelerate")])
def test_a_peer_that_is_not_installed_is_left_out_or_asked_for(capfd, monkeypatch, missing):
    monkeypatch.setattr(finetune, "installed", lambda name: name not in missing)
    plan = Plan("", "", "cpu", 1, 4, 2, 3)
    assert [name for name, *_ in finetune.entries(None, plan)] == ["regard"]
    assert f"left out: trainer needs {' and '.join(missing)}" in capfd.readouterr().err
    with pytest.raises(Problem, match=f"pip install {' '.join(missing)}"):
        list(finetune.entries(["trainer"], plan))


def test_what_cannot_be_run_is_told(small, tmp_path, capfd):
    with pytest.raises(UsageProblem, match="no benchmark is called 'finetun'; did you mean 'finetune'"):
        bench("finetun")
    with pytest.raises(Problem, match="repository"):
        bench("finetune", root=tmp_path)
    assert bench("finetune", [*small, "--repetitions", "0"]) == 2
    assert "--repetitions 0: give 1 or more" in capfd.readouterr().err


def test_all_contenders_load_the_same(tmp_path):
    plan = Plan(str(tmp_path / "model"), str(tmp_path / "examples.jsonl"), "cpu", 1, batch=4, steps=3, stretches=2)
    lay_out(plan, "bert-tiny", None)
    data, reader = read_labelled(plan.examples, "classify"), Reader.load(plan.model, "cpu")
    assert len(data) == 24 and set(data.labels) == {"0", "1"}
    config = reader.model.encoder.config
    assert config.embedding.vocab == 30522 and config.stack.block.attention.dropout == 0
    made = [len(text.split()) + texts.FRAME for (text,) in data.texts]
    assert reader.framed(data.texts).lengths.tolist() == made  # a piece a word


def test_made_lengths_are_those_of_sst2():
    lengths = texts.lengths(64_000, np.random.default_rng(1))
    assert lengths.mean() == pytest.approx(13.3, abs=0.1)
    assert np.percentile(lengths, [5, 50, 95, 100]).tolist() == pytest.approx([4, 10, 33, 66], abs=1)
    batches = lengths.reshape(-1, 32)
    assert 32 * batches.max(1).sum() / batches.sum() == pytest.approx(3.01, abs=0.05)  # what padding makes of them


def test_contenders_take_turns():
    plan, said = Plan("", "", "cpu", 1, 1, 1, stretches=3), []
    found = contest([("one", counting, plan), ("other", counting, plan)], said.append)
    assert [[stretch.tokens for stretch in found[name]] for name in ("one", "other")] == [[1, 2, 3]] * 2
    assert [line.split(":")[1].split(",")[0].strip() for line in said] == ["one", "other"] * 3


def test_a_contender_that_fails_is_named():
    with pytest.raises(Problem, match="one ended with exit code 3"):
        Contender("one", failing, Plan("", "", "cpu", 1, 1, 1, 1))


def test_nothing_is_timed_unless_all_compute_the_same():
    assert compare("one", [[1.0, 2.0]], "other", [[1.0, 2.00001]]) == pytest.approx(1e-5)
    for others in ([[1.0, 2.1]], [[1.0, float("nan")]]):
        with pytest.raises(Problem, match="one and other differ"):
            compare("one", [[1.0, 2.0]], "other", others)


def test_all_must_have_read_the_same():
    class Done:
        def __init__(self, name, *tokens):
            self.name, self.stretches = name, [Stretch(1.0, count) for count in tokens]

    check_tokens([Done("one", 3, 4), Done("other", 3, 4)])
    with pytest.raises(Problem, match="did not read the same tokens"):
        check_tokens([Done("one", 3, 4), Done("other", 3, 5)])


def test_a_row_has_medians_and_their_spread_without_the_warm_up():
    ours = [Stretch(9.0, 100), Stretch(1.0, 100), Stretch(2.0, 100), Stretch(4.0, 100)]
    theirs = [Stretch(9.0, 100), *[Stretch(4.0, 100)] * 3]
    rows = {"ours": summary(ours, theirs, 2), "theirs": summary(theirs, theirs, 2)}
    assert rows["ours"]["tokens_per_second"] == [50, 25, 100]
    assert rows["ours"]["milliseconds_per_step"] == [1000, 500, 2000]
    assert rows["ours"]["ratio"] == [2, 1, 4] and rows["ours"]["warm_up_seconds"] == 9
    heading, line, _ = table(rows, "theirs")
    assert (
        "times theirs" in heading and line.split()[:4] == ["ours", "50", "(25", "to"] and "2.00 (1.00 to 4.00)" in line
    )
