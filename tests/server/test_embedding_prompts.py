"""The vectors of the server are those of the model's folder: its modules, and its prompts by name."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from regard.commands.load import load
from regard.errors import Problem
from regard.server.embeddings import embedded, rows_of
from regard.server.limits import Limits
from regard.server.schemas import Embedding

TEXTS = ["the cat", "a dog sat on the mat"]


@pytest.fixture(scope="module")
def reader(small_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompted") / "model"
    shutil.copytree(small_bert, folder, ignore=shutil.ignore_patterns("manifest.json"))
    (folder / "1_Pooling").mkdir()
    contents = {
        "modules.json": [{"path": path, "type": f"sentence_transformers.models.{name}"}
                         for path, name in (("", "Transformer"), ("1_Pooling", "Pooling"))],
        "1_Pooling/config.json": {"pooling_mode": ["mean", "weightedmean"], "include_prompt": False},
        "config_sentence_transformers.json": {"prompts": {"query": "a dog ", "passage": "mat "},
                                              "default_prompt_name": "query"},
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return load(folder, "cpu")


def served(reader, requests: list[Embedding]) -> np.ndarray:
    """The vectors of several requests that are answered together."""
    shelf = SimpleNamespace(limits=Limits())
    rows = [row for asked in requests for row in rows_of(reader, asked, shelf)]
    return embedded(reader, [SimpleNamespace(given=row) for row in rows])


def test_requests_with_different_prompts_are_answered_together(reader):
    found = served(reader, [Embedding(input=TEXTS), Embedding(input=TEXTS, prompt_name="passage")])
    assert np.allclose(found[:2], reader.embed(TEXTS), atol=1e-5)
    assert np.allclose(found[2:], reader.embed(TEXTS, prompt_name="passage"), atol=1e-5)
    assert not np.allclose(found[:2], found[2:], atol=1e-2)


def test_ids_are_read_as_they_are_given(reader):
    ids = reader.reading.encode(TEXTS[0])
    assert np.allclose(served(reader, [Embedding(input=ids)]), reader.embed(TEXTS[:1], prompt=""), atol=1e-5)


def test_a_prompt_that_the_model_lacks_is_refused(reader):
    with pytest.raises(Problem, match="no prompt called 'question'"):
        served(reader, [Embedding(input=TEXTS, prompt_name="question")])
