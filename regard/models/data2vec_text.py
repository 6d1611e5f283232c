"""data2vec of text (Baevski et al., 2022): RoBERTa's network, pretrained to predict a teacher's hidden states."""

from __future__ import annotations

from regard.models.encoder import EncoderConfig
from regard.models.roberta import roberta_family

PRESETS: dict[str, EncoderConfig] = {}  # RoBERTa's are of the same network

FAMILY = roberta_family("Data2VecText", "data2vec_text.")
