"""One server with a model of each kind, in a process of its own; and the same models on a shelf here."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="regard[serve] is not installed")

from tiny_models import Running, running, save_all

from regard.commands.serve import named
from regard.server.app import application
from regard.server.limits import Limits
from regard.server.shelf import Shelf


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    return save_all(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(folders) -> Running:
    with running(*folders.values(), "--deadline", 20) as found:
        yield found


@pytest.fixture(scope="session")
def models(folders):
    return named([str(folder) for folder in folders.values()], "cpu")


@pytest.fixture
def shelf(models):
    found = Shelf(models, Limits(deadline=10))
    yield found
    found.close()


@pytest.fixture
def client(shelf):
    """Asks the application itself, without a socket."""
    from starlette.testclient import TestClient

    with TestClient(application(shelf), base_url="http://localhost", raise_server_exceptions=False) as found:
        yield found
