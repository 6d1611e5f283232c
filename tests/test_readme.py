"""What the README says can be done is done here, on small files; and its tree is the tree."""

from __future__ import annotations

import ast
import io
import json
import math
import os
import random
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import wave
from array import array
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
import torch
from typer.core import TyperGroup
from typer.main import get_command

from recipes import results
from regard.cli import app, main
from regard.config import update
from regard.models import marian

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",  # tiny tensors: more threads only wait for each other
}
TRANSLATING, READING = ("Translate", "Everything else"), ("Read with BERT and its relatives",)  # sections
WRITING = ("Write with language models",)
BEYOND = ("Long texts, pictures, sound, preferences",)
BOX = ("At once",)  # tests/box runs it
LOOKING = ("Look inside", "Serve")  # tests/test_looking_page.py, and tests/server/test_serving_page.py the like of it
WORDS = {"a": "ein", "man": "mann", "dog": "hund", "rides": "fährt", "sees": "sieht", "bicycle": "fahrrad", ".": "."}
QUICK = {  # what makes a command short, by how it begins; the last of several equal options wins
    "regard train translate": "--steps 4 --warmup 2 --evaluate-every 2 --save-every 2 --vocab 120 --budget 256",
    "regard train text": "--steps 4 --warmup 2 --evaluate-every 2 --save-every 2 --budget 256",
    "regard pretrain": "--steps 4 --evaluate-every 2 --save-every 4 --vocab 60 --budget 256 --longest 24",
    "regard pretrain gpt2": "--vocab 300",  # 256 bytes among them
    "regard pretrain t5": "--vocab 200",  # 100 sentinels among them
    "regard vectors train": "--epochs 1",
    "regard pretrain reformer": "--vocab 300 --longest 48",
    "regard pretrain wav2vec2": "--budget 400 --longest 100",
    "regard train image": "--epochs 1 --batch 4 --set stack.layers=1",
    "regard align": "--most 4 --texts 4 --batch 4 --steps 2 --longest 32",
    "regard finetune": "--epochs 1",
    "regard glue": "--epochs 1",
}
STACKS = [f"{side}.{field}" for side in ("encoder", "decoder") for field in ("layers=1", "block.width=32")]
TINY = ["embedding.longest=24", "stack.layers=2", "stack.block.width=16", "stack.block.attention.heads=2"]
SHAPES = {
    "transformer-small": ["embedding.width=32", *STACKS],
    "rnn": ["embedding.width=16", "encoder.width=16", "decoder.width=16"],
    "bert-small": ["embedding.width=16", *TINY],
    "electra-small": ["embedding.width=8", *TINY],
    "distilbert-base": ["embedding.width=16", *TINY],
    "gpt2-small": ["embedding.width=16", *TINY, "embedding.longest=128"],
    "awd-lstm": ["embedding.width=16", "recurrent.width=20", "recurrent.last=16"],
    "transformer-xl-small": ["embedding.width=16", *TINY[1:], "memory=16"],
    "elmo-small": ["embedding.width=16", "recurrent.width=16", "recurrent.last=16", "recurrent.cells=24"],
    "t5-small": ["embedding.width=32", *STACKS],
    "reformer-small": ["stack.layers=2", 'kinds=["local", "lsh"]'],
}


def blocks(language: str, sections: tuple[str, ...]) -> list[str]:
    parts = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [block for section in sections for block in fence.findall(parts[section])]


def commands(sections: tuple[str, ...]) -> list[str]:
    lines = [re.sub(r"(^|\s+)#.*", "", line) for block in blocks("sh", sections) for line in block.splitlines()]
    return [made_small(line) for line in lines if line]


def made_small(command: str) -> str:
    if "--help" in command:
        return command
    quick = [options for begin, options in QUICK.items() if command.startswith(begin)]
    trained = re.match(r"regard (?:train translate .*--model|pretrain) (\S+)", command)
    shape = next((shape for name, shape in SHAPES.items() if trained and trained[1].startswith(name)), [])
    return " ".join([command, *quick, *(f"--set {shlex.quote(setting)}" for setting in shape)])


def in_python(sections: tuple[str, ...], call: str, more: str) -> str:
    """The code of sections, with more said in one of its calls."""
    [code] = blocks("python", sections)
    assert code.count(call) == 1, f"the README does it in another way now: let the test say how, instead of {call}"
    return code.replace(call, f"{call[:-1]}, {more})")


