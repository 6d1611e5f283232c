"""ViT (Dosovitskiy et al., 2020): an encoder over the patches of a picture, asked at a token before them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn

from regard.attention.attention import Attention, AttentionConfig
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.layers.block import BlockConfig, Context
from regard.layers.patches import Patches, PatchesConfig, Pictures
from regard.layers.sizes import check_equal
from regard.layers.stack import Stack, StackConfig, Stacked
from regard.models.bert import ACTIVATIONS, STACK
from regard.models.encoder import begin
from regard.models.mimetic import begin_attention, begin_positions
from regard.models.published import EncoderFamily, HeadNames
from regard.rows import Rows

EPSILON = 1e-12
ONLY = {"qkv_bias": True, "pooler_act": "tanh"}  # what else would compute otherwise


@dataclass(frozen=True)
class VisionConfig(Stacked):
    embedding: PatchesConfig = field(default_factory=PatchesConfig)
    stack: StackConfig = field(default_factory=StackConfig)


class VisionEncoder(nn.Module):
    """A state for each patch, and for each token before them."""

    def __init__(self, config: VisionConfig):
        super().__init__()
        config.check_stack()
        check_equal({"embedding.width": config.embedding.width, "stack.block.width": config.stack.block.width})
        self.config = config
        self.embed, self.stack = Patches(config.embedding), Stack(config.stack)

    def forward(self, pictures: Pictures, types: None = None) -> Tensor:  # (N, W)
        return self.stack.read(self.embed(pictures), self.rows(pictures))

    def layers(self, pictures: Pictures, types: None = None) -> Iterator[Tensor]:
        """The states of every layer, (N, W), what was embedded first."""
        x = self.embed(pictures)
        yield x
        for number, (state, _) in enumerate(self.stack.each(x, Context(self.rows(pictures))), 1):
            yield self.stack.norm(state) if number == self.config.layers else state

    def rows(self, pictures: Pictures) -> Rows:
        return self.embed.rows(pictures)

    def parts(self) -> list[nn.Module]:
        """From the input up: what embeds, and each block, the last with the norm behind it."""
        *blocks, last = self.stack.blocks
        return [self.embed, *blocks, nn.ModuleList([last, self.stack.norm])]


def begin_vision(module: nn.Module) -> None:
    """Numbers to begin with, for pictures that are too few to learn from chance where to look."""
    begin(module)
    for part in module.modules():
        if isinstance(part, Attention):
            begin_attention(part)
        if isinstance(part, Patches):
            begin_positions(part)


def vit(layers=12, width=768, heads=12, *, size=16, picture=224, inner=None, tokens=1) -> VisionConfig:
    """The paper's shape: norms come first, and feed-forward layers are four times as wide as the rest."""
    attention = AttentionConfig(heads=heads)
    block = BlockConfig(
        width, inner or 4 * width, "gelu", norm_first=True, dropout=0.0, epsilon=EPSILON, attention=attention
    )
    return VisionConfig(
        PatchesConfig(width, size, picture, tokens=tokens), StackConfig(layers, final_norm=True, block=block)
    )


PRESETS = {
    "vit-base": vit(),
    "vit-base-32": vit(size=32),
    "vit-large": vit(24, 1024, 16),
    "vit-huge": vit(32, 1280, 16, size=14),
    "vit-cifar": vit(7, 384, 12, size=4, picture=32, inner=384),  # 6.3 million parameters
}

BODY = Rules(
    (
        ("encoder.embed.first.0", "embeddings.cls_token"),
        ("encoder.embed.cut", "embeddings.patch_embeddings.projection"),
        ("encoder.embed.positions", "embeddings.position_embeddings"),
        ("encoder.stack.blocks.{i}.attention.q", "encoder.layer.{i}.attention.attention.query"),
        ("encoder.stack.blocks.{i}.attention.k", "encoder.layer.{i}.attention.attention.key"),
        ("encoder.stack.blocks.{i}.attention.v", "encoder.layer.{i}.attention.attention.value"),
        ("encoder.stack.blocks.{i}.attention.out", "encoder.layer.{i}.attention.output.dense"),
        ("encoder.stack.blocks.{i}.attention_residual.norm", "encoder.layer.{i}.layernorm_before"),
        ("encoder.stack.blocks.{i}.feed.up", "encoder.layer.{i}.intermediate.dense"),
        ("encoder.stack.blocks.{i}.feed.down", "encoder.layer.{i}.output.dense"),
        ("encoder.stack.blocks.{i}.feed_residual.norm", "encoder.layer.{i}.layernorm_after"),
        ("encoder.stack.norm", "layernorm"),
    ),
)

SETTINGS = Settings(
    (
        *STACK,
        ("embedding.width", "hidden_size"),
        ("embedding.size", "patch_size"),
        ("embedding.picture", "image_size"),
        ("embedding.channels", "num_channels"),
        ("embedding.dropout", "hidden_dropout_prob"),
    ),
    ACTIVATIONS,
)

POOLER = HeadNames("pool", None, "pooler.dense", "tanh", pool="first")
FAMILY = EncoderFamily(
    vit(),
    SETTINGS,
    BODY,
    "vit.",
    {
        "ViTModel": (POOLER,),
        "ViTForImageClassification": (HeadNames("classify", "classifier", pool="first"),),
    },
    kind=VisionEncoder,
    begin=begin_vision,
    only=ONLY,
)
