"""verify: what a folder is, and what is wrong with it."""

import shutil
import sys

import pytest
import torch

import regard
from regard.checkpoints.files import MANIFEST, load_tensors, write_folder
from regard.cli import main
from regard.errors import Problem
from regard.models.folder import load_published


def copied(folder, to, change):
    """A folder whose tensors were changed, and which says nothing of what was written."""
    shutil.copytree(folder, to)
    (to / MANIFEST).unlink()
    tensors = load_tensors(to / "model.safetensors")
    change(tensors)
    write_folder(to / "new", {"model.safetensors": tensors})
    (to / "new" / "model.safetensors").replace(to / "model.safetensors")
    shutil.rmtree(to / "new")
    return to


def nan(tensors):
    tensors["bert.embeddings.word_embeddings.weight"][0, 0] = torch.nan


def test_a_sound_folder_is_told_to_be(small_bert, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regard", "verify", str(small_bert)])
    with pytest.raises(SystemExit) as ended:
        main()
    first, second = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert "every file is as it was written" in first and "all numbers finite" in second


def test_a_flipped_byte_is_found(small_bert, tmp_path):
    shutil.copytree(small_bert, tmp_path / "bert")
    path = tmp_path / "bert" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(Problem, match=r"model.safetensors is damaged: its bytes are not those that were written"):
        list(regard.verify(tmp_path / "bert"))


def test_numbers_that_are_not_finite_are_told_when_loaded_and_refused_here(small_bert, tmp_path):
    folder = copied(small_bert, tmp_path / "bert", nan)
    with pytest.warns(UserWarning, match="not all numbers are finite in encoder.embed.tokens.weight"):
        load_published(folder)
    with pytest.warns(UserWarning), pytest.raises(Problem, match="not all numbers are finite"):
        list(regard.verify(folder))


def test_tensors_of_whole_numbers_are_no_weights(small_bert, tmp_path):
    def whole(tensors):
        tensors["bert.embeddings.LayerNorm.weight"] = tensors["bert.embeddings.LayerNorm.weight"].to(torch.int32)

    with pytest.raises(Problem, match=r"LayerNorm.weight is \[16\] int32, here .*\[16\] float32"):
        load_published(copied(small_bert, tmp_path / "bert", whole))


def test_a_folder_of_others_has_no_manifest(small_bert, tmp_path):
    told = list(regard.verify(copied(small_bert, tmp_path / "bert", lambda tensors: None)))
    assert "cannot be told" in told[0] and "all numbers finite" in told[1]
    with pytest.raises(Problem, match="there is no such folder"):
        list(regard.verify(tmp_path / "nowhere"))
