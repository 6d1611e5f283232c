"""CamemBERT (Martin et al., 2020): RoBERTa's network over SentencePiece, pretrained on French."""

from __future__ import annotations

from regard.models.encoder import EncoderConfig
from regard.models.roberta import roberta_family

PRESETS: dict[str, EncoderConfig] = {}  # RoBERTa's are of the same network

FAMILY = roberta_family("Camembert")
