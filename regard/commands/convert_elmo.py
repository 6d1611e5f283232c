"""convert, of an ELMo in its authors' form: options, weights as HDF5, and perhaps a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.text.tokenizer import Tokenizer

HDF5 = (".hdf5", ".h5")
THEIR_SPECIALS = ("<S>", "</S>", "<UNK>")


def elmo_weights_in(source: Path) -> Path | None:
    """The weights of an ELMo, if that is what a file or folder holds."""
    if source.is_file():
        return source if source.suffix in HDF5 else None
    found = sorted(path for path in source.iterdir() if path.suffix in HDF5)
    weights = [path for path in found if "weights" in path.name]
    if not found or not list(source.glob("*options*.json")):
        return None
    if len(weights) != 1:
        raise UsageProblem(f"{source} holds {', '.join(path.name for path in found)}; give the file of the weights")
    return weights[0]


def convert_elmo(weights: Path, out: Path, *, options: Path | None = None, ignore: Sequence[str] = ()) -> Path:
    """Write the folder of an ELMo from its authors' files.  It needs no vocabulary, for it reads any word."""
    from regard.checkpoints.files import write_folder
    from regard.checkpoints.fit import leave_out
    from regard.checkpoints.hdf5 import read_hdf5
    from regard.models.elmo import FAMILY
    from regard.models.published_elmo import elmo_config, elmo_settings, elmo_weights
    from regard.text.files import read_object

    said = options or only(weights, "*options*.json", "--config") or weights.with_name("options.json")
    tokenizer = word_tokenizer(only(weights, "*vocab*.txt", "the folder of one model"))
    config = elmo_config(read_object(said), tokenizer.size, said)
    tensors = elmo_weights(config, leave_out(read_hdf5(weights), ignore, weights), weights)
    write_folder(out, {**FAMILY.load(elmo_settings(config), tensors, weights).files(), **tokenizer.files()})
    return out


def only(weights: Path, pattern: str, remedy: str) -> Path | None:
    """The one file of this pattern beside the weights, if there is one."""
    found = sorted(weights.parent.glob(pattern))
    if len(found) > 1:
        raise UsageProblem(f"{weights.parent} holds {', '.join(path.name for path in found)}; give {remedy}")
    return found[0] if found else None


def word_tokenizer(vocabulary: Path | None) -> Tokenizer:
    """Words between white space, as they are, each sentence between its begin and its end."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    from regard.models.published_elmo import SPECIALS
    from regard.text.files import read_text
    from regard.text.tokenizer import Tokenizer, framed

    lines = read_text(vocabulary).split("\n") if vocabulary else []
    words = [word for word in dict.fromkeys(line.strip() for line in lines) if word and word not in THEIR_SPECIALS]
    if taken := [word for word in words if word in SPECIALS]:
        raise Problem(f"{vocabulary} has the word {taken[0]}, which is a special token here")
    ids = {word: id for id, word in enumerate([*SPECIALS, *words])}
    inner = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(list(SPECIALS))
    inner.post_processor = framed(inner, "<s> $A </s>", "<s> $A </s> <s> $B </s>")
    return Tokenizer.from_json(inner.to_str(pretty=True))
