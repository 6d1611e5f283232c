"""Writing down what is said: wav2vec 2.0 fine-tuned by CTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.reading import Reading
from regard.data.recordings import Recordings, SoundCorpus, read_recordings
from regard.data.sound_batches import Spoken
from regard.decoding.ctc import PrefixBeam, Spelled, greedy, prefix_search
from regard.errors import Problem
from regard.models.encoder import Role
from regard.models.heads import with_heads
from regard.objectives.ctc import CTC, frames_needed
from regard.objectives.objective import Batch, Objective, Result
from regard.tasks.finetuned import NAME, Finetuned
from regard.tasks.listener import WINDOW, Listener, Sound
from regard.tasks.metrics import Score
from regard.tasks.speech_metrics import character_error_rate, word_error_rate
from regard.text.letters import Letters

MAX_SHOWN_CHARACTERS = 20  # that the model does not write
TOGETHER = 64  # recordings whose windows are held at once


@dataclass(frozen=True)
class Word:
    text: str
    start: float  # seconds
    end: float


@dataclass(frozen=True)
class Transcript:
    text: str
    words: list[Word]
    seconds: float  # how long the recording is


class Transcribe(Objective):
    """The letters of recordings, by the head of this name.  A task as others are, but of a Listener."""

    role: ClassVar[Role] = "transcribe"
    watched = "character error rate"  # words are all wrong for long, and would not tell weights apart

    def __init__(self, letters: Letters, config: Any, judge: WordJudge | None = None):
        super().__init__()
        self.letters, self.outputs, self.how, self.judge_words = letters, letters.size, PrefixBeam(), judge
        self.asking = CTC(config, letters.blank)

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Recordings:
        return read_recordings(path, reading).spoken()

    def settings(self) -> dict[str, Any]:
        return {"vocab_size": self.outputs, "pad_token_id": self.letters.blank, NAME: "transcribe"}

    def examples(self, reader: Listener, data: SoundCorpus) -> Spoken:
        """All recordings but those that are too long, or too short for their text."""
        every = [self.letters.encode(text or "")[0] for text in data.texts]
        chosen, left = list[int](), dict[str, list[str]]()
        for number, (ids, length) in enumerate(zip(every, data.lengths.tolist(), strict=True)):
            if why := unusable(ids, length, reader):
                left.setdefault(why, []).append(data.names[number])
            else:
                chosen.append(number)
        notes = [f"warning: {len(names):,} of {len(every):,} recordings left out: {why} ({some_of(names)})"
                 for why, names in left.items()]  # fmt: skip
        if not chosen:
            raise Problem(f"no recording can be learned from: {'; '.join(notes).replace('warning: ', '')}")
        return Spoken(data, reader.ears, every, chosen, reader.waves.reach, [*notes, *unknown_characters(self, data)])

    def prepare(self, batch: Batch) -> Batch:
        return self.asking.prepare(batch)

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        return self.asking.judge(model, batch)

    def predict(self, reader: Listener, inputs: Sequence[Sound]) -> list[Transcript]:
        """A transcript for each recording.  Of a long one the windows are heard one after the other."""
        found: list[Transcript] = []
        for start in range(0, len(inputs), TOGETHER):
            found += self.transcripts(reader, inputs[start : start + TOGETHER])
        return found

    def transcripts(self, listener: Listener, sounds: Sequence[Sound]) -> list[Transcript]:
        parts: list[list[Tensor]] = [[] for _ in sounds]
        waiting: list[tuple[int, np.ndarray, int, int]] = []

        def hear() -> None:
            scores = listener.scores("transcribe", [wave for _, wave, *_ in waiting])
            for (number, _, first, last), row in zip(waiting, scores, strict=True):
                parts[number].append(row[first:last].log_softmax(-1))
            waiting.clear()

        for number, sound in enumerate(sounds):
            for window in listener.windows(sound):
                waiting.append((number, *window))
                if len(waiting) == TOGETHER:
                    hear()
        hear()
        return [self.transcript(torch.cat(rows).numpy(), listener.seconds_a_frame) for rows in parts]

    def transcript(self, chances: np.ndarray, seconds: float) -> Transcript:  # (T, V)
        letters, how = self.letters, self.how
        if how.size == 1 and self.judge_words is None:
            spelled = greedy(chances, letters.blank)
        else:
            spelled = prefix_search(chances, letters.blank, how, letters.space, self.judge_words)
        return Transcript(letters.decode(spelled.letters), self.words(spelled, seconds), len(chances) * seconds)

    def words(self, spelled: Spelled, seconds: float) -> list[Word]:
        """Each word, from its first letter to its last."""
        found, ids, frames = list[Word](), list[int](), list[int]()
        for id, frame in [*zip(spelled.letters, spelled.frames, strict=True), (self.letters.space, 0)]:
            if id != self.letters.space:
                ids.append(id)
                frames.append(frame)
            elif ids:
                start, end = frames[0] * seconds, (frames[-1] + 1) * seconds
                found.append(Word(self.letters.decode(ids), round(start, 3), round(end, 3)))
                ids, frames = [], []
        return found

    def inputs(self, data: Recordings) -> list[Any]:
        return [one.source for one in data.every]

    def check(self, data: Recordings) -> None:
        """Any text can be written, and so any text can be scored."""

    def unseen(self, data: Recordings) -> dict[str, int]:
        return {}

    def metrics(self, data: Recordings) -> list[str]:
        return ["word error rate", "character error rate"]

    def score(self, answers: Sequence[Transcript], data: Recordings) -> list[Score]:
        said = [self.letters.cased(text) for text in data.spoken().texts]
        written = [self.letters.cased(answer.text) for answer in answers]
        return [word_error_rate(written, said), character_error_rate(written, said)]


def unusable(ids: list[int], samples: int, reader: Listener) -> str:
    """Why a recording of so many samples and these characters cannot be learned from; "" if it can."""
    if samples > WINDOW * reader.ears.rate:
        return f"longer than {WINDOW:.0f} s"
    if not ids:
        return "no character of the transcript is one of the model's"
    if frames_needed(ids) > reader.waves.frames(max(samples, reader.waves.reach)):
        return "too short for the transcript: more characters than frames"
    return ""


def unknown_characters(task: Transcribe, data: SoundCorpus) -> list[str]:
    """A warning, if transcripts have characters that the model does not write."""
    texts = (task.letters.cased("".join((text or "").split())) for text in data.texts)
    lost = Counter(character for text in texts for character in text if character not in task.letters.ids)
    if not lost:
        return []
    shown = some_of([f"{character!r} {count:,}" for character, count in lost.most_common()], MAX_SHOWN_CHARACTERS)
    what = "characters of the transcripts are not among the model's, and are not learned"
    return [f"warning: {lost.total():,} {what}: {shown}"]


def some_of(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)


@dataclass
class WordJudge:
    """A language model that judges texts word by word: `tell` is how probable what follows a text is."""

    decode: Callable[[Sequence[int]], str]
    tell: Callable[[str, str], float]
    known: dict[tuple[str, str], float] = field(default_factory=dict)

    def gain(self, text: tuple[int, ...], ended: bool) -> float:
        before, _, word = self.decode(text).rpartition(" ")
        if not word:  # special tokens, of which nothing is written
            return 0.0
        key = before, (f" {word}" if before else word)
        if key not in self.known:
            self.known[key] = self.tell(*key)
        return self.known[key]


def transcriber(listener: Listener) -> Listener | Finetuned:
    """A model of sound with its task, if it has learned to write."""
    if listener.letters is None or "transcribe" not in listener.published.layout.roles:
        return listener
    task = Transcribe(listener.letters, listener.model.encoder.config)
    return Finetuned(listener, "transcribe", task)  # type: ignore[arg-type]


def with_letters(listener: Listener, letters: Letters, config: Any) -> tuple[Finetuned, list[str]]:
    """A model of sound made ready to write these letters, and the names of tensors that are new."""
    config = replace(config, vocab=letters.size)
    same = listener.letters is not None and dict(listener.letters.ids) == dict(letters.ids)
    task = Transcribe(letters, config)
    published, fresh = with_heads(
        listener.published, {"transcribe"}, letters.size, config=config, settings=task.settings(), same=same
    )
    return Finetuned(Listener(published, listener.ears, letters), "transcribe", task), fresh  # type: ignore[arg-type]
