"""The folder of a sentence-transformers model: modules.json names its modules, in order; each is applied or refused.

Both layouts are read: that of the releases up to 5.3 (`pooling_mode_mean_tokens`; `max_seq_length` in
sentence_bert_config.json) and the current one (`pooling_mode`; `model_max_length` in tokenizer_config.json).  The type
of a module is looked up in a table; nothing is imported by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from regard.checkpoints.files import Content
from regard.errors import Problem
from regard.layers.sentence import SENTENCE, TOKENS, SentenceModule, SentenceNormalize, SentencePooling
from regard.tasks.pooling import ALIASES, LONGEST, MEAN, Pooling, SentencePrompts, pooling_names
from regard.tasks.sentence_modules import CONFIG, MODULES, ModuleFolder, activation_name, weighted_layers
from regard.text.files import AGAIN, read_bytes, read_object, read_text
from regard.text.tokenizer import SETTINGS

INDEX, MODEL_CONFIG = "modules.json", "config_sentence_transformers.json"
LIBRARY = "sentence_transformers."  # every type that is known begins with it
TRANSFORMER, LAYERS = "Transformer", "WeightedLayerPooling"
FAMILIES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
TRANSFORMER_CONFIGS = tuple(f"sentence_{family}_config.json" for family in FAMILIES)  # the first that is there counts
CROSS_ENCODER = "CrossEncoder"  # the model_type of a folder whose model scores pairs of texts
ACTIVATION_KEYS = ("sentence_transformers", "sbert_ce_default_activation_function")  # of a cross-encoder's config.json
WRITTEN = (  # the types of what is written: an encoder, its pooling, vectors of length one
    "sentence_transformers.base.modules.transformer.Transformer",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "sentence_transformers.base.modules.normalize.Normalize",
)
ALONE = f"To use the encoder alone, leave {INDEX} out of the folder."


@dataclass(frozen=True)
class ModuleEntry:
    """A module as modules.json lists it."""

    type: str
    path: str

    @property
    def name(self) -> str:
        return self.type.rsplit(".", 1)[-1] if self.type.startswith(LIBRARY) else self.type


def load_pooling(folder: Path) -> Pooling:
    """How a folder makes vectors of texts: what its modules.json says, or the mean where there is none."""
    entries = read_modules(folder)
    if not entries:
        return MEAN
    encoder = folder / entries[0].path
    settings = transformer_settings(encoder)
    model_config = read_object(folder / MODEL_CONFIG) if (folder / MODEL_CONFIG).exists() else {}
    pooling = Pooling(
        longest=max_length(settings, encoder),
        files=folder_files(folder, entries),
        prompts=prompts_in(model_config, folder),
        lowercase=bool(settings.get("do_lower_case")),
        model_config=model_config,
    )
    if model_config.get("model_type") == CROSS_ENCODER:
        return cross_encoder_pooling(pooling, entries, folder)
    check_transformer(settings, folder)
    return with_modules(pooling, entries[1:], folder)


def with_modules(pooling: Pooling, entries: Sequence[ModuleEntry], folder: Path) -> Pooling:
    """The same with the modules behind the Transformer."""
    if entries and entries[0].name == LAYERS:
        says = read_object(encoder_folder(folder) / CONFIG).get("output_hidden_states")
        pooling = replace(pooling, layers=weighted_layers(ModuleFolder(folder, entries[0].path), bool(says)))
        entries = entries[1:]
    modules = tuple(make_module(entry, folder) for entry in entries)
    there = {TOKENS}
    for module, entry in zip(modules, entries, strict=True):
        if module.source not in there:
            raise Problem(f"{folder / INDEX}: {entry.type} reads {module.source!r}, which no module before it writes")
        there.add(module.target)
    pools = [module for module in modules if isinstance(module, SentencePooling)]
    if not pools or SENTENCE not in there:
        raise Problem(f"{folder / INDEX} names no Pooling, so a text has no vector. {ALONE}")
    unit = isinstance(modules[-1], SentenceNormalize)
    return replace(pooling, how="+".join(pools[-1].names), unit=unit, modules=modules)


def make_module(entry: ModuleEntry, folder: Path) -> SentenceModule:
    if entry.name == LAYERS:
        raise Problem(f"{folder / INDEX}: {LAYERS} can stand only behind the Transformer")
    return MODULES[entry.name](ModuleFolder(folder, entry.path))


def read_modules(folder: Path) -> list[ModuleEntry]:
    """The modules of a folder in their order; none where it is no sentence-transformers folder."""
    path = folder / INDEX
    if not path.exists():
        return []
    listed = read_list(path)
    entries = [ModuleEntry(str(entry.get("type")), str(entry.get("path", ""))) for entry in listed]
    known = [TRANSFORMER, LAYERS, *MODULES]
    for entry in entries:
        check_inside(folder, entry.path)
        if entry.name not in known:
            raise Problem(f"{path} names the module {entry.type!r}; known are {', '.join(known)}. {ALONE}")
        if not entry.path and entry.name != TRANSFORMER:
            raise Problem(f"{path} names no path for {entry.type}. {AGAIN}")
    if [entry.name for entry in entries].count(TRANSFORMER) != 1 or entries[0].name != TRANSFORMER:
        raise Problem(f"{path}: the first module, and no other, must be a {TRANSFORMER}. {ALONE}")
    return entries


def module_paths(folder: Path) -> list[str]:
    """The sub-folders of a folder's modules, the encoder's first; that is the folder itself where modules.json says
    nothing else."""
    if not (folder / INDEX).exists():
        return [""]
    paths = [str(entry.get("path", "")) for entry in read_list(folder / INDEX)]
    for path in paths:
        check_inside(folder, path)
    return paths


def read_list(path: Path) -> list[dict[str, Any]]:
    try:
        listed = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path} is not JSON ({error}). {AGAIN}") from None
    if not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise Problem(f"{path} is no list of modules. {AGAIN}")
    return listed


def check_inside(folder: Path, path: str) -> None:
    """Refuse a module's path that leads out of the folder, by its name or by a link."""
    named = PurePosixPath(path)
    leads_out = named.is_absolute() or ".." in named.parts or "\\" in path or PureWindowsPath(path).drive
    if leads_out or not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise Problem(f"{folder / INDEX} names the path {path!r}, which leads out of the folder")


