"""Every decoder, written token by token with what it remembers, says what it says when it reads all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.attention.score import SCORES
from regard.config import change
from regard.models import FAMILIES
from regard.models.seq2seq import seq2seq
from regard.models.t5 import t5
from regard.models.transformer import transformer
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

VOCAB = 17
SOURCES = [[5, 3, 8, 2], [4], [7, 7, 9, 6, 3, 10, 2], [], [3, 2]]
TARGETS = [[1, 6, 4], [1, 3, 5, 9, 11, 2], [1], [1, 8], [1, 8, 7, 7]]


def tiny_transformer(norm_first=False, positions="sinusoidal", tied=True, target_vocab=None):
    config = transformer(2, 16, 2, 32, vocab=VOCAB, dropout=0.2, norm_first=norm_first)
    if positions == "rotary":
        for stack in ("encoder", "decoder"):
            config = change(config, f"{stack}.block.attention.positions", "rotary")
    config = change(config, "embedding.positions", "none" if positions == "rotary" else positions)
    return replace(config, tied=tied, target_vocab=target_vocab)


CONFIGS = {
    f"transformer {positions} {'norm first' if first else 'norm last'}": tiny_transformer(first, positions)
    for positions in ("sinusoidal", "learned", "rotary", "none")
    for first in (False, True)
}
CONFIGS["transformer untied"] = tiny_transformer(tied=False)
CONFIGS["transformer two vocabularies"] = tiny_transformer(target_vocab=13)
CONFIGS["transformer two vocabularies untied"] = tiny_transformer(target_vocab=13, tied=False)
CONFIGS |= {
    f"t5 {'gated' if gated else 'relu'}": t5(2, 16, 2, 32, size=6, vocab=VOCAB, gated=gated) for gated in (False, True)
}
CONFIGS |= {
    f"{cell} {score or 'bottleneck'} {layers}": seq2seq(score, cell=cell, width=16, layers=layers, vocab=VOCAB)
    for cell in ("vanilla", "gru", "lstm")
    for score in (None, *SCORES)
    for layers in (1, 2)
}
CONFIGS["lstm dot two vocabularies"] = replace(seq2seq("dot", width=16, vocab=VOCAB), target_vocab=13, tied=False)


@pytest.fixture(params=CONFIGS, scope="module")
def model(request):
    torch.manual_seed(0)
    config = CONFIGS[request.param]
    return next(kind for of, kind in FAMILIES.values() if type(config) is of)(config).eval()


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def read(model, sources, targets):
    """The logits after every token, a tensor for each row."""
    target = Tokens.of(targets)
    return target.rows.split(model.logits(model(Tokens.of(sources), target)))


def column(targets, place):
    """The token of every row at that place; a row that is over goes on with anything."""
    return torch.tensor([row[place] if place < len(row) else 3 for row in targets], dtype=torch.long)


def written(model, state, targets, places):
    steps = []
    for place in places:
        logits, state = model.step(column(targets, place), state)
        steps.append(logits)
    return steps, state


@torch.no_grad()
def test_stepping_equals_reading(model):
    steps, _ = written(model, model.start(Tokens.of(SOURCES)), TARGETS, range(max(map(len, TARGETS))))
    for row, wanted in enumerate(read(model, SOURCES, TARGETS)):
        close(torch.stack([step[row] for step in steps[: len(wanted)]]), wanted)


@torch.no_grad()
@pytest.mark.parametrize("chosen", [[4, 3, 2, 1, 0], [0, 0, 2, 2, 2, 1], [3, 1], []], ids=str)
def test_choosing_rows_commutes_with_stepping(model, chosen):
    targets = [[1, 6, 4, 5], [1, 3, 5, 9], [1, 8, 8, 4], [1, 8, 2, 2], [1, 8, 7, 7]]
    index = torch.tensor(chosen, dtype=torch.long)
    _, state = written(model, model.start(Tokens.of(SOURCES)), targets, range(2))
    later, _ = written(model, state, targets, range(2, 4))
    sooner, _ = written(model, state.select(index), [targets[row] for row in chosen], range(2, 4))
    for whole, part in zip(later, sooner, strict=True):
        close(part, whole[index])


@torch.no_grad()
def test_choosing_before_the_first_step_is_choosing_the_source(model):
    chosen = [2, 0, 0, 3]
    state = model.start(Tokens.of(SOURCES)).select(torch.tensor(chosen))
    steps, _ = written(model, state, [[1, 6, 4]] * 4, range(3))
    wanted, _ = written(model, model.start(Tokens.of([SOURCES[row] for row in chosen])), [[1, 6, 4]] * 4, range(3))
    for got, right in zip(steps, wanted, strict=True):
        close(got, right)


@torch.no_grad()
def test_beams_share_their_source_and_go_their_own_ways(model):
    beams, targets = 3, [[1, 3 + row % 7, 3 + row % 5, 3 + row % 6] for row in range(3 * len(SOURCES))]
    sources = [source for source in SOURCES for _ in range(beams)]
    steps, state = written(model, model.start(Tokens.of(SOURCES), beams), targets, range(2))
    chosen = [3 * source + beam for source in (4, 0, 2) for beam in (1, 1, 0)]  # two sources are dropped
    fewer = [[*targets[row][:2], 3 + number % 4, 5] for number, row in enumerate(chosen)]
    more, _ = written(model, state.select(torch.tensor(chosen)), fewer, range(2, 4))
    for row, wanted in enumerate(read(model, sources, targets)):
        close(torch.stack([step[row] for step in steps]), wanted[:2])
    for row, wanted in enumerate(read(model, [sources[row] for row in chosen], fewer)):
        close(torch.stack([step[row] for step in more]), wanted[2:])


@torch.no_grad()
def test_a_step_leaves_the_state_it_came_from_alone(model):
    state = model.start(Tokens.of(SOURCES))
    first, _ = model.step(column(TARGETS, 0), state)
    again, _ = model.step(column(TARGETS, 0), state)
    assert torch.equal(first, again)


@torch.no_grad()
def test_a_row_alone_equals_the_same_row_in_a_batch(model):
    for together, source, target in zip(read(model, SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        close(together, read(model, [source], [target])[0])
