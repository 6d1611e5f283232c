"""What docs/serving.md asks a server is answered, command by command; and what it lists is what there is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tiny_models import threaded

from regard.commands.serve import named
from regard.server.shelf import Shelf

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
BOXED = {  # as the page names them -> as they are called here
    "encoder": "reader",
    "language-model": "writer",
    "translate-de-en": "toy-de-en",
    "sentiment": "classifier",
    "entities": "tagger",
    "answers": "finder",
}


def commands() -> list[str]:
    fences = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in fences for line in block.splitlines() if line.startswith("curl ")]


def test_every_request_of_the_page_is_answered(folders, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    answers, look = {}, ""
    shelf = Shelf(named([f"{name}={folders[here]}" for name, here in BOXED.items()], "cpu"))
    with threaded(shelf) as (port, _):
        for command in commands():
            words = shlex.split(command.replace("localhost:8000", f"localhost:{port}").replace("/ID/", f"/{look}/"))
            told = subprocess.run([*words, "-sS", "--fail-with-body"], cwd=tmp_path, capture_output=True, text=True)
            assert told.returncode == 0, f"{command}\n{told.stdout}{told.stderr}"
            answers[command.split("localhost:8000")[1].split()[0]] = told.stdout
            look = json.loads(told.stdout)["id"] if "/attention " in command else look
    shelf.close()
    assert len(json.loads(answers["/v1/embeddings"])["data"]) == 2
    assert answers["/v1/completions"].endswith("data: [DONE]\n\n")
    assert isinstance(json.loads(answers["/translate"])["translatedText"], str)
    assert len(json.loads(answers["/classify"])["answers"]) == 2
    shape = re.search(r"(?i)^x-shape: ([\d,]+)", answers["/attention/ID/encoder/0/weights"], re.MULTILINE)[1]
    heads, queries, keys = map(int, shape.split(","))
    assert (tmp_path / "weights.f32").stat().st_size == 4 * heads * queries * keys
    for name in re.findall(r"^\| `(regard_\w+)`", PAGE, re.MULTILINE):
        assert f"# TYPE {name} " in answers["/metrics"]
    there = {path.replace("{id}/{block}", "ID/BLOCK") for path in json.loads(answers["/openapi.json"])["paths"]}
    assert there <= set(re.findall(r"`(?:GET|POST) (/\S*)`", PAGE))


def test_the_defaults_of_the_page_are_the_servers():
    from regard.server import attention, completions, connection, schemas, shelf, translation
    from regard.server.limits import Limits

    limits, table = Limits(), dict(re.findall(r"^\| (.*?) \| ([\d,]+)", PAGE, re.MULTILINE))
    wanted = {
        "requests open at once": limits.requests,
        "tokens that wait for one model": limits.tokens,
        "seconds until an answer": limits.deadline,
        "seconds until a head has come, then its body": limits.patience,
        "seconds that a connection may be idle between two requests": limits.keep_alive,
        "connections beyond the requests": connection.SPARE_CONNECTIONS,
        "tokens of one line to translate": limits.line_tokens,
        "bytes of a body": limits.body / 2**20,
        "texts of a request": limits.inputs,
        "tokens written after a prompt": schemas.MOST_TOKENS,
        "tokens of a Look": attention.LONGEST,
        "reading, on a CPU": shelf.ON_CPU,
        "reading, on a GPU": shelf.ON_GPU,
        "writing": completions.BUDGET,
        "translating": translation.BUDGET,
    }
    assert {name: int(table[name].replace(",", "")) for name in wanted} == wanted
