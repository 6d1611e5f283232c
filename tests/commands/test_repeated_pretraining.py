"""Pretraining repeated in several processes, with a vocabulary of every kind learned each time: the same run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from toy import ENVIRONMENT
from toy_examples import SHORT, shape

from regard.text.kinds import KINDS

RUNS = 3
MEASURED = ("tokens_per_second", "seconds")  # of the machine, not of the run
EACH_KIND = """
import sys
from regard.cli import main
_, kinds, *command = sys.argv
for kind in kinds.split(","):
    sys.argv = ["regard", *(word.replace("KIND", kind) for word in command)]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


def write_ties(path: Path) -> Path:
    """Documents of made-up words that are about equally frequent, so that learning pieces has many ties to break."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abdegilmnorstu", k=draw.randint(3, 8))) for _ in range(150)]
    documents = ["\n".join(" ".join(draw.choices(words, k=6)) + " ." for _ in range(6)) for _ in range(20)]
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Each of the runs, with a run of every kind within it: the commands of one after the other in one process."""
    folder = tmp_path_factory.mktemp("repeated")
    text = write_ties(folder / "text.txt")
    made = [folder / str(number) for number in range(RUNS)]
    for number, out in enumerate(made):
        command = ["pretrain", "bert-tiny", text, "--out", f"{out}/KIND", "--pieces", "KIND", *SHORT, *shape()]
        environment = ENVIRONMENT | {"PYTHONHASHSEED": str(number), "RAYON_NUM_THREADS": str(number + 1)}
        words = ["-c", EACH_KIND, ",".join(KINDS), *command, "--vocab", 300, "--steps", 2]
        subprocess.run([sys.executable, *map(str, words)], env=environment, check=True, capture_output=True)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_three_runs_are_the_same_run(folders, kind):
    first, *others = [model_files(folder / kind) for folder in folders]
    assert {"model.safetensors", "tokenizer.json"} <= first.keys()
    for other in others:
        assert other.keys() == first.keys()
        assert [name for name in first if other[name] != first[name]] == []
    assert all(metrics(folder / kind) == metrics(folders[0] / kind) != [] for folder in folders)


def model_files(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "model").iterdir()}


def metrics(run: Path) -> list[dict]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in line.items() if name not in MEASURED} for line in lines]