@pytest.mark.parametrize("language", ["sh", "python"])
def test_no_block_is_left_out(language):
    tried = blocks(language, BOX + TRANSLATING + READING + WRITING + BEYOND + LOOKING)
    assert len(tried) == README.count(f"```{language}\n") > 0


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    pipe = signal.getsignal(signal.SIGPIPE)
    yield tmp_path
    signal.signal(signal.SIGPIPE, pipe)


@pytest.fixture
def run(workplace, monkeypatch, capsys):
    """Run a command, in this process unless it wants a shell, for torch loads slowly: what it printed."""

    def run(command: str) -> str:
        words = shlex.split(command)
        if {"|", ">"} & set(words):
            shell = ["bash", "-o", "pipefail", "-c", command]
            done = subprocess.run(shell, env=ENVIRONMENT, capture_output=True, text=True, timeout=280)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            return done.stdout
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert ended.value.code == 0, f"{command}\n{told.err}"
        return told.out

    return run


@pytest.fixture
def run_all(run):
    """Run the commands of sections: what each printed, the last of a kind."""
    return lambda sections: {" ".join(command.split()[:2]): run(command) for command in commands(sections)}


# Translating


def make_corpus(folder: Path) -> None:
    draw = random.Random(1)
    for name, size in (("train", 200), ("dev", 10), ("test", 4)):
        sources = [["a", draw.choice(["man", "dog"]), draw.choice(["rides", "sees"]), "a",
                    draw.choice(["man", "dog", "bicycle"]), "."] for _ in range(size)]  # fmt: skip
        targets = [[WORDS[word] for word in (*row[:2], *row[3:5], row[2], ".")] for row in sources]  # the verb last
        for language, rows in (("en", sources), ("de", targets)):
            (folder / f"{name}.{language}").write_text("".join(f"{' '.join(row)}\n" for row in rows), "utf-8")


def make_opus(folder: Path, lines: list[str]) -> None:
    """A small translator that has learned nothing, as others publish them: pickled."""
    from sentencepiece import SentencePieceTrainer

    file = io.BytesIO()
    how = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, **how)
    pieces = ["</s>", "<unk>", *(f"▁{word}" for word in WORDS), "<pad>"]
    stack = {"layers": 1, "block": {"width": 16, "inner": 16, "attention": {"heads": 2}}}
    sizes = {"vocab": len(pieces), "width": 16, "longest": 32}
    model = marian.Marian(update(marian.SILENT, {"embedding": sizes, "encoder": stack, "decoder": stack}))
    published = marian.new(model, {}, {})
    tensors = published.files().pop("model.safetensors")
    folder.mkdir(parents=True)
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "config.json").write_bytes(published.files()["config.json"])
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}), "utf-8")
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(file.getvalue())


def test_every_command_of_translating_and_the_python_run(workplace, run, capsys):
    make_corpus(workplace)
    make_opus(workplace / "downloads" / "opus-mt-en-de", (workplace / "train.en").read_text("utf-8").splitlines())
    printed = {command.split(" --")[0]: run(command) for command in commands(TRANSLATING)}
    assert printed['echo "a man rides a bicycle ." | regard translate'].count("\n") == 1
    assert printed["regard translate"].count("\n") == 4  # by what others published
    assert printed["regard evaluate"].startswith("BLEU ")
    assert (workplace / "translated.de").read_text("utf-8").count("\n") == 4
    assert {path.name for path in workplace.glob("alignment*.png")} == {f"alignment-{n}.png" for n in range(1, 5)}
    assert {path.name for path in (workplace / "runs").iterdir()} == {"en-de", "rnn-additive", "bottleneck"}
    assert (workplace / "tokenizer.json").exists()

    call = 'train=("train.en", "train.de"), dev=("dev.en", "dev.de"), out="runs/en-de")'
    training = {"steps": 4, "evaluate_every": 2, "save_every": 2, "optimizer": {"warmup": 2}}
    more = f"vocab=120, budget=256, set={tuple(SHAPES['transformer-small'])}, training={training}"  # as in QUICK
    (workplace / "readme.py").write_text(in_python(TRANSLATING, call, more), "utf-8")
    runpy.run_path("readme.py")
    told = capsys.readouterr()
    assert "is finished, at step 4" in told.err  # it said what the command had said
    assert "decoder.blocks.0.cross torch.Size([4, 1, " in told.out


