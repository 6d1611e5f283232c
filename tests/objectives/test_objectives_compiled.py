"""Every objective, compiled: one graph for batches of any size, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tiny_encoder import HIDING, encoder, pairs

from regard.objectives.distilled import Distilled
from regard.objectives.masked import Masked
from regard.objectives.objective import Asked, Batch, Result
from regard.objectives.pairs import SecondText
from regard.objectives.replaced import Replaced, generator_of
from regard.objectives.together import Together


def together() -> Asked:
    return Asked(encoder("masked", "next", layers=1), Together(Masked(HIDING), SecondText()))


def replaced() -> Asked:
    model = encoder("replaced", narrow=16, layers=1)
    return Asked(model, Replaced(HIDING, generator_of(model, 0.5)))


def distilled() -> Asked:
    return Asked(encoder("masked", layers=1), Distilled(HIDING, encoder("masked", layers=1, seed=5)))


def judged(judge: Callable[[Batch], Result], asked: Asked, rows: int) -> Result:
    """A question of its own, since a batch remembers what was once computed of it."""
    torch.manual_seed(rows)
    return judge(asked.prepare(pairs(rows)))


@pytest.mark.parametrize("made", [together, replaced, distilled], ids=lambda made: made.__name__)
def test_compiled_it_is_the_same(made):
    """What is drawn inside the graph, ELECTRA's words, is drawn by the same seed."""
    torch.compiler.reset()
    asked = made()
    compiled = torch.compile(asked, backend="eager", dynamic=True, fullgraph=True)
    for rows, stance in ((6, "default"), (9, "fail_on_recompile"), (12, "fail_on_recompile")):
        with torch.compiler.set_stance(stance):
            found = judged(compiled, asked, rows)
        wanted = judged(asked, asked, rows)
        torch.testing.assert_close(found.loss, wanted.loss)
        for part, value in wanted.parts.items():
            torch.testing.assert_close(found.parts[part], value)
