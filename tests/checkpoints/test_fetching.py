"""Fetching from a hub that fails: what was cut short is completed, and each refusal is told in a line."""


import pytest
from fake_hub import NAME, FakeHub
from huggingface_hub import constants

from regard.checkpoints.hub import at_revision, fetched
from regard.commands.load import load
from regard.errors import Problem, UsageProblem

FILES = {"config.json": b"{}", "model.safetensors": bytes(3000), "vocab.txt": b"a\nb\n", "modeling.py": b"evil"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that the library asks instead of its own, and a cache that is empty.  Nobody waits before trying again."""
    hub = FakeHub()
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield hub
    hub.close()


@pytest.fixture
def fetch(hub, monkeypatch):
    """The files of a model that was fetched, by their names."""

    def run(name: str = NAME, offline: bool = False) -> dict[str, bytes]:
        hub.requests.clear()
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        return {path.name: path.read_bytes() for path in fetched(name).iterdir()}

    return run


def data(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.endswith(".py")}


def test_what_is_whole_is_fetched_once(hub, fetch):
    hub.push(FILES)
    assert fetch() == data(FILES) and hub.requests
    assert fetch() == data(FILES) and not hub.requests


@pytest.mark.parametrize("cut", ["model.safetensors", "vocab.txt", "config.json"])
def test_a_cut_transfer_is_completed_by_the_next_call(hub, fetch, cut):
    hub.push(FILES)
    hub.cut = {cut}
    with pytest.raises(Problem, match=f"{NAME}: .* give the command again"):
        fetch()
    with pytest.raises(Problem, match=f"{NAME}: "):
        fetch(offline=True)
    hub.cut = set()
    assert fetch() == data(FILES)
    assert fetch(offline=True) == data(FILES)


def test_a_part_that_another_program_fetched_is_completed(hub, fetch, tmp_path):
    """Which keeps no list of what the model has."""
    commit = hub.push(FILES)
    place = tmp_path / "hub" / "models--someone--small"
    for folder, name, content in (("refs", "main", commit), (f"snapshots/{commit}", "config.json", "{}")):
        (place / folder).mkdir(parents=True)
        (place / folder / name).write_text(content)
    with pytest.raises(Problem, match="a part of the model alone"):
        fetch(offline=True)
    (place / "snapshots" / commit / "model.safetensors").write_bytes(FILES["model.safetensors"])
    assert fetch(offline=True).keys() == {"config.json", "model.safetensors"}
    assert fetch() == data(FILES)


@pytest.mark.parametrize(
    "status, remedy", [(401, "hf auth login"), (403, "gated"), (404, "check the name"), (429, "wait some minutes")]
)
def test_a_refusal_is_told_in_a_line_with_what_to_do(hub, fetch, status, remedy):
    hub.push(FILES)
    hub.status = status
    with pytest.raises(Problem, match=f"^{NAME}: .*{remedy}.*$") as found:
        fetch()
    assert "\n" not in str(found.value) and hub.requests


def test_a_hub_that_refuses_leaves_the_cache_in_use(hub, fetch):
    hub.push(FILES)
    fetch()
    hub.status = 429
    assert fetch() == data(FILES)


def test_a_revision_is_pinned_and_a_name_stays_where_it_was_fetched(hub, fetch):
    old = hub.push(FILES)
    fetch()
    new = hub.push(FILES | {"vocab.txt": b"a\nb\nc\n"})
    assert fetch()["vocab.txt"] == b"a\nb\n" and not hub.requests
    assert fetch(f"{NAME}@{new}")["vocab.txt"] == b"a\nb\nc\n"
    assert fetch(f"{NAME}@{old}")["vocab.txt"] == b"a\nb\n" and not hub.requests
    hub.push(FILES | {"vocab.txt": b"z\n"}, "v2.0")
    assert fetch(f"{NAME}@v2.0")["vocab.txt"] == b"z\n"
    with pytest.raises(Problem, match="no such model or revision"):
        fetch(f"{NAME}@v3.0")


def test_a_branch_that_moves_while_a_transfer_is_cut_is_fetched_whole_where_it_is(hub, fetch):
    hub.push(FILES)
    hub.cut = {"model.safetensors"}
    with pytest.raises(Problem):
        fetch()
    hub.cut = set()
    moved = FILES | {"vocab.txt": b"moved\n", "model.safetensors": bytes(range(200)) * 20}
    hub.push(moved)
    assert fetch() == data(moved)


@pytest.mark.parametrize("name", ["a/b@", "a/b@../main", "a/b@x/../y", "a@b@c d", "../a@main", "a/b@-x"])
def test_what_can_be_no_revision_is_never_asked_for(name):
    with pytest.raises(Problem, match="it cannot be the name of a model on the hub"):
        fetched(name)


def test_a_revision_in_python_is_the_same_name(tmp_path):
    assert at_revision("a/b", "main") == "a/b@main" and at_revision("a/b", None) == "a/b"
    with pytest.raises(UsageProblem, match="names a revision already"):
        at_revision("a/b@main", "v2")
    with pytest.raises(UsageProblem, match="is a folder, and has no revisions"):
        load(tmp_path, revision="v2")
