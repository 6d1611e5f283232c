"""Models served in lower precision: about the same answers, batched or alone; and looks, but for gradients."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient
from tiny_models import save_encoder

from regard.commands.serve import named
from regard.layers import lowered
from regard.layers.lowered import NEEDS, instructions
from regard.server.app import application
from regard.server.shelf import Shelf

TEXTS = ["the cat sat", "a dog and a cat sat too, and the mat was red.", "mat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("wide") / "reader", "masked", width=64)


@pytest.fixture(params=NEEDS)
def clients(request, folder, monkeypatch):
    """One that asks in float32, and one in lower precision."""
    if not instructions() & set(NEEDS[request.param]):
        pytest.skip(f"this CPU has no instructions for {request.param}")
    monkeypatch.setattr(lowered, "SMALLEST", 1)
    shelves = [Shelf(named([str(folder)], "cpu", precision)) for precision in ("float32", request.param)]
    with (
        TestClient(application(shelves[0]), "http://localhost") as exact,
        TestClient(application(shelves[1]), "http://localhost", raise_server_exceptions=False) as rounded,
    ):
        yield exact, rounded
    for shelf in shelves:
        shelf.close()


def vectors(client, texts) -> np.ndarray:
    return np.array([one["embedding"] for one in client.post("/v1/embeddings", json={"input": texts}).json()["data"]])


def test_vectors_are_near_and_do_not_depend_on_the_batch(clients):
    exact, rounded = (vectors(client, TEXTS) for client in clients)
    assert abs(exact - rounded).max() > 0 and np.linalg.norm(exact - rounded) < 0.1 * np.linalg.norm(exact)
    assert np.allclose(vectors(clients[1], TEXTS[1]), rounded[1:2], atol=1e-5)


def test_words_are_found_and_looks_are_given_without_gradients(clients):
    _, rounded = clients
    found = rounded.post("/fill", json={"text": "the [MASK] sat", "best": 2})
    assert found.status_code == 200 and len(found.json()["answers"][0][0]) == 2
    look = rounded.post("/attention", json={"text": TEXTS[0]}).json()
    assert rounded.get(f"/attention/{look['id']}/encoder/0/weights").status_code == 200
    refused = rounded.get(f"/attention/{look['id']}/encoder/explain/1")
    assert refused.status_code == 400 and "load it again in float32" in refused.json()["error"]["message"]
