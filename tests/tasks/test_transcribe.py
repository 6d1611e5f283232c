"""Writing down what is said: windows over long recordings, words and their times, folders that others read."""

from __future__ import annotations

import io
import json
import os
import wave
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.checkpoints.files import load_tensors
from regard.commands.load import load
from regard.data.ears import Ears
from regard.data.recordings import Recording, Recordings, SoundCorpus
from regard.decoding.ctc import PrefixBeam, Spelled
from regard.errors import Problem
from regard.layers.waves import WavesConfig
from regard.models.heads import new_encoder
from regard.models.hearing import CodebookConfig, SpansConfig
from regard.models.wav2vec2 import wav2vec2
from regard.objectives.ctc import spelled
from regard.rows import Rows, Tokens
from regard.tasks import listener as listening
from regard.tasks.finetuned import Finetuned
from regard.tasks.listener import Listener
from regard.tasks.transcribe import Transcript, WordJudge, transcriber, with_letters
from regard.text.letters import Letters

os.environ["HF_HUB_OFFLINE"] = "1"
RATE = 8000
CONFIG = wav2vec2(
    2, 32, 2, waves=WavesConfig((16, 16), (10, 8), (8, 5), "layer"), stable=True, around=8, around_groups=2,
    spans=SpansConfig(0.2, 4), codebook=CodebookConfig(2, 8, 16, 16, 10),
)  # fmt: skip
LETTERS = Letters.learned(["one two", "three"])


def made(config=CONFIG) -> Finetuned:
    torch.manual_seed(0)
    listener = Listener(new_encoder("wav2vec2", config, set()), Ears(RATE))
    finetuned, _ = with_letters(listener, LETTERS, config)
    with torch.no_grad():
        for parameter in finetuned.model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return finetuned


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(int(seconds * RATE)).astype(np.float32)


def test_a_transcript_has_words_with_their_times():
    task = made().task
    ids = [LETTERS.encode(text)[0] for text in ("one two", "three")]
    frames = [2, 3, 9, 10, 12, 13, 20]
    words = task.words(Spelled(ids[0], frames, 0.0), 0.01)
    assert [(word.text, word.start, word.end) for word in words] == [("one", 0.02, 0.1), ("two", 0.12, 0.21)]


def test_windows_of_a_long_recording_cover_it_once(monkeypatch):
    monkeypatch.setattr(listening, "WINDOW", 1.0)
    monkeypatch.setattr(listening, "MARGIN", 0.1)
    reader = made().reader
    for seconds in (0.5, 1.0, 1.05, 1.1, 1.2, 3.7, 10.03):
        sound = noise(seconds)
        windows = [*reader.windows(sound)]
        assert sum(last - first for _, first, last in windows) == CONFIG.waves.frames(len(sound)), seconds
        assert max(len(ready) for ready, *_ in windows) <= 1.2 * RATE


def test_chunks_hear_what_the_whole_hears_where_they_are_trusted(monkeypatch):
    """With states that know only what is near, a window and the whole agree at every frame that counts."""
    found = made()
    reader: Listener = found.reader
    reader.ears = Ears(RATE, norm=False)
    with torch.no_grad():  # nobody looks far: attention adds nothing
        for block in reader.model.encoder.stack.blocks:
            block.attention.out.weight.zero_()
    sound = noise(5.0)
    [whole] = reader.scores("transcribe", [sound])
    monkeypatch.setattr(listening, "WINDOW", 1.0)
    monkeypatch.setattr(listening, "MARGIN", 0.2)
    windows = [*reader.windows(sound)]
    parts = reader.scores("transcribe", [ready for ready, *_ in windows])
    joined = torch.cat([part[first:last] for part, (_, first, last) in zip(parts, windows, strict=True)])
    torch.testing.assert_close(joined, whole, atol=1e-4, rtol=1e-4)


def test_a_recording_alone_is_transcribed_as_among_others():
    found, waves = made(), [noise(0.3, 1), noise(1.1, 2), noise(0.02, 3)]
    together = found.predict(waves)
    assert [found(wave) for wave in waves] == together
    assert all(isinstance(one, Transcript) for one in together) and together[1].seconds == pytest.approx(1.1, abs=0.02)


def test_one_sample_is_silence_behind_it_and_no_sample_is_refused():
    assert isinstance(made()(np.zeros(1, np.float32)), Transcript)
    for wrong in (np.zeros(0, np.float32), np.zeros((5, 2), np.float32), np.array([np.nan])):
        with pytest.raises(Problem, match="give some finite numbers"):
            made()(wrong)


def test_a_search_is_at_least_as_likely_as_the_likeliest_letters():
    found = made()
    greedy = found(noise(0.4))
    found.task.how = PrefixBeam(20)
    searched = found(noise(0.4))
    assert isinstance(searched.text, str) and len(searched.words) >= 0 and searched.seconds == greedy.seconds


def test_a_judge_is_asked_once_for_each_word_after_each_text():
    asked = []
    judge = WordJudge(LETTERS.decode, lambda before, word: asked.append((before, word)) or -1.0)
    ids = tuple(LETTERS.encode("one two")[0])
    assert judge.gain(ids, False) == judge.gain(ids, True) == -1.0
    judge.gain(ids[:3], False)
    assert asked == [("one", " two"), ("", "one")]


