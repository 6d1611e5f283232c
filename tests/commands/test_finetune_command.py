"""`regard finetune`: every task from files of every form; again, it goes on; and what it refuses."""

from __future__ import annotations

import json
import signal
import time

import pytest
from toy import spawn
from toy_examples import (
    MADE,
    assert_same_weights,
    finetuning,
    make_examples,
    reviews,
    write_questions,
    write_table,
)

import regard

# What is learned, and from what


@pytest.mark.parametrize(
    "task, suffix, columns",
    [("classify", ".csv", "text: column 'sentence', label: column 'label'"),
     ("pair", ".jsonl", "text: column 'premise', second: column 'hypothesis', label: column 'label'"),
     ("regress", ".parquet", "text: column 'text', label: column 'score'"),
     ("choose", ".tsv", "choice 1: column 'ending0', choice 2: column 'ending1', choice 3: column 'ending2'"),
     ("tag", "", "8 sentences, 40 words; entities of 2 kinds: VIEW, WORK"),
     ("answer", "", "8 questions, 4 of them impossible; 8 can be trained on")],
)  # fmt: skip
def test_every_task_is_learned_from_files(call, encoder, tmp_path, task, suffix, columns):
    train, dev = make_examples(tmp_path, task, suffix)
    done = call(*finetuning(encoder, task, train, dev, tmp_path / "run", "--test", dev))
    assert done.code == 0, done.err
    assert columns in done.err and "new, and to be learned: " in done.err
    assert done.err.count(f"on {dev}:") == 2  # as dev, and as test
    found = regard.load(tmp_path / "run", "cpu")
    assert (found.name, found.task.role in found.model.heads) == (task, True)
    names = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "README.md"}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_the_form_of_a_table_makes_no_difference(call, encoder, tmp_path, suffix):
    for form, name in ((suffix, "one"), (".tsv", "other")):
        (tmp_path / form).mkdir(exist_ok=True)
        assert call(*finetuning(encoder, "classify", *make_examples(tmp_path / form, "classify", form), tmp_path / name)
                    ).code == 0  # fmt: skip
    assert_same_weights(tmp_path / "one", tmp_path / "other")


def test_labels_are_kept_and_a_head_that_has_learned_them_goes_on(call, encoder, examples, tmp_path):
    assert call(*finetuning(encoder, "classify", *examples, tmp_path / "run")).code == 0
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "neg", "1": "pos"} and config["regard_task"] == "classify"
    again = call(*finetuning(tmp_path / "run", "classify", *examples, tmp_path / "more"))
    assert again.code == 0 and "the head goes on with what it has learned" in again.err


def test_columns_are_named_by_name_or_by_number(call, encoder, tmp_path):
    rows = [{"id": str(n), "kind": row["label"], "said": row["sentence"]} for n, row in enumerate(reviews(12))]
    path = write_table(tmp_path / "a.tsv", rows)
    guessed = call(*finetuning(encoder, "classify", path, path, tmp_path / "guessed"))
    assert guessed.code == 1 and "no column looks like the text; there are: id, kind, said" in guessed.err
    assert "--text" in guessed.err
    for number, named in enumerate((["--text", "said", "--label", "kind"], ["--text", 3, "--label", 2])):
        done = call(*finetuning(encoder, "classify", path, path, tmp_path / str(number), *named))
        assert done.code == 0 and "text: column 'said', label: column 'kind'" in done.err
    wrong = call(*finetuning(encoder, "classify", path, path, tmp_path / "wrong", "--text", "siad"))
    assert wrong.code == 2 and "has no column 'siad'; did you mean 'said'?" in wrong.err


def test_a_table_without_a_header_and_labels_that_are_none(call, encoder, tmp_path):
    lines = [f"{row['sentence']}\t{row['label']}" for row in reviews(12)]
    path = tmp_path / "a.tsv"
    path.write_text("\n".join([*lines, "nobody knows\t-1", "nor this\t?"]) + "\n")
    plain = call(*finetuning(encoder, "classify", path, path, tmp_path / "one", "--no-header"))
    assert plain.code == 0 and "13 examples; left out: 1 without a label" in plain.err
    told = call(*finetuning(encoder, "classify", path, path, tmp_path / "two", "--unlabelled", "?"))
    assert told.code == 0 and "13 examples; left out: 1 without a label" in told.err
    assert set(json.loads((tmp_path / "two/model/config.json").read_text())["label2id"]) == {"-1", "neg", "pos"}


