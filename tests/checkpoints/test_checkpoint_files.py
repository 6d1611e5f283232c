import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.checkpoints import files
from regard.checkpoints.files import (
    check_folder,
    check_room,
    load_tensors,
    remove_folder,
    sweep,
    write_file,
    write_folder,
)
from regard.errors import Problem

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b.c": torch.tensor([1, 2], dtype=torch.int64)}
CONTENT = {"model.safetensors": TENSORS, "state.json": b'{"step": 3}'}


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "whole", CONTENT)
    return tmp_path / "whole"


def test_a_folder_comes_back_as_it_was_written(folder):
    check_folder(folder)
    loaded = load_tensors(folder / "model.safetensors")
    assert loaded.keys() == TENSORS.keys()
    assert all(torch.equal(loaded[name], TENSORS[name]) for name in TENSORS)
    assert json.loads((folder / "state.json").read_bytes()) == {"step": 3}
    assert os.listdir(folder.parent) == ["whole"]


def test_tensors_may_be_slices_and_transposed(tmp_path):
    odd = {"t": TENSORS["a"].T, "s": torch.arange(10.0)[::2]}
    write_file(tmp_path / "odd.safetensors", odd)
    loaded = load_tensors(tmp_path / "odd.safetensors")
    assert all(torch.equal(loaded[name], odd[name]) for name in odd)


def test_a_folder_is_never_overwritten(folder):
    with pytest.raises(Problem, match=r"whole exists already.*[Rr]emove"):
        write_folder(folder, {"state.json": b"new"})
    check_folder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "manifest.json"])
def test_what_is_missing_or_cut_is_named(folder, name):
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Problem, match=re.escape(str(path))):
        check_folder(folder)
    path.unlink()
    with pytest.raises(Problem, match=re.escape(str(path))):
        check_folder(folder)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_is_found(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("bits") / "whole"
    write_folder(folder, CONTENT)
    path = folder / data.draw(st.sampled_from(sorted(CONTENT)))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(Problem, match=r"damaged: its bytes"):
        check_folder(folder)


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"files": {"x": 1}}', b'{"files": [1]}', b"\xff"])
def test_a_manifest_of_nonsense_is_a_problem(folder, manifest):
    (folder / "manifest.json").write_bytes(manifest)
    with pytest.raises(Problem, match=r"manifest\.json cannot be read"):
        check_folder(folder)


@settings(max_examples=60, deadline=None)
@given(junk=st.binary(max_size=60))
def test_a_lying_safetensors_file_is_a_problem(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("junk") / "junk.safetensors"
    for content in (junk, len(junk).to_bytes(8, "little") + junk, (2**60).to_bytes(8, "little") + junk):
        path.write_bytes(content)
        try:
            load_tensors(path)
        except Problem as problem:
            assert str(path) in str(problem)


def test_a_missing_tensor_file_is_a_problem(tmp_path):
    with pytest.raises(Problem, match=r"absent\.safetensors cannot be read"):
        load_tensors(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_refuses_is_explained_and_nothing_is_left(tmp_path, monkeypatch, code):
    write_file(tmp_path / "old.json", b"old")

    def refuse(descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "fsync", refuse)
    message = rf"48 bytes.*{os.strerror(code)}.*untouched"
    with pytest.raises(Problem, match=message):
        write_folder(tmp_path / "new", {"a.safetensors": {"a": torch.zeros(12)}})
    with pytest.raises(Problem, match=re.escape(str(tmp_path / "old.json"))):
        write_file(tmp_path / "old.json", b"new")
    assert os.listdir(tmp_path) == ["old.json"]
    assert (tmp_path / "old.json").read_bytes() == b"old"


def test_a_limit_on_file_sizes_leaves_the_old_file(tmp_path):
    """A real refusal by the system, in the middle of a write."""
    path = tmp_path / "old.json"
    write_file(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(Problem, match=r"5,000 bytes.*File too large"):
            write_file(path, b"x" * 5000)
        with pytest.raises(Problem, match=r"5,000 bytes.*File too large"):
            write_folder(tmp_path / "new", {"x": b"x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old.json"]


def test_a_read_only_folder_is_known_before_it_is_needed(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(Problem, match="Permission denied"):
        check_room(tmp_path, 1)
    tmp_path.chmod(0o700)


def test_room_is_known_before_it_is_needed(tmp_path):
    check_room(tmp_path / "run", 1000)
    with pytest.raises(Problem, match=r"1,000,000,000,000,000,000 bytes .* are free"):
        check_room(tmp_path / "run", 10**18)
    assert os.listdir(tmp_path / "run") == []


def test_sweeping_takes_our_leftovers_only(tmp_path):
    for name in (".step-1.partial-77", "step-2", ".hidden", "partial-3"):
        (tmp_path / name).mkdir()
    (tmp_path / ".state.json.partial-12").write_bytes(b"x")
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "partial-3", "step-2"]


def test_removing_takes_the_whole_folder(folder):
    remove_folder(folder)
    assert os.listdir(folder.parent) == []


WRITER = """
import sys; from pathlib import Path; from regard.checkpoints.files import write_folder
print("ready", flush=True)
for number in range(10**6):
    write_folder(Path(sys.argv[1]) / f"folder-{number}", {f"file-{i}": bytes(20_000) for i in range(5)})
"""


def test_a_killed_writer_leaves_whole_folders_only(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    while len(os.listdir(tmp_path)) < 20:
        pass
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    whole = list(tmp_path.glob("folder-*"))
    assert whole
    for folder in whole:
        check_folder(folder)
