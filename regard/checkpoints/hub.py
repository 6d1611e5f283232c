"""Models by their name on the hub: what the cache has, or else a fetch; only files that are data."""

from __future__ import annotations

import re
from pathlib import Path

from regard.errors import Problem

NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")  # a model, or an owner's model; never a path that leads elsewhere
DATA = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm"]  # no pickles, and no code
PICKLED = ["pytorch_model*.bin", "*/pytorch_model*.bin"]  # for those who convert them


def fetched(name: str, *, pickled: bool = False) -> Path:
    """The folder of a model that the hub has under this name; with its pickled weights, if those are asked for."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    beside = Path(name).parent
    if not NAME.fullmatch(name) or (beside != Path() and beside.is_dir()):  # a slip in a path is not the hub's to hear
        raise Problem(f"{name}: there is no such folder, and it cannot be the name of a model on the hub")
    wanted = DATA + PICKLED if pickled else DATA
    try:
        cached = Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
        if not pickled or any(cached.glob(PICKLED[0])):
            return cached
    except LocalEntryNotFoundError:
        pass  # not in the cache: ask the hub
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise Problem(
            f"{name}: there is no such folder, and the hub gives no model of that name ({reason}). "
            "Check the name, or give the folder of a model, or of a run that has finished."
        ) from None