# Reading


def make_examples(folder: Path, more: Sequence[str] = ()) -> None:
    draw = random.Random(1)
    words = ["the", "cat", "dog", "sat", "mat", "and", "too", *more]

    def sentence() -> str:
        return " ".join(draw.choices(words, k=draw.randint(3, 8)))

    def labelled(count: int) -> str:
        texts = [sentence() for _ in range(count)]
        return "text\tlabel\n" + "".join(f"{text}\t{'cat' in text:d}\n" for text in texts)

    for name, count in (("reviews", 60), ("reviews-dev", 20), ("reviews-test", 20)):
        (folder / f"{name}.tsv").write_text(labelled(count))
    for name, count in (("train", 40), ("dev", 10)):
        words = [word for _ in range(count) for word in (*sentence().split(), "")]
        tags = ["B-PET" if word in ("cat", "dog") else "O" for word in words]
        lines = (f"{word} {tag}\n" if word else "\n" for word, tag in zip(words, tags, strict=True))
        (folder / f"{name}.conll").write_text("".join(lines))
    (folder / "texts.txt").write_text("".join(f"{sentence()}\n" for _ in range(5)))
    for name, count in (("books", 30), ("held-out", 5)):
        documents = (". ".join(sentence().capitalize() for _ in range(6)) for _ in range(count))
        (folder / f"{name}.txt").write_text("".join(f"{document}.\n\n" for document in documents))
    for name in ("train", "dev"):
        place = folder / "glue-data" / "CoLA" / f"{name}.tsv"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f"x\t{number % 2}\t\t{sentence()}\n" for number in range(20)))


def test_every_command_of_reading_and_the_python_run(small_bert, workplace, run_all, capsys):
    make_examples(workplace)
    for name in ("bert-base-uncased", "bert-base-cased"):
        shutil.copytree(small_bert, workplace / name)
    printed = run_all(READING)
    assert printed["regard fill"].count("\n") == 2 * 5
    assert printed["regard classify"].split("\t")[0] in ("0", "1")
    assert printed["regard evaluate"].splitlines()[-4].startswith("accuracy ")
    assert printed["regard glue"].startswith("CoLA ")
    assert (workplace / "runs" / "electra" / "generator").is_dir()

    call = 'train="reviews.tsv", dev="reviews-dev.tsv", out="runs/reviews")'
    (workplace / "readme.py").write_text(in_python(READING, call, "epochs=1.0"), "utf-8")
    runpy.run_path("readme.py")
    told = capsys.readouterr()
    assert "is finished, at step" in told.err  # it said what the command had said
    assert told.out.startswith("Judged(label=") and told.out.endswith("(2, 16)\n")


# Writing


def test_every_command_of_writing_and_the_python_run(workplace, run_all, capsys):
    make_examples(workplace, ["play", "man", "king", "woman"])
    (workplace / "prompts.txt").write_text("the cat\nthe dog sat\n")
    printed = run_all(WRITING)
    written = [json.loads(line) for line in printed["regard generate"].splitlines()]
    assert [one["prompt"] for one in written] == ["the cat"] * 3 + ["the dog sat"] * 3
    assert [line.split()[0] for line in printed["regard prompt"].splitlines()[5:9]] == ["0", "1", "4", "16"]
    assert (workplace / "curve.png").exists()
    assert printed["regard vectors"].count("\n") == 8  # all words but those that were asked
    assert "1. Olivia signed to do a Broadway play." in printed["regard senses"]
    assert printed["regard evaluate"].startswith("BLEU ")  # T5's, which writes its answers

    [code] = blocks("python", WRITING)
    (workplace / "readme.py").write_text(code, "utf-8")
    runpy.run_path("readme.py")
    *_, last = capsys.readouterr().out.splitlines()
    assert float(last) < 0


# Long texts, pictures, sound, preferences


