"""Gaps in texts: the paper's example, how many there are and where, and that what stood in them is learned."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from regard.errors import UsageProblem
from regard.models.t5 import T5, t5
from regard.objectives.objective import Asked
from regard.objectives.spans import Gaps, Spans, divided
from regard.rows import Rows, Tokens
from regard.text.tokenizer import T5 as NAMES
from regard.text.tokenizer import Tokenizer
from regard.training.step import seed_of

WORDS = "Thank you for inviting me to your party last week ."
PAD, END = 0, 1
GAPS = Gaps(tuple(range(199, 99, -1)), PAD, END)


def bare(rows: list[list[int]]) -> dict:
    return {"tokens": Tokens.of(rows)}


def asked_at(position: int, batch: dict, seed=1) -> dict:
    torch.manual_seed(seed_of(seed, position))
    return Spans(GAPS).prepare(batch)


# What is asked


def test_the_papers_example():
    tokenizer = Tokenizer.train("words", [WORDS], 114, special=NAMES)
    text = tokenizer.encode(WORDS)
    hidden = torch.tensor([word in ("for", "inviting", "last") for word in WORDS.split()])
    gaps = Gaps(tuple(tokenizer.sentinels), tokenizer.begin, tokenizer.end)
    batch = gaps.corrupted(Tokens.of([text, text[:3]]), torch.cat([hidden, hidden[:3]]))
    names = {"<extra_id_0>": "<X>", "<extra_id_1>": "<Y>", "<extra_id_2>": "<Z>"}

    def said(ids: list[int]) -> str:
        pieces = [tokenizer.piece(id).removeprefix("▁") for id in ids]
        return " ".join(names.get(piece, piece) for piece in pieces)

    asked = Tokens(batch["target_out"], batch["target_in"].rows).tolist()
    assert said(batch["source"].tolist()[0]) == "Thank you <X> me to your party <Y> week . </s>"
    assert said(asked[0]) == "<X> for inviting <Y> last <Z> </s>"
    assert said(batch["target_in"].tolist()[0]) == "<pad> <X> for inviting <Y> last <Z>"
    assert said(batch["source"].tolist()[1]) == "Thank you <X> </s>" and said(asked[1]) == "<X> for <Y> </s>"


def restored(source: list[int], asked: list[int]) -> list[int]:
    """A text from its gaps and what stood in them."""
    assert source[-1] == asked[-1] == END
    parts: dict[int, list[int]] = {}
    for id in asked[:-1]:
        if id in GAPS.sentinels:
            parts[id] = []
        else:
            parts[next(reversed(parts))].append(id)
    names = [id for id in source if id in GAPS.sentinels]
    assert [*parts] == [*GAPS.sentinels[: len(parts)]] == [*names, GAPS.sentinels[len(names)]]
    return [word for id in source[:-1] for word in parts.get(id, [id])]


def test_nothing_is_lost():
    torch.manual_seed(0)
    texts = [torch.randint(2, 99, (length,)).tolist() for length in (1, 2, 3, 5, 8, 20, 127, 512, 4000)]
    batch = asked_at(0, bare(texts))
    asked = Tokens(batch["target_out"], batch["target_in"].rows).tolist()
    assert [restored(*pair) for pair in zip(batch["source"].tolist(), asked, strict=True)] == texts
    for row, read in zip(asked, batch["target_in"].tolist(), strict=True):
        assert read == [PAD, *row[:-1]]
    gaps = [sum(id in GAPS.sentinels for id in row) for row in batch["source"].tolist()]
    hidden = [len(row) - count - 2 for row, count in zip(asked, gaps, strict=True)]  # beside two that end it
    assert hidden == [1, 1, 1, 1, 1, 3, 19, 77, 600]
    assert gaps == [1, 1, 1, 1, 1, 1, 6, 26, 99]  # not more than there are sentinels, but for that of the end


def test_gaps_do_not_touch_and_lie_anywhere():
    torch.manual_seed(0)
    rows = Rows.even(20_000, 20)
    hidden = rows.split(Gaps(GAPS.sentinels, PAD, END, length=1.5).hidden(rows))
    ways = Counter("".join("x" if one else "." for one in row.tolist()) for row in hidden)
    assert all(way.count("x") == 3 and len(way.replace(".", " ").split()) == 2 for way in ways)
    # a gap of two and one of one, in either order, among seventeen that are shown: 18 places, and 17 for the other
    assert len(ways) == 18 * 17 and max(ways.values()) < 4 * min(ways.values())


def test_every_way_to_divide_is_equally_likely():
    torch.manual_seed(0)
    lengths = divided(torch.tensor([5, 1] * 6000), torch.tensor([3, 1] * 6000)).view(-1, 4)
    assert (lengths[:, 3] == 1).all() and (lengths[:, :3].sum(1) == 5).all()
    ways = Counter(map(tuple, lengths[:, :3].tolist()))
    assert len(ways) == 6 and all(abs(count - 1000) < 150 for count in ways.values())


def test_gaps_follow_from_seed_and_position():
    batch = bare([list(range(2, 90))] * 3)
    first, again, other, seeded = (
        asked_at(position, batch, seed)["source"].ids.tolist() for position, seed in ((3, 1), (3, 1), (4, 1), (3, 2))
    )
    assert first == again and first != other and first != seeded


def test_what_cannot_be_asked_is_told():
    for share, length in ((0.0, 3.0), (1.0, 3.0), (0.15, 0.5)):
        with pytest.raises(UsageProblem, match=f"share={share}, length={length}"):
            Gaps(GAPS.sentinels, PAD, END, share, length)
    with pytest.raises(UsageProblem, match="gaps need two sentinels or more, and there are 1"):
        Gaps((5,), PAD, END)


# What is learned


def test_what_stood_in_gaps_is_learned():
    """Texts count upwards: what is missing follows from what is there."""
    torch.manual_seed(0)
    gaps = Gaps(tuple(range(39, 29, -1)), PAD, END, share=0.3)
    asked = Asked(T5(t5(1, 32, 2, 64, size=16, vocab=40, dropout=0.0)), Spans(gaps))
    adam, losses = torch.optim.Adam(asked.parameters(), 3e-3), []
    for step in range(220):
        torch.manual_seed(step)
        starts = torch.randint(2, 18, (24,)).tolist()
        result = asked(asked.prepare(bare([list(range(start, start + 10)) for start in starts])))
        mean = result.loss / result.count
        adam.zero_grad()
        mean.backward()
        adam.step()
        losses.append(mean.item())
    assert sum(losses[:5]) / 5 > 2.5 and sum(losses[-10:]) / 10 < 0.5
