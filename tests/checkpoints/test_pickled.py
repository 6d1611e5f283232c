"""Pickled weights come back as they were, and nothing that a pickle asks for is done."""

import os
import subprocess
import sys
import warnings
import zipfile

import pytest
import torch

from regard.checkpoints import pickled
from regard.checkpoints.pickled import extract, read_pickled, reason, ties_of, weights_in
from regard.errors import Problem

TABLE = torch.arange(12.0).view(4, 3)


class Calls:
    """Unpickled plainly, it calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(path, content, **options):
    torch.save(content, path, **options)
    return path


@pytest.mark.parametrize("archive", [True, False], ids=["zip", "older"])
def test_weights_come_back_as_they_were(tmp_path, monkeypatch, archive):
    content = {
        "table": TABLE,
        "turned": TABLE.T,
        "part": TABLE[1:3],
        "again": TABLE,
        "count": torch.tensor(7),
        "half": torch.ones(2, 2, dtype=torch.bfloat16),
        "none": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "version": 3,
        "\x1b[2Jclear": TABLE,
    }
    path = saved(tmp_path / "model.bin", content, _use_new_zipfile_serialization=archive)
    monkeypatch.setattr(torch, "load", None)  # this process does not unpickle
    with pytest.warns(UserWarning) as told:
        found = read_pickled(path)
    kept = [name for name in content if name not in ("again", "version", "\x1b[2Jclear")]
    assert sorted(found) == sorted(kept)
    for name in kept:
        assert torch.equal(found[name], content[name]) and found[name].dtype == content[name].dtype
    assert [str(warning.message) for warning in told] == [
        f"{path}: again is table again, and was left out",
        f"{path}: [2Jclear is table again, and was left out",
        f"{path}: entries that are no weights and were left out: 1",
    ]


def test_nothing_is_told_where_nothing_is_left_out(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_pickled(saved(tmp_path / "model.pt", {"table": TABLE})).keys() == {"table"}


@pytest.mark.parametrize(
    "found, others",
    [({"table": TABLE}, 0),
     ({"table": TABLE, 3: TABLE, "epoch": 3}, 2),
     ({"state_dict": {"table": TABLE}, "epoch": 3, "best": torch.tensor(0.9)}, 2),
     ({"model": {"table": TABLE, "step": 1}, "optimizer": {"state": {0: TABLE}}}, 2),
     ({"module": {"model": {"table": TABLE}}}, 0),
     ({"model": TABLE, "table": TABLE}, 0)],
)  # fmt: skip
def test_weights_are_found_where_training_scripts_put_them(found, others):
    tensors, count = weights_in(found)
    assert "table" in tensors and all(tensor is TABLE for tensor in tensors.values()) and count == others


@pytest.mark.parametrize(
    "found, told",
    [([TABLE], "a list instead of tensors"),
     (TABLE, "a Tensor instead of tensors"),
     ({}, "no tensors, but nothing"),
     ({"last_epoch": 3, "base_lrs": [0.1]}, "no tensors, but 'last_epoch', 'base_lrs'"),
     ({"state_dict": {"epoch": 3}, "table": TABLE}, "no tensors, but 'epoch'")],
)  # fmt: skip
def test_where_there_are_no_weights_it_is_told_what_there_is(found, told):
    with pytest.raises(Problem, match=told):
        weights_in(found)


def test_only_what_is_wholly_the_same_is_a_tie():
    empty = torch.empty(0)
    same = {"a": TABLE, "b": TABLE.T, "c": TABLE[:2], "d": TABLE.view(4, 3), "e": empty, "f": empty, "g": TABLE.clone()}
    assert ties_of(same) == {"d": "a"}


@pytest.mark.parametrize(
    "call, code, archive",
    [(os.system, "touch {}", True), (os.system, "touch {}", False), (exec, "open('{}', 'w')", True)],
    ids=["a command", "a command, older", "code"],
)
def test_what_a_pickle_asks_for_is_not_done(tmp_path, call, code, archive):
    marker, content = tmp_path / "marker", {"table": TABLE}
    content["extra"] = Calls(call, code.format(marker))
    path = saved(tmp_path / "model.bin", content, _use_new_zipfile_serialization=archive)
    with pytest.raises(Problem, match=r"it asks for (posix\.system|exec), which weights do not need") as refused:
        read_pickled(path)
    assert str(path) in str(refused.value) and "weights_only" not in str(refused.value)
    assert not marker.exists()
    torch.load(path, weights_only=False)
    assert marker.exists(), "the file is harmless, so nothing was shown"


ATTEMPTS = """
import os, pickle, shutil, socket, subprocess, sys
from pathlib import Path
from regard.checkpoints.pickled import confine

