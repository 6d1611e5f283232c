"""Running out of memory on a CPU, and sizes that can never be had, end in a sentence."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
from small_runs import RUNS, make_data
from toy import ENVIRONMENT, TRAIN, make_corpus, training

import regard
from regard.cli import main
from regard.errors import Problem, UsageProblem, is_out_of_memory
from regard.layers import host_memory
from regard.text.kinds import KINDS
from regard.text.tokenizer import MAX_VOCAB, Tokenizer

LIMITED = """
import resource, sys
import numpy, torch, regard.cli, regard.commands.translation_run, regard.commands.translate, regard.training.loop
torch.set_num_threads(1)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
regard.cli.main()
"""


def limited(room: int, *arguments: object) -> subprocess.CompletedProcess:
    """The command in a process that may take so many bytes more than it has once everything is imported."""
    command = [sys.executable, "-c", LIMITED, str(room), *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    "width, told",
    [(8192, ["parameters takes", "GB of memory are available", "Make it smaller"]),
     (256, ["Micro-batch 0", "does not fit in the memory of cpu", "half the tokens"])],
)  # fmt: skip
def test_a_process_with_little_memory_ends_in_a_sentence(tmp_path, width, told):
    """A model that will never fit, and one that does, with batches that do not."""
    corpus = make_corpus(tmp_path)
    for name in TRAIN:
        (corpus / name).write_bytes((corpus / name).read_bytes() * 20)
    changes = [f"embedding.width={width}", *(f"{side}.block.width={width}" for side in ("encoder", "decoder"))]
    wide = [word for change in changes for word in ("--set", change)]
    done = limited(300_000_000, *training(corpus, tmp_path / "run", *wide, "--budget", 60_000))
    assert done.returncode == 1 and all(words in done.stderr for words in told), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_can_never_be_is_refused(kind):
    with pytest.raises(UsageProblem, match=rf"a vocabulary of 1,000,000,000 .* is more than {MAX_VOCAB:,}"):
        Tokenizer.train(kind, ["a cat"], 10**9)


def test_every_way_in_which_memory_runs_out_is_known():
    with pytest.raises(RuntimeError) as torchs:
        torch.empty(2**60)
    with pytest.raises(MemoryError) as numpys:
        np.ones(2**58)
    assert is_out_of_memory(torchs.value) and is_out_of_memory(numpys.value) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("too much"))
    assert not is_out_of_memory(RuntimeError("shapes differ")) and not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize(
    "fault",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes.")],
)
def test_commands_that_use_a_model_say_it(monkeypatch, capsys, fault):
    def fails():
        raise fault

    monkeypatch.setitem(main.__globals__, "app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 1 and said.startswith("regard: there is not enough memory") and "smaller" in said


def test_other_errors_are_not_taken_for_it(monkeypatch):
    def fails():
        raise RuntimeError("shapes differ")

    monkeypatch.setitem(main.__globals__, "app", fails)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main()


def test_a_model_weights_and_a_training_that_do_not_fit_are_refused_with_the_numbers(tmp_path, monkeypatch):
    data = make_data(tmp_path)
    monkeypatch.setattr(host_memory, "available_memory", lambda: 1000)
    with pytest.raises(Problem, match=r"bert/model.safetensors takes 0\.0 GB, and 0\.0 GB of memory are available"):
        regard.load(data / "bert")
    with pytest.raises(Problem, match=r"A model of [\d,]+ parameters takes"):
        RUNS["translate"](data, tmp_path / "run")
    monkeypatch.setattr(host_memory, "check_model", lambda make: None)
    with pytest.raises(Problem, match="Training this model, beside its weights, takes"):
        RUNS["translate"](data, tmp_path / "run")
    monkeypatch.setattr(host_memory, "available_memory", lambda: None)  # a system that does not tell
    assert regard.load(data / "bert")


def test_what_is_available_is_not_more_than_a_limit(monkeypatch):
    known = host_memory.available_memory()
    assert known is None or known > 0
    pages = 2**40 // resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (pages, pages))
    assert host_memory.available_memory() in (0, None)
