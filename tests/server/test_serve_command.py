"""`regard serve` as a command: what it is given, what it says, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from starlette.testclient import TestClient
from tiny_models import running

import regard
from regard.commands.serve import address_of, named, parsed, told_by
from regard.errors import UsageProblem
from regard.server.app import application
from regard.server.shelf import Named, Shelf


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("runs/a", ("a", "runs/a", None)),
        ("runs/a/model", ("a", "runs/a/model", None)),
        ("b=runs/a", ("b", "runs/a", None)),
        ("runs/a:de-en", ("a", "runs/a", ("de", "en"))),
        ("b=runs/a:de-en", ("b", "runs/a", ("de", "en"))),
        ("org/name", ("name", "org/name", None)),
    ],
)
def test_models_are_named(given, wanted):
    assert parsed(given) == wanted


def test_a_name_may_tell_languages():
    assert told_by("opus-mt-de-en") == ("de", "en") == told_by("de-en")
    assert told_by("transformer-tiny") is None and told_by("en") is None


def test_languages_are_for_translators(folders):
    with pytest.raises(UsageProblem, match="languages are for translators"):
        named([f"{folders['reader']}:de-en"], "cpu")
    [found] = named([f"x={folders['toy-de-en']}:en-fr"], "cpu")
    assert (found.name, found.languages) == ("x", ("en", "fr"))


def test_where_a_browser_finds_it():
    assert address_of("127.0.0.1", 8000) == "http://127.0.0.1:8000"
    assert address_of("0.0.0.0", 80) == "http://localhost:80" == address_of("::", 80)
    assert address_of("::1", 80) == "http://[::1]:80"


def test_other_addresses_and_names(folders):
    """Whoever lets others in without a key is warned."""
    with running(folders["classifier"], "--host", "0.0.0.0", "--allow-host", "models.example") as server:
        assert server.get("/models", {"Host": "models.example"})[0] == 200
        assert server.get("/models", {"Host": "other.example"})[0] == 421
        status, found = server.post("/classify", {"text": ["the cat", "a dog"]})
        assert status == 200 and found["model"] == "classifier" and len(found["answers"]) == 2
        assert server.end() == 0
        _, told = server.process.communicate()
        assert "--key" in told


def test_classes_tags_and_answers_over_http(server, models):
    by_name = {one.name: one.model for one in models}
    pairs = {"question": ["who sat ?", "who ?"], "context": "the cat sat on the mat."}
    for path, body, name, inputs in [
        ("/classify", {"text": ["the cat", "a dog"]}, "classifier", ["the cat", "a dog"]),
        ("/tag", {"text": ["the cat sat"]}, "tagger", ["the cat sat"]),
        ("/answer", pairs, "finder", [(question, pairs["context"]) for question in pairs["question"]]),
    ]:
        status, found = server.post(path, body)
        assert status == 200 and found["model"] == name
        for got, wanted in zip(found["answers"], by_name[name].predict(inputs), strict=True):
            assert got == {key: pytest.approx(value, abs=1e-5) for key, value in vars(wanted).items()}
    assert server.post("/classify", {"text": ["a", "b"], "second": ["c"]})[0] == 400


def test_every_label_of_several_has_its_probability(folders, tmp_path):
    reader = regard.load(folders["classifier"], "cpu").reader
    reader.published.theirs["problem_type"] = "multi_label_classification"
    reader.published.theirs.pop("regard_task", None)
    reader.save(tmp_path / "several")
    found = regard.load(tmp_path / "several", "cpu")
    shelf = Shelf([Named("several", found)])
    with TestClient(application(shelf), base_url="http://localhost") as client:
        answers = client.post("/classify", json={"text": ["the cat", "a dog"]}).json()["answers"]
    shelf.close()
    for got, wanted in zip(answers, found.predict(["the cat", "a dog"]), strict=True):
        assert got["labels"] == wanted.labels and set(got) == {"labels", "probabilities"}
        assert got["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)


def test_help_does_not_wait_for_torch():
    code = "import sys, regard.cli; print(sorted({'torch', 'fastapi', 'uvicorn'} & set(sys.modules)))"
    assert json.loads(subprocess.check_output([sys.executable, "-c", code], text=True).replace("'", '"')) == []
