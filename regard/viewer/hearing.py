"""Looking at what hears a recording: its frames are the tokens, called by their seconds and, where letters are told, by
the letter of each.

Letters: N frames, V letters that can be told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.tasks.finetuned import Finetuned
from regard.tasks.listener import Listener
from regard.viewer.look import Attending, Look
from regard.viewer.seen import LONGEST, best, watching
from regard.viewer.sides import Side

SIDE = "sound"


def listener_in(model: Any) -> Listener | None:
    """What hears in a model, if it does."""
    reader = model.reader if isinstance(model, Finetuned) else model
    return reader if isinstance(reader, Listener) else None


def look_at_sound(model: Listener | Finetuned, path: str | Path, name: str) -> Look:
    listener: Any = listener_in(model)
    samples, notes = beginning(listener, path)
    wave = torch.from_numpy(listener.ears.ready(samples, listener.waves.reach)).to(listener.device)
    with watching(listener.model) as seen:
        heard = listener.model.encoder.hear(wave, [len(wave)])
        seen.part()
        tells = "transcribe" in listener.model.heads and listener.letters is not None
        scores = listener.model.scores("transcribe", heard.states, heard.rows) if tells else None
    side = side_of(listener, samples, len(heard.states), scores)
    layers = seen.layers(slice(None), lambda name: True)
    family = str(listener.published.theirs["model_type"])
    attending = Attending("encoder", "Encoder", SIDE, SIDE, layers)
    output = {"side": SIDE, "predictions": predictions(listener, scores)}
    return Look(name or family, family, "encoder", {SIDE: side}, [attending], notes=notes, output=output)


def beginning(listener: Listener, path: str | Path) -> tuple[np.ndarray, list[str]]:
    """As much of a recording as is looked at: the weights of each layer grow with the square of its frames."""
    most = (LONGEST - 1) * listener.waves.stride + listener.waves.reach
    pieces, length = list[np.ndarray](), 0
    for piece in listener.pieces(path):
        pieces.append(piece[: most - length])
        length += len(pieces[-1])
        if len(pieces[-1]) < len(piece):
            seconds = most / listener.ears.rate
            return np.concatenate(pieces), [f"Only the first {seconds:.0f} s are shown: {LONGEST:,} frames."]
    return np.concatenate(pieces), []


def side_of(listener: Listener, samples: np.ndarray, frames: int, scores: Tensor | None) -> Side:
    """Each frame by the second at which it begins and the letter it tells, if any; and how loud it is."""
    starts = np.arange(frames) * listener.waves.stride
    letters = [""] * frames
    if scores is not None and listener.letters is not None:
        told = scores.argmax(-1).tolist()
        letters = ["" if id == listener.letters.blank else listener.letters.shown.get(id, "") for id in told]
    pieces = [f"{s / listener.ears.rate:.2f} {l}".strip() for s, l in zip(starts, letters, strict=True)]
    return Side(pieces, [False] * frames, whole=True, energy=loudness(samples, starts, listener.waves.reach))


def loudness(samples: np.ndarray, starts: np.ndarray, reach: int) -> list[float]:
    """The root of the mean square of each frame's samples, the loudest 1."""
    squares = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    ends = np.minimum(starts + reach, len(samples))
    power = np.sqrt(np.maximum(squares[ends] - squares[np.minimum(starts, ends)], 0) / reach)
    return (power / max(power.max(), 1e-9)).round(3).tolist()


def predictions(listener: Listener, scores: Tensor | None) -> list[dict[str, Any]]:
    """What is told at each frame that tells a letter."""
    if scores is None or listener.letters is None:
        return []
    letters = listener.letters
    places = (scores.argmax(-1) != letters.blank).nonzero().squeeze(1).tolist()
    names = {**{id: name or "·" for id, name in letters.shown.items()}, letters.blank: "(blank)", letters.space: "␣"}
    tops = best(scores[places], lambda id: names.get(id, str(id)))
    return [{"at": place, "top": top} for place, top in zip(places, tops, strict=True)]
