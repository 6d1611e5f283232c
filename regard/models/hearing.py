"""A model of sound (wav2vec 2.0, Baevski et al. 2020): frames of waves, a Transformer over them, and the codebook by
which it is asked what was there where frames were hidden.

Letters: S samples, N frames, M of them hidden, C channels, W width, G groups of a codebook, V entries of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.layers.block import Context
from regard.layers.sizes import check_shares, check_sizes
from regard.layers.stack import Stack, StackConfig, Stacked
from regard.layers.waves import Neighbours, Waves, WavesConfig
from regard.rows import Rows


@dataclass(frozen=True)
class SpansConfig:
    """What is hidden in training: so large a share of the frames, in spans of this length, and so many spans at least.
    Of channels likewise, over a whole row."""

    share: float = 0.05
    length: int = 10
    least: int = 2
    channels: float = 0.0
    channels_length: int = 10
    channels_least: int = 0

    def __post_init__(self) -> None:
        check_shares(self, "share", "channels")
        check_sizes(self, "length", "channels_length")


@dataclass(frozen=True)
class CodebookConfig:
    groups: int = 2
    entries: int = 320  # of each group
    width: int = 256  # of a code, all groups together
    compared: int = 256  # the width in which states are compared with codes
    negatives: int = 100
    temperature: float = 0.1  # of the comparison
    diversity: float = 0.1  # the weight of the loss that has all codes used
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(self, "groups", "entries", "width", "compared", "negatives")
        check_shares(self, "dropout")


@dataclass(frozen=True)
class HearingConfig(Stacked):
    waves: WavesConfig = field(default_factory=WavesConfig)
    stack: StackConfig = field(default_factory=StackConfig)
    around: int = 128  # frames that tell a frame its place
    around_groups: int = 16
    spans: SpansConfig = field(default_factory=SpansConfig)
    codebook: CodebookConfig = field(default_factory=CodebookConfig)
    vocab: int = 32  # letters that are written
    waves_dropout: float = 0.0
    dropout: float = 0.1  # before a head

    def __post_init__(self) -> None:
        check_sizes(self, "around", "around_groups", "vocab")
        check_shares(self, "waves_dropout", "dropout")


@dataclass(frozen=True, eq=False)
class Heard:
    """What was made of sound: a state for each frame, and what convolutions made of it before anything was hidden."""

    states: Tensor  # (N, W)
    features: Tensor  # (N, C)
    rows: Rows


class Hearing(nn.Module):
    """A state for each frame of a wave, from both sides of it."""

    def __init__(self, config: HearingConfig):
        super().__init__()
        config.check_stack()
        self.config = config
        block, channels = config.stack.block, config.waves.widths[-1]
        self.waves = Waves(config.waves)
        self.waves_norm, self.widen = nn.LayerNorm(channels, block.epsilon), nn.Linear(channels, block.width)
        self.waves_dropout = nn.Dropout(config.waves_dropout)
        hides = config.spans.share > 0 or config.spans.channels > 0
        self.hidden = nn.Parameter(torch.rand(block.width)) if hides else None  # stands where frames are hidden
        self.around = Neighbours(block.width, config.around, config.around_groups, config.waves.activation)
        self.norm = nn.LayerNorm(block.width, block.epsilon)  # below the stack; above it, where its blocks norm first
        self.embed_dropout = nn.Dropout(block.dropout)
        self.stack = Stack(config.stack)

    def forward(self, wave: Tensor, lengths: Sequence[int]) -> Tensor:  # (S,) -> (N, W)
        return self.hear(wave, lengths).states

    def hear(
        self, wave: Tensor, lengths: Sequence[int], places: Tensor | None = None, channels: Tensor | None = None
    ) -> Heard:
        """Waves of these lengths that lie end to end; frames at these places, (M,), and channels, (B, W) bool, are
        hidden from the stack."""
        x, features, rows = self.embedded(wave, lengths, places, channels)
        x = self.stack.read(x, rows)
        return Heard(self.norm(x) if self.config.stack.block.norm_first else x, features, rows)

    def embedded(
        self, wave: Tensor, lengths: Sequence[int], places: Tensor | None = None, channels: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Rows]:  # (N, W), (N, C)
        frames, rows = self.waves(wave, lengths)
        features = self.waves_norm(frames)
        x = self.waves_dropout(self.widen(features)).to(features.dtype)  # what is summed up stays in full precision
        if places is not None and self.hidden is not None:
            x = x.index_copy(0, places, self.hidden.to(x.dtype).expand(len(places), -1))
        if channels is not None:
            x = x.masked_fill(channels[rows.row], 0.0)
        x = x + self.around(x, rows)
        return self.embed_dropout(x if self.config.stack.block.norm_first else self.norm(x)), features, rows

    def layers(self, wave: Tensor, lengths: Sequence[int]) -> Iterator[Tensor]:
        """The states of every layer, (N, W), what goes into the first of them first."""
        x, _, rows = self.embedded(wave, lengths)
        yield x
        for number, (state, _) in enumerate(self.stack.each(x, Context(rows, self.stack.mask)), 1):
            last = number == self.config.layers and self.config.stack.block.norm_first
            yield self.norm(state) if last else state

    def parts(self) -> list[nn.Module]:
        """From the input up: what makes frames, and each block of its own."""
        below = nn.ModuleList([self.waves, self.waves_norm, self.widen, self.around, self.norm])
        return [below, *self.stack.blocks]


@dataclass(frozen=True, eq=False)
class Codes:
    vectors: Tensor  # (M, compared)
    numbers: Tensor  # (M,) equal where all entries are
    perplexity: Tensor  # how many entries are used: that of their mean chances, summed over groups


class Codebook(nn.Module):
    """Codes of two or more groups, one entry of each, side by side (Jégou et al., 2011).  Which entry is drawn by
    Gumbel's softmax in training (Jang et al., 2017); afterwards it is the likeliest."""

    def __init__(self, config: HearingConfig):
        super().__init__()
        book = self.config = config.codebook
        if book.width % book.groups:
            raise UsageProblem(
                f"codes of width {book.width} do not divide into {book.groups} groups; change one of them"
            )
        self.entries = nn.Parameter(torch.rand(1, book.groups * book.entries, book.width // book.groups))
        self.choose = nn.Linear(config.waves.widths[-1], book.groups * book.entries)
        self.dropout = nn.Dropout(book.dropout)
        self.of_states, self.of_codes = nn.Linear(config.width, book.compared), nn.Linear(book.width, book.compared)

    def codes(self, features: Tensor, temperature: float = 1.0) -> Codes:  # (M, C) -> (M, compared)
        logits = self.choose(self.dropout(features)).unflatten(1, (self.config.groups, -1)).float()  # (M, G, V)
        if self.training:
            chosen, chances = F.gumbel_softmax(logits, temperature, hard=True), logits.softmax(-1)
        else:
            chances = chosen = F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits)
        mean = chances.mean(0)
        perplexity = (-torch.xlogy(mean, mean).sum(-1)).exp().sum()
        table = self.entries[0].unflatten(0, (self.config.groups, -1))  # (G, V, width / G)
        codes = torch.einsum("mgv,gvd->mgd", chosen.to(table.dtype), table).flatten(1)
        powers = self.config.entries ** torch.arange(self.config.groups, device=codes.device)
        return Codes(self.of_codes(codes), (chosen.argmax(-1) * powers).sum(-1), perplexity)


def begin(module: nn.Module) -> None:
    """The numbers of the authors' code to begin with; those of a narrower model are larger, or little would come out of
    its layers for many steps."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=max(0.02, 0.02 * (768 / part.in_features) ** 0.5))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        if isinstance(part, nn.Conv1d):
            nn.init.kaiming_normal_(part.weight)
    for part in module.modules():
        if isinstance(part, Codebook):
            nn.init.normal_(part.choose.weight)
            part.of_states.reset_parameters()
            part.of_codes.reset_parameters()