# Folders


def test_a_folder_goes_out_and_comes_back(tmp_path):
    found = made()
    found.save(tmp_path / "a", "# A card\n")
    again = load(tmp_path / "a", "cpu")
    assert isinstance(again, Finetuned) and again.name == "transcribe"
    assert again(noise(0.5)) == found(noise(0.5))
    again.save(tmp_path / "b")
    for name in ("config.json", "preprocessor_config.json", "vocab.json", "tokenizer_config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    one, other = (load_tensors(tmp_path / place / "model.safetensors") for place in "ab")
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_reference_library_writes_the_same_letters(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    made().save(tmp_path / "a")
    processor = transformers.Wav2Vec2Processor.from_pretrained(tmp_path / "a")
    model, told = transformers.Wav2Vec2ForCTC.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    sound = noise(0.6)
    given = processor(sound, sampling_rate=RATE, return_tensors="pt").input_values
    with torch.no_grad():
        ids = model.eval()(given).logits[0].argmax(-1)
    theirs = processor.decode(ids)
    for special in ("<s>", "</s>", "<unk>"):
        theirs = theirs.replace(special, "")
    assert load(tmp_path / "a", "cpu")(sound).text == " ".join(theirs.split())


def test_a_model_that_was_only_pretrained_is_no_transcriber(tmp_path):
    listener = Listener(new_encoder("wav2vec2", CONFIG, {"contrast"}), Ears(RATE))
    assert transcriber(listener) is listener
    listener.save(tmp_path / "a")
    assert isinstance(load(tmp_path / "a", "cpu"), Listener)


def test_letters_of_another_model_are_refused(tmp_path):
    made().save(tmp_path / "a")
    (tmp_path / "a" / "manifest.json").unlink()
    more = {letter: id for id, letter in enumerate(["<pad>", "|", *"abcdefghijklmnop"])}
    (tmp_path / "a" / "vocab.json").write_text(json.dumps(more))
    with pytest.raises(Problem, match="18 letters and the model tells"):
        load(tmp_path / "a", "cpu")


# Examples


def recorded(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writing:
        writing.setparams((1, 2, RATE, 0, "NONE", ""))
        writing.writeframes((3000 * samples).astype("<i2").tobytes())
    return file.getvalue()


def corpus(tmp_path, texts: list[str], seconds: list[float]) -> SoundCorpus:
    every = [
        Recording(f"{number}.wav", recorded(noise(length)), text)
        for number, (text, length) in enumerate(zip(texts, seconds, strict=True))
    ]
    return SoundCorpus.make([Recordings("some", every)], RATE, tmp_path / "cache")


def test_what_is_used_is_what_was_trained(tmp_path):
    """Without dropout and hidden frames, a batch's loss in training is that of each recording's scores alone."""
    block = replace(CONFIG.stack.block, dropout=0.0, inner_dropout=0.0)
    still = replace(CONFIG, spans=SpansConfig(0.0), dropout=0.0, stack=replace(CONFIG.stack, block=block))
    finetuned, texts = made(still), ["one", "two", "three"]
    task, listener = finetuned.task, finetuned.reader
    data = corpus(tmp_path, texts, [0.4, 0.5, 0.6])
    task.train()
    listener.model.train()
    batch = task.examples(listener, data).batch(np.arange(3))
    trained = task.judge(listener.model, task.prepare(batch)).loss.item()
    listener.model.eval()
    used = 0.0
    for number, text in enumerate(texts):
        [(ready, *_)] = listener.windows(recorded(noise([0.4, 0.5, 0.6][number])))
        [scores] = listener.scores("transcribe", [ready])
        ids = Tokens.of([LETTERS.encode(text)[0]])
        used += spelled(scores, Rows.of([len(scores)]), ids, LETTERS.blank).loss.item()
    assert abs(trained - used) < 1e-3 * used


def test_recordings_that_teach_nothing_are_left_out_and_told(tmp_path):
    found = made()
    data = corpus(tmp_path, ["one", "one two one two one two", "two!", "three"], [0.5, 0.02, 0.5, 31.0])
    examples = found.task.examples(found.reader, data)
    assert list(examples.chosen) == [0, 2]
    short = f"too short for the transcript: more characters than frames ({data.names[1]})"
    assert examples.notes == [
        f"warning: 1 of 4 recordings left out: {short}",
        f"warning: 1 of 4 recordings left out: longer than 30 s ({data.names[3]})",
        "warning: 1 characters of the transcripts are not among the model's, and are not learned: '!' 1",
    ]
    with pytest.raises(
        Problem, match=r"no recording can be learned from: 1 of 1 recordings left out: longer than 30 s"
    ):
        found.task.examples(found.reader, corpus(tmp_path, ["one"], [31.0]))


def test_scores_do_not_care_for_case():
    found = made()
    data = Recordings("some", [Recording("a", b"", "ONE two"), Recording("b", b"", "three")])
    answers = [Transcript("one two", [], 1.0), Transcript("tree", [], 1.0)]
    words, letters = found.task.score(answers, data)
    assert (words.metric, words.value) == ("word error rate", pytest.approx(100 / 3))
    assert letters.value == pytest.approx(100 / 12)
