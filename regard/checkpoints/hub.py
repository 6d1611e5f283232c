"""Models by their name on the hub: what the cache has whole, or else a fetch; only files that are data."""

from __future__ import annotations

import json
import re
from pathlib import Path

from regard.errors import Problem, UsageProblem

NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")  # a model, or an owner's model; never a path that leads elsewhere
REVISION = re.compile(r"(?!.*\.\.)\w[\w./-]*")  # a commit, a tag or a branch; refs/pr/1 is one
DATA = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm"]  # no pickles, and no code
PICKLED = ["pytorch_model*.bin", "*/pytorch_model*.bin"]  # for those who convert them
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
REFUSALS: dict[int | None, str] = {  # what the hub's answers mean to the one who asked
    401: "the model is private or gated, or there is none of that name: log in with `hf auth login`, or check the name",
    403: "the model is gated: ask for access on its page, and log in with `hf auth login`",
    404: "there is no such model or revision: check the name",
    429: "the hub has had too many requests from here: wait some minutes, and give the command again",
}


def at_revision(name: str, revision: str | None) -> str:
    """The name of a model at one revision, as every command takes it: NAME@REVISION."""
    if not revision:
        return name
    if "@" in name:
        raise UsageProblem(f"{name} names a revision already; leave out {revision}")
    return f"{name}@{revision}"


def fetched(name: str, *, pickled: bool = False) -> Path:
    """The folder of a model on the hub, NAME or NAME@REVISION; with its pickled weights, if those are asked for.

    A commit that the cache has whole is used without a request.  What was cut short is completed; and where the hub
    cannot be reached, what the cache has is used if it is enough."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    model, _, revision = name.partition("@")
    beside = Path(model).parent
    is_name = NAME.fullmatch(model) and ("@" not in name or REVISION.fullmatch(revision))
    if not is_name or (beside != Path() and beside.is_dir()):  # a slip in a path is not the hub's to hear
        raise Problem(f"{name}: there is no such folder, and it cannot be the name of a model on the hub")
    wanted = DATA + PICKLED if pickled else DATA
    try:
        cached = Path(snapshot_download(model, revision=revision or None, allow_patterns=wanted, local_files_only=True))
        if is_listed(cached):
            return cached
    except LocalEntryNotFoundError:
        pass  # not in the cache, or a part of it alone: ask the hub
    try:
        found = Path(snapshot_download(model, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # those of the hub's library, of its HTTP client, and of the disk
        raise refusal(name, error) from None
    if not is_listed(found) and not is_usable(found):  # the hub was not reached: this is what the cache has
        raise Problem(f"{name}: the cache has a part of the model alone, in {found}. Try again with a connection.")
    return found


def is_listed(snapshot: Path) -> bool:
    """Whether the cache knows which files the commit has: then the hub's library tells whether they are there."""
    return (snapshot.parents[1] / "trees" / f"{snapshot.name}.json").is_file()


def is_usable(snapshot: Path) -> bool:
    """Whether a folder holds a config and weights: pickled ones, or all that its index lists."""
    if not (snapshot / CONFIG).is_file():
        return False
    if (snapshot / WEIGHTS).is_file() or any(snapshot.glob(PICKLED[0])):
        return True
    try:
        parts = set(json.loads((snapshot / INDEX).read_bytes())["weight_map"].values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    return all((snapshot / str(part)).is_file() for part in parts)


def refusal(name: str, error: Exception) -> Problem:
    """What the hub's library says, in its first line, and what can be done about it."""
    said = [one for one in (error, error.__cause__) if one is not None]  # it wraps what the hub answered
    status = next((one.response.status_code for one in said if hasattr(one, "response")), None)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    remedy = REFUSALS.get(status, "check the name and the connection, and give the command again: it goes on from here")
    return Problem(f"{name}: there is no such folder, and the hub gives no model of that name ({reason}): {remedy}.")
