"""How well a language model tells text: loss, perplexity a token and a word, bits a byte.

Words and bytes are those of the text, whatever the vocabulary cuts it into, so that models with different vocabularies
can stand in one table.  To say that a word is unknown is easier than to say which it is: in bits a byte, unknown text
is spelled out too, byte by byte, where each byte and the end of a word are equally probable.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import tensor_of
from regard.data.corpus import UNKNOWN_WORDS, Corpus
from regard.errors import UsageProblem
from regard.layers.longest import longest_row
from regard.rows import Rows, Tokens
from regard.tasks.metrics import Score
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import ENDS

AT_ONCE = 8192  # tokens whose logits are computed together
SPELLING_BITS = math.log2(257)  # of a byte, or of the end of a word, of which all are as probable
SEGMENT = 512  # tokens read at a time, where there is no end to a row


@dataclass(frozen=True)
class Measured:
    """The sum of -log p over all tokens of a text, and how long the text is."""

    total: float  # nats
    tokens: int
    words: int
    bytes: int
    unknown: int = 0  # tokens that stand for text which the vocabulary does not have,
    unknown_bytes: int | None = 0  # and the bytes of that text; None: they were not counted

    @property
    def loss(self) -> float:
        return self.total / self.tokens

    @property
    def perplexity_a_word(self) -> float:
        return raised(self.total / self.words)

    @property
    def bits_a_byte(self) -> float | None:
        """With unknown text spelled out; None where its bytes were not counted, for without them it is no measure."""
        if self.unknown and self.unknown_bytes is None:
            return None
        spelled = (self.unknown + (self.unknown_bytes or 0)) * SPELLING_BITS
        return (self.total / math.log(2) + spelled) / self.bytes

    @property
    def unknown_share(self) -> float:
        return self.unknown / self.tokens

    def scores(self) -> list[Score]:
        values = {
            "loss": self.loss,
            "perplexity a token": raised(self.loss),
            "perplexity a word": self.perplexity_a_word,
            "bits a byte": self.bits_a_byte,
        }
        facts = f"{self.tokens:,} tokens, {self.words:,} words, {self.bytes:,} bytes"
        facts += f", {self.unknown:,} tokens unknown" if self.unknown else ""
        return [Score(name, value, facts, "") for name, value in values.items() if value is not None]

    def notes(self) -> list[str]:
        """What a person should know who compares the numbers."""
        if not self.unknown:
            return []
        share = f"{self.unknown_share:.1%} of the tokens are unknown to the model"
        if self.bits_a_byte is None:
            return [f"bits a byte n/a: {share}, and their bytes were not counted; encode the text anew"]
        spelled = f"bits a byte: {share}, and are spelled out at {SPELLING_BITS:.2f} bits per byte"
        if self.unknown_share <= UNKNOWN_WORDS:
            return [spelled]
        return [spelled, f"warning: {share}: loss and perplexities compare with those of the same vocabulary alone"]


def raised(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


@dataclass(frozen=True)
class Measuring:
    """How a text is read.  A model that has no end to its rows reads it in segments and remembers; one that has reads
    windows that overlap, and what an earlier window told is not told again."""

    longest: int = 0  # tokens of a window or of a segment; 0: as many as the model has places, or a few hundred
    stride: int = 0  # tokens from one window to the next; 0: half a window
    streams: int = 1  # parts of the text read side by side: faster, and each begins without a past

    def __post_init__(self) -> None:
        if self.longest < 0 or self.stride < 0 or self.streams < 1:
            raise UsageProblem(
                f"longest={self.longest}, stride={self.stride}, streams={self.streams}: give numbers above 0"
            )
        if self.longest and self.stride > self.longest:
            raise UsageProblem(f"a stride of {self.stride} would skip tokens between windows of {self.longest}")


MEASURING = Measuring()


@torch.inference_mode()
def measured(
    model: Any, corpus: Corpus, first: int | None, how: Measuring = MEASURING, most: int = sys.maxsize
) -> Measured:
    """Read a text that was encoded whole, or its first `most` tokens.  `first` is the token it is told after, such as
    the end of another text; where there is none, the first token is not told but given."""
    facts, places = corpus.facts, longest_row(model)
    count = min(facts.tokens, most)
    given = [] if first is None else [first]
    ids = torch.cat([torch.tensor(given, dtype=torch.long), tensor_of(corpus.ids(0, count))])
    read = by_segments if places == sys.maxsize else by_windows
    total, told = 0.0, 0
    for states, wanted in read(model, ids, places, how):
        for some, words in zip(states.split(AT_ONCE), wanted.split(AT_ONCE), strict=True):
            total += F.cross_entropy(model.logits(some).float(), words, reduction="sum").item()
        told += len(wanted)
    share = count / facts.tokens
    sizes = [size and round(size * share) for size in (facts.words, facts.bytes, facts.unknown, facts.unknown_bytes)]
    return Measured(total, told, *sizes)  # type: ignore[arg-type]


def told_after(tokenizer: Tokenizer) -> int | None:
    """What a text is told after: the end of another, if the vocabulary has a token for that."""
    return next((id for name in ENDS if (id := tokenizer.special(name)) is not None), None)


def by_segments(model: Any, ids: Tensor, places: int, how: Measuring) -> Iterator[tuple[Tensor, Tensor]]:
    """All streams go on together; what is left over when the text does not divide goes on from the last of them."""
    streams, segment, state = min(how.streams, len(ids) - 1), how.longest or SEGMENT, None
    length = (len(ids) - 1) // streams
    firsts = [number * length for number in range(streams)]
    for begin in range(0, length, segment):
        end = min(begin + segment, length)
        tokens, wanted = rows_of([ids[first + begin : first + end + 1] for first in firsts], model)
        states, state = model.read(tokens, state)
        yield states, wanted
    rest = ids[streams * length :]
    if len(rest) > 1 and state is not None:
        tokens, wanted = rows_of([rest], model)
        yield model.read(tokens, state.select(torch.tensor([streams - 1], device=wanted.device)))[0], wanted


def by_windows(model: Any, ids: Tensor, places: int, how: Measuring) -> Iterator[tuple[Tensor, Tensor]]:
    window = min(how.longest or places, places)
    stride = how.stride or max(window // 2, 1)
    last = len(ids) - 1
    begins = [0, *range(stride, max(last - window, 0) + stride, stride)]
    together = max(AT_ONCE // window, 1)
    for some in (begins[at : at + together] for at in range(0, len(begins), together)):
        tokens, wanted = rows_of([ids[begin : min(begin + window, last) + 1] for begin in some], model)
        states, _ = model.read(tokens)
        known = torch.tensor([window - stride if begin else 0 for begin in some], device=wanted.device)
        new = tokens.rows.at >= known[tokens.rows.row]
        yield states[new], wanted[new]


def rows_of(rows: list[Tensor], model: Any) -> tuple[Tokens, Tensor]:
    """The rows without their last token, and for each token the one that follows."""
    device = next(model.parameters()).device
    tokens = Tokens(torch.cat([row[:-1] for row in rows]), Rows.of([len(row) - 1 for row in rows]))
    return tokens.to(device), torch.cat([row[1:] for row in rows]).to(device)
