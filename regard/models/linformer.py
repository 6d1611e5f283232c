"""Linformer (Wang et al., 2020): BERT's encoder, whose tokens look at a few sums of tokens.  No form of its files is
known to all, so its folders are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor, nn

from regard.attention.route_low_rank import LowRank
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import OwnSettings
from regard.errors import UsageProblem
from regard.layers.block import Block
from regard.layers.sizes import check_sizes
from regard.models.bert import bert
from regard.models.encoder import Encoder, EncoderConfig, Role, WordHead
from regard.models.published import EncoderFamily, HeadNames
from regard.rows import Tokens

Sharing = Literal["none", "heads", "values", "layers"]


@dataclass(frozen=True)
class LinformerConfig(EncoderConfig):
    rank: int = 128  # places that are looked at, whatever the length
    # who has maps in common: nobody; the heads of a layer; these, for keys and values; and all layers too
    sharing: Sharing = "layers"

    def __post_init__(self) -> None:
        check_sizes(self, "rank")
        if self.rank > self.embedding.longest:
            longest = self.embedding.longest
            raise UsageProblem(f"rank={self.rank}, embedding.longest={longest}: give no more places than tokens")
        if self.stack.block.attention.positions == "distance":
            raise UsageProblem("stack.block.attention.positions=distance: sums of tokens are at no distance; give none")
        if self.stack.causal or self.stack.residual_scores or self.stack.buckets:
            raise UsageProblem(
                "sums of tokens have no places, so no Linformer is causal or has a bias of pairs: leave stack.causal, "
                "stack.residual_scores and stack.buckets alone"
            )


class LowRankEncoder(Encoder):
    def __init__(self, config: LinformerConfig):
        super().__init__(config)
        maps = config.stack.block.attention.heads if config.sharing == "none" else 1
        route = None
        for block in self.stack.blocks:
            if route is None or config.sharing != "layers":
                alike = config.sharing in ("values", "layers")
                route = LowRank(config.embedding.longest, config.rank, maps, alike=alike)
            cast(Block, block).attention.route = route

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        *_, last = self.layers(tokens, types)
        return last

    def parts(self) -> list[nn.Module]:
        """Layers that have maps in common are one part."""
        return [self] if cast(LinformerConfig, self.config).sharing == "layers" else super().parts()


def linformer(layers=12, width=768, heads=12, vocab=50265, *, longest=512, rank=128) -> LinformerConfig:
    """The paper's shape, RoBERTa's but for the maps."""
    config = bert(layers, width, heads, vocab, longest=longest, epsilon=1e-5)
    return LinformerConfig(config.embedding, config.stack, rank)


PRESETS = {
    "linformer-mini": linformer(4, 256, 4, longest=512),
    "linformer-base": linformer(),
    "linformer-base-4096": linformer(longest=4096, rank=256),
}


@dataclass(frozen=True)
class FillNames:
    """The head that tells hidden words."""

    role: Role = "masked"
    out = None
    rules = Rules((("heads.masked.{rest}", "heads.masked.{rest}"),))

    def make(self, config: Any, outputs: Mapping[str, int]) -> WordHead:
        return WordHead(config)


def first(role: Role) -> HeadNames:
    return HeadNames(role, f"heads.{role}.out", f"heads.{role}.dense", "tanh", pool="first")


FAMILY = EncoderFamily(
    linformer(),
    OwnSettings(),
    Rules((("encoder.{rest}", "encoder.{rest}"),)),
    "",
    {
        "Linformer": (),
        "LinformerForMaskedLM": (FillNames(),),
        "LinformerForSequenceClassification": (first("classify"),),
        "LinformerForMultipleChoice": (first("choose"),),
        "LinformerForTokenClassification": (HeadNames("tag", "heads.tag.out"),),
        "LinformerForQuestionAnswering": (HeadNames("answer", "heads.answer.out"),),
    },
    kind=LowRankEncoder,
)
