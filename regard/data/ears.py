"""How a model of sound wants its waves: at which rate, normed or not; as others' preprocessor_config.json has it, or
the feature extractor of processor_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.processor_config import AUDIO_PARTS, FILE, ProcessorConfig
from regard.errors import Problem

KIND = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1, "padding_side": "right",
    "padding_value": 0.0, "return_attention_mask": True,
}  # fmt: skip


@dataclass(frozen=True)
class Ears:
    rate: int = 16_000
    norm: bool = True  # each wave has the mean 0 and the variance 1
    kept: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # the files it came from, as they were

    def __post_init__(self) -> None:
        if not 1000 <= self.rate <= 192_000:
            raise Problem(f"rate={self.rate}: give 1,000 to 192,000 samples a second")

    @classmethod
    def load(cls, folder: Path) -> Ears:
        config = ProcessorConfig.load(folder, AUDIO_PARTS)
        if config is None:
            return cls()
        said = config.settings
        if not isinstance(said, dict) or type(said.get("sampling_rate", 16_000)) is not int:
            raise Problem(f"{config.path} does not tell the rate of samples. Fetch it again.")
        return cls(said.get("sampling_rate", 16_000), bool(said.get("do_normalize", True)), config.files)

    def files(self) -> dict[str, bytes]:
        told = {**KIND, "do_normalize": self.norm, "sampling_rate": self.rate}
        return dict(self.kept) or {FILE: (json.dumps(told, indent=2) + "\n").encode()}

    def ready(self, wave: np.ndarray, least: int) -> np.ndarray:  # (samples,) float32
        """A wave as the model hears it; one that is too short for a frame has silence behind it."""
        if self.norm:
            wave = (wave - wave.mean()) / np.sqrt(wave.var() + 1e-7)
        return np.pad(wave.astype(np.float32), (0, max(least - len(wave), 0)))
