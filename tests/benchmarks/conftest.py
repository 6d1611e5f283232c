"""Contenders are processes of their own here too, but forked from one that has loaded torch: it loads slowly."""

from multiprocessing import get_context

import pytest

from benchmarks import contest

LOADED = ["torch._dynamo", "regard.tasks.translate", "regard.tasks.writer", "regard.training.loop"]


@pytest.fixture(scope="session")
def forking():
    context = get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    first = context.Process(target=sum, args=((),))  # who waits for it has waited for all that is loaded
    first.start()
    first.join()
    return context


@pytest.fixture(autouse=True)
def forked(forking, monkeypatch):
    monkeypatch.setattr(contest, "get_context", lambda _: forking)
