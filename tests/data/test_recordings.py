"""Where recordings and their texts come from, and how they become batches."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.ears import Ears
from regard.data.reading import Reading
from regard.data.recordings import SoundCorpus, read_recordings
from regard.data.sound_batches import Crops, Spoken
from regard.errors import Problem

from made_sounds import RATE, TONE, written  # isort: skip


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, seconds in (("a", 0.5), ("b", 1.0), ("c", 0.25)):
        (tmp_path / f"{name}.wav").write_bytes(written(TONE[: int(seconds * RATE)], 16))
    return tmp_path


def told(path, **reading) -> list[tuple[str, str | None]]:
    return [(Path(one.name).name, one.text) for one in read_recordings(path, Reading(**reading)).every]


def test_a_folder_with_texts_beside_the_recordings(folder):
    (folder / "a.txt").write_text("hello\nthere\n")
    assert told(folder) == [("a.wav", "hello there"), ("b.wav", None), ("c.wav", None)]
    with pytest.raises(Problem, match=r"what is said in .*b\.wav is not told"):
        read_recordings(folder).spoken()


def test_librispeechs_layout(folder):
    (folder / "1-2.trans.txt").write_text("a HELLO THERE\nb YES\n")
    assert told(folder)[:2] == [("a.wav", "HELLO THERE"), ("b.wav", "YES")]


@pytest.mark.parametrize(
    "name, text",
    [
        ("m.csv", "path,text\na.wav,hello\nb.wav,yes\n"),
        ("m.tsv", "sentence\tfile\nhello\ta.wav\nyes\tb.wav\n"),
        ("m.jsonl", '{"audio": "a.wav", "transcript": "hello"}\n{"audio": "b.wav", "transcript": "yes"}\n'),
        ("n.csv", "a.wav,hello\nb.wav,yes\n"),  # without a header the path comes first
    ],
)
def test_tables_of_paths_and_texts(folder, name, text):
    (folder / name).write_text(text)
    assert told(folder / name) == [("a.wav", "hello"), ("b.wav", "yes")]


def test_columns_may_be_named_and_a_path_that_leads_nowhere_is_told(folder):
    (folder / "m.csv").write_text("clip,said,mood\na.wav,hello,good\n")
    with pytest.raises(Problem, match="no column of paths"):
        read_recordings(folder / "m.csv")
    assert told(folder / "m.csv", second="clip", text="2") == [("a.wav", "hello")]
    with pytest.raises(Problem, match="has no column 'klip'"):
        read_recordings(folder / "m.csv", Reading(second="klip"))
    (folder / "m.csv").write_text("path,text\nz.wav,hello\n")
    with pytest.raises(Problem, match=r"m\.csv, line 2: there is no file .*z\.wav"):
        read_recordings(folder / "m.csv")


def test_an_archive_of_spoken_digits(folder):
    for name, copy in (("7_theo_3", "a"), ("0_jackson_12", "b")):
        (folder / f"{name}.wav").write_bytes((folder / f"{copy}.wav").read_bytes())
    with tarfile.open(folder / "d.tar.xz", "w:xz") as archive:
        for name in ("7_theo_3.wav", "0_jackson_12.wav"):
            archive.add(folder / name, f"recordings/{name}")
    assert told(folder / "d.tar.xz") == [("0_jackson_12.wav", "zero"), ("7_theo_3.wav", "seven")]
    (folder / "d.tar.xz").write_bytes((folder / "d.tar.xz").read_bytes()[:60])
    with pytest.raises(Problem, match="cannot be read as an archive"):
        read_recordings(folder / "d.tar.xz")


def test_a_folder_without_recordings(tmp_path):
    with pytest.raises(Problem, match="names no recordings"):
        read_recordings(tmp_path)


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA names no data sets")
def test_the_spoken_digits():
    found = read_recordings(Path(os.environ["REGARD_DATA"]) / "fsdd" / "fsdd.tar.xz")
    assert len(found) == 3000 and {one.text for one in found.every} >= {"zero", "nine"} and None not in found.texts


# Decoded once


def test_samples_are_decoded_once_and_again_when_they_change(folder):
    found = read_recordings(folder)
    corpus = SoundCorpus.make([found], RATE, folder / "cache")
    assert corpus.lengths.tolist() == [4000, 8000, 2000]
    np.testing.assert_allclose(corpus.wave(0), TONE[:4000], atol=1e-4)
    stamp = (folder / "cache" / "samples.int16").stat().st_mtime_ns
    SoundCorpus.make([found], RATE, folder / "cache")
    assert (folder / "cache" / "samples.int16").stat().st_mtime_ns == stamp
    assert SoundCorpus.make([found], 16000, folder / "cache").lengths.tolist() == [8000, 16000, 4000]
    (folder / "a.wav").write_bytes(written(TONE[:80], 16))
    assert SoundCorpus.make([read_recordings(folder)], RATE, folder / "cache").lengths[0] == 80


def test_crops_are_a_pure_function_of_their_position(folder):
    corpus = SoundCorpus.make([read_recordings(folder)], RATE, folder / "cache")
    crops = Crops(corpus, Ears(RATE), shortest=2500, longest=3000, budget=6000, seed=0)
    assert len(crops) == 3 and crops.left_out == 1  # one of a, two of b; c is too short
    again = Crops(corpus, Ears(RATE), shortest=2500, longest=3000, budget=6000, seed=0)
    lengths = []
    for position in range(crops.per_epoch):
        batch, same = crops.at(position), again.at(position)
        assert torch.equal(batch["wave"], same["wave"]) and batch["position"] == position
        assert sum(batch["lengths"]) == len(batch["wave"]) <= 6000
        lengths += batch["lengths"]
    assert sorted(lengths) == [3000] * 3
    assert not torch.equal(crops.at(0)["wave"], crops.at(crops.per_epoch)["wave"])


def test_examples_are_normed_and_have_their_letters(folder):
    corpus = SoundCorpus.make([read_recordings(folder)], RATE, folder / "cache")
    batch = Spoken(corpus, Ears(RATE), [[5, 6], [7], [8, 9]], [0, 2], least=3000).batch(np.array([1, 0]))
    assert batch["lengths"] == [3000, 4000] and batch["letters"].tolist() == [[8, 9], [5, 6]]
    second = batch["wave"][3000:]
    assert abs(second.mean()) < 1e-5 and abs(second.std() - 1) < 1e-3


def recordings(count: int = 4) -> list[np.ndarray]:
    """Real ones, at 8,000 samples a second."""
    data = Path(os.environ.get("REGARD_DATA", "")) / "fsdd"
    archive = next(iter(sorted(data.glob("*.tar*"))), None) if os.environ.get("REGARD_DATA") else None
    if archive is None:
        pytest.skip("the recordings of fsdd are not there: set REGARD_DATA")
    with tarfile.open(archive) as packed:
        names = [name for name in packed.getnames() if name.endswith(".wav")][:count]
        waves = [packed.extractfile(name).read() for name in names]
    return [np.frombuffer(wave[44:], "<i2").astype(np.float32) / 2**15 for wave in waves]


@pytest.mark.parametrize("norm", [True, False])
def test_recordings_are_heard_as_transformers_hears_them(tmp_path, norm):
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    (tmp_path / "v.json").write_text(json.dumps({"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5}))
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=norm, sampling_rate=8000)
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "v.json"))
    folder = tmp_path / "saved"
    transformers.Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer).save_pretrained(folder)
    ears = Ears.load(folder)
    assert (ears.rate, ears.norm) == (8000, norm)
    for wave in recordings():
        [theirs] = extractor(wave, sampling_rate=8000).input_values
        assert np.allclose(ears.ready(wave, 0), theirs, atol=1e-5)
    assert ears.files().items() <= {path.name: path.read_bytes() for path in folder.iterdir()}.items()


def test_ears_of_a_processor_with_several_parts(tmp_path):
    parts = {
        "feature_extractor": {"sampling_rate": 8000, "do_normalize": False},
        "processor_class": "Wav2Vec2Processor",
    }
    (tmp_path / "processor_config.json").write_text(json.dumps(parts))
    ears = Ears.load(tmp_path)
    assert (ears.rate, ears.norm) == (8000, False)
    assert ears.files() == {"processor_config.json": (tmp_path / "processor_config.json").read_bytes()}
    (tmp_path / "preprocessor_config.json").write_text('{"sampling_rate": 16000}')  # a nested part comes first
    assert Ears.load(tmp_path).rate == 8000
    assert Ears.load(tmp_path).files().keys() == {"processor_config.json", "preprocessor_config.json"}
    (tmp_path / "processor_config.json").write_text(
        '{"processor_class": "Wav2Vec2Processor"}'
    )  # as transformers 4 wrote
    assert Ears.load(tmp_path).rate == 16000
    (tmp_path / "processor_config.json").write_text("{")
    with pytest.raises(Problem, match=r"processor_config\.json cannot be used"):
        Ears.load(tmp_path)


def test_ears_as_others_write_them(tmp_path):
    said = {"sampling_rate": 8000, "do_normalize": False, "note": "kept"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said, indent=3))
    ears = Ears.load(tmp_path)
    assert (ears.rate, ears.norm) == (8000, False)
    assert ears.files()["preprocessor_config.json"] == (tmp_path / "preprocessor_config.json").read_bytes()
    (tmp_path / "preprocessor_config.json").write_text('{"sampling_rate": "fast"}')
    with pytest.raises(Problem, match="does not tell the rate"):
        Ears.load(tmp_path)
