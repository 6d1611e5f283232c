"""What the README says can be done is done here, on small files; and its tree is the tree."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",  # tiny tensors: more threads only wait for each other
}
WORDS = {"a": "ein", "man": "mann", "dog": "hund", "rides": "fährt", "sees": "sieht", "bicycle": "fahrrad", ".": "."}
QUICK = ["--steps 4 --warmup 2 --evaluate-every 2 --save-every 2 --vocab 120 --budget 256"]
STACKS = [f"{side}.{field}" for side in ("encoder", "decoder") for field in ("layers=1", "block.width=32")]
SHAPES = {
    "transformer-small": ["embedding.width=32", *STACKS],
    "rnn": ["embedding.width=16", "encoder.width=16", "decoder.width=16"],
}
CALL = 'train=("train.en", "train.de"), dev=("dev.en", "dev.de"), out="runs/en-de")'


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [re.sub(r"(^|\s+)#.*", "", line) for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def made_small(command: str) -> str:
    """The last of several equal options wins."""
    if not command.startswith("regard train translate") or "--help" in command:
        return command
    shape = next(shape for name, shape in SHAPES.items() if f"--model {name}" in command)
    return " ".join([command, *QUICK, *(f"--set {setting}" for setting in shape)])


def quick_call() -> str:
    """The settings of QUICK and SHAPES, said in Python."""
    training = {"steps": 4, "evaluate_every": 2, "save_every": 2, "optimizer": {"warmup": 2}}
    settings = f"vocab=120, budget=256, set={tuple(SHAPES['transformer-small'])}, training={training}"
    return CALL.replace('out="runs/en-de")', f'out="runs/en-de", {settings})')


def make_corpus(folder: Path) -> None:
    draw = random.Random(1)
    for name, size in (("train", 200), ("dev", 20), ("test", 20)):
        sources = [["a", draw.choice(["man", "dog"]), draw.choice(["rides", "sees"]), "a",
                    draw.choice(["man", "dog", "bicycle"]), "."] for _ in range(size)]  # fmt: skip
        targets = [[WORDS[word] for word in (*row[:2], *row[3:5], row[2], ".")] for row in sources]  # the verb last
        for language, rows in (("en", sources), ("de", targets)):
            (folder / f"{name}.{language}").write_text("".join(f"{' '.join(row)}\n" for row in rows), "utf-8")


def test_every_command_and_the_python_run(tmp_path):
    make_corpus(tmp_path)
    [code] = blocks("python")
    assert code.count(CALL) == 1, "the README trains in another way now: let CALL say how"
    (tmp_path / "readme.py").write_text(code.replace(CALL, quick_call()), "utf-8")
    first, *rest = [made_small(command) for command in commands()]
    printed = {}
    for command in [first, "python readme.py", *rest]:
        shell = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(shell, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed[command.split(" --")[0]] = done
    assert "is finished, at step 4" in printed["python readme.py"].stderr  # it said what the command had said
    assert "decoder.blocks.0.cross torch.Size([4, 1, " in printed["python readme.py"].stdout
    assert printed['echo "a man rides a bicycle ." | regard translate'].stdout.count("\n") == 1
    assert printed["regard evaluate"].stdout.startswith("BLEU ")
    assert (tmp_path / "translated.de").read_text("utf-8").count("\n") == 20
    assert {path.name for path in tmp_path.glob("alignment*.png")} == {f"alignment-{n}.png" for n in range(1, 21)}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"en-de", "rnn-additive", "bottleneck"}
    assert (tmp_path / "tokenizer.json").exists()


# The tree


def listed() -> set[str]:
    """The paths of `## The tree`: a line each, folders ending in /, what is in them indented further."""
    [section] = re.findall(r"^## The tree\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    [block] = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    paths, folders = set(), [(-1, "")]
    for line in filter(str.strip, block.splitlines()):
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        while folders[-1][0] >= indent:
            folders.pop()
        path = folders[-1][1] + name
        if name.endswith("/"):
            folders.append((indent, path))
        paths.add(path)
    return paths


def has_code(path: Path) -> bool:
    return path.name != "__init__.py" or len(ast.parse(path.read_text("utf-8")).body) > 1


def test_the_tree_lists_every_file_and_no_other():
    paths = listed()
    assert not {path for path in paths if not (ROOT / path).exists()}, "these do not exist"
    files = [path for part in ("regard", "recipes") for path in (ROOT / part).rglob("*.py") if has_code(path)]
    assert not {str(path.relative_to(ROOT)) for path in files} - paths, "these are not listed"


# The scores: what is said of Multi30k, here and in the recipes, is what docs/results says, to a tenth

CONTENT = ["RNN, cosine", "RNN, additive", "RNN, general", "RNN, dot", "RNN, scaled-dot"]
RECIPES = {
    "multi30k_transformer": ["Transformer"],
    "multi30k_rnn_attention": [*CONTENT, "RNN, location"],
    "multi30k_rnn": ["RNN, no attention"],
}


@pytest.fixture(scope="module")
def measured() -> dict[str, str]:
    """The mean BLEU of each row over its seeds."""
    lines = (ROOT / "docs" / "results" / "translation.jsonl").read_text().splitlines()
    values: dict[str, list[float]] = {}
    for line in map(json.loads, lines):
        if line["metric"] == "BLEU":
            values.setdefault(line["row"], []).append(line["value"])
    return {row: f"{fmean(each):.1f}" for row, each in values.items()}


def test_the_scores_are_those_of_the_runs(measured):
    [table] = re.findall(r"^\| Multi30k.*?\n\n", README, re.MULTILINE | re.DOTALL)
    least, *_, most = sorted(measured[row] for row in CONTENT)
    wanted = [measured["RNN, no attention"], measured["RNN, location"], least, most, measured["Transformer"]]
    assert re.findall(r"\d+\.\d", table) == wanted


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_tells_the_score_of_its_runs(measured, recipe):
    told = ast.get_docstring(ast.parse((ROOT / "recipes" / f"{recipe}.py").read_text()))
    assert sorted(re.findall(r"\d+\.\d", told)) == sorted(measured[row] for row in RECIPES[recipe])
