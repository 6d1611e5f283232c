"""The toy corpus, a model that has learned it, and an encoder with examples to fine-tune it on."""

from __future__ import annotations

import sys

import pytest
from toy import make_corpus, training
from toy_examples import make_encoder, make_examples

from regard.cli import main


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def run_folder(corpus, tmp_path_factory):
    """A finished run, whose model has learned the toy language."""
    folder = tmp_path_factory.mktemp("run") / "learned"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        more = ["--steps", 240, "--warmup", 20, "--evaluate-every", 120, "--save-every", 120, "--report-every", 40]
        patch.setattr(sys, "argv", ["regard", *training(corpus, folder, *more)])
        main()
    assert ended.value.code == 0
    return folder


@pytest.fixture
def model(run_folder):
    return run_folder / "model"


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("published") / "bert")


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    return make_examples(tmp_path_factory.mktemp("examples"), "classify")