def make_pictures_and_sounds(folder: Path) -> None:
    from PIL import Image

    for name, count in (("train", 6), ("dev", 2)):
        for label, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
            place = folder / "photos" / name / label
            place.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), colour).save(place / f"{number}.png")
    (folder / "photos/new").mkdir()
    Image.new("RGB", (32, 32), (200, 0, 0)).save(folder / "photos/new/one.png")
    (folder / "recordings").mkdir()
    for name, pitch in (("one", 300), ("two", 500), ("three", 800)):
        with wave.open(str(folder / f"recordings/{name}.wav"), "wb") as file:
            file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
            file.writeframes(array("h", (int(9000 * math.sin(pitch * n / 8000)) for n in range(8000))).tobytes())
    said = "".join(f"recordings/{name}.wav\t{name}\n" for name in ("one", "two", "three"))
    for name in ("said", "said-dev"):
        (folder / f"{name}.tsv").write_text("path\ttext\n" + said)


def test_every_command_of_what_lies_beyond_runs(workplace, run, run_all):
    make_examples(workplace)
    make_pictures_and_sounds(workplace)
    pairs = [
        {"prompt": "the cat", "chosen": f" sat {n * 'and '}", "rejected": f" too {n * 'dog '}"} for n in range(1, 9)
    ]
    for name in ("pairs", "pairs-dev"):
        (workplace / f"{name}.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    (workplace / "prompts.txt").write_text("the cat\nthe dog sat\n")
    run(made_small("regard pretrain gpt2-small books.txt --out runs/gpt2"))
    printed = run_all(BEYOND)
    assert printed["regard classify"].split("\t")[0] in ("red", "blue")
    assert printed["regard transcribe"].count("\n") == 1
    assert {path.name for path in (workplace / "runs").iterdir()} == {
        "reformer", "photos", "sound", "words", "gpt2", "reward", "aligned", "direct",
    }  # fmt: skip


# The tree


def listed() -> set[str]:
    """The paths of `## The tree`: a line each, folders ending in /, what is in them indented further."""
    [section] = re.findall(r"^## The tree\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    [block] = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    paths, folders = set(), [(-1, "")]
    for line in filter(str.strip, block.splitlines()):
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        while folders[-1][0] >= indent:
            folders.pop()
        path = folders[-1][1] + name
        if name.endswith("/"):
            folders.append((indent, path))
        paths.add(path)
    return paths


PARTS = ("regard", "recipes", "benchmarks", "examples")


def has_code(path: Path) -> bool:
    return path.name != "__init__.py" or len(ast.parse(path.read_text("utf-8")).body) > 1


def test_the_tree_lists_every_file_and_no_other():
    paths = listed()
    assert not {path for path in paths if not (ROOT / path).exists()}, "these do not exist"
    files = [path for part in PARTS for path in (ROOT / part).rglob("*.py") if has_code(path)]
    assert not {str(path.relative_to(ROOT)) for path in files} - paths, "these are not listed"


PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:regard|recipes|benchmarks|examples|tests)/[\w/]+\.\w+)`", text))
    links = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", text))
    missing = {name for name in files if not (ROOT / name).exists()}
    assert not missing | {link for link in links if not (page.parent / link).exists()}


COMMANDS = get_command(app)


def parsed(command: str) -> None:
    """A command as far as its options: they are there, and can have these values.  Nothing is run."""
    found, words = COMMANDS, shlex.split(command)[1:]
    while isinstance(found, TyperGroup):
        found, words = found.commands[words[0]], words[1:]
    found.make_context(command, words)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_the_commands_of_a_page_have_the_options_they_are_given(page):
    fences = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"(^|\s+)#.*", "", line) for block in fences for line in block.splitlines()]
    for command in (part for line in lines for part in line.split(" | ") if part.startswith("regard ")):
        parsed(re.sub(r" > \S+$", "", command))


# The scores: what is said of Multi30k, here and in the recipes, is what docs/results says, to a tenth

CONTENT = ["RNN, cosine", "RNN, additive", "RNN, general", "RNN, dot", "RNN, scaled-dot"]
RECIPES = {
    "multi30k_transformer": ["Transformer"],
    "multi30k_rnn_attention": [*CONTENT, "RNN, location"],
    "multi30k_rnn": ["RNN, no attention"],
}


@pytest.fixture(scope="module")
def measured() -> dict[str, str]:
    """The mean BLEU of each row over its seeds, of each the newest run, as the page has it."""
    values: dict[str, list[float]] = {}
    for line in results.read(ROOT / "docs" / "results" / "translation.jsonl"):
        if line["metric"] == "BLEU":
            values.setdefault(line["row"], []).append(line["value"])
    return {row: f"{fmean(each):.1f}" for row, each in values.items()}


def test_the_scores_are_those_of_the_runs(measured):
    [table] = re.findall(r"^\| Multi30k.*?\n\n", README, re.MULTILINE | re.DOTALL)
    least, *_, most = sorted(measured[row] for row in CONTENT)
    wanted = [measured["RNN, no attention"], measured["RNN, location"], least, most, measured["Transformer"]]
    assert re.findall(r"\d+\.\d", table) == wanted


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_tells_the_score_of_its_runs(measured, recipe):
    told = ast.get_docstring(ast.parse((ROOT / "recipes" / f"{recipe}.py").read_text()))
    assert sorted(re.findall(r"\d+\.\d", told)) == sorted(measured[row] for row in RECIPES[recipe])


TOLD = {  # of a recipe, the rows and numbers that its docstring tells, and how
    "long": [
        ("Reformer, 6 layers of width 256", "seconds a step", ".1f"),
        ("Reformer, 6 layers of width 256", "largest memory, GB", ".1f"),
        ("Reformer, 6 layers of width 256", "bits a byte, first step", ".1f"),
        ("Reformer, 6 layers of width 256", "bits a byte, last step", ".1f"),
    ],
    "preferences": [("PPO", "called positive, %", ".0f"), ("language model", "called positive, %", ".0f")],
}


@pytest.mark.parametrize("recipe", TOLD)
def test_a_recipe_tells_the_numbers_of_its_run(recipe):
    told = ast.get_docstring(ast.parse((ROOT / "recipes" / f"{recipe}.py").read_text())) or ""
    said = told[told.index("On an H200") :]
    lines = results.read(ROOT / "docs" / "results" / "beyond.jsonl")
    found = {(line["row"], line["metric"]): line["value"] for line in lines if "value" in line}
    wanted = [f"{found[row, metric]:{form}}" for row, metric, form in TOLD[recipe]]
    pattern = r"\d+\.\d" if recipe == "long" else r"(\d+) %"
    assert re.findall(pattern, said) == wanted


# How fast: each figure is the newest median of docs/results, to a tenth

GPU, CPU = "NVIDIA H200", "CPU, 2 threads"
SPEEDS = [  # where, what begins so, of which row, times whom
    (GPU, "Pretraining bert-base on hidden words, rows of 128", "regard-compiled", "trainer"),
    (GPU, "Pretraining bert-base on hidden words, rows of 512", "regard-compiled", "trainer"),
    (GPU, "Pretraining gpt2-small", "regard-compiled", "trainer"),
    (GPU, "Fine-tuning bert-base, batch 32", "regard", "trainer"),
    (GPU, "Writing 128 tokens greedily with gpt2-small, 1 prompt", "regard", "transformers"),
    (GPU, "Writing 128 tokens greedily with gpt2-small, 32 prompts", "regard", "transformers"),
    (GPU, "Translating with a Marian of Transformer-base width, 128 at once, greedy", "regard", "transformers"),
    (GPU, "Translating with a Marian of Transformer-base width, 128 at once, beam 5", "regard", "transformers"),
    (GPU, "Embedding 8192 texts", "regard", "transformers"),
    (CPU, "Embedding 512 texts", "regard", "transformers"),
    (CPU, "Embedding 512 texts", "regard", "sentence-transformers"),
    (CPU, "Translating with a Marian of Transformer-base width, 32 at once, greedy", "regard", "transformers"),
    (CPU, "Translating with a Marian of Transformer-base width, 32 at once, beam 4", "regard", "transformers"),
    (CPU, "Fine-tuning bert-small, batch 32", "regard", "trainer"),
]


def test_it_is_as_fast_as_the_runs_say():
    lines = results.read(ROOT / "docs" / "results" / "speed.jsonl")
    wanted = []
    for where, what, row, whom in SPEEDS:
        told = (where, row, f"times {whom}")
        mine = [line for line in lines if (line["split"], line["row"], line["metric"]) == told]
        [value] = {line["value"] for line in mine if line["data"].startswith(what)}
        wanted.append(f"{value:.1f}")
    [table] = re.findall(r"^\| \| times as fast.*?\n\n", README, re.MULTILINE | re.DOTALL)
    assert re.findall(r"\| (\d+\.\d) \|", table) == wanted
