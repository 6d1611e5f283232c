"""Which model a command uses when none is named; and that those in the package answer sensibly."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from functools import partial

import pytest

import regard
from regard.box import MODELS, TASKS, boxed, boxes
from regard.cli import main
from regard.errors import Problem, UsageProblem

README = (MODELS.parents[2] / "README.md").read_text(encoding="utf-8")
SHIPPED = sorted(path.parent for path in MODELS.glob("*/config.json"))


@pytest.fixture
def command(monkeypatch, capsys):
    pipe = signal.getsignal(signal.SIGPIPE)

    def run(*words: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    yield run
    signal.signal(signal.SIGPIPE, pipe)


def answer(command, *words: object, stdin: str = "") -> str:
    code, out, err = command(*words, stdin=stdin)
    assert code == 0, err
    return out


def test_every_task_has_a_model(small_box):
    names = {task: boxed(task).name for task in TASKS}
    assert names["fill"] == names["embed"] == names["look"] == "encoder"
    assert (names["classify"], names["tag"], names["generate"]) == ("sentiment", "entities", "language-model")
    assert names["translate"] == "translate-de-en" and boxed("translate", target="de").name == "translate-en-de"
    assert boxes() == {path.name: path for path in sorted(small_box.iterdir())}


def test_what_is_not_there_is_told_with_the_remedy(tmp_path, monkeypatch, command):
    monkeypatch.setenv("REGARD_BOX", str(tmp_path / "nowhere"))
    assert boxes() == {}
    with pytest.raises(Problem, match=r"nowhere/encoder: .*--model.*REGARD_BOX"):
        boxed("fill")
    for words in (["fill", "a [MASK]"], ["translate", "a"], ["embed", "a"], ["classify", "a"], ["tag", "a"],
                  ["generate", "a"]):  # fmt: skip
        code, out, err = command(*words)
        assert (code, out) == (1, "") and "--model" in err and "Traceback" not in err
    with pytest.raises(UsageProblem, match=r"'translat'.*translate"):
        boxed("translat")
    with pytest.raises(UsageProblem, match="'fr'; there are: en, de"):
        boxed("translate", target="fr")


def test_what_is_no_model_is_not_in_the_box(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_BOX", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert boxes() == {}


def test_the_box_does_not_wait_for_torch():
    code = "import sys, regard.box; regard.box.boxes(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_each_command_uses_the_model_in_the_box(small_box, command):
    for words in (["translate", "A man."], ["generate", "The", "--most", 3], ["fill", "The [MASK] is old."],
                  ["classify", "It is old."], ["embed", "The man.", "The dog."]):  # fmt: skip
        plain = answer(command, *words)
        model = boxed(words[0])
        assert plain and plain == answer(command, *words, "--model", model) == answer(
            command, *words, "--model", model.name
        )
        if words[0] != "fill":  # of lines it tells the number too
            texts = "".join(f"{word}\n" for word in words[1:] if word not in ("--most", 3))
            options = words[words.index("--most") :] if "--most" in words else []
            assert plain == answer(command, words[0], *options, stdin=texts)
    assert len(answer(command, "tag", "--words", "Ada is in Paris.").split("\n")) == 7


def test_a_translator_is_chosen_by_what_it_writes(small_box, command):
    there = answer(command, "translate", "A man.", "--to", "de")
    assert there == answer(command, "translate", "A man.", "--model", "translate-en-de")
    both = command("translate", "A man.", "--to", "de", "--model", "translate-en-de")
    assert both[0] == 2 and "leave one of them out" in both[2]
    assert command("translate", "A man.", "--to", "fr")[0] == 2


def test_a_file_in_the_place_of_a_text_is_refused(small_box, command, tmp_path):
    (tmp_path / "text").write_text("A man.\n")
    for verb in ("translate", "embed", "generate"):
        code, out, err = command(verb, tmp_path / "text")
        assert (code, out) == (2, "") and f"--file {tmp_path / 'text'}" in err
    assert answer(command, "embed", "--file", tmp_path / "text") == answer(command, "embed", "A man.")


def test_a_name_in_the_box_is_loaded(small_box):
    assert regard.load("sentiment", "cpu")("It is old.").label in ("negative", "positive")


# What comes with the package


def test_they_are_all_there_and_small():
    assert {folder.name for folder in SHIPPED} == {boxed(task).name for task in TASKS} | {"translate-en-de"}
    files = [path for folder in SHIPPED for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) <= 30_000_000
    for folder in SHIPPED:
        assert list(regard.verify(folder))
        assert "Limits:" in (folder / "README.md").read_text()


def test_they_keep_their_scores_in_half_precision():
    for folder in SHIPPED:
        rows = re.findall(r"^\| .* \| ([\d.]+) \| ([\d.]+) \|$", (folder / "README.md").read_text(), re.MULTILINE)
        assert rows and all(float(half) == pytest.approx(float(full), rel=0.005) for full, half in rows), folder.name


def test_they_answer_sensibly(command):
    english = answer(command, "translate", "Ein Mann fährt Fahrrad.").lower()
    assert "man" in english and re.search("bike|bicycle|cycl", english)
    german = answer(command, "translate", "--to", "de", "Two dogs are playing in the snow.")
    assert "Hunde" in german and "Schnee" in german
    assert answer(command, "classify", "A wonderful, moving film.").startswith("positive")
    assert answer(command, "classify", "A dull and tedious mess.").startswith("negative")
    found = [line.split("\t") for line in answer(command, "tag", "Angela Merkel met Tim Cook in Paris.").splitlines()]
    assert ["LOC", "Paris"] in [[row[1], row[4]] for row in found] and "PER" in {row[1] for row in found}
    words = {line.split("\t")[2] for line in answer(command, "fill", "He was born in the [MASK] of 1950.").splitlines()}
    assert words & {"year", "summer", "spring", "winter", "autumn", "end", "time"}
    written = answer(command, "generate", "The house", "--most", 20, "--temperature", 0)
    assert written.startswith("The house") and len(written.split()) > 8


def test_sentences_that_mean_the_same_are_nearer(command):
    texts = ["A man is playing a guitar.", "A man plays the guitar.", "The election was held on Monday."]
    one, same, other = (json.loads(line) for line in answer(command, "embed", *texts).splitlines())

    def cosine(a: list[float], b: list[float]) -> float:
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5

    assert cosine(one, same) > cosine(one, other)


def test_the_wheel_carries_them():
    """hatchling packs what lies in the package and git does not ignore."""
    root = MODELS.parents[2]
    if not (root / ".git").exists() or not shutil.which("git"):
        pytest.skip("what git ignores can be asked in a checkout alone")
    files = [str(path) for folder in SHIPPED for path in folder.iterdir()]
    ignored = subprocess.run(["git", "check-ignore", *files], cwd=root, capture_output=True, text=True)
    assert (ignored.returncode, ignored.stdout) == (1, "")


# What the README says of it


def test_every_command_of_the_readme_answers(small_box, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = re.search(r"^## At once\n.*?^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    lines = [line.split(" | ") for line in section.splitlines()]
    for *before, words in map(partial(map, shlex.split), lines):
        stdin = "".join(f"{echoed[1]}\n" for echoed in before)
        code, out, err = command(*words[1:], stdin=stdin)
        assert code == 0 and (out or words[1] in ("tag", "embed")), err
    assert (tmp_path / "vectors.npy").stat().st_size
