"""What the recipe of the encoders says of its runs is what docs/results says, to a tenth."""

import ast
import json
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
TOLD = [
    ("SST-2 accuracy", "BERT"),
    ("SST-2 accuracy", "BERT, not pretrained"),
    ("CoNLL-2003 entity F1", "BERT"),
    ("CoNLL-2003 entity F1", "BERT, not pretrained"),
    ("SST-2 accuracy", "ELECTRA, in two stages"),
    ("CoNLL-2003 entity F1", "ELECTRA, in two stages"),
    ("CoNLL-2003 entity F1", "ELECTRA"),
]


def mean(metric: str, row: str) -> str:
    """Over the seeds; of a seed that was run again the newest counts."""
    lines = (ROOT / "docs" / "results" / "encoders.jsonl").read_text().splitlines()
    runs = [line for line in map(json.loads, lines) if (line["metric"], line["row"]) == (metric, row)]
    return f"{fmean({run['seed']: run['value'] for run in runs}.values()):.1f}"


def test_the_recipe_tells_the_scores_of_its_runs():
    told = ast.get_docstring(ast.parse((ROOT / "recipes" / "encoders.py").read_text()))
    assert re.findall(r"\d+\.\d", told) == [mean(*which) for which in TOLD]
