"""For all tests: one thread each, since the tensors are tiny and the processes many; no network; `call`, a command run
in this process, for torch loads slowly; a small published encoder; and a browser."""

import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.cli import main

torch.set_num_threads(1)
os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's library is first imported
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell turns it off for what runs in the background

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run"]
WORDS = ["the cat sat on the mat", "a dog", "the dog sat and the cat sat and the mat sat too", "sat mat cat dog"]


@pytest.fixture
def call(monkeypatch, capsys):
    """`call("translate", "--model", folder, stdin=b"...")`: what was printed, and the exit code."""
    pipe = signal.getsignal(signal.SIGPIPE)

    def run(*arguments: object, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=printed.out, err=printed.err)

    yield run
    signal.signal(signal.SIGPIPE, pipe)


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory) -> Path:
    """The folder of a small BERT with its masked head, as others would have published it."""
    from regard.checkpoints.files import write_folder
    from regard.checkpoints.weights import weights_of
    from regard.models import bert
    from regard.models.encoder import Encoder, HeadedEncoder, WordHead
    from regard.text.tokenizer import ENCODER, Tokenizer

    torch.manual_seed(0)
    tokenizer = Tokenizer.train("wordpiece", WORDS * 3, 37, special=ENCODER)
    config = bert.bert(3, 16, 2, tokenizer.size, longest=24)
    model = HeadedEncoder(Encoder(config), {"masked": WordHead(config)})
    settings = bert.SETTINGS.save(config, {"model_type": "bert", "architectures": ["BertForMaskedLM"]})
    tensors = bert.FAMILY.rules("BertForMaskedLM").save(weights_of(model))
    path = tmp_path_factory.mktemp("published") / "bert"
    files = {"config.json": json.dumps(settings).encode(), "model.safetensors": tensors}
    write_folder(path, {**files, **tokenizer.files()})
    return path


@pytest.fixture(scope="module")  # no longer: while it is open no other test of the process could run a loop of asyncio
def browser():
    """Chromium, or a skip that says what is missing."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser: pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"the page is tried in a real browser, and {CHROMIUM} is not there")
    with driver.sync_playwright() as started:
        found = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield found
        found.close()