def encoder_folder(folder: Path) -> Path:
    """Where the Transformer lies: in the folder itself, or where modules.json says."""
    return folder / next((entry.path for entry in read_modules(folder)), "")


def transformer_settings(encoder: Path) -> dict[str, Any]:
    name = transformer_config_name(encoder)
    return read_object(encoder / name) if name else {}


def transformer_config_name(encoder: Path) -> str | None:
    return next((name for name in TRANSFORMER_CONFIGS if (encoder / name).exists()), None)


def check_transformer(settings: Mapping[str, Any], folder: Path) -> None:
    """Refuse settings of the Transformer that would make other states than the encoder's last."""
    text = (settings.get("modality_config") or {"text": {}}).get("text", {"method": "none"})
    asked = {
        "transformer_task": (settings.get("transformer_task"), "feature-extraction"),
        "module_output_name": (settings.get("module_output_name"), TOKENS),
        "modality_config: text: method": (text.get("method"), "forward"),
        "modality_config: text: method_output_name": (text.get("method_output_name"), "last_hidden_state"),
        "query_expansion": (settings.get("query_expansion"), None),
        "processing_kwargs": (settings.get("processing_kwargs") or None, None),
    }
    for key, (value, plain) in asked.items():
        if value not in (None, plain):
            place = f"{folder}: {key} of its Transformer is {value!r}"
            raise Problem(f"{place}, and only {plain!r} can be applied. {ALONE}")


def max_length(settings: Mapping[str, Any], encoder: Path) -> int:
    """How many tokens of a text are read: by the Transformer's settings, or by the tokenizer's."""
    tokenizer = read_object(encoder / SETTINGS) if (encoder / SETTINGS).exists() else {}
    given = settings.get("processor_kwargs") or settings.get("tokenizer_args") or {}
    found = given.get("model_max_length") or settings.get("max_seq_length") or tokenizer.get("model_max_length")
    found = found or LONGEST
    if not isinstance(found, int | float) or isinstance(found, bool) or found < 1:
        raise Problem(f"{encoder}: {found!r} is no number of tokens that a text may have. {AGAIN}")
    return int(min(found, LONGEST))  # some say 1e30, which means that nobody knew