def test_a_preset_begins_from_nothing_with_a_tokenizer(call, encoder, examples, tmp_path):
    small = ["--set", "stack.layers=1"]
    done = call(*finetuning("bert-tiny", "classify", *examples, tmp_path / "run", *small, "--tokenizer", encoder))
    assert done.code == 0, done.err
    assert regard.load(tmp_path / "run", "cpu").model.encoder.config.stack.layers == 1
    without = call(*finetuning("bert-tiny", "classify", *examples, tmp_path / "without"))
    assert without.code == 2 and "name a tokenizer too" in without.err
    twice = call(*finetuning(encoder, "classify", *examples, tmp_path / "twice", "--tokenizer", encoder))
    assert twice.code == 2 and "has a tokenizer of its own" in twice.err


def test_of_what_has_learned_only_dropout_changes(call, encoder, examples, tmp_path):
    more = ["--set", "stack.block.dropout=0.3"]
    assert call(*finetuning(encoder, "classify", *examples, tmp_path / "run", *more)).code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["model"]["stack"]["block"]["dropout"] == 0.3
    cut = call(*finetuning(encoder, "classify", *examples, tmp_path / "cut", "--set", "stack.layers=2"))
    assert cut.code == 2 and "--set stack.layers" in cut.err and "only dropout" in cut.err


def test_a_folder_reads_as_it_was_trained(call, encoder, examples, tmp_path):
    done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", "--longest", 5))
    assert done.code == 0 and "24 rows fill the 5 pieces that are read; what is longer is cut" in done.err
    assert regard.load(tmp_path / "run", "cpu").reader.longest == 5
    scored = call("evaluate", "--model", tmp_path / "run", examples[1])
    assert done.err.endswith(scored.out.split("\n", 2)[2])  # after the facts about the file
    assert json.loads((tmp_path / "run/model/tokenizer_config.json").read_text())["model_max_length"] == 5
    longer = call(*finetuning(tmp_path / "run", "classify", *examples, tmp_path / "longer"))
    assert longer.code == 0 and regard.load(tmp_path / "longer", "cpu").reader.longest == 40


def test_what_spells_a_special_token_is_text(call, encoder, examples, tmp_path):
    rows = [{**row, "sentence": f"{row['sentence']} [SEP] [MASK]"} for row in reviews(8)]
    path = write_table(tmp_path / "a.tsv", rows)
    assert call(*finetuning(encoder, "classify", path, path, tmp_path / "run")).code == 0
    reader = regard.load(tmp_path / "run", "cpu").reader
    [(ids, _)] = reader.rows([("a [SEP] film [MASK]",)])
    assert ids.count(reader.tokenizer.end) == 1 and reader.tokenizer.mask not in ids


# Going on


def test_a_finished_run_says_so_and_another_is_refused(call, encoder, examples, tmp_path):
    command = finetuning(encoder, "classify", *examples, tmp_path / "run")
    assert call(*command).code == 0
    again = call(*command)
    assert again.code == 0 and "is finished, at step 2" in again.err
    for changed, told in ((["--seed", 3], "settings.seed=0, now 3"), (["--label", "label"], "reading.label=None")):
        refused = call(*command, *changed)
        assert refused.code == 1 and "holds another run" in refused.err and told in refused.err
    tagging = call(*finetuning(encoder, "tag", *make_examples(tmp_path, "tag"), tmp_path / "run"))
    assert tagging.code == 1 and "model.task=classify, now tag" in tagging.err


def test_changed_examples_are_refused_unless_allowed(call, encoder, tmp_path):
    train, dev = make_examples(tmp_path, "classify")
    command = finetuning(encoder, "classify", train, dev, tmp_path / "run")
    assert call(*command).code == 0
    with open(dev, "a") as file:
        file.write("the film\tpos\n")
    refused = call(*command)
    assert refused.code == 1 and "other data" in refused.err
    assert call(*command, "--allow-changed-data").code == 0


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_to_the_same_weights(call, encoder, examples, tmp_path, number, code):
    def command(name):
        return finetuning(encoder, "classify", *examples, tmp_path / name, "--epochs", 12, "--set", DROPOUT)

    with spawn(*command("stopped")) as process:
        metrics = tmp_path / "stopped" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_text().count('"evaluation"') > 1):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and b"Traceback" not in err
    unfinished = call("classify", "--model", tmp_path / "stopped", "a film")
    assert unfinished.code == 0 and "has not finished: this is its best checkpoint so far, step" in unfinished.err
    assert "(accuracy " in unfinished.err
    for name in ("stopped", "whole"):
        done = call(*command(name))
        assert done.code == 0
        assert ("Resuming after step" in done.err) == (name == "stopped")
    assert_same_weights(tmp_path / "stopped", tmp_path / "whole")


