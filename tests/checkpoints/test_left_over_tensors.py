"""Tensors that fit no layout: the layout that fits best is named with its faults, and tensors are left out by name."""

import json
import re

import pytest
import torch

from regard.checkpoints.files import load_tensors, load_weights, write_folder
from regard.checkpoints.fit import leave_out
from regard.commands.convert import convert
from regard.commands.load import load
from regard.errors import Problem, UsageProblem
from regard.models.folder import load_published

EXTRA = {f"adapter.{number}.weight": torch.ones(2) for number in range(9)}


@pytest.fixture
def changed(small_bert, tmp_path):
    """A folder like `small_bert`, with other tensors."""

    def write(tensors: dict[str, torch.Tensor], **settings):
        config = json.loads((small_bert / "config.json").read_text()) | settings
        texts = [path for path in small_bert.iterdir() if path.suffix == ".json" and path.name not in SKIPPED]
        files = {path.name: path.read_bytes() for path in texts} | {"config.json": json.dumps(config).encode()}
        write_folder(tmp_path / "changed", {**files, "model.safetensors": tensors})
        (tmp_path / "changed" / "manifest.json").unlink()
        return tmp_path / "changed"

    return write


SKIPPED = ("manifest.json", "config.json")


@pytest.fixture
def tensors(small_bert) -> dict[str, torch.Tensor]:
    return load_tensors(small_bert / "model.safetensors")


@pytest.mark.parametrize("named", [["BertForMaskedLM"], ["BertModel"], ["BertForQuestionAnswering"], None], ids=str)
def test_the_layout_that_fits_best_is_named_whatever_the_config_calls_it(changed, tensors, named):
    folder = changed(tensors | EXTRA, architectures=named)
    with pytest.raises(Problem) as found:
        load_published(folder)
    listed = ", ".join(f"adapter.{number}.weight" for number in range(6))
    assert f"BertForMaskedLM fits best: too many (9): {listed}, ..." in str(found.value)
    assert "--ignore-tensors" in str(found.value) and "missing" not in str(found.value)


def test_what_is_missing_and_misshapen_is_told_beside_it(changed, tensors):
    gone, bent = "bert.encoder.layer.1.output.dense.bias", "bert.encoder.layer.0.intermediate.dense.bias"
    some = {name: tensor for name, tensor in tensors.items() if name != gone}
    folder = changed(some | {"surprise": torch.ones(2), bent: torch.ones(3)})
    with pytest.raises(Problem) as found:
        load_published(folder)
    told = re.search("BertForMaskedLM fits best: (.*)", str(found.value))[1]
    assert told.startswith(f"too many (1): surprise. missing (1): {gone}. of another shape or type (1): {bent} is [3]")


def test_tensors_are_left_out_by_name(changed, tensors, small_bert, tmp_path):
    folder = changed(tensors | EXTRA | {"surprise": torch.ones(2)})
    patterns = ["adapter.*", "surprise"]
    reader, plain = load(folder, "cpu", ignore=patterns), load(small_bert, "cpu")
    assert reader.fill("the [MASK] sat") == plain.fill("the [MASK] sat")
    reader.save(tmp_path / "saved")
    assert load_weights(tmp_path / "saved").keys() == tensors.keys()
    out = convert(folder, tmp_path / "converted", ignore=patterns)
    assert load(out, "cpu").fill("the [MASK] sat") == plain.fill("the [MASK] sat")


def test_a_head_that_is_left_out_is_gone_and_a_part_of_the_body_is_missed(changed, tensors):
    folder = changed(tensors)
    assert not load(folder, "cpu", ignore=["cls.*"]).model.heads
    norm = "bert.embeddings.LayerNorm"
    with pytest.raises(Problem, match=rf"missing \(2\): {norm}.weight, {norm}.bias"):
        load(folder, "cpu", ignore=["*.embeddings.LayerNorm.*"])


def test_the_command_writes_a_folder_without_them(changed, tensors, tmp_path, call):
    folder = changed(tensors | EXTRA)
    refused = call("fill", "--model", folder, "the [MASK] sat")
    assert refused.code == 1 and "too many (9): adapter.0.weight" in refused.err
    patterns = ["--ignore-tensors", "adapter.[0-4].*", "--ignore-tensors", "adapter.*"]
    done = call("convert", folder, tmp_path / "out", *patterns)
    assert done.code == 0, done.err
    assert call("fill", "--model", tmp_path / "out", "the [MASK] sat").code == 0


def test_a_pattern_that_nothing_matches_is_told(tensors):
    with pytest.raises(UsageProblem, match=r"folder: no tensor's name matches 'lm_haed\.\*'; there are: "):
        leave_out(tensors, ["lm_haed.*"], "folder")
    assert leave_out(tensors, [], "folder") == tensors
