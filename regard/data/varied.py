"""Recordings that are changed a little each time they are heard, so that few voices do for many: faster or slower, with
another tone, in noise (Ko et al. 2015; Snyder et al. 2015)."""

from __future__ import annotations

import numpy as np

SPEED = 0.3  # of an octave: pitch and formants move with it, as from one speaker to another
TONE = 0.6  # how much of a wave is added to itself a sample later: below 0 it sounds thinner, above duller
LOUD, FAINT = 5.0, 40.0  # decibels that noise lies below the wave


def varied(wave: np.ndarray, much: float, draw: np.random.Generator) -> np.ndarray:  # (S,) -> (about S,) float32
    """The wave as another might have spoken it elsewhere; `much` is from 0, not at all, to 1."""
    wave = faster(wave, 2.0 ** (much * draw.uniform(-SPEED, SPEED)))
    wave = toned(wave, much * draw.uniform(-TONE, TONE))
    noise = toned(draw.standard_normal(len(wave)), draw.uniform(-TONE, TONE))
    below = FAINT - much * draw.uniform(0, FAINT - LOUD)
    return (wave + noise * wave.std() * 10 ** (-below / 20)).astype(np.float32)


def faster(wave: np.ndarray, speed: float) -> np.ndarray:
    """The same in another time, by straight lines between samples."""
    return np.interp(np.arange(0, len(wave), speed), np.arange(len(wave)), wave)


def toned(wave: np.ndarray, much: float) -> np.ndarray:
    return np.append(wave[:1], wave[1:] + much * wave[:-1])
