"""The page's side of the server: looks, their arrays, the page's files."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.server import attention
from regard.server.app import application
from regard.server.shelf import Shelf

looking = pytest.importorskip("regard.viewer.looking")


def array(client: TestClient, id: str, block: str) -> np.ndarray:
    answer = client.get(f"/attention/{id}/{block}")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/octet-stream"
    shape = [int(size) for size in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, "<f4").reshape(shape)


@pytest.mark.parametrize("model", ["reader", "writer", "toy-de-en", "classifier", "tagger", "finder"])
def test_a_look_over_http_is_the_look(client, models, model):
    found = client.post("/attention", json={"model": model, "text": "the cat sat"}).json()
    [loaded] = [one.model for one in models if one.name == model]
    look = looking.look(loaded, "the cat sat", name=model)
    assert found["look"]["sides"] == look.header()["sides"] and found["look"]["model"] == model
    for one in found["look"]["attentions"]:
        name = f"{one['name']}/0/weights"
        weights = array(client, found["id"], name)
        assert np.allclose(weights, look.block(name), atol=1e-6) and np.allclose(weights.sum(-1), 1, atol=1e-5)


def test_what_is_not_there_is_told(client):
    found = client.post("/attention", json={"model": "reader", "text": "the cat"}).json()
    for path in (
        f"/attention/{found['id']}/nothing/0",
        "/attention/other/encoder/0/weights",
        f"/attention/{found['id']}/",
    ):
        answer = client.get(path)
        assert answer.status_code in (400, 404) and "message" in answer.json()["error"]
    assert client.post("/attention", json={"model": "reader", "text": "cat " * 2000}).status_code == 413


def test_only_the_last_few_are_kept(client, monkeypatch):
    monkeypatch.setattr(attention, "MOST", 2)
    first, second, third = (client.post("/attention", json={"text": "the cat"}).json()["id"] for _ in range(3))
    assert [client.get(f"/attention/{one}/encoder/mean").status_code for one in (first, second, third)] == [
        404,
        200,
        200,
    ]
    monkeypatch.setattr(attention, "BYTES", 10)
    assert client.get(f"/attention/{third}/encoder/0/q").status_code == 200  # the newest stays, whatever it takes
    assert client.get(f"/attention/{second}/encoder/mean").status_code == 404


def test_looks_that_were_made_before_are_shown(models):
    look = looking.look(models[0].model, "the cat sat", name="<b>given</b>")
    shelf = Shelf()
    with TestClient(application(shelf, looks=[look]), base_url="http://localhost") as client:
        [found] = client.get("/looks").json()
        assert found["look"]["model"] == "<b>given</b>" and client.get("/models").json() == {"models": []}
        assert np.array_equal(array(client, found["id"], "encoder/1/weights"), look.block("encoder/1/weights"))
        assert client.post("/attention", json={"text": "a"}).status_code == 404
    shelf.close()


def test_the_page_and_its_files(client):
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    script = client.get("/page/look.js")
    assert script.status_code == 200 and script.headers["content-type"] == "text/javascript; charset=utf-8"
    for answer in (page, script):
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert client.get("/page/nothing.js").status_code == client.get("/page/").status_code == 404
