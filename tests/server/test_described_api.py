"""The description of the API, and requests made from it, as it says and not: none of them makes the server fail."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient
from tiny_models import save_all

from regard.commands.serve import named
from regard.server.app import application
from regard.server.limits import Limits
from regard.server.shelf import Shelf

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
MODES = list(schemathesis.GenerationMode)
OPERATIONS = [
    (method, path) for path, methods in application(Shelf()).app.openapi()["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    folders = save_all(tmp_path_factory.mktemp("described"))
    shelf = Shelf(named([str(folder) for folder in folders.values()], "cpu"), Limits(deadline=20))
    yield schemathesis.openapi.from_asgi("/openapi.json", application(shelf), headers={"Host": "localhost"})
    shelf.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("method, path", OPERATIONS)
def test_no_request_makes_it_fail(described, method, path, mode):
    operation = described[path][method.upper()]
    if mode is schemathesis.GenerationMode.NEGATIVE and not operation.body:
        return  # there is nothing that could be wrong

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    def one(case):
        answer = case.call(headers={"Host": "localhost"})
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    one()


def test_the_page_of_the_api_has_every_request(client: TestClient):
    page = client.get("/docs").text
    assert all(f"{method.upper()} {path}" in page for method, path in OPERATIONS)
