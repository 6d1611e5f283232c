"""What pretraining asks of sound: spans and negatives as they should be, a batch that is learned, a collapse told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import Problem, UsageProblem
from regard.layers.waves import WavesConfig
from regard.models.heads import new_encoder
from regard.models.hearing import CodebookConfig, SpansConfig
from regard.models.wav2vec2 import wav2vec2
from regard.objectives.contrast import Asking, Contrast, Falling, Guard, negatives
from regard.objectives.ctc import CTC, frames_needed
from regard.objectives.hidden_sound import drawn, hidden_channels
from regard.objectives.objective import Asked
from regard.rows import Tokens

torch.set_num_threads(1)
SAMPLES = 800
CONFIG = wav2vec2(
    2, 32, 2, waves=WavesConfig((16, 16), (8, 4), (4, 4), "layer"), stable=True, around=8, around_groups=2, dropout=0.0,
    spans=SpansConfig(0.5, 4), codebook=CodebookConfig(2, 8, 16, 16, 10),
)  # fmt: skip


def tones(count: int, samples: int = SAMPLES) -> torch.Tensor:
    """Rows that change their pitch several times, so that frames of a row differ."""
    draw = np.random.default_rng(0)
    pitch = draw.integers(1, 6, (count, 8)).repeat(samples // 8, 1) / 20
    return torch.tensor(np.sin(2 * np.pi * np.cumsum(pitch, 1)), dtype=torch.float32)


def batch(count: int = 4) -> dict:
    return {"wave": tones(count).flatten(), "lengths": [SAMPLES] * count}


def asked(roles=("contrast",), outputs: int = 2, **changes) -> Asked:
    torch.manual_seed(0)
    config = replace(CONFIG, **changes)
    model = new_encoder("wav2vec2", config, set(roles), outputs).model
    return Asked(model, Contrast(config))


# What is hidden


def test_spans_cover_their_share_and_are_as_long_as_they_should_be():
    torch.manual_seed(0)
    shares = [drawn(400, 0.65, 10, 2).float().mean().item() for _ in range(50)]
    assert 0.42 < np.mean(shares) < 0.52  # 0.65 with overlaps: 1 - e^-0.65 = 0.48
    hidden = drawn(400, 0.1, 10, 2).int()
    edges = torch.diff(hidden, prepend=torch.tensor([0]), append=torch.tensor([0])).nonzero().squeeze(1)
    assert all(int(length) >= 10 for length in (edges[1::2] - edges[::2]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 11])
def test_a_short_row_is_never_hidden_whole(count):
    for _ in range(20):
        hidden = drawn(count, 0.65, 10, 1)
        assert len(hidden) == count and (count < 2 or not hidden.all())


def test_channels_are_hidden_over_a_whole_row():
    hidden = hidden_channels(3, 32, SpansConfig(channels=0.3, channels_length=4, channels_least=1))
    assert hidden.shape == (3, 32) and hidden.any(1).all() and not hidden.all(1).any()


def test_negatives_are_others_of_the_same_row():
    found = negatives([4, 0, 2, 7], 50)
    rows = torch.tensor([0] * 4 + [2] * 2 + [3] * 7)
    assert found.shape == (13, 50)
    assert (rows[found] == rows[:, None]).all()
    assert (found != torch.arange(13)[:, None]).all()
    assert set(found[6].tolist()) == set(range(7, 13))  # each of the others, sooner or later


def test_the_question_is_drawn_from_the_seed():
    questions = []
    for _ in range(2):
        torch.manual_seed(3)
        questions.append(Contrast(CONFIG).prepare(batch()))
    assert all(torch.equal(questions[0][name], questions[1][name]) for name in ("places", "negatives"))
    with pytest.raises(UsageProblem, match="too few to hide"):
        Contrast(CONFIG).prepare({"wave": torch.zeros(20), "lengths": [20]})


# What is learned


def test_a_batch_is_learned_and_the_codebook_used():
    one = asked().train()
    optimizer = torch.optim.Adam(one.parameters(), 5e-3)
    losses, right = [], []
    for step in range(80):
        torch.manual_seed(step)
        result = one(one.prepare({**batch(), "position": step}))
        optimizer.zero_grad()
        (result.loss / result.count).backward()
        optimizer.step()
        losses.append(float(result.parts["contrast_loss"] / result.count))
        right.append(float(result.parts["right"] / result.count))
    assert np.mean(losses[-10:]) < losses[0] - 0.5
    assert np.mean(right[-10:]) > 0.4  # by chance 0.09
    assert float(result.parts["perplexity"] / result.count) > 4


def test_the_temperature_falls_and_stays():
    falling = Falling(2.0, 0.5, 100)
    assert falling.at(0) == 2 and falling.at(50) == pytest.approx(1) and falling.at(1000) == pytest.approx(0.5)
    # the paper's factor a step
    assert Falling().at(1) / Falling().at(0) == pytest.approx(0.999995, abs=1e-7)


def test_every_part_that_should_learn_has_a_gradient():
    one = asked().train()
    one(one.prepare(batch())).loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in one.parameters())


@pytest.mark.parametrize("role", ["contrast", "transcribe"])
def test_half_precision_comes_near(role):
    torch.manual_seed(0)
    objective = Contrast(CONFIG) if role == "contrast" else CTC(CONFIG, blank=0)
    one = Asked(new_encoder("wav2vec2", CONFIG, {role}, 6).model, objective).eval()
    given = one.prepare({**batch(), "letters": Tokens.of([[1, 2, 3], [4, 5], [2, 2], [5, 1, 4]])})
    exact = one(given)
    with torch.autocast("cpu", torch.bfloat16):
        near = one(given)
    near.loss.backward()
    torch.testing.assert_close(near.loss, exact.loss, rtol=0.05, atol=0.05)
    assert all(p.grad is None or p.grad.isfinite().all() for p in one.parameters())


# A collapse


def collapsing(patience: int = 8) -> Asked:
    one = asked().train()
    one.objective = Contrast(CONFIG, Asking(guard=Guard(0.2, patience)))
    with torch.no_grad():  # whatever is heard, the same entry is likeliest by far
        book = one.model.heads["contrast"]
        book.choose.weight.zero_()
        book.choose.bias.zero_()
        book.choose.bias[[0, 8]] = 100.0
    return one.train()


def test_a_collapsed_codebook_is_named_with_its_number_and_a_remedy():
    one = collapsing()
    with pytest.raises(Problem, match=r"collapsed: for 8 micro-batches .* now 2\.0 of 16 entries.*codebook\.diversity"):
        for _ in range(20):
            one(one.prepare(batch()))


def test_the_count_goes_on_when_a_run_is_resumed():
    one = collapsing(patience=1000)
    for _ in range(5):
        one(one.prepare(batch()))
    carried = one.objective.carried()
    other = collapsing()
    other.objective.carry(other.model, carried)
    assert int(other.objective.low) == 5


def test_one_that_is_used_is_left_alone():
    one = asked().train()
    one.objective = Contrast(CONFIG, Asking(guard=Guard(0.05, 2)))
    for _ in range(6):
        one(one.prepare(batch()))


# Letters


def test_letters_are_learned():
    torch.manual_seed(0)
    config = replace(CONFIG, spans=SpansConfig(0.05, 2, 0))
    one = Asked(new_encoder("wav2vec2", config, {"transcribe"}, 6).model, CTC(config, blank=0)).train()
    letters = Tokens.of([[1, 2, 3], [4, 5], [2, 2], [5, 1, 4]])
    optimizer = torch.optim.Adam(one.parameters(), 4e-3)
    for step in range(120):
        torch.manual_seed(step)
        optimizer.param_groups[0]["lr"] = 4e-3 * min(1, (step + 1) / 20)
        result = one(one.prepare({**batch(), "letters": letters}))
        optimizer.zero_grad()
        (result.loss / result.count).backward()
        torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        optimizer.step()
    one.eval()
    with torch.no_grad():
        assert float(one(one.prepare({**batch(), "letters": letters})).loss / 10) < 0.3


def test_two_half_batches_are_one():
    torch.manual_seed(0)
    one = Asked(new_encoder("wav2vec2", CONFIG, {"transcribe"}, 6).model, CTC(CONFIG, blank=0)).eval()
    letters, waves = [[1, 2, 3], [4, 5], [2, 2], [5, 1, 4]], tones(4)

    def judged(rows):
        given = {
            "wave": waves[rows].flatten(),
            "lengths": [SAMPLES] * len(rows),
            "letters": Tokens.of([letters[r] for r in rows]),
        }
        return one(one.prepare(given))

    whole, first, second = judged([0, 1, 2, 3]), judged([0, 1]), judged([2, 3])
    torch.testing.assert_close(whole.loss, first.loss + second.loss)
    assert int(whole.count) == int(first.count + second.count) == 10


def test_a_text_longer_than_its_frames_teaches_nothing_and_breaks_nothing():
    one = Asked(new_encoder("wav2vec2", CONFIG, {"transcribe"}, 6).model, CTC(CONFIG, blank=0)).eval()
    given = {"wave": tones(1)[0, :40], "lengths": [40], "letters": Tokens.of([[1, 2, 3, 4, 5]])}
    result = one(one.prepare(given))
    result.loss.backward()
    assert result.loss.item() == 0 and all(p.grad is None or p.grad.isfinite().all() for p in one.parameters())
    assert frames_needed([1, 1, 2]) == 4 and frames_needed([]) == 0
