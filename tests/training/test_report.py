import json
import resource

import pytest
from tiny_run import CONFIG, run

from regard.errors import Problem
from regard.training.report import Bar, Lines, Metrics, default_reporter

STEP = {"step": 3, "loss": 1.25, "rate": 5e-4, "norm": 0.5, "tokens_per_second": 12345.0}
EVALUATION = {"step": 3, "evaluation": {"bleu": 31.25, "loss": float("nan")}}


def test_metrics_are_json_whatever_the_numbers(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.write(STEP)
    metrics.write(EVALUATION)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0], parse_constant=refuse) == STEP
    assert json.loads(lines[1], parse_constant=refuse)["evaluation"] == {"bleu": 31.25, "loss": "nan"}


def test_a_full_disk_is_explained(tmp_path):
    metrics, limits = Metrics(tmp_path / "metrics.jsonl"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Problem, match=r"metrics\.jsonl could not be written \([\d,]+ bytes\): File too large"):
            metrics.write(STEP)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_rewinding_forgets_later_steps_final_weights_and_a_cut_line(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.rewind(0)  # nothing there yet
    for step in (2, 4, 6):
        metrics.write({"step": step})
    metrics.write({"step": 4, "evaluation": {}, "weights": "average"})
    with open(metrics.path, "a") as file:
        file.write('{"step": 3, "lo')
    metrics.rewind(4)
    assert metrics.path.read_text() == '{"step": 2}\n{"step": 4}\n'


def test_lines_go_to_stderr_with_time_and_numbers(capsys):
    lines = Lines()
    lines.begin(0, 10)
    lines.tell(STEP)
    lines.tell(EVALUATION)
    out, err = capsys.readouterr()
    assert out == ""
    step, evaluation = err.splitlines()
    assert step[2] == step[5] == ":"
    assert "step 3/10  loss 1.2500  rate 5.00e-04  norm 0.50  12,345 tokens/s  0:00:00 left" in step
    assert "evaluation  bleu 31.25  loss nan" in evaluation


def test_a_bar_on_a_terminal_shows_the_same(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    bar = Bar()
    bar.say("before [it] begins")
    bar.begin(0, 10)
    bar.tell(STEP)
    bar.tell(EVALUATION)
    bar.end()
    out, err = capsys.readouterr()
    assert out == ""
    assert "before [it] begins" in err
    assert "3/10" in err and "12,345 tokens/s" in err and "bleu 31.25" in err


def test_a_run_without_a_terminal_tells_lines(tmp_path, capsys):
    assert isinstance(default_reporter(), Lines)
    run(tmp_path, reporter=None)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == CONFIG.steps // CONFIG.report_every + CONFIG.steps // CONFIG.evaluate_every
