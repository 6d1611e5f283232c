"""convert: pickled weights made into the folder everyone reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from torch import Tensor

    from regard.checkpoints.files import Content

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
    safetensors, those of the modules of a sentence-transformers folder too; or of an ELMo in its authors' form
    (options.json, HDF5).

    Names lose the prefix `strip`; then those that match a pattern of `ignore` are left out.  All that is data beside
    config.json is copied, sub-folders included; from beside weights that lie elsewhere, the vocabulary.  What is left
    out (code, other pickles, weights of other frameworks) is listed on stderr.
    """
    from regard.checkpoints.files import WEIGHTS, write_folder
    from regard.checkpoints.fit import leave_out
    from regard.checkpoints.hub import fetched
    from regard.commands.convert_elmo import convert_elmo, elmo_weights_in
    from regard.models.folder import CONFIG
    from regard.tasks.sentence_folder import module_paths
    from regard.text.files import read_bytes, read_object

    out = Path(out)
    if out.exists():
        raise Problem(f"{out} exists already and would be overwritten. Remove it, or choose another folder.")
    source = Path(source) if Path(source).exists() else fetched(str(source), pickled=True)
    if elmo := elmo_weights_in(source):
        return convert_elmo(elmo, out, options=Path(config) if config else None, ignore=ignore)
    folder = source if source.is_dir() else source.parent
    first, *modules = module_paths(folder) if not config else [""]
    shape = Path(config) if config else folder / first / CONFIG
    if not shape.is_file():
        raise Problem(f"{shape} is missing: it tells the shape of the model. Give a config.json with --config.")
    read_object(shape)  # or it is no config
    copied, left_out = copied_files(shape.parent if config else folder, folder)
    weights, read = module_weights(folder, modules)
    pickled = any(name.endswith(WHOLE) for name in read)
    place = folder / first if source.is_dir() else source
    tensors, used = encoder_weights(place, safetensors=pickled or bool(strip or ignore))
    named = leave_out(stripped(tensors, strip, source), ignore, source)
    encoder: dict[str, Content] = {CONFIG: read_bytes(shape), WEIGHTS: named}
    files = {Path(first, name).as_posix(): content for name, content in encoder.items()}
    write_folder(out, {**copied, **weights, **files})
    report_left_out(left_out, {*read, *(path.relative_to(folder).as_posix() for path in used)})
    return out


def copied_files(beside: Path, weights: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """What is data beside config.json, by name, and the vocabulary beside the weights; and why the rest is left out."""
    from regard.commands.convert_files import leads_out, split_files
    from regard.text.files import read_bytes

    data, left_out = split_files(beside)
    if weights.resolve() != beside.resolve():
        found = chain.from_iterable(weights.glob(name) for name in VOCABULARY)
        data |= {path.name: path for path in found if path.is_file() and not leads_out(path, weights)}
    return {name: read_bytes(path) for name, path in data.items()}, left_out


def module_weights(folder: Path, modules: Sequence[str]) -> tuple[dict[str, Content], set[str]]:
    """The weights of modules by the name of their new file; and the names of the files that were read."""
    from regard.checkpoints.files import WEIGHTS, load_tensors
    from regard.checkpoints.pickled import read_pickled
    from regard.commands.convert_files import check_regular

    weights: dict[str, Content] = {}
    read = set()
    for module in modules:
        for name, reader in ((WHOLE, read_pickled), (WEIGHTS, load_tensors)):  # safetensors, where there are both
            if (folder / module / name).exists():
                weights[f"{module}/{WEIGHTS}"] = reader(check_regular(folder / module / name, folder))
                read.add(f"{module}/{name}")
    return weights, read


def encoder_weights(source: Path, safetensors: bool) -> tuple[dict[str, Tensor], list[Path]]:
    """The encoder's weights, and the files they are read from.  Those of `safetensors` are taken only where something
    else is to be converted, or names or tensors are to change."""
    from regard.checkpoints.files import WEIGHTS, load_tensors, load_weights

    suffix = Path(WEIGHTS).suffix
    if safetensors and source.suffix == suffix:
        return load_tensors(source), [source]
    if safetensors and any((source / name).is_file() for name in (WEIGHTS, f"{WEIGHTS}.index.json")):
        return load_weights(source), list(source.glob(f"*{suffix}"))
    return read_weights(source), pickles_of(source)


def pickles_of(source: Path) -> list[Path]:
    """The files that `read_weights` reads."""
    if (source / INDEX).is_file():
        return sorted(source.glob("pytorch_model*.bin"))
    return [pickled_in(source) if source.is_dir() else source]


def report_left_out(left_out: Mapping[str, str], read: set[str]) -> None:
    for name, why in left_out.items():
        if name not in read:
            print(f"left out: {name} ({why})", file=sys.stderr)


def read_weights(source: Path) -> dict[str, Tensor]:
    from regard.checkpoints.pickled import read_pickled

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
