"""What can be read off a frozen encoder: the lectures' walk-through (2,000 SST-2 sentences, logistic regression), their
"identify offensive language", and their table of layers (CoNLL-2003 entities).

    REGARD_DATA=FOLDER python -m recipes.probes --model FOLDER --name "MiniLM, 6 layers"

Seven minutes on two CPU cores for MiniLM: SST-2 accuracy 79.0, offensive language macro-F1 67.9, and for entities the
last four layers side by side best, F1 75.9 (docs/results/encoders.md).
"""

from argparse import ArgumentParser
from pathlib import Path

from recipes.results import RESULTS, append
from recipes.run_facts import command, commit, data_folder, device_name
from regard.commands.load import load_reader
from regard.commands.probe import probe
from regard.tasks.mix import LEARNED
from regard.tasks.reader import CHOICES

SENTENCES = 5_000  # of CoNLL's training text: enough to tell the layers apart

if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="the folder of an encoder")
    parser.add_argument("--name", required=True, help="what to call it in the tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go")
    options = parser.parse_args()
    reader, data = load_reader(options.model), data_folder()
    about = {
        "command": command(options), "commit": commit(), "device": device_name(), "seed": options.seed,
        "folder": options.results,
    }  # fmt: skip

    [walked] = probe(reader, "classify", data / "sst2/sentence-level/train.tsv", limit=2000, seed=options.seed)
    [offensive] = probe(reader, "classify", data / "davidson-hate-speech/labeled_data.csv.xz", seed=options.seed)
    for text, found in (("SST-2, 2,000 sentences", walked), ("Davidson's tweets", offensive)):
        for score in found.scores:
            row = f"{options.name}, logistic regression"
            split = f"{found.trained_on:,} to train, {found.tested_on:,} to test"
            append("encoders", row=row, data=text, split=split, metric=score.metric, value=score.value, **about)

    conll = data / "conll2003"
    for choice in (*CHOICES, LEARNED):
        [found] = probe(reader, "tag", conll / "eng.train.xz", conll / "eng.testa.xz", layers=[choice], limit=SENTENCES)
        for score in found.scores:
            split = f"dev, {SENTENCES:,} sentences to train"
            row = f"{options.name}: {choice}"
            append("encoders", row=row, data="CoNLL-2003", split=split, metric=score.metric, value=score.value, **about)
