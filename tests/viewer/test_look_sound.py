"""Looking at sound: frames by their seconds, how loud they are, and the letters they tell."""

from __future__ import annotations

import wave

import numpy as np
import pytest
import torch

from regard.commands.look import look
from regard.data.ears import Ears
from regard.errors import Problem, UsageProblem
from regard.layers.waves import WavesConfig
from regard.models.heads import new_encoder
from regard.models.hearing import CodebookConfig
from regard.models.wav2vec2 import wav2vec2
from regard.tasks.listener import Listener
from regard.tasks.transcribe import with_letters
from regard.text.letters import Letters
from regard.viewer import hearing

RATE = 8000
CONFIG = wav2vec2(
    2, 32, 2, waves=WavesConfig((16, 16), (10, 8), (8, 5), "layer"), stable=True, around=8, around_groups=2,
    codebook=CodebookConfig(2, 8, 16, 16, 10),
)  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Half a second of silence, and half a second of a tone."""
    path = tmp_path_factory.mktemp("look") / "a.wav"
    samples = np.concatenate([np.zeros(4000), np.sin(np.arange(4000) / 3)])
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((9000 * samples).astype("<i2").tobytes())
    return path


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    listener = Listener(new_encoder("wav2vec2", CONFIG, {"contrast"}), Ears(RATE))
    return listener, with_letters(listener, Letters.learned(["abc"]), CONFIG)[0]


def test_frames_are_called_by_their_seconds(models, sound):
    listener, _ = models
    seen = look(listener, str(sound), name="tiny")
    side = seen.header()["sides"]["sound"]
    frames = CONFIG.waves.frames(8000)
    assert len(side["shown"]) == len(side["energy"]) == frames and side["shown"][:3] == ["0.00", "0.01", "0.01"]
    assert max(side["energy"]) == 1 and max(side["energy"][: frames // 2 - 3]) < 0.05 < min(
        side["energy"][frames // 2 + 3 :]
    )
    assert [layer["queries"] for layer in seen.header()["attentions"][0]["layers"]] == [frames, frames]


def test_blocks_are_the_models_own_weights(models, sound):
    listener, _ = models
    seen = look(listener, str(sound))
    weights = seen.block("encoder/1/weights")
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert seen.block("encoder/rollout").shape == (2, *weights.shape[1:])
    for name in seen.blocks():
        assert np.isfinite(seen.block(name)).all(), name


def test_letters_stand_beside_the_seconds(models, sound):
    _, finetuned = models
    with torch.no_grad():
        finetuned.model.heads["transcribe"].out.bias[5] = 50.0  # "a" at every frame
        seen = look(finetuned, str(sound))
        finetuned.model.heads["transcribe"].out.bias[5] = 0.0
    header = seen.header()
    assert all(text.endswith(" a") for text in header["sides"]["sound"]["shown"])
    assert header["output"]["predictions"][0]["top"][0][0] == "a"


def test_a_long_recording_is_shown_from_its_beginning(models, sound, monkeypatch):
    monkeypatch.setattr(hearing, "LONGEST", 50)
    seen = look(models[0], str(sound))
    assert len(seen.header()["sides"]["sound"]["shown"]) == 50 and "Only the first" in seen.notes[0]


@pytest.mark.parametrize("kind", ["html", "json", "npz"])
def test_it_can_be_kept(models, sound, tmp_path, kind):
    look(models[1], str(sound), name="tiny").save(tmp_path / f"look.{kind}")
    assert (tmp_path / f"look.{kind}").stat().st_size > 1000


def test_what_cannot_be(models, sound, tmp_path):
    with pytest.raises(UsageProblem, match="was asked of a model of sound"):
        look(models[0], str(sound), write=3)
    with pytest.raises(Problem, match="cannot be read"):
        look(models[0], str(tmp_path / "none.wav"))