folder = Path(sys.argv[1])
harm = pickle.dumps(os.getcwd)
attempts = {
    "a command": lambda: os.system(f"touch {folder}/done"),
    "a program": lambda: subprocess.run(["touch", f"{folder}/done"]),
    "a fork": os.fork,
    "a connection": socket.socket,
    "a new file": lambda: open(folder / "done", "w"),
    "a change": lambda: open(folder / "here", "r+"),
    "an opening": lambda: os.open(folder / "here", os.O_WRONLY | os.O_TRUNC),
    "a removal": lambda: os.remove(folder / "here"),
    "a move": lambda: shutil.move(folder / "here", folder / "done"),
    "a pickle": lambda: pickle.loads(harm),
    "all memory": lambda: bytearray(2**40),
}
confine(folder / "here")
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, "was allowed")
    except (ValueError, MemoryError):
        pass
print("tried all")
"""


def test_even_code_that_got_through_would_find_no_way_out(tmp_path):
    (tmp_path / "here").write_text("kept")
    command = [sys.executable, "-c", ATTEMPTS, tmp_path]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "tried all\n"
    assert [path.name for path in tmp_path.iterdir()] == ["here"] and (tmp_path / "here").read_text() == "kept"


def cut(path, archive=True):
    whole = saved(path, {"table": torch.ones(1000)}, _use_new_zipfile_serialization=archive).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def bomb(path):
    """An archive of zeros, compressed."""
    saved(path, {"table": torch.zeros(10**6)})
    with zipfile.ZipFile(path) as plain:
        entries = {entry.filename: plain.read(entry) for entry in plain.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries.items():
            packed.writestr(name, content)


@pytest.mark.parametrize(
    "make, told",
    [(cut, "File is not a zip file"),
     (bomb, "it would unpack to 4,000,"),
     (lambda path: saved(path, {"table": TABLE, "more": Calls(bytearray, 2**45)}), "MemoryError")],
    ids=["cut", "bomb", "memory"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, make, told):
    path = tmp_path / "model.pt"
    make(path)
    with pytest.raises(Problem) as refused:
        read_pickled(path)
    message = str(refused.value)
    assert message.startswith(f"{path} cannot be read as weights: ") and told in message and "safetensors" in message


@pytest.mark.parametrize(
    "make, told",
    [(lambda path: cut(path, archive=False), "unexpected EOF"),
     (lambda path: path.write_bytes(b""), "EOFError"),
     (lambda path: path.write_text("[weights]\n"), "reading ended with"),
     (lambda path: saved(path, {"table": torch.ones(1).expand(10**6, 10**6)}), "would take 4,000,000,000,000 bytes"),
     (lambda path: saved(path, {"table": TABLE.to_sparse()}), "sparse"),
     (lambda path: saved(path, torch.nn.Linear(2, 2)), "it asks for torch.nn.modules.linear.Linear"),
     (lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(path), "TorchScript")],
    ids=["cut, older", "empty", "text", "expanded", "sparse", "module", "script"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # torch has its own to say
def test_the_reason_is_a_line_without_advice_to_trust_the_file(tmp_path, make, told):
    path = tmp_path / "model.pt"
    make(path)
    with pytest.raises(Exception) as ended:
        extract(path, tmp_path / "out")
    why = reason(ended.value)
    assert told in why and "\n" not in why and "weights_only=False" not in why and "add_safe_globals" not in why


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(Problem, match="there is no such file"):
        read_pickled(tmp_path / "model.bin")


def test_a_file_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    path = saved(tmp_path / "model.bin", {"table": TABLE})
    monkeypatch.setattr(pickled, "seconds", lambda path: 0.01)
    with pytest.raises(Problem, match="it was not read within"):
        read_pickled(path)
