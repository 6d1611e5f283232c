"""Sound from files: every width and kind of samples, other rates, and all that may be wrong with a recording."""

from __future__ import annotations

import io
import resource
import struct
import sys
import wave

import numpy as np
import pytest

from regard.data.sounds import PIECE, read_sound, resampled, stream_sound
from regard.errors import Problem

from made_sounds import RATE, TONE, header, written  # isort: skip


@pytest.mark.parametrize("bits, kind", [(8, 1), (16, 1), (24, 1), (32, 1), (32, 3), (64, 3)])
def test_samples_of_every_kind(bits, kind):
    found = read_sound(written(TONE, bits, kind=kind), RATE)
    assert found.dtype == np.float32 and len(found) == RATE
    np.testing.assert_allclose(found, TONE, atol=1.1 / 2 ** min(bits - 1, 23))


def test_what_the_standard_library_writes(tmp_path):
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.stack([TONE, 0 * TONE], 1) * 32767).astype("<i2").tobytes())
    np.testing.assert_allclose(read_sound(path, RATE), TONE / 2, atol=1e-4)  # two channels are mixed


def test_the_extensible_header_and_lengths_of_writers_that_stream():
    guid = b"\x01\x00" + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    data = (TONE * 32767).astype("<i2").tobytes()
    extensible = header(0xFFFE, 1, RATE, 16, len(data), struct.pack("<HHI", 22, 16, 0) + guid) + data
    np.testing.assert_allclose(read_sound(extensible, RATE), TONE, atol=1e-4)
    for unknown in (0, 0xFFFFFFFF):
        assert len(read_sound(header(1, 1, RATE, 16, unknown) + data, RATE)) == RATE
    assert len(read_sound(written(TONE, 16).replace(b"RIFF", b"RF64"), RATE)) == RATE


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000])
def test_another_rate_is_the_same_tone(rate):
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    found = read_sound(written(tone, 16, rate=rate), 16000)
    assert len(found) == 16000
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    np.testing.assert_allclose(found[500:-500], wanted[500:-500], atol=2e-3)


def test_what_is_too_high_for_the_rate_is_not_heard_as_something_else():
    high = 0.5 * np.sin(2 * np.pi * 30_000 * np.arange(96_000) / 96_000)
    assert abs(read_sound(written(high, 16, rate=96_000), 16_000)[500:-500]).max() < 0.01


def test_pieces_come_out_as_if_all_had_been_there_at_once():
    from scipy.signal import resample_poly

    sound = np.random.default_rng(0).standard_normal(30_011).astype(np.float32)
    whole = resample_poly(sound, 160, 441)
    for size in (len(sound), 1000, 441, 97):
        pieces = (sound[start : start + size] for start in range(0, len(sound), size))
        found = np.concatenate([*resampled(pieces, 44100, 16000)])
        assert len(found) == len(whole)
        np.testing.assert_allclose(found, whole, atol=1e-6)


# What may be wrong


def test_a_recording_without_samples():
    with pytest.raises(Problem, match=r"a\.wav has no samples"):
        read_sound(written(TONE[:0], 16) + b"", RATE, "a.wav")
    with pytest.raises(Problem, match=r"a\.wav is empty"):
        read_sound(b"", RATE, "a.wav")


@pytest.mark.parametrize("rate", [8000, 16000, 4000])
def test_a_recording_of_one_sample(rate):
    assert len(read_sound(written(TONE[1:2], 16), rate)) == -(-rate // RATE)


def test_a_sample_that_is_no_number_is_told_by_its_time():
    for wrong in (np.nan, np.inf):
        sound = TONE.copy()
        sound[4000] = wrong
        with pytest.raises(Problem, match=r"the sample at 0\.500 s is no finite number"):
            read_sound(written(sound, 32, kind=3), RATE)


def test_a_file_that_was_cut_is_read_as_far_as_it_goes():
    with pytest.warns(UserWarning, match="was cut: 7,001 of 16,000 bytes"):
        assert len(read_sound(written(TONE, 16)[: -16_000 + 7001], RATE)) == 3500
    for cut in (14, 40, 50):  # in its header
        with pytest.raises(Problem, match="cut"):
            read_sound(written(TONE, 16)[:cut], RATE, "a.wav")


@pytest.mark.parametrize("rate, channels", [(0, 1), (7, 1), (2**31, 1), (RATE, 0), (RATE, 60_000)])
def test_a_header_that_cannot_be(rate, channels):
    with pytest.raises(Problem, match="which cannot be"):
        read_sound(header(1, channels, rate, 16, 4) + bytes(4), RATE)


@pytest.mark.parametrize("kind, bits", [(1, 12), (6, 8), (17, 4), (3, 16)])
def test_samples_written_in_a_way_that_is_not_known(kind, bits):
    with pytest.raises(Problem, match="convert it to 16-bit PCM"):
        read_sound(header(kind, 1, RATE, bits, 4) + bytes(4), RATE)


def test_samples_before_they_are_described():
    with pytest.raises(Problem, match="before it is said how"):
        read_sound(b"RIFF\x10\x00\x00\x00WAVEdata\x04\x00\x00\x00abcd", RATE)


def test_what_is_no_sound(tmp_path):
    with pytest.raises(Problem, match=r"nowhere\.wav cannot be read"):
        read_sound(tmp_path / "nowhere.wav", RATE)
    pytest.importorskip("soundfile")
    with pytest.raises(Problem, match=r"cannot be read as sound"):
        read_sound(b"this is a text, whatever it is called", RATE, "a.wav")


def test_without_soundfile_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(Problem, match=r"pip install 'regard\[audio\]'"):
        read_sound(b"fLaC and so on", RATE, "a.flac")


def test_flac_and_the_same_cut_in_the_middle():
    soundfile = pytest.importorskip("soundfile", reason="the extra 'audio' is not installed")
    file = io.BytesIO()
    soundfile.write(file, np.stack([TONE, TONE], 1), RATE, format="FLAC")
    found = read_sound(file.getvalue(), 16000)
    assert len(found) == 16000
    np.testing.assert_allclose(found[1000:1008:2], TONE[500:504], atol=1e-3)
    try:
        half = len(read_sound(file.getvalue()[: len(file.getvalue()) // 2], RATE, "a.flac"))
    except Problem as problem:
        assert "a.flac" in str(problem)
    else:
        assert half < RATE


def test_three_hours_need_little_memory(tmp_path):
    """As long as a lecture, at 44.1 kHz and in stereo: read piece by piece, and never held whole."""
    path, frames = tmp_path / "long.wav", 3 * 3600 * 44_100
    with open(path, "wb") as file:
        file.write(header(1, 2, 44_100, 16, frames * 4))
        file.truncate(len(header(1, 2, 44_100, 16, 0)) + frames * 4)  # a file of holes, which are zeros
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    heard = largest = 0
    for number, piece in enumerate(stream_sound(path, 16_000)):
        heard, largest = heard + len(piece), max(largest, len(piece))
        if number == 40:  # a while: all would take a minute
            break
    assert largest <= PIECE and heard > 16_000 * 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
