"""Recordings varied: faster or slower, with another tone, in noise; the same from the same draw."""

from __future__ import annotations

import numpy as np

from regard.data.ears import Ears
from regard.data.recordings import SoundCorpus
from regard.data.sound_batches import Crops, Spoken, SpokenBatches
from regard.data.varied import FAINT, LOUD, SPEED, faster, toned, varied

RATE = 8000
TONE = np.sin(2 * np.pi * 400 * np.arange(RATE) / RATE).astype(np.float32)


def corpus_of(*waves: np.ndarray) -> SoundCorpus:
    offsets = np.cumsum([0, *map(len, waves)])
    samples = (np.concatenate(waves) * 20_000).astype(np.int16)
    names = [str(number) for number in range(len(waves))]
    return SoundCorpus(samples, offsets, names, [None] * len(waves), RATE, "")


def pitch(wave: np.ndarray) -> float:
    return float(np.abs(np.fft.rfft(wave)).argmax() * RATE / len(wave))


def test_what_is_faster_is_shorter_and_higher():
    for speed in (0.8, 1.25):
        wave = faster(TONE, speed)
        assert len(wave) == np.ceil(RATE / speed) and abs(pitch(wave) - 400 * speed) < 2


def test_tones_are_thinner_or_duller():
    noise = np.random.default_rng(0).standard_normal(RATE)
    low, high = slice(0, RATE // 8), slice(3 * RATE // 8, None)
    for much, duller in ((0.6, True), (-0.6, False)):
        found = np.abs(np.fft.rfft(toned(noise, much)))
        assert (found[low].mean() > found[high].mean()) == duller


def test_noise_lies_where_it_should():
    for seed in range(20):
        far, near = (varied(TONE, much, np.random.default_rng(seed)) for much in (1e-9, 1.0))
        below = -20 * np.log10((far[1:RATE] - TONE[1:]).std() / TONE.std())
        assert FAINT - 2 < below < FAINT + 2 and near.dtype == np.float32
        assert 2**-SPEED <= len(TONE) / len(near) <= 2**SPEED + 0.01
        quiet = np.abs(np.fft.rfft(near))[RATE // 4 :].mean() / np.abs(np.fft.rfft(near)).max()
        assert quiet < 10 ** (-LOUD / 20)


def test_silence_and_a_single_sample_stay_finite():
    draw = np.random.default_rng(0)
    assert not varied(np.zeros(100, np.float32), 1.0, draw).any()
    for size in (1, 2, 3):
        assert np.isfinite(varied(np.ones(size, np.float32), 1.0, draw)).all()


def test_batches_vary_by_their_position_alone():
    corpus = corpus_of(TONE, TONE[: RATE // 2])
    spoken = Spoken(corpus, Ears(RATE), [[5], [6]], [0, 1], least=400, much=0.5)
    crops = corpus, Ears(RATE), 400, RATE, 2 * RATE, 3, 0.5
    for one, other in (
        (SpokenBatches(spoken, 2, seed=3), SpokenBatches(spoken, 2, seed=3)),  # type: ignore[arg-type]
        (Crops(*crops), Crops(*crops)),
    ):
        assert one.at(4)["wave"].equal(other.at(4)["wave"])
        assert not one.at(4)["wave"].equal(one.at(5)["wave"])
        assert sum(one.at(4)["lengths"]) == len(one.at(4)["wave"]) != RATE + RATE // 2
