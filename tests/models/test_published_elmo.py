"""An ELMo in its authors' form: the numbers that their code made, with the state kept from sentence to sentence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.commands.convert import convert
from regard.commands.load import load
from regard.config import change
from regard.errors import Problem, UsageProblem
from regard.models.elmo import PRESETS
from regard.models.heads import new_encoder
from regard.models.published_elmo import elmo_config, elmo_weights
from regard.tasks.reader import Reader

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'regard[elmo]'")


@pytest.fixture(scope="module")
def published() -> Path:
    folder = Path(os.environ.get("REGARD_DATA", "nowhere")) / "elmo-fixture"
    if not folder.is_dir():
        pytest.skip("REGARD_DATA names no folder with elmo-fixture")
    return folder


@pytest.fixture(scope="module")
def reader(published, tmp_path_factory) -> Reader:
    return load(convert(published, tmp_path_factory.mktemp("elmo") / "converted"), "cpu")


@pytest.fixture(scope="module")
def stream(published) -> list[list[str]]:
    [sentences] = json.loads((published / "sentences.json").read_text())
    return [sentence.split() for sentence in sentences]


@pytest.fixture(scope="module")
def wanted(published, stream) -> list[np.ndarray]:
    """Of each sentence the last layer's states, forwards and backwards side by side."""
    with h5py.File(published / "lm_embeddings_0.hdf5") as file:
        return [np.concatenate(file[str(number)][...], -1) for number in range(len(stream))]


def largest_difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(float(abs(one - other).max()) for one, other in zip(found, wanted, strict=True))


def test_a_stream_of_sentences_has_the_vectors_of_the_authors_code(reader, stream, wanted):
    assert largest_difference(reader.sentence_stream().embed_words(stream), wanted) < 1e-6
    piecemeal = reader.sentence_stream()
    found = [vectors for words in stream for vectors in piecemeal.embed_words([words])]
    assert largest_difference(found, wanted) < 1e-6
    piecemeal.reset()
    assert largest_difference(piecemeal.embed_words(stream[:1]), wanted[:1]) < 1e-6


def test_without_a_stream_a_sentence_does_not_depend_on_those_before_it(reader, stream, wanted):
    found = reader.embed_words(stream)
    assert largest_difference(found[:1], wanted[:1]) < 1e-6  # nothing came before it
    assert largest_difference(found[1:], wanted[1:]) > 0.1
    assert largest_difference(reader.embed_words(stream[3:4]), found[3:4]) < 1e-6


def test_it_needs_no_vocabulary_and_is_saved_as_it_is(published, reader, stream, wanted, tmp_path):
    for name in ("options.json", "lm_weights.hdf5"):
        shutil.copy(published / name, tmp_path / name)
    bare = load(convert(tmp_path / "lm_weights.hdf5", tmp_path / "bare"), "cpu")
    assert bare.tokenizer.size == 3 < reader.tokenizer.size
    assert largest_difference(bare.sentence_stream().embed_words(stream), wanted) < 1e-6
    bare.save(tmp_path / "again")
    again = load(tmp_path / "again", "cpu")
    assert again.model.encoder.config.recurrent.cell_clip == again.model.encoder.config.recurrent.projection_clip == 3
    assert largest_difference(again.sentence_stream().embed_words(stream), wanted) < 1e-6


def test_every_array_is_accounted_for(published, tmp_path):
    shutil.copy(published / "options.json", tmp_path / "options.json")
    shutil.copyfile(published / "lm_weights.hdf5", tmp_path / "lm_weights.hdf5")
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        file["softmax/W"], file["softmax/b"] = np.ones((3, 2), "f4"), np.ones(3, "f4")
    with pytest.raises(Problem, match=r"2 arrays are too many: softmax/W, softmax/b\. .* --ignore-tensors"):
        convert(tmp_path, tmp_path / "out")
    with pytest.raises(UsageProblem, match=r"no tensor's name matches 'sotfmax/\*'"):
        convert(tmp_path, tmp_path / "out", ignore=["sotfmax/*"])
    convert(tmp_path, tmp_path / "out", ignore=["softmax/*"])
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["CNN/b_cnn_2"]
    with pytest.raises(Problem, match="CNN/b_cnn_2 is missing"):
        convert(tmp_path, tmp_path / "out2", ignore=["softmax/*"])


