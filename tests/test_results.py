"""Pages of results are made of the lines that runs wrote, and of nothing else."""

import json
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from recipes.results import _over_seeds, append, read, write
from regard.errors import Problem
from regard.tasks.metrics import LengthBand

SIGNATURE = "nrefs:1|case:lc|tok:13a"
RUN = {"data": "Multi30k", "split": "test", "signature": SIGNATURE}


def add(folder, row: str, seed: int, value: float, **fields) -> None:
    command = f"python -m recipes.{row} --seed {seed}"
    append(
        "translation",
        folder=folder,
        row=row,
        seed=seed,
        value=value,
        **{"command": command, "metric": "BLEU", **RUN, **fields},
    )


def page(folder) -> str:
    assert write(folder) == [folder / "translation.md"]
    return (folder / "translation.md").read_text()


def cells(text: str, row: str) -> list[str]:
    (line,) = [line for line in text.split("\n") if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_a_line_says_what_was_measured_and_when(tmp_path):
    add(tmp_path / "new", "rnn", 1, 33.5, seconds=60.0)
    (line,) = (tmp_path / "new" / "translation.jsonl").read_text().splitlines()
    today = datetime.now(UTC).date().isoformat()
    run = {"row": "rnn", "seed": 1, "value": 33.5, "metric": "BLEU", "command": "python -m recipes.rnn --seed 1"}
    assert json.loads(line) == {"chapter": "translation", "date": today, "seconds": 60.0, **run, **RUN}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"value": 1.0, "metric": "BLEU", "row": "rnn"}, "lacks data, command"),
        ({"row": "r", "data": "d", "metric": "m", "command": "c"}, "none or several of value, bands, points"),
        ({"row": "r", "data": "d", "metric": "m", "command": "c", "value": 1, "bands": []}, "none or several"),
        ({"row": "r", "data": "d", "metric": "m", "command": "c", "value": float("nan")}, "value is nan"),
        ({"row": "r", "data": "d", "metric": "m", "command": "c", "value": "41"}, "value is '41'"),
        ({"row": "r", "data": "d", "metric": "m", "command": "c", "bands": [{"low": 1, "value": 2}]}, "high, count"),
    ],
)
def test_an_incomplete_result_is_refused_and_not_written(tmp_path, fields, says):
    with pytest.raises(Problem, match=says):
        append("translation", folder=tmp_path, **fields)
    assert not list(tmp_path.iterdir())


def test_a_chapter_is_a_plain_name(tmp_path):
    with pytest.raises(Problem, match="other"):
        append("../other", folder=tmp_path, row="r", data="d", metric="m", command="c", value=1)


@pytest.mark.parametrize("text", ["not json", "3", '{"row": "rnn"}'])
def test_a_bad_line_is_named(tmp_path, text):
    add(tmp_path, "rnn", 1, 33.5)
    with open(tmp_path / "translation.jsonl", "a") as file:
        file.write("\n" + text + "\n")
    with pytest.raises(Problem, match=r"translation\.jsonl, line 3"):
        read(tmp_path / "translation.jsonl")


def test_seeds_are_summarised(tmp_path):
    for seed, value in ((1, 30.0), (2, 31.0), (3, 35.0)):
        add(tmp_path, "rnn", seed, value, seconds=90.0, device="NVIDIA H200", commit="0123456789abcdef")
    add(tmp_path, "transformer", 1, 41.0, seconds=7200.0, flops=2e18)
    text = page(tmp_path)
    assert "## Multi30k, test" in text
    assert cells(text, "rnn") == ["32.00 (30.00–35.00)", "3", "1.5 min", ""]
    assert cells(text, "transformer") == ["41.00", "1", "2.0 h", "2.0e+18"]
    assert f"(1) `{SIGNATURE}`" in text
    assert "**rnn** (seeds 1, 2, 3; NVIDIA H200; commit 0123456789; " in text


