"""How a model of sound wants its waves: at which rate, normed or not; as others' preprocessor_config.json has it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.table import read_json
from regard.errors import Problem

NAME = "preprocessor_config.json"
KIND = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1, "padding_side": "right",
    "padding_value": 0.0, "return_attention_mask": True,
}  # fmt: skip


@dataclass(frozen=True)
class Ears:
    rate: int = 16_000
    norm: bool = True  # each wave has the mean 0 and the variance 1
    kept: bytes = field(default=b"", repr=False)  # the file it came from, as it was

    def __post_init__(self) -> None:
        if not 1000 <= self.rate <= 192_000:
            raise Problem(f"rate={self.rate}: give 1,000 to 192,000 samples a second")

    @classmethod
    def load(cls, folder: Path) -> Ears:
        path = folder / NAME
        if not path.is_file():
            return cls()
        said: Any = read_json(path)
        if not isinstance(said, dict) or type(said.get("sampling_rate", 16_000)) is not int:
            raise Problem(f"{path} does not tell the rate of samples. Fetch it again.")
        return cls(said.get("sampling_rate", 16_000), bool(said.get("do_normalize", True)), path.read_bytes())

    def files(self) -> dict[str, bytes]:
        told = {**KIND, "do_normalize": self.norm, "sampling_rate": self.rate}
        return {NAME: self.kept or (json.dumps(told, indent=2) + "\n").encode()}

    def ready(self, wave: np.ndarray, least: int) -> np.ndarray:  # (samples,) float32
        """A wave as the model hears it; one that is too short for a frame has silence behind it."""
        if self.norm:
            wave = (wave - wave.mean()) / np.sqrt(wave.var() + 1e-7)
        return np.pad(wave.astype(np.float32), (0, max(least - len(wave), 0)))
