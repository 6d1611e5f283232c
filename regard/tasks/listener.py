"""A model of sound with what it needs to hear and to write: its ears and, once it has learned to write, its letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import sorted_batches
from regard.data.ears import Ears
from regard.data.sound_batches import laid
from regard.data.sounds import stream_sound
from regard.errors import Problem
from regard.models.encoder import Role
from regard.models.folder import load_published, save_files
from regard.models.published import Published
from regard.tasks.device import moved
from regard.text.letters import Letters

SECONDS = 60.0  # of sound in a batch
WINDOW, MARGIN = 30.0, 2.0  # seconds of a long recording that are heard at once, and of those at each side not trusted
Sound = str | Path | bytes | np.ndarray  # a file, what one holds, or samples at the model's rate


class Listener:
    def __init__(self, published: Published, ears: Ears, letters: Letters | None = None):
        self.published, self.ears, self.letters = published, ears, letters
        self.model: Any = published.model
        self.waves = self.model.encoder.config.waves

    @classmethod
    def load(
        cls, folder: str | Path, device: torch.device | str | None = None, ignore: Sequence[str] = ()
    ) -> Listener:
        folder = Path(folder)
        published, ears, letters = load_published(folder, ignore), Ears.load(folder), Letters.load(folder)
        if "transcribe" in published.layout.roles and letters is not None:
            head: Any = published.model.heads["transcribe"]
            told = head.out.out_features
            if letters.size > told:
                raise Problem(
                    f"{folder}: vocab.json has {letters.size} letters and the model tells {told}: of another model"
                )
        moved(published.model, device)
        return cls(published, ears, letters)

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the folder that we and others read; a card is its README."""
        letters = self.letters.files() if self.letters else {}
        files = {**self.published.files(), **self.ears.files(), **letters}
        save_files(Path(folder), files | ({"README.md": card.encode()} if card else {}))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def seconds_a_frame(self) -> float:
        return self.waves.stride / self.ears.rate

    @torch.inference_mode()
    def scores(self, role: Role, waves: Sequence[np.ndarray]) -> list[Tensor]:  # (frames, V) of each
        """What a head makes of waves that are ready, in their order."""
        found = [torch.empty(0)] * len(waves)
        for numbers in sorted_batches([len(wave) for wave in waves], int(SECONDS * self.ears.rate)):
            batch = laid([waves[number] for number in numbers])
            heard = self.model.encoder.hear(batch["wave"].to(self.device), batch["lengths"])
            scores = self.model.scores(role, heard.states, heard.rows).float().cpu()
            for number, row in zip(numbers, heard.rows.to("cpu").split(scores), strict=True):
                found[number] = row
        return found

    def windows(self, sound: Sound, name: str = "") -> Iterator[tuple[np.ndarray, int, int]]:
        """A recording as it is heard: waves that are ready, and from which frame to which each counts.  A long one is
        several, which overlap; no more of it is held than one."""
        stride, least = self.waves.stride, self.waves.reach
        size, margin = (round(seconds * self.ears.rate / stride) for seconds in (WINDOW, MARGIN))
        held, first = np.zeros(0, np.float32), True
        for piece in self.pieces(sound, name):
            held = np.concatenate([held, piece])
            while len(held) > (size + margin) * stride:  # more than one, and enough behind it for another
                whole = held[: size * stride + least - stride]
                yield self.ears.ready(whole, least), 0 if first else margin, size - margin
                held, first = held[(size - 2 * margin) * stride :], False
        frames = self.waves.frames(max(len(held), least))
        yield self.ears.ready(held, least), 0 if first else margin, frames

    def pieces(self, sound: Sound, name: str = "") -> Iterator[np.ndarray]:
        if isinstance(sound, np.ndarray):
            if sound.ndim != 1 or not len(sound) or not np.isfinite(sound).all():
                raise Problem(f"samples of shape {sound.shape}: give some finite numbers in one row")
            return iter([sound.astype(np.float32)])
        return stream_sound(Path(sound) if isinstance(sound, str) else sound, self.ears.rate, name)
