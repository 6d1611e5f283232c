"""Letters, in the files that others know."""

from __future__ import annotations

import json
import os

import pytest

from regard.errors import Problem
from regard.text.letters import Letters

os.environ["HF_HUB_OFFLINE"] = "1"


def written(folder, letters: Letters):
    folder.mkdir(exist_ok=True)
    for name, content in letters.files().items():
        (folder / name).write_bytes(content)
    return folder


def test_letters_are_learned_from_transcripts(tmp_path):
    letters = Letters.learned(["zero one", "two"])
    assert [*letters.ids] == ["<pad>", "<s>", "</s>", "<unk>", "|", *sorted(set("zeroonetwo"))]
    assert (letters.blank, letters.space, letters.size) == (0, 4, 12)
    ids, unknown = letters.encode(" Zero  one! ")
    assert letters.decode(ids) == "zero one" and unknown == 1  # the case is the letters'; what is unknown is left out
    again = Letters.load(written(tmp_path, letters))
    assert (
        again is not None
        and dict(again.ids) == dict(letters.ids)
        and again.encode("two")[0] == letters.encode("two")[0]
    )
    assert again.files() == letters.files()


def test_the_reference_library_reads_and_decodes_the_same(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    letters = Letters.learned(["zero one", "two"])
    theirs = transformers.Wav2Vec2CTCTokenizer.from_pretrained(written(tmp_path, letters))
    assert theirs("zero one").input_ids == letters.encode("zero one")[0]
    frames = [0, letters.ids["o"], letters.ids["o"], 0, 4, 4, letters.ids["n"], 0, letters.ids["e"]]
    told = [id for id, before in zip(frames, [0, *frames], strict=False) if id not in (before, 0)]
    assert theirs.decode(frames) == letters.decode(told) == "o ne"


def test_a_folder_of_others_goes_back_as_it_came(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    (tmp_path / "vocab.json").write_text(json.dumps({"[PAD]": 0, "_": 1, "A": 2, "B": 3, "<unk>": 4}))
    made = transformers.Wav2Vec2CTCTokenizer(
        tmp_path / "vocab.json", pad_token="[PAD]", word_delimiter_token="_", bos_token=None, eos_token=None
    )
    made.save_pretrained(tmp_path / "theirs")
    letters = Letters.load(tmp_path / "theirs")
    assert letters is not None and (letters.blank, letters.space) == (0, 1)
    assert letters.encode("ab a")[0] == [2, 3, 1, 2]
    for name, content in letters.files().items():
        assert content == (tmp_path / "theirs" / name).read_bytes()


def test_what_cannot_be(tmp_path):
    assert Letters.load(tmp_path) is None
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    with pytest.raises(Problem, match="lacks '<pad>'"):
        Letters.load(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": -1}')
    with pytest.raises(Problem, match="no id"):
        Letters.load(tmp_path)
    with pytest.raises(Problem, match="no letters"):
        Letters.learned(["", " "])
