"""For all tests: one thread each, since the tensors are tiny and the processes many; no network; and a small published
encoder."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's library is first imported
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell turns it off for what runs in the background

WORDS = ["the cat sat on the mat", "a dog", "the dog sat and the cat sat and the mat sat too", "sat mat cat dog"]


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
