"""`regard glue`: the layouts of GLUE's files, what is left out, and the table."""

from __future__ import annotations

import random

import pytest
from toy_examples import BAD, GOOD, QUICK, said

import regard
from regard.commands.glue import GLUE

ENTAILED, NEUTRAL = ("entailment", "not_entailment"), ("neutral", "entailment", "contradiction")
HEADERS = {
    "SST-2": "sentence\tlabel",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "STS-B": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "QQP": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "MNLI": "index\tpromptID\tpairID\tgenre\tparse1\tparse2\tsentence1\tsentence2\tlabel1\tgold_label",
    "QNLI": "index\tquestion\tsentence\tlabel",
    "RTE": "index\tsentence1\tsentence2\tlabel",
    "WNLI": "index\tsentence1\tsentence2\tlabel",
}
COLUMNS = {
    "CoLA": "text: column '4', label: column '2'",
    "SST-2": "text: column 'sentence', label: column 'label'",
    "MRPC": "text: column '#1 String', second: column '#2 String', label: column 'Quality'",
    "STS-B": "text: column 'sentence1', second: column 'sentence2', label: column 'score'",
    "QQP": "text: column 'question1', second: column 'question2', label: column 'is_duplicate'",
    "MNLI": "text: column 'sentence1', second: column 'sentence2', label: column 'gold_label'",
    "QNLI": "text: column 'question', second: column 'sentence', label: column 'label'",
    "RTE": "text: column 'sentence1', second: column 'sentence2', label: column 'label'",
    "WNLI": "text: column 'sentence1', second: column 'sentence2', label: column 'label'",
}


def row(task: str, n: int, one: str, other: str) -> str:
    match task:
        case "CoLA":
            return f"gj04\t{n % 2}\t{'' if n % 2 else '*'}\t{one}"
        case "SST-2":
            return f"{one}\t{n % 2}"
        case "MRPC":
            return f'{n % 2}\t{70 + n}\t{90 + n}\t"{one}\t{other} " so "'
        case "STS-B":
            return f"{n}\tmain\tMSRvid\t2012\t{n}\tnone\tnone\t{one}\t{other}\t{n % 5}.{n}00"
        case "QQP":
            return f"{n}\t{n}\t{n + 9}\t{one}\t{other}\t{n % 2}"
        case "MNLI":
            label = NEUTRAL[n % 3]
            return f"{n}\t1\t1n\tfiction\t(a)\t(b)\t{one}\t{other}\t{label}\t{label if n < 8 else '-'}"
        case "WNLI":
            return f"{n}\t{one}\t{other}\t{n % 2}"
    return f"{n}\t{one}\t{other}\t{ENTAILED[n % 2]}"


def make_task(folder, task: str) -> None:
    draw, place = random.Random(0), folder / task
    place.mkdir(parents=True)
    for name in ("train", *GLUE[task].dev):
        rows = [row(task, n, said(draw, GOOD), said(draw, BAD)) for n in range(9)]
        lines = [HEADERS[task], *rows] if task in HEADERS else rows
        (place / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_every_task_is_found_and_scored(call, encoder, tmp_path):
    for task in GLUE:
        make_task(tmp_path / "GLUE", task)
    done = call("glue", tmp_path / "GLUE", "--model", encoder, "--out", tmp_path / "runs", *QUICK)
    assert done.code == 0, done.err
    *rows, mean = [line.split() for line in done.out.splitlines()]
    assert [row[0] for row in rows] == list(GLUE) and mean[0] == "mean"
    assert float(mean[1]) == pytest.approx(sum(float(row[1]) for row in rows) / len(rows), abs=0.1)
    for task, columns in COLUMNS.items():
        about = done.err.partition(f"{tmp_path / 'GLUE' / task}/train.tsv: ")[2].splitlines()
        assert about[0].startswith("8 examples" if task == "MNLI" else "9 examples") and about[1] == columns, task
    [mnli] = [line for line in done.out.splitlines() if line.startswith("MNLI")]
    assert "accuracy (mismatched)" in mnli
    again = regard.load(tmp_path / "runs" / "RTE", "cpu")
    assert again.task.labels.names == ENTAILED


def test_what_lacks_a_file_is_left_out_and_told(call, encoder, tmp_path):
    for task in ("RTE", "WNLI", "MNLI"):
        make_task(tmp_path / "GLUE", task)
    (tmp_path / "GLUE" / "WNLI" / "dev.tsv").unlink()
    (tmp_path / "GLUE" / "MNLI" / "dev_mismatched.tsv").unlink()
    command = ["glue", tmp_path / "GLUE", "--model", encoder, "--out", tmp_path / "runs", *QUICK]
    done = call(*command)
    assert done.code == 0 and [line.split()[0] for line in done.out.splitlines()] == ["RTE", "mean"]
    assert "left out: WNLI, for want" in done.err and "left out: MNLI" in done.err and "CoLA" not in done.err
    asked = call(*command, "--task", "RTE", "--task", "WNLI")
    assert asked.code == 1 and asked.err.rstrip().endswith("for WNLI") and not asked.out
    assert call(*command, "--task", "RTE").code == 0  # finished before: only scored again


def test_a_folder_without_tasks_and_an_unknown_task_are_refused(call, encoder, tmp_path):
    command = ["glue", tmp_path, "--model", encoder, "--out", tmp_path / "runs"]
    empty = call(*command)
    assert empty.code == 1 and "has no folder with a train and a dev file" in empty.err and "CoLA, SST-2" in empty.err
    unknown = call(*command, "--task", "RTEE")
    assert unknown.code == 2 and "did you mean 'RTE'?" in unknown.err
    missing = call("glue", tmp_path / "nowhere", "--model", encoder)
    assert missing.code == 1 and "there is no such folder" in missing.err
