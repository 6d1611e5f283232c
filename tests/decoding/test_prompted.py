"""Going on from prompts of unequal length: what is read first, where each row begins, how far it may go."""

from __future__ import annotations

import pytest
import torch

from regard.decoding.beam import Beam, beam_search
from regard.decoding.decoder import Ends, prompted
from regard.decoding.sample import sample
from regard.errors import UsageProblem
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 3, 4]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    found = new_encoder("gpt2", gpt2(2, 16, 2, vocab=11, longest=12, dropout=0.0), {"write"}).model
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return found


def test_a_prompt_is_read_up_to_its_last_token():
    before, begin = prompted(Tokens.of(PROMPTS))
    assert before.tolist() == [[3, 4], [], [7, 8, 9, 3]] and begin.tolist() == [5, 6, 4]
    assert prompted(Tokens.of([]))[0].tolist() == []
    with pytest.raises(UsageProblem, match="a prompt without tokens"):
        prompted(Tokens.of([[3], []]))


@pytest.mark.parametrize("beams", [0, 3])
def test_each_prompt_is_gone_on_with_as_if_it_were_alone(model, beams):
    def written(prompts):
        before, begin = prompted(Tokens.of(prompts))
        ends = Ends(begin, 2, 0.0, 6)
        if beams:
            return [best.tokens for best, *_ in beam_search(model, before, ends, Beam(beams))]
        return [hypothesis.tokens for hypothesis in sample(model, before, ends)]

    assert written(PROMPTS) == [written([prompt])[0] for prompt in PROMPTS]


@pytest.mark.parametrize("beams", [0, 3])
def test_each_row_may_go_as_far_as_it_has_places(model, beams):
    """The table has twelve places, and where a row can only end, its last token has been read."""
    before, begin = prompted(Tokens.of(PROMPTS))
    left = torch.tensor([12 - len(prompt) + 1 for prompt in PROMPTS])
    ends = Ends(begin, 99, 0.0, 100, left)

    class Endless:  # it has a token for the end, and no use for it
        start = staticmethod(model.start)

        @staticmethod
        def step(tokens, state):
            logits, state = model.step(tokens, state)
            return torch.nn.functional.pad(logits, (0, 100 - 11), value=-1e9), state

    if beams:
        found = [best.tokens for best, *_ in beam_search(Endless, before, ends, Beam(beams))]
    else:
        found = [hypothesis.tokens for hypothesis in sample(Endless, before, ends)]
    assert [len(row) + len(prompt) for row, prompt in zip(found, PROMPTS, strict=True)] == [12, 12, 12]