# What is refused, before anything is trained


DROPOUT = "stack.block.dropout=0.2"
ROWS = "sentence\tlabel\na good film\tpos\na bad film\tneg\n"
SPOILT = {
    "unseen label": ("dev.tsv", ROWS + "a film\tmixed\n", ["dev.tsv, line 4", "'mixed'", "did not occur", "neg, pos"]),
    "one class": ("train.tsv", "sentence\tlabel\na\tpos\nb\tpos\n", ["train.tsv", "all examples have the label 'pos'"]),
    "blank label": ("train.tsv", ROWS + "a film\t \n", ["train.tsv, line 4", "'label', is blank", "--skip-bad"]),
    "columns": ("train.tsv", ROWS + "a\tfilm\tpos\n", ["train.tsv, line 4 has 3 columns where 2", "--skip-bad"]),
    "no rows": ("dev.tsv", "sentence\tlabel\n", ["dev.tsv has no rows below its header sentence, label"]),
    "empty": ("train.tsv", "", ["train.tsv is empty"]),
    "bytes": ("train.tsv", ROWS.encode() + b"caf\xe9\tpos\n", ["train.tsv, line 4, byte 4", "0xe9", "--encoding"]),
    "quote": ("train.csv", 'text,label\n"a film,pos\nb,neg\n', ["train.csv, line 2", "a quote that is not closed"]),
    "twice": ("train.csv", "text,text,label\na,b,pos\n", ["columns 1 and 2 are both called 'text'", "--no-header"]),
    "line 7": ("train.jsonl", '{"text": "a", "label": "b"}\n' * 6 + "{\n", ["train.jsonl, line 7 is not valid JSON"]),
    "deep": ("train.jsonl", "[" * 100_000 + "\n", ["train.jsonl, line 1 is nested too deeply"]),
    "key twice": ("train.jsonl", '{"text": "a", "text": "b"}\n', ["line 1", "the key 'text' occurs twice"]),
    "null label": ("train.jsonl", '{"text": "a", "label": null}\n', ["line 1: the label, in column 'label', is blank"]),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_faulty_table_is_named_with_its_line(call, encoder, tmp_path, fault):
    files = dict(zip(("train", "dev"), make_examples(tmp_path, "classify"), strict=True))
    name, content, told = SPOILT[fault]
    files[name.partition(".")[0]] = tmp_path / name
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = call(*finetuning(encoder, "classify", *files.values(), tmp_path / "run"))
    assert done.code == 1 and "Traceback" not in done.err
    assert all(words in done.err for words in told), done.err
    assert not (tmp_path / "run").exists()


def test_bad_rows_are_left_out_if_asked(call, encoder, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(ROWS + "too\tmany\tcolumns\nno label\t\n\tneg\n")
    refused = call(*finetuning(encoder, "classify", path, path, tmp_path / "run", "--skip-bad", 1))
    assert refused.code == 1 and "(now 1)" in refused.err
    done = call(*finetuning(encoder, "classify", path, path, tmp_path / "run", "--skip-bad", 2))
    assert done.code == 0 and "2 examples; left out: 0 without a label, 1 with a blank text, 2 bad" in done.err


@pytest.mark.parametrize("number", ["nan", "inf", "-1e999", "four"])
def test_a_score_that_is_no_number_is_named(call, encoder, tmp_path, number):
    train, dev = make_examples(tmp_path, "regress")
    with open(dev, "a") as file:
        file.write(f"a film\t{number}\n")
    done = call(*finetuning(encoder, "regress", train, dev, tmp_path / "run"))
    assert done.code == 1 and f"dev.tsv, line 10: the label '{number}' is no finite number" in done.err
    left_out = call(*finetuning(encoder, "regress", train, dev, tmp_path / "run", "--skip-bad", 1))
    assert left_out.code == 0 and "8 examples; left out: 0 without a label, 0 with a blank text, 1 bad" in left_out.err


def test_a_choice_that_is_not_there_is_named(call, encoder, tmp_path):
    rows = MADE["choose"](4)
    path = write_table(tmp_path / "a.jsonl", [*rows, {**rows[0], "label": "7"}])
    done = call(*finetuning(encoder, "choose", path, path, tmp_path / "run"))
    assert done.code == 1 and "line 5: the label '7' is none of 3 choices" in done.err


@pytest.mark.parametrize(
    "content, told",
    [("a O\nb c O\n", "line 2 has 3 columns where 2 are expected"),
     ("a Q-X\nb B-X\nc O\n", "Q-X fit no scheme; give IOB1, IOB2 or BIOES tags"),
     ("a O\nb O\n", "all words have the tag 'O'"),
     ("\n\n", "has no words")],
)  # fmt: skip
def test_a_faulty_file_of_tags_is_named(call, encoder, tmp_path, content, told):
    _, dev = make_examples(tmp_path, "tag")
    (tmp_path / "bad.txt").write_text(content)
    done = call(*finetuning(encoder, "tag", tmp_path / "bad.txt", dev, tmp_path / "run"))
    assert done.code == 1 and "bad.txt" in done.err and told in done.err


def test_tags_that_begin_oddly_are_counted_and_the_last_line_may_end_a_sentence(call, encoder, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the O\nfilm B-X\n\nso I-X\ngood B-Y")
    done = call(*finetuning(encoder, "tag", path, path, tmp_path / "run"))
    assert done.code == 0 and "2 sentences, 4 words" in done.err and "1 entities begin with no B-" in done.err


def test_answers_that_are_not_there_are_told_and_not_trained_on(call, encoder, tmp_path):
    asked = [("what ?", "the film is good", "good"), ("who ?", "the film is good", "nobody")]
    path = write_questions(tmp_path / "a.json", asked)
    done = call(*finetuning(encoder, "answer", path, path, tmp_path / "run"))
    assert done.code == 0, done.err
    assert "1 can be trained on" in done.err and "1 answers are not in the context" in done.err and "(q1)" in done.err
    assert "1 questions in 1 rows" in done.err
    none = write_questions(tmp_path / "b.json", asked[1:])
    refused = call(*finetuning(encoder, "answer", none, path, tmp_path / "none"))
    assert refused.code == 1 and "no question whose answer is in its context" in refused.err
    table = call(*finetuning(encoder, "answer", write_table(tmp_path / "a.csv", reviews(2)), path, tmp_path / "no"))
    assert table.code == 1 and "a.csv is not valid JSON" in table.err


@pytest.mark.parametrize(
    "options",
    ["--epochs -1", "--batch 0", "--rate -1", "--rate 11", "--warmup 2", "--longest 0", "--longest 1", "--patience -1",
     "--best accuracy", "--precision half", "--set stack.block.dropuot=0", "--encoding utf-9", "--second sentence"],
)  # fmt: skip
def test_a_bad_option_is_refused_and_named(call, encoder, examples, tmp_path, options):
    done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", *options.split()))
    assert done.code == 2 and "Traceback" not in done.err, done.err
    assert options.split()[1].partition("=")[0].rpartition(".")[2] in done.err
    assert not (tmp_path / "run").exists()


def test_a_score_that_is_not_given_cannot_choose(call, encoder, examples, tmp_path):
    done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", "--best", "highest bleu"))
    assert done.code == 2 and "an evaluation gives only accuracy, f1, matthews" in done.err


def test_a_model_or_task_that_is_not_is_named(call, encoder, examples, tmp_path):
    missing = call(*finetuning(tmp_path / "nowhere", "classify", *examples, tmp_path / "run"))
    assert missing.code == 1 and "there is no such folder" in missing.err
    task = call(*finetuning(encoder, "clasify", *examples, tmp_path / "run"))
    assert task.code == 2 and "clasify" in task.err
    with pytest.raises(regard.Problem, match="did you mean 'classify'"):
        regard.finetune(encoder, "clasify", train=examples[0], dev=examples[1])
    with pytest.raises(regard.Problem, match="needs train=FILE"):
        regard.finetune(encoder, "classify", train=examples[0])
