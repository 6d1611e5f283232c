"""A pretraining run from recordings to a model of sound: decode them once, train, save."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from regard.commands.listeners import listener_of
from regard.commands.pretraining_run import A_DAY, PretrainingRun, judged
from regard.commands.run_folder import claim, save_initial, save_result
from regard.config import to_dict
from regard.data.recordings import FACTS, SoundCorpus, recordings_of
from regard.data.sound_batches import Crops
from regard.errors import UsageProblem
from regard.models import SOUND
from regard.models.heads import with_heads
from regard.objectives.contrast import Asking, Contrast, Falling
from regard.objectives.objective import Asked
from regard.tasks.listener import Listener
from regard.training.loop import Outcome, train
from regard.training.parallel import here, is_first, rank_count
from regard.training.resume import wait_for

CONTRAST = "contrast"
SHORTEST = 4  # frames of a crop worth learning from
COOLED = 0.7  # the share of the steps after which the temperature is at its last, as in the paper


class HearingRun(PretrainingRun):
    """Rows are counted in frames: `longest` is of one, and `budget` of a micro-batch."""

    def hear(self, set: tuple[str, ...], allow_changed_data: bool = False) -> Listener:
        settings, device = self.settings, here()
        if settings.objective not in ("", CONTRAST):
            raise UsageProblem(f"a model of sound cannot be asked {settings.objective!r}; it is asked {CONTRAST}")
        listener, config = listener_of(self.model, set, settings.seed)
        self.training(device)
        if is_first():
            claim(self.folder, {"settings": to_dict(settings), "model": {"name": self.model, **to_dict(config)}})
        torch.manual_seed(settings.seed)
        published, fresh = with_heads(listener.published, {"contrast"}, config=config)
        listener = Listener(published, listener.ears)
        asked = Asked(listener.model, Contrast(config, self.asking())).to(device)
        corpus = self.decoded(settings.texts, self.corpus, listener.ears.rate)
        batches = self.crops(corpus, listener, settings.varied)
        if is_first():
            told = [*corpus.lines(), *batches.lines(), *self.facts(asked, [CONTRAST], fresh)]
            print(*told, sep="\n", file=sys.stderr, flush=True)
        save_initial(self.folder, listener)
        outcome = train(
            asked, batches, self.training(device), self.folder, evaluate=self.held_out_sound(asked, listener),
            fingerprint=corpus.fingerprint, allow_changed_data=allow_changed_data,
        )  # fmt: skip
        return self.concluded(listener, outcome)

    def concluded(self, listener: Listener, outcome: Outcome) -> Listener:
        if outcome.signal:
            sys.exit(outcome.exit_code)
        listener.model.eval()
        if is_first():
            save_result(self.folder, listener, self.card([CONTRAST], outcome))
        return listener

    def asking(self) -> Asking:
        s = self.settings
        return Asking(Falling(steps=round(COOLED * s.steps)), a_step=s.accumulate * rank_count())

    def crops(self, corpus: SoundCorpus, listener: Listener, much: float = 0.0) -> Crops:
        s, waves = self.settings, listener.waves
        shortest, longest = ((frames - 1) * waves.stride + waves.reach for frames in (SHORTEST, s.longest))
        return Crops(corpus, listener.ears, shortest, longest, s.budget * waves.stride, s.seed, much)

    def held_out_sound(self, asked: Asked, listener: Listener) -> Any:
        if not self.settings.dev:
            return None
        place = self.corpus.with_name(f"{self.corpus.name}-dev")
        dev = self.crops(self.decoded(self.settings.dev, place, listener.ears.rate), listener)
        return lambda: judged(asked, dev)  # type: ignore[arg-type]

    def decoded(self, paths: tuple[str, ...], folder: Path, rate: int) -> SoundCorpus:
        """The samples of all recordings; the first rank decodes them, the others wait."""
        if is_first():
            return SoundCorpus.make(recordings_of(paths), rate, folder)
        wait_for(folder / FACTS, A_DAY)
        return SoundCorpus.load(folder)

    def facts(self, asked: Asked, parts: list[str], fresh: list[str]) -> Iterator[str]:
        count = sum(p.numel() for p in asked.parameters())
        yield f"asked: {CONTRAST}; {count:,} parameters, the codebook's among them"
        if self.model not in SOUND:
            yield f"goes on from {self.model}; new: {', '.join(fresh) or 'nothing'}"

    def card(self, parts: list[str], outcome: Outcome) -> str:
        told = super().card(parts, outcome)
        return told.replace("An encoder", "A model of sound", 1).replace("- text:", "- sound:", 1)
