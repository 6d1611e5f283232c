"""Sets of pictures: folders, tables, IDX files, archives; decoded once; and how a model wants them."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.galleries import read_gallery
from regard.data.picture_cache import PictureBatches, PictureCache
from regard.data.preprocessor import FILE, Preprocessor
from regard.data.reading import Reading
from regard.errors import Problem

RANDOM = np.random.default_rng(0)


def picture(side: int = 8) -> Image.Image:
    return Image.fromarray(RANDOM.integers(0, 255, (side, side, 3)).astype(np.uint8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cat/1.png", "cat/2.png", "dog/deep/1.png"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        picture().save(tmp_path / "set" / name)
    return tmp_path / "set"


def test_a_folder_of_classes(folder):
    found = read_gallery(folder)
    assert found.labels == ["cat", "cat", "dog"] and found.read(2).shape == (8, 8, 3)
    assert found.lines() == [f"{folder}: 3 pictures of 2 kinds"]
    stamp = found.stamp
    picture(9).save(folder / "cat/2.png")
    assert read_gallery(folder).stamp != stamp


def test_a_class_without_pictures_is_told(folder):
    (folder / "bird").mkdir()
    assert read_gallery(folder).lines()[-1].endswith("no pictures in bird")


def test_a_picture_without_a_class_is_told(folder):
    picture().save(folder / "lone.png")
    with pytest.raises(Problem, match=r"lone\.png has no label"):
        read_gallery(folder)
    assert len(read_gallery(folder, labelled=False)) == 4


def test_an_empty_folder_and_none_are_told(tmp_path):
    with pytest.raises(Problem, match="holds no pictures"):
        read_gallery(tmp_path)
    with pytest.raises(Problem, match="there is no such file or folder"):
        read_gallery(tmp_path / "none")


@pytest.mark.parametrize("name, text", [
    ("a.csv", "path,label\ncat/1.png,cat\ndog/deep/1.png,dog\n"),
    ("a.tsv", "cat/1.png\tcat\ndog/deep/1.png\tdog\n"),
    ("a.jsonl", '{"image": "cat/1.png", "class": "cat"}\n{"image": "dog/deep/1.png", "class": "dog"}\n'),
])  # fmt: skip
def test_a_table_of_paths(folder, name, text):
    (folder / name).write_text(text)
    found = read_gallery(folder / name)
    assert found.labels == ["cat", "dog"] and found.read(1).shape == (8, 8, 3)


@pytest.mark.parametrize("text, told", [
    ("path,label\ncat/1.png,cat\ncat/9.png,cat\n", r"line 3: there is no picture .*9\.png"),
    ("path,label\ncat/1.png,\n", "line 2: the label, in column 'label', is blank"),
    ("where,label\ncat/1.png,cat\n", "no column looks like the path; there are: where, label"),
])  # fmt: skip
def test_faults_of_a_table_are_told(folder, text, told):
    (folder / "a.csv").write_text(text)
    with pytest.raises(Problem, match=told):
        read_gallery(folder / "a.csv")
    if "where" in text:
        assert len(read_gallery(folder / "a.csv", Reading(text="where"))) == 1


def idx(folder: Path, pictures: bytes, labels: bytes, packed=lambda content: content, end="") -> Path:
    (folder / f"train-images-idx3-ubyte{end}").write_bytes(packed(pictures))
    (folder / f"train-labels-idx1-ubyte{end}").write_bytes(packed(labels))
    return folder / f"train-images-idx3-ubyte{end}"


PICTURES = struct.pack(">4I", 0x803, 2, 3, 4) + bytes(range(24))
LABELS = struct.pack(">2I", 0x801, 2) + bytes([7, 0])


@pytest.mark.parametrize("packed, end", [(lambda content: content, ""), (gzip.compress, ".gz")])
def test_idx_files(tmp_path, packed, end):
    found = read_gallery(idx(tmp_path, PICTURES, LABELS, packed, end))
    assert found.labels == ["7", "0"] and found.read(1)[..., 0].tolist() == np.arange(12, 24).reshape(3, 4).tolist()


@pytest.mark.parametrize("pictures, labels, told", [
    (PICTURES[:-1], LABELS, "should hold 24 bytes and holds 23"),
    (PICTURES[:9], LABELS, "damaged or incomplete"),
    (PICTURES, LABELS[:-1], "should hold 2 bytes and holds 1"),
    (PICTURES, struct.pack(">2I", 0x801, 1) + b"1", "2 pictures and .* 1 labels"),
    (LABELS, LABELS, "begins with 0x801 and not with 0x803"),
    (struct.pack(">4I", 0x803, 2**31, 2**31, 2**31), LABELS, "should hold"),
])  # fmt: skip
def test_faults_of_idx_files_are_told(tmp_path, pictures, labels, told):
    with pytest.raises(Problem, match=told):
        read_gallery(idx(tmp_path, pictures, labels))


def test_labels_that_are_not_there_are_told(tmp_path):
    path = idx(tmp_path, PICTURES, LABELS)
    path.with_name("train-labels-idx1-ubyte").unlink()
    with pytest.raises(Problem, match="train-labels-idx1-ubyte: the labels of"):
        read_gallery(path)


@pytest.fixture
def archive(tmp_path) -> Path:
    with tarfile.open(tmp_path / "all.tar.xz", "w:xz") as file:
        for name in ("train/dog/2.png", "train/cat/1.png", "test/cat/1.png", "../../evil/cat/1.png", "notes.txt"):
            content = io.BytesIO()
            picture().save(content, "PNG")
            entry = tarfile.TarInfo(name)
            entry.size = len(content.getvalue())
            file.addfile(entry, io.BytesIO(content.getvalue()))
    return tmp_path / "all.tar.xz"


def test_a_folder_in_an_archive(archive):
    found = read_gallery(archive / "train")
    assert found.labels == ["cat", "dog"] and found.read(0).shape == (8, 8, 3)
    with pytest.raises(Problem, match="no pictures in 'none'"):
        read_gallery(archive / "none")
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(Problem, match="damaged or incomplete"):
        read_gallery(archive / "train")


def test_sets_are_split_and_joined(folder):
    found = read_gallery(folder)
    both = found + found.take([2, 0], "some")
    assert both.labels == ["cat", "cat", "dog", "dog", "cat"]
    assert np.array_equal(both.read(3), found.read(2))


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA names no folder of data sets")
def test_real_digits():
    found = read_gallery(Path(os.environ["REGARD_DATA"]) / "mnist/t10k-images-idx3-ubyte.gz")
    assert len(found) == 10_000 and found.labels[:4] == ["7", "2", "1", "0"] and found.read(0).shape == (28, 28, 1)


# Decoded once


def test_pictures_are_decoded_once(folder, tmp_path):
    gallery, how = read_gallery(folder), Preprocessor.square(6)
    made = PictureCache.make(gallery, how, tmp_path / "cache")
    assert made.pixels.shape == (3, 6, 6, 3) and np.array_equal(made.pixels[1], how.fitted(gallery.read(1)))
    first = (tmp_path / "cache/pictures.npy").stat().st_mtime_ns
    PictureCache.make(gallery, how, tmp_path / "cache")
    assert (tmp_path / "cache/pictures.npy").stat().st_mtime_ns == first
    assert PictureCache.make(gallery, Preprocessor.square(5), tmp_path / "cache").pixels.shape == (3, 5, 5, 3)


def test_a_broken_picture_leaves_no_cache(folder, tmp_path):
    (folder / "cat/2.png").write_bytes((folder / "cat/2.png").read_bytes()[:60])
    with pytest.raises(Problem, match=r"2\.png cannot be read"):
        PictureCache.make(read_gallery(folder), Preprocessor.square(6), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_batches_follow_from_seed_and_position(folder, tmp_path):
    cache = PictureCache.make(read_gallery(folder), Preprocessor.square(6), tmp_path / "cache")
    wanted = np.array([0, 0, 1])
    apart, there = (PictureBatches(cache, wanted, 2, 5, on_device=way) for way in (False, True))
    for position in range(4):
        one, other = apart.at(position), there.at(position)
        numbers = other["numbers"].ids.numpy()
        assert np.array_equal(one["pixels"], cache.pixels[numbers]) and "pixels" not in other
        assert torch.equal(one["wanted"], torch.from_numpy(wanted[numbers]))


# How a model wants them


SETTINGS = [
    ("ViTImageProcessorPil", {"size": {"height": 12, "width": 10}}),
    ("ViTImageProcessorPil", {"size": {"height": 12, "width": 12}, "resample": 3, "image_mean": [0.1, 0.2, 0.3]}),
    ("ViTImageProcessorPil", {"do_resize": False, "image_std": [0.1, 0.2, 0.3]}),
    ("ViTImageProcessorPil", {"do_normalize": False, "size": {"height": 5, "width": 5}}),
    ("DeiTImageProcessorPil", {"size": {"height": 16, "width": 16}, "crop_size": {"height": 12, "width": 13}}),
    ("DeiTImageProcessorPil", {"size": {"height": 8, "width": 8}, "crop_size": {"height": 11, "width": 9}}),
]


@pytest.mark.parametrize("kind, settings", SETTINGS)
def test_pictures_are_prepared_as_the_reference_does(tmp_path, kind, settings):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    reference = getattr(transformers, kind)(**settings)
    reference.save_pretrained(tmp_path)
    ours = Preprocessor.load(tmp_path, 224, 3)
    image = picture(20).resize((23, 17))
    pixels = torch.tensor(ours.fitted(np.asarray(image)))
    found, wanted = ours.normal(ours.scaled(pixels)), reference(image, return_tensors="pt").pixel_values[0]
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
    assert ours.files()[FILE] == (tmp_path / FILE).read_bytes()


def test_pictures_of_a_processor_with_several_parts(tmp_path):
    settings = {"size": {"height": 9, "width": 7}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.3, 0.2, 0.1]}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": settings, "other": 1}))
    ours = Preprocessor.load(tmp_path, 224, 3)
    assert (ours.fixed, ours.mean, ours.spread) == ((9, 7), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1))
    assert ours.files() == {"processor_config.json": (tmp_path / "processor_config.json").read_bytes()}
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    image = picture(20)
    theirs = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)(image, return_tensors="pt").pixel_values[0]
    found = ours.normal(ours.scaled(torch.tensor(ours.fitted(np.asarray(image)))))
    torch.testing.assert_close(found, theirs, atol=1e-6, rtol=0)


def test_what_is_written_is_read_alike_by_the_reference(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    ours = Preprocessor.square(12)
    (tmp_path / FILE).write_bytes(ours.files()[FILE])
    image = picture(20)
    theirs = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)(image, return_tensors="pt").pixel_values[0]
    found = ours.normal(ours.scaled(torch.tensor(ours.fitted(np.asarray(image)))))
    torch.testing.assert_close(found, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("told", [
    {"size": 10**9}, {"size": "large"}, {"size": {"height": 0, "width": 4}}, {"image_mean": [1, 2]},
    {"image_std": [0, 1, 1]}, {"resample": "best"}, [], {"size": {"height": 4}},
])  # fmt: skip
def test_faults_of_a_preprocessor_are_told(tmp_path, told):
    (tmp_path / FILE).write_text(json.dumps(told))
    with pytest.raises(Problem, match=r"preprocessor_config\.json cannot be used"):
        Preprocessor.load(tmp_path, 224, 3)


def test_older_files_have_one_number_for_a_square():
    assert Preprocessor.of({"size": 224, "crop_size": 200, "do_center_crop": True}).fixed == (200, 200)
    assert Preprocessor.of({"size": {"shortest_edge": 10}}).fitted(np.zeros((20, 40, 3), np.uint8)).shape == (10, 20, 3)