def test_arrays_of_other_files_are_not_read(published, tmp_path):
    shutil.copy(published / "options.json", tmp_path / "options.json")
    shutil.copyfile(published / "lm_weights.hdf5", tmp_path / "lm_weights.hdf5")
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink(str(published / "lm_weights.hdf5"), "/char_embed")
    with pytest.raises(Problem, match="char_embed is missing"):
        convert(tmp_path, tmp_path / "out")
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (261, 4), "f4", external=[(str(published / "options.json"), 0, 261 * 16)])
    with pytest.raises(Problem, match="char_embed takes its numbers from another file"):
        convert(tmp_path, tmp_path / "out")
    with h5py.File(tmp_path / "lm_weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (10**12, 4), "f4", chunks=(1000, 4))
    with pytest.raises(Problem, match=r"char_embed claims [\d,]+ bytes in a file of"):
        convert(tmp_path, tmp_path / "out")
    (tmp_path / "lm_weights.hdf5").write_bytes(b"junk")
    with pytest.raises(Problem, match="cannot be read as HDF5"):
        convert(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    "place, value, fault",
    [
        ("char_cnn.n_characters", 300, "n_characters is 300"),
        ("char_cnn.filters", [[1, 4], [3, 8]], r"filters are over \[1, 3\] characters"),
        ("char_cnn.activation", "swish", "swish"),
        ("lstm.projection_dim", "16", "not the options.json|expected int"),
        ("lstm.cell_clip", -3, "cell_clip=-3"),
        ("char_cnn", None, "not the options.json"),
    ],
)
def test_options_that_mean_something_else_are_refused(published, place, value, fault):
    options = json.loads((published / "options.json").read_text())
    *path, last = place.split(".")
    inner = options[path[0]] if path else options
    inner[last] = value
    with pytest.raises(Problem, match=fault):
        elmo_config(options, 3, "options.json")


def test_skip_connections_tanh_and_no_projection_are_part_of_the_config():
    characters = {"n_characters": 262, "filters": [[1, 4], [2, 8]], "embedding": {"dim": 4}, "activation": "tanh"}
    characters |= {"max_characters_per_token": 20, "n_highway": None}
    lstm = {"projection_dim": 12, "dim": 12, "n_layers": 2, "cell_clip": 3, "proj_clip": 3}
    lstm |= {"use_skip_connections": True}
    config = elmo_config({"lstm": lstm, "char_cnn": characters}, 3, "options.json")
    assert config.recurrent.residual and config.embedding.activation == "tanh" and config.embedding.highways == 0
    assert (config.recurrent.cells, config.recurrent.cell_clip, config.recurrent.projection_clip) == (None, 3, None)
    arrays = {"char_embed": torch.randn(261, 4)}
    for number, (size, count) in enumerate(characters["filters"]):
        arrays |= {f"CNN/W_cnn_{number}": torch.randn(1, size, 4, count), f"CNN/b_cnn_{number}": torch.randn(count)}
    for way in range(2):
        for layer in range(2):
            place = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            arrays |= {f"{place}W_0": torch.randn(24, 48), f"{place}B": torch.randn(48)}
    weights = elmo_weights(config, arrays, "weights.hdf5")
    model = new_encoder("elmo", config, ()).model
    assert {name: tensor.shape for name, tensor in model.state_dict().items()} == {
        name: tensor.shape for name, tensor in weights.items()
    }
    assert torch.equal(weights["encoder.embed.project.weight"], torch.eye(12))


def test_vectors_of_a_file_with_its_state_kept(reader, stream, wanted, tmp_path, call):
    reader.save(tmp_path / "elmo")
    (tmp_path / "text.txt").write_text("".join(" ".join(words) + "\n" for words in stream))
    words = ["embed", "--model", tmp_path / "elmo", "--file", tmp_path / "text.txt", "--out", tmp_path / "vectors.npy"]
    assert call(*words, "--keep-state").code == 0
    expected = reader.sentence_stream().embed([" ".join(words) for words in stream])
    assert np.allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)
    assert not np.allclose(expected, reader.embed([" ".join(words) for words in stream]), atol=1e-3)


def test_a_model_without_state_says_so(small_bert):
    with pytest.raises(UsageProblem, match="keeps no state between texts"):
        load(small_bert, "cpu").sentence_stream()


def test_clips_are_saved_with_a_model_of_ours():
    config = change(PRESETS["elmo-tiny"], "recurrent.cell_clip", 0.1)
    files = new_encoder("elmo", config, ()).files()
    assert json.loads(files["config.json"])["recurrent"]["cell_clip"] == 0.1