def test_a_result_measured_again_replaces_the_one_before(tmp_path):
    for seed, value, command in ((1, 30.0, "old"), (2, 32.0, "old"), (1, 34.0, "new")):
        add(tmp_path, "rnn", seed, value, command=command)
        add(tmp_path, "transformer", seed, value)
    text = page(tmp_path)
    assert cells(text, "rnn")[0] == "33.00 (32.00–34.00)"
    assert "```sh\nnew\n```" in text and "old" not in text
    assert text.index("| rnn") < text.index("| transformer")


def test_lines_of_earlier_runs_stand_under_the_name_that_a_metric_has_now(tmp_path):
    add(tmp_path, "rnn", 1, 30.0, metric="F1")
    add(tmp_path, "rnn", 2, 32.0, metric="f1_macro")
    text = page(tmp_path)
    assert "|  | f1_macro (1) | seeds |" in text and cells(text, "rnn")[0] == "31.00 (30.00–32.00)"


def test_numbers_computed_differently_stand_in_different_columns(tmp_path):
    add(tmp_path, "rnn", 1, 30.0)
    add(tmp_path, "rnn", 1, 20.0, signature="nrefs:1|case:mixed")
    add(tmp_path, "rnn", 1, 50.0, metric="chrF2", signature="chrf")
    text = page(tmp_path)
    assert "|  | BLEU (1) | BLEU (2) | chrF2 (3) | seeds |" in text
    assert cells(text, "rnn") == ["30.00", "20.00", "50.00", "1"]


def test_data_and_splits_have_their_own_tables_and_a_command_is_told_once(tmp_path):
    add(tmp_path, "rnn", 1, 30.0)
    add(tmp_path, "rnn", 1, 25.0, split="2017")
    append("translation", folder=tmp_path, row="rnn", data="tokens", metric="tokens/s", value=595123.4, command="bench")
    text = page(tmp_path)
    assert [line for line in text.split("\n") if line.startswith("## ")] == [
        "## Multi30k, test",
        "## Multi30k, 2017",
        "## tokens",
        "## Commands",
    ]
    assert "| rnn | 595,123 |" in text
    assert text.count("recipes.rnn --seed 1") == text.count("bench") == 1


def test_bands_make_a_table_and_a_plot(tmp_path):
    for seed, shift in ((1, 0.0), (2, 2.0)):
        bands = [LengthBand(0, 10, 400, 30 + shift), LengthBand(11, None, 600, 20 + shift)]
        append(
            "translation",
            folder=tmp_path,
            row="rnn",
            metric="BLEU by length",
            seed=seed,
            command="c",
            bands=bands,
            **RUN,
        )
    bands = [{"low": 0, "high": 10, "count": 400, "value": 40.0}]
    append("translation", folder=tmp_path, row="other", metric="BLEU by length", command="c", bands=bands, **RUN)
    text = page(tmp_path)
    assert "|  | 0–10 | 11+ |" in text
    assert cells(text, "*sentences*") == ["400", "600"]
    assert cells(text, "rnn") == ["31.00", "21.00"]
    assert cells(text, "other") == ["40.00", ""]
    name = "translation-multi30k-test-bleu-by-length-1.svg"
    assert f"![BLEU by length]({name})" in text
    ElementTree.parse(tmp_path / name)


def test_points_make_a_plot(tmp_path):
    about = {"folder": tmp_path, "command": "c", "metric": "loss by tokens read", "data": "Multi30k", "split": "valid"}
    append("translation", row="rnn", points=[(100, 3.5), (1000, 2.5)], **about)
    append("translation", row="other", points=[(200, 3.0)], **about)
    name = "translation-multi30k-valid-loss-by-tokens-read-curve.svg"
    assert f"### Loss by tokens read\n\n![loss by tokens read]({name})" in page(tmp_path)
    ElementTree.parse(tmp_path / name)
    with pytest.raises(Problem, match="finite"):
        append("translation", row="rnn", points=[(1, float("nan"))], **about)


