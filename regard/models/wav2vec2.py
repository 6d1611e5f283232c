"""wav2vec 2.0 (Baevski et al., 2020): pretrained on sound alone, then fine-tuned to write letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.attention.attention import AttentionConfig
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.layers.block import BlockConfig
from regard.layers.stack import StackConfig
from regard.layers.waves import WavesConfig
from regard.models.bert import ACTIVATIONS
from regard.models.encoder import Role
from regard.models.hearing import Codebook, CodebookConfig, Hearing, HearingConfig, SpansConfig, begin
from regard.models.published import EncoderFamily, HeadNames, Layout


def wav2vec2(layers=12, width=768, heads=12, *, stable=False, dropout=0.1, **changes: Any) -> HearingConfig:
    """The paper's shape; `stable` is that of the larger models, in which norms come first."""
    attention = AttentionConfig(heads=heads)
    block = BlockConfig(
        width, 4 * width, "gelu", norm_first=stable, dropout=dropout, inner_dropout=dropout, attention=attention
    )
    return replace(HearingConfig(stack=StackConfig(layers, block=block), dropout=dropout), **changes)


def short(width: int) -> WavesConfig:
    """Frames of 80 samples: a hundred a second at 8 kHz, for words that are spoken alone."""
    # without a bias a norm of each frame would hide how loud it is: silence would be as loud as speech
    return WavesConfig((width,) * 5, (10, 4, 4, 4, 2), (5, 2, 2, 2, 2), "layer", bias=True)


HIDING, WIDE = SpansConfig(0.65), CodebookConfig(width=768, compared=768)  # what pretraining hides
PRESETS = {
    "wav2vec2-tiny": wav2vec2(
        4, 128, 4, waves=short(128), stable=True, around=16, around_groups=4, spans=SpansConfig(0.5, 5),
        codebook=CodebookConfig(2, 32, 64, 64, 50),
    ),
    "wav2vec2-small": wav2vec2(
        6, 256, 4, waves=short(256), stable=True, around=32, around_groups=8, spans=HIDING,
        codebook=CodebookConfig(2, 32, 128, 128, 50),
    ),
    "wav2vec2-base": wav2vec2(spans=HIDING),
    "wav2vec2-large": wav2vec2(24, 1024, 16, spans=HIDING, codebook=WIDE, dropout=0.0),
    "wav2vec2-large-lv60": wav2vec2(
        24, 1024, 16, waves=WavesConfig(norm="layer", bias=True), stable=True, spans=HIDING, codebook=WIDE, dropout=0.0
    ),
}  # fmt: skip
RATES = {"wav2vec2-tiny": 8000, "wav2vec2-small": 8000}  # samples a second, where they are not 16,000

OLD, NEW = ("weight_g", "weight_v"), ("parametrizations.weight.original0", "parametrizations.weight.original1")


def body(length: str, direction: str) -> Rules:
    """Their names; what a normed weight's two parts are called depends on who wrote the file."""
    place = "encoder.pos_conv_embed.conv"
    return Rules(
        (
            ("encoder.waves.layers.{i}", "feature_extractor.conv_layers.{i}.conv"),
            ("encoder.waves.norms.{i}", "feature_extractor.conv_layers.{i}.layer_norm"),
            ("encoder.waves_norm", "feature_projection.layer_norm"),
            ("encoder.widen", "feature_projection.projection"),
            ("encoder.hidden", "masked_spec_embed"),
            ("encoder.around.gain", f"{place}.{length}"),
            ("encoder.around.direction", f"{place}.{direction}"),
            ("encoder.around", place),  # its bias
            ("encoder.norm", "encoder.layer_norm"),
            ("encoder.stack.blocks.{i}.attention.q", "encoder.layers.{i}.attention.q_proj"),
            ("encoder.stack.blocks.{i}.attention.k", "encoder.layers.{i}.attention.k_proj"),
            ("encoder.stack.blocks.{i}.attention.v", "encoder.layers.{i}.attention.v_proj"),
            ("encoder.stack.blocks.{i}.attention.out", "encoder.layers.{i}.attention.out_proj"),
            ("encoder.stack.blocks.{i}.attention_residual.norm", "encoder.layers.{i}.layer_norm"),
            ("encoder.stack.blocks.{i}.feed.up", "encoder.layers.{i}.feed_forward.intermediate_dense"),
            ("encoder.stack.blocks.{i}.feed.down", "encoder.layers.{i}.feed_forward.output_dense"),
            ("encoder.stack.blocks.{i}.feed_residual.norm", "encoder.layers.{i}.final_layer_norm"),
        )
    )