def prompts_in(model_config: Mapping[str, Any], folder: Path) -> SentencePrompts:
    texts, default = model_config.get("prompts") or {}, model_config.get("default_prompt_name")
    texts = {str(name): text or "" for name, text in texts.items()} if isinstance(texts, dict) else {}
    if not all(isinstance(text, str) for text in texts.values()):
        raise Problem(f"{folder / MODEL_CONFIG}: a prompt is no text. {AGAIN}")
    if default is not None and default not in texts:
        there = ", ".join(texts) or "none"
        raise Problem(f"{folder / MODEL_CONFIG}: default_prompt_name is {default!r}, and the prompts are: {there}")
    return SentencePrompts(texts, default)


def cross_encoder_pooling(pooling: Pooling, entries: Sequence[ModuleEntry], folder: Path) -> Pooling:
    """A cross-encoder makes no vectors of its own; its scores are the head's."""
    if len(entries) > 1:
        raise Problem(f"{folder / INDEX}: a cross-encoder with {entries[1].type} cannot be applied, only its head")
    if pooling.prompts.choose():
        raise Problem(f"{folder / MODEL_CONFIG}: the default prompt of a cross-encoder cannot be applied")
    return pooling


def pooling_files(pooling: Pooling, width: int, longest: int) -> dict[str, Content]:
    """The files that make a sentence-transformers folder of an encoder's, in the current layout."""
    names = {ours: theirs for theirs, ours in ALIASES.items()}
    modes = [names.get(name, name) for name in pooling_names(pooling.how)]
    config = {
        "embedding_dimension": width, "pooling_mode": modes[0] if len(modes) == 1 else modes, "include_prompt": True,
    }  # fmt: skip
    paths = ["", "1_Pooling", *["2_Normalize"] * pooling.unit]
    listed = [
        {"idx": n, "name": str(n), "path": p, "type": t} for n, (p, t) in enumerate(zip(paths, WRITTEN, strict=False))
    ]
    files = {
        INDEX: listed,
        TRANSFORMER_CONFIGS[0]: {"max_seq_length": longest, "do_lower_case": False},
        MODEL_CONFIG: {"model_type": "SentenceTransformer", "prompts": {}, "default_prompt_name": None},
        f"1_Pooling/{CONFIG}": config,
    }
    if pooling.unit:
        files[f"2_Normalize/{CONFIG}"] = {"module_input_name": SENTENCE, "module_output_name": SENTENCE}
    return {name: (json.dumps(content, indent=2) + "\n").encode() for name, content in files.items()}


def tell_lower_case(files: Mapping[str, Content]) -> dict[str, Content]:
    """The same files, whose Transformer makes text lower case.  tokenizer.json says so too, but transformers makes the
    normalizer of some tokenizers anew from tokenizer_config.json, which has no word for it."""
    name = next((name for name in TRANSFORMER_CONFIGS if name in files), TRANSFORMER_CONFIGS[0])
    content = files.get(name, b"{}")
    settings = json.loads(content) if isinstance(content, bytes) else {}
    return {**files, name: json.dumps({**settings, "do_lower_case": True}, indent=2).encode()}


def score_activation(theirs: Mapping[str, Any], model_config: Mapping[str, Any]) -> str:
    """The activation of the score of a model with one output: a cross-encoder's is what its folder says, by default the
    sigmoid; that of any other folder is none.  `theirs` is config.json."""
    saved = theirs.get(ACTIVATION_KEYS[0])  # releases 4 to 5.3
    saved = saved if isinstance(saved, dict) else None
    named = model_config.get("activation_fn") or (saved or {}).get("activation_fn") or theirs.get(ACTIVATION_KEYS[1])
    if named is None:
        return "Sigmoid" if saved is not None or model_config.get("model_type") == CROSS_ENCODER else "Identity"
    return activation_name(named, "the activation of the cross-encoder's score")


def folder_files(folder: Path, entries: Sequence[ModuleEntry]) -> dict[str, Content]:
    """The files of the modules for a folder that is saved again, where the encoder lies at the top."""
    encoder, first = folder / entries[0].path, entries[0]
    listed = read_list(folder / INDEX)
    files: dict[str, Content] = {INDEX: read_bytes(folder / INDEX)}
    if first.path:
        files[INDEX] = json.dumps([{**listed[0], "path": ""}, *listed[1:]], indent=2).encode()
    if (folder / MODEL_CONFIG).is_file():
        files[MODEL_CONFIG] = read_bytes(folder / MODEL_CONFIG)
    if name := transformer_config_name(encoder):
        files[name] = read_bytes(encoder / name)
    for entry in entries[1:]:
        files |= ModuleFolder(folder, entry.path).files()
    return files
