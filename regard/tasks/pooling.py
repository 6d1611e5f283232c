"""One vector for a text out of the states of its tokens: as a sentence-transformers folder declares, or as one asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.errors import Problem, UsageProblem
from regard.layers.pooling import POOLINGS
from regard.rows import Rows

LONGEST = 2**16  # tokens of a text, where neither the folder nor the model's places say
MODULES, POOL, LIMITS = "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"
DECLARED = (MODULES, POOL, LIMITS, "config_sentence_transformers.json")


NAMES = {
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "first": "pooling_mode_cls_token",
    "last": "pooling_mode_lasttoken",
}


@dataclass(frozen=True)
class Pooling:
    how: str = "mean"
    unit: bool = False  # is the vector made one long?
    longest: int = LONGEST  # tokens of a text that are read
    files: Mapping[str, bytes] = field(default_factory=dict)  # of the folder that declared it

    def __post_init__(self) -> None:
        if self.how not in POOLINGS:
            raise UsageProblem(f"no pooling is called {self.how!r}; there are: {', '.join(POOLINGS)}")

    def __call__(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, W)
        pooled = POOLINGS[self.how](states, rows)
        return F.normalize(pooled, dim=-1) if self.unit else pooled


MEAN = Pooling()


def declared(folder: Path) -> Pooling:
    """What a sentence-transformers folder says of its vectors; the mean where there is no word of it."""
    if not (folder / POOL).exists():
        return MEAN
    says, limits = read(folder / POOL), read(folder / LIMITS) if (folder / LIMITS).exists() else {}
    how = [name for name, key in NAMES.items() if says.get(key)]
    if len(how) != 1:
        raise Problem(f"{folder / POOL} asks for another pooling than {', '.join(POOLINGS)}: it cannot be honoured")
    unit = any(str(module.get("type")).endswith("Normalize") for module in read(folder / MODULES))
    files = {name: (folder / name).read_bytes() for name in DECLARED if (folder / name).exists()}
    return Pooling(how[0], unit, limits.get("max_seq_length") or LONGEST, files)


def read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Problem(f"{path} cannot be read ({error}). Fetch it again.") from None