SETTINGS = Settings(
    (
        ("stack.layers", "num_hidden_layers"),
        ("stack.block.width", "hidden_size"),
        ("stack.block.inner", "intermediate_size"),
        ("stack.block.attention.heads", "num_attention_heads"),
        ("stack.block.attention.dropout", "attention_dropout"),
        ("stack.block.activation", "hidden_act"),
        ("stack.block.dropout", "hidden_dropout"),
        ("stack.block.inner_dropout", "activation_dropout"),
        ("stack.block.epsilon", "layer_norm_eps"),
        ("stack.block.norm_first", "do_stable_layer_norm"),
        ("waves.widths", "conv_dim"),
        ("waves.kernels", "conv_kernel"),
        ("waves.strides", "conv_stride"),
        ("waves.bias", "conv_bias"),
        ("waves.norm", "feat_extract_norm"),
        ("waves.activation", "feat_extract_activation"),
        ("waves_dropout", "feat_proj_dropout"),
        ("around", "num_conv_pos_embeddings"),
        ("around_groups", "num_conv_pos_embedding_groups"),
        ("spans.share", "mask_time_prob"),
        ("spans.length", "mask_time_length"),
        ("spans.least", "mask_time_min_masks"),
        ("spans.channels", "mask_feature_prob"),
        ("spans.channels_length", "mask_feature_length"),
        ("spans.channels_least", "mask_feature_min_masks"),
        ("codebook.groups", "num_codevector_groups"),
        ("codebook.entries", "num_codevectors_per_group"),
        ("codebook.width", "codevector_dim"),
        ("codebook.compared", "proj_codevector_dim"),
        ("codebook.negatives", "num_negatives"),
        ("codebook.temperature", "contrastive_logits_temperature"),
        ("codebook.diversity", "diversity_loss_weight"),
        ("codebook.dropout", "feat_quantizer_dropout"),
        ("vocab", "vocab_size"),
        ("dropout", "final_dropout"),
    ),
    dict.fromkeys(("hidden_act", "feat_extract_activation"), ACTIVATIONS["hidden_act"]),
)


@dataclass(frozen=True)
class CodebookNames:
    """What pretraining needs beside the encoder."""

    role: Role = "contrast"
    out = None
    rules = Rules(
        (
            ("heads.contrast.entries", "quantizer.codevectors"),
            ("heads.contrast.choose", "quantizer.weight_proj"),
            ("heads.contrast.of_states", "project_hid"),
            ("heads.contrast.of_codes", "project_q"),
        )
    )

    def make(self, config: HearingConfig, outputs: Mapping[str, int]) -> Codebook:
        return Codebook(config)


class HearingFamily(EncoderFamily):
    def layouts(self, named: object) -> Iterator[Layout]:
        """Those of the newer files, and the same by the names of the older."""
        older = {new: old for (_, new, *_), (_, old, *_) in zip(body(*NEW).rows, body(*OLD).rows, strict=True)}
        for layout in super().layouts(named):
            yield layout
            rows = [(ours, renamed(theirs, older)) for ours, theirs in layout.rules.rows]
            yield replace(layout, rules=Rules(tuple(rows)))


def renamed(name: str, names: Mapping[str, str]) -> str:
    prefix = "wav2vec2." if name.startswith("wav2vec2.") else ""
    return prefix + names.get(name.removeprefix(prefix), name.removeprefix(prefix))


FAMILY = HearingFamily(
    wav2vec2(),
    SETTINGS,
    body(*NEW),
    "wav2vec2.",
    {
        "Wav2Vec2Model": (),
        "Wav2Vec2ForPreTraining": (CodebookNames(),),
        "Wav2Vec2ForCTC": (HeadNames("transcribe", "lm_head"),),
    },
    kind=Hearing,
    begin=begin,
    only={"add_adapter": False, "adapter_attn_dim": None},
)