def test_writing_again_changes_nothing(tmp_path):
    bands = [LengthBand(0, 10, 400, 30.0), LengthBand(11, None, 600, 20.0)]
    append("translation", folder=tmp_path, row="a|b", metric="BLEU by length", command="c", bands=bands, **RUN)
    add(tmp_path, "a|b", 1, 0.25)
    written = []
    for _ in range(2):
        write(tmp_path)
        written.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert written[0] == written[1] and len(written[0]) == 3
    assert rb"| a\|b | 0.2500 |" in written[0]["translation.md"]


def test_the_introduction_is_kept_and_the_notice_is_first(tmp_path):
    add(tmp_path, "rnn", 1, 30.0)
    assert page(tmp_path).startswith(
        "<!-- Written by `make results` from translation.jsonl"
    ) and "# Translation\n" in page(tmp_path)
    (tmp_path / "translation.intro.md").write_text("# What attention is for\n\nWords.\n")
    text = page(tmp_path)
    assert "\n\n# What attention is for\n\nWords.\n\n## Multi30k, test" in text and "# Translation\n" not in text


def test_bands_computed_differently_are_not_averaged(tmp_path):
    for signature, value in (("case:lc", 30.0), ("case:mixed", 10.0)):
        bands = [LengthBand(0, None, 5, value)]
        fields = {**RUN, "signature": signature, "metric": "BLEU by length", "row": signature, "bands": bands}
        append("translation", folder=tmp_path, command="c", **fields)
    text = page(tmp_path)
    assert cells(text, "case:lc") == ["30.00"] and cells(text, "case:mixed") == ["10.00"]
    assert len(list(tmp_path.glob("*.svg"))) == text.count("### BLEU by length") == 2


def test_points_of_several_seeds_have_bars(tmp_path):
    about = {"data": "GLUE", "metric": "score by FLOPs", "command": "c", "folder": tmp_path}
    for seed, last in ((0, 60.0), (1, 62.0), (2, 67.0)):
        append("objectives", row="masked", points=[(1e14, 50.0 + seed), (1e15, last)], seed=seed, **about)
    append("objectives", row="next", points=[(1e14, 49.0)], seed=0, **about)
    append("objectives", row="next", points=[(1e15, 55.0)], seed=1, **about)  # elsewhere: a curve of its own
    lines = [line for line in read(tmp_path / "objectives.jsonl") if "points" in line]
    curves = _over_seeds(lines)
    assert curves["masked"] == [(1e14, 51.0, 50.0, 52.0), (1e15, 63.0, 60.0, 67.0)]
    assert curves["next, seed 0"] == [[1e14, 49.0]] and curves["next, seed 1"] == [[1e15, 55.0]]
    [page] = write(tmp_path)
    assert "score-by-flops" in page.read_text() and list(tmp_path.glob("*.svg"))


def test_outcomes_of_trials_are_counted(tmp_path):
    many = {"data": "Killed", "metric": "runs that went on", "command": "python -m benchmarks.kills", "seed": 1}
    for row, trial, outcome in [("train", 1, "bit-equal"), ("train", 2, "different"), ("align", 1, "bit-equal")]:
        append("translation", folder=tmp_path, row=row, trial=trial, outcome=outcome, **many)
    append("translation", folder=tmp_path, row="train", trial=2, outcome="bit-equal", **many)  # mended, and run again
    append("translation", folder=tmp_path, row="align", trial=2, outcome="different", **many)
    text = page(tmp_path)
    assert "| | trials | bit-equal | different |" in text.replace("|  |", "| |")
    assert cells(text, "train") == ["2", "2", "0"]
    assert cells(text, "align") == ["2", "1", "1"]
    assert cells(text, "*all*") == ["4", "3", "1"]


def test_an_outcome_is_of_a_numbered_trial(tmp_path):
    with pytest.raises(Problem, match="lacks trial"):
        append("translation", folder=tmp_path, row="a", data="b", metric="c", command="d", outcome="bit-equal")
