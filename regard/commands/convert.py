"""convert: pickled weights made into the folder everyone reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from torch import Tensor

INDEX, WHOLE = "pytorch_model.bin.index.json", "pytorch_model.bin"
VOCABULARY = (
    "vocab.txt", "vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "target_vocab.json", "spiece.model", "sentencepiece.bpe.model", "*.spm",
    "generation_config.json",
)  # fmt: skip


def convert(
    source: str | Path,
    out: str | Path,
    *,
    strip: str = "",
    config: str | Path | None = None,
    ignore: Sequence[str] = (),
) -> Path:
    """Write a new folder with the weights of a pickled file, or of a folder or a name on the hub that holds one, as
    safetensors; or of an ELMo in its authors' form (options.json, HDF5).

    Names lose the prefix `strip`; then those that match a pattern of `ignore` are left out.  What tells the model's
    shape and vocabulary is taken from beside the weights, and from beside `config` where that is given.
    """
    from regard.checkpoints.files import WEIGHTS, write_folder
    from regard.checkpoints.fit import leave_out
    from regard.checkpoints.hub import fetched
    from regard.commands.convert_elmo import convert_elmo, elmo_weights_in
    from regard.models.folder import CONFIG
    from regard.text.files import read_bytes, read_object

    out = Path(out)
    if out.exists():
        raise Problem(f"{out} exists already and would be overwritten. Remove it, or choose another folder.")
    source = Path(source) if Path(source).exists() else fetched(str(source), pickled=True)
    if weights := elmo_weights_in(source):
        return convert_elmo(weights, out, options=Path(config) if config else None, ignore=ignore)
    folder = source if source.is_dir() else source.parent
    shape = Path(config) if config else folder / CONFIG
    if not shape.is_file():
        raise Problem(f"{shape} is missing: it tells the shape of the model. Give a config.json with --config.")
    read_object(shape)  # or it is no config
    beside = chain.from_iterable(place.glob(name) for place in (shape.parent, folder) for name in VOCABULARY)
    copied = {path.name: read_bytes(path) for path in beside}
    tensors = leave_out(stripped(read_weights(source, changed=bool(strip or ignore)), strip, source), ignore, source)
    write_folder(out, {CONFIG: read_bytes(shape), WEIGHTS: tensors, **copied})
    return out


def read_weights(source: Path, changed: bool = False) -> dict[str, Tensor]:
    """Pickled weights; or, where names or tensors are to be `changed`, those of safetensors too."""
    from regard.checkpoints.files import WEIGHTS, load_tensors, load_weights
    from regard.checkpoints.pickled import read_pickled

    if changed and source.suffix == ".safetensors":
        return load_tensors(source)
    if changed and any((source / name).is_file() for name in (WEIGHTS, f"{WEIGHTS}.index.json")):
        return load_weights(source)
    if (source / INDEX).is_file():
        return read_shards(source)
    return read_pickled(pickled_in(source) if source.is_dir() else source)


def pickled_in(folder: Path) -> Path:
    """The file of weights in a folder, if there is no doubt which."""
    from regard.checkpoints.files import PICKLES

    if (folder / WHOLE).is_file():
        return folder / WHOLE
    found = sorted(path for path in folder.iterdir() if path.suffix in PICKLES)
    if not found:
        raise Problem(f"{folder} holds no pickled weights ({', '.join(PICKLES)}); safetensors need no conversion")
    if len(found) > 1:
        raise UsageProblem(f"{folder} holds {', '.join(path.name for path in found)}; give the file that is meant")
    return found[0]


def read_shards(folder: Path) -> dict[str, Tensor]:
    """The tensors of all the files that an index lists, each in the file where it should be."""
    from regard.checkpoints.pickled import read_pickled
    from regard.text.files import read_object

    places = read_object(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        raise Problem(f"{folder / INDEX} has no weight_map that tells the file of each tensor. Fetch it again.")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(places.values())):
        if shard != Path(shard).name:
            raise Problem(f"{folder / INDEX} lists {shard!r}, which is not the name of a file beside it")
        found = read_pickled(folder / shard)
        strays = sorted(name for name in found if places.get(name) != shard)
        if strays:
            raise Problem(f"{folder / shard} holds {strays[0]}, and {INDEX} does not say so. Fetch both again.")
        tensors |= found
    return tensors


def stripped(tensors: Mapping[str, Tensor], prefix: str, source: Path) -> dict[str, Tensor]:
    if not any(name.startswith(prefix) for name in tensors):
        raise UsageProblem(f"no name in {source} begins with {prefix!r}; the first is {next(iter(tensors))}")
    renamed = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    if len(renamed) < len(tensors):
        twice = next(name for name in tensors if name.startswith(prefix) and name.removeprefix(prefix) in tensors)
        raise UsageProblem(f"{source} holds both {twice} and {twice.removeprefix(prefix)}: {prefix!r} tells them apart")
    return renamed
