"""Recurrent translation: Sutskever 2014 through one fixed vector; Bahdanau 2015 and Luong 2015 looking back.

As in the lectures, the attention of step t comes from the decoder's state s_t, and [a_t; s_t] goes on to the output:
so in training all steps are looked up at once, with no loop over time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.memory import Choice, Memory
from regard.errors import UsageProblem
from regard.layers.block import shared
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.norm import in_precision
from regard.layers.recurrent import Hidden, LaidOut, Recurrent, RecurrentConfig
from regard.layers.sizes import check_equal, check_shares, check_sizes
from regard.models.encoder import Compared
from regard.rows import Rows, Tokens


@dataclass(frozen=True)
class Seq2SeqConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    target_vocab: int | None = None  # None: one vocabulary and one table for source and target
    tied: bool = True  # the output's weights are the target's table
    encoder: RecurrentConfig = field(default_factory=lambda: RecurrentConfig(two_way=True))
    decoder: RecurrentConfig = field(default_factory=RecurrentConfig)
    attention: AttentionConfig | None = None  # None: the bottleneck
    dropout: float = 0.1  # on what goes to the output

    def __post_init__(self) -> None:
        check_sizes(self, "target_vocab")
        check_shares(self, "dropout")
        if self.attention:
            check_sizes(self.attention, "heads", "size")
            check_shares(self.attention, "dropout")


def seq2seq(score=None, *, cell="lstm", width=512, layers=1, vocab=8000, dropout=0.3):
    """Without a score there is no attention, and the source must fit into the encoder's last state."""
    cells = RecurrentConfig(cell, width, layers, dropout=dropout)
    return Seq2SeqConfig(
        embedding=EmbeddingConfig(vocab, width, positions="none", scaled=False, dropout=dropout),
        encoder=replace(cells, two_way=True),
        decoder=cells,
        attention=AttentionConfig(heads=1, project=False, score=score) if score else None,
        dropout=dropout,
    )


PRESETS = {
    "rnn": seq2seq(),
    "rnn-cosine": seq2seq("cosine"),
    "rnn-additive": seq2seq("additive"),
    "rnn-location": seq2seq("location"),
    "rnn-general": seq2seq("general"),
    "rnn-dot": seq2seq("dot"),
    "rnn-scaled-dot": seq2seq("scaled-dot"),
}


@dataclass(frozen=True, eq=False)
class Recurrence:
    """How far each target has been written: where the decoder stands, and the source it may look back at."""

    hidden: Hidden
    memory: Memory | None

    def select(self, chosen: Tensor) -> Recurrence:
        """Of the chosen rows.  Those that share a source are chosen together, as many as before."""
        if self.memory is None:
            return Recurrence(self.hidden.select(chosen), None)
        each = self.hidden.parts[0].shape[1] // max(len(self.memory.rows), 1)
        return Recurrence(self.hidden.select(chosen), self.memory.select(Choice(chosen).shared(each)))


class Seq2Seq(nn.Module):
    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = checked(config)
        width, vocab = config.decoder.width, config.target_vocab or config.embedding.vocab
        self.embed = Embedding(config.embedding)
        self.embed_target = Embedding(replace(config.embedding, vocab=vocab)) if config.target_vocab else self.embed
        self.encoder, self.decoder = Recurrent(config.encoder), Recurrent(config.decoder)
        self.attention = Attention(width, config.attention) if config.attention else None
        self.join = nn.Linear(2 * width if config.attention else width, config.embedding.width)
        self.dropout = nn.Dropout(config.dropout)
        self.out = nn.Linear(config.embedding.width, vocab, bias=False)
        if config.tied:
            self.out.weight = self.embed_target.tokens.weight

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """Read all of the target at once; the state that predicts the next token, for every token: (N, W)."""
        began = self.start(source)
        states = self.decoder.states(self.embed_target.read(target), target.rows, began.hidden)
        return self.look_back(states, target.rows, began.memory)

    def laid_out(self, tokens: Tokens) -> Tokens:
        """The same, with what is to be known of their rows to read them: it may be asked before they are needed."""
        return Tokens(tokens.ids, LaidOut.of_rows(tokens.rows))

    def look_back(self, states: Tensor, rows: Rows, memory: Memory | None) -> Tensor:  # (N, W) -> (N, W)
        states = in_precision(states)  # under autocast cuDNN's are in the other half precision
        if self.attention is not None and memory is not None:
            states = torch.cat([self.attention(states, memory, rows), states], -1)  # [a_t; s_t]
        return self.dropout(torch.tanh(self.join(states)))

    def logits(self, states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        return self.out(states)

    def compared(self, states: Tensor) -> Compared:
        """What the logits are made of."""
        return Compared(states, self.out.weight, None)

    def start(self, source: Tokens, beams: int = 1) -> Recurrence:
        states, last = self.encoder(self.embed.read(source), source.rows)
        memory = None if self.attention is None else self.attention.remember(in_precision(states), source.rows)
        if beams > 1:
            last = last.select(torch.arange(len(source), device=states.device).repeat_interleave(beams))
        return Recurrence(last, memory)

    def step(self, tokens: Tensor, state: Recurrence) -> tuple[Tensor, Recurrence]:  # (B,) -> (B, V)
        rows = Rows.even(len(tokens), 1, tokens.device)
        states, hidden = self.decoder(self.embed_target(tokens, rows.at), rows, state.hidden)
        states = self.look_back(states, shared(rows, state.memory), state.memory)
        return self.logits(states), Recurrence(hidden, state.memory)


def checked(config: Seq2SeqConfig) -> Seq2SeqConfig:
    """Whether the parts fit together: asked of a whole config only, for settings are changed one after the other."""
    encoder, decoder = config.encoder, config.decoder
    widths = {"encoder.width": encoder.width, "decoder.width": decoder.width}
    check_equal({"embedding.width": config.embedding.width} | widths)
    check_equal({"encoder.cell": encoder.cell, "decoder.cell": decoder.cell})
    check_equal({"encoder.layers": encoder.layers, "decoder.layers": decoder.layers})
    if decoder.two_way:
        raise UsageProblem("decoder.two_way must be false: a decoder cannot read what it has yet to write")
    return config
