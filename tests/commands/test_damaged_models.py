"""A model folder that is not as it should be: exit 1, the file named, no traceback, whatever the damage."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy import WORDS

import regard


@pytest.fixture
def folder(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


def refused(call, folder, *told):
    """Every command that loads a model says the same."""
    for command in (["translate", "--model", folder], ["show", folder]):
        done = call(*command, stdin=b"a man\n")
        assert done.code == 1 and done.out == "", done
        assert done.err.startswith("regard: ") and done.err.count("\n") == 1, done.err
        for words in told:
            assert words in done.err


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_the_manifest_knows_every_file(call, folder, name, harm):
    harm(folder / name)
    refused(call, folder, str(folder / name))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("harm", [cut, Path.unlink, lambda path: path.write_bytes(b"")])
def test_without_a_manifest_a_file_that_is_not_whole_is_named(call, folder, name, harm):
    (folder / "manifest.json").unlink()
    harm(folder / name)
    refused(call, folder, name)


def reconfigured(folder, **changes):
    """The folder with another config, and no manifest that knows of it."""
    (folder / "manifest.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    for path, value in changes.items():
        *inner, name = path.split("__")
        place = config
        for part in inner:
            place = place[part]
        place[name] = value
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "path, value, told",
    [("model_type", "tranformer", "did you mean 'transformer'?"),
     ("model_type", ["transformer"], "names no model_type"),
     ("auto_map", {"AutoModel": "evil.Model"}, "auto_map"),
     ("encoder__layerz", 3, "did you mean 'layers'?"),
     ("encoder", 3, "encoder: expected an object"),
     ("encoder__layers", -1, "layers=-1"),
     ("encoder__layers", 10**9, "layers=1000000000"),
     ("encoder__layers", 2, "encoder.blocks.1"),
     ("encoder__layers", "2", "encoder.layers: expected int, found '2'"),
     ("encoder__block__inner", 10**7, "[64, 32], here [10000000, 32]"),
     ("encoder__block__attention__heads", 5, "does not divide into 5 heads"),
     ("encoder__block__attention__size", -8, "size=-8"),
     ("encoder__block__dropout", 1.5, "dropout=1.5"),
     ("encoder__block__dropout", float("nan"), "dropout=nan"),
     ("embedding__width", 0, "width=0"),
     ("embedding__width", 10**9, "width=1000000000"),
     ("embedding__width", 16, "embedding.width=16, encoder.block.width=32"),
     ("embedding__vocab", 0, "vocab=0"),
     ("target_vocab", 0, "target_vocab=0"),
     ("decoder__causal", False, "decoder.causal")],
)  # fmt: skip
def test_a_config_that_cannot_be_is_refused_and_the_field_named(call, folder, path, value, told):
    reconfigured(folder, **{path: value})
    refused(call, folder, str(folder), told)


def test_json_that_is_no_config_is_refused(call, folder):
    (folder / "manifest.json").unlink()
    for text in ("[]", "3", "[" * 100_000, "\x00", '{"model_type": null}'):
        (folder / "config.json").write_text(text)
        refused(call, folder, "config.json")


@pytest.mark.parametrize("change", ["missing", "extra", "reshaped"])
def test_every_tensor_is_accounted_for(call, folder, change):
    (folder / "manifest.json").unlink()
    tensors = load_file(folder / "model.safetensors")
    name = "encoder.blocks.0.feed.up.bias"
    tensors["surprise"] = torch.zeros(2)
    if change != "extra":
        del tensors["surprise"]
        tensors[name] = tensors[name][:-1].clone()
    if change == "missing":
        del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    refused(call, folder, "model.safetensors", "surprise" if change == "extra" else name)


def test_the_tokenizer_of_another_model_is_refused(call, folder):
    (folder / "manifest.json").unlink()
    regard.Tokenizer.train("words", list(WORDS), 20).save(folder / "tokenizer.json")
    refused(call, folder, "tokenizer.json", "belongs to another model")


def test_a_pickle_is_never_read(call, folder):
    (folder / "manifest.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(call, folder, "model.safetensors")


def test_no_folder_an_empty_one_and_a_file(call, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, told in (("empty", "config.json is missing"), ("file", "no such folder"), ("none", "no such folder")):
        done = call("translate", "--model", tmp_path / name, stdin=b"a man\n")
        assert done.code == 1 and name in done.err and told in done.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("what", ["fifo", "link to a fifo", "link to a device"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(call, folder, tmp_path, name, what):
    (folder / name).unlink()
    if what == "link to a device":
        (folder / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "pipe").rename(folder / name) if what == "fifo" else (folder / name).symlink_to(tmp_path / "pipe")
    refused(call, folder, str(folder / name), "not a regular file")


def test_a_pickle_that_is_no_regular_file_is_not_converted(call, folder, tmp_path):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").symlink_to("/dev/zero")
    done = call("convert", folder, tmp_path / "converted")
    assert done.code == 1 and "pytorch_model.bin" in done.err and "Traceback" not in done.err
