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
    assert done.code == 0 and "of 24 examples truncated to 5 tokens" in done.err
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


# What will be learned, and what is held out


def test_what_will_be_learned_is_said_before_training(call, encoder, tmp_path):
    train, dev = make_examples(tmp_path, "classify")
    with open(train, "a") as file:
        file.write("a film\tpos\nA  film\tneg\n")
    with open(dev, "a") as file:
        file.write("a film\tpos\n")
    done = call(*finetuning(encoder, "classify", train, dev, tmp_path / "run", "--test", dev, "--longest", 8))
    assert done.code == 0, done.err
    for line in (
        "labels: neg 13, pos 13; majority share 50.0% (the accuracy of always answering 'neg')",
        "labels: pos 5, neg 4; majority share 55.6% (the accuracy of always answering 'pos')",
        "duplicates: train 1 of 26 (1 of its texts with different answers), dev 0 of 9, test 0 of 9",
        "warning: 1 of 9 examples of dev (11.1%) are in train too, 1 with the same answer: scores on dev may flatter",
        "warning: 9 of 9 examples of test (100.0%) are in dev too",
        " of 26 examples truncated to 8 tokens",
    ):
        assert line in done.err
    assert done.err.index("majority share") < done.err.index("step")


def test_other_columns_of_dev_are_said(call, encoder, examples, tmp_path):
    dev = write_table(tmp_path / "dev.tsv", [{"text": row["sentence"], "class": row["label"]} for row in reviews(4)])
    done = call(*finetuning(encoder, "classify", examples[0], dev, tmp_path / "run"))
    assert done.code == 0, done.err
    assert "warning: of dev other columns are read: text: column 'text', label: column 'class'" in done.err


@pytest.mark.parametrize("task", ["classify", "pair", "similar", "regress", "choose", "tag", "answer"])
def test_without_a_dev_file_a_tenth_is_held_out(call, encoder, tmp_path, task):
    made = "pair" if task == "similar" else task
    train = make_examples(tmp_path, made)[0] if task != "answer" else write_questions(
        tmp_path / "a.json", [(f"what {n} ?", f"the film {n} is good", "good") for n in range(12)]
    )  # fmt: skip
    if task == "tag":
        train.write_text("".join(f"the O\nfilm B-WORK\nis O\n{n} O\n\n" for n in range(12)))
    done = call("finetune", encoder, task, "--train", train, "--out", tmp_path / "run", "--epochs", 1)
    assert done.code == 0, done.err
    assert "no dev file: " in done.err and f"10% of {train}, are held out to choose weights by" in done.err
    assert f"on {train} (held out):" in done.err
    assert f"on {train} (held out): " in (tmp_path / "run" / "model" / "README.md").read_text()
    again = call("finetune", encoder, task, "--train", train, "--out", tmp_path / "run", "--epochs", 1)
    assert again.code == 0 and "is finished" in again.err


def test_a_run_that_holds_out_its_dev_goes_on_with_the_same(call, encoder, examples, tmp_path):
    def command(name, *more):
        how = ["--epochs", 6, "--batch", 8, "--rate", "1e-3", "--set", DROPOUT, *more]
        return ["finetune", encoder, "classify", "--train", examples[0], "--out", tmp_path / name, *how]

    with spawn(*command("stopped")) as process:
        metrics = tmp_path / "stopped" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_text().count('"evaluation"') > 1):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    for name in ("stopped", "whole"):
        assert call(*command(name)).code == 0
    assert_same_weights(tmp_path / "stopped", tmp_path / "whole")
    other = call(*command("whole", "--dev", examples[1]))
    assert other.code == 1 and "other data" in other.err


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
        _, err = process.communicate(timeout=280)
    assert process.returncode == code and b"Traceback" not in err
    unfinished = call("classify", "--model", tmp_path / "stopped", "a film")
    assert unfinished.code == 0 and "has not finished: this is its best checkpoint so far, step" in unfinished.err
    assert "(accuracy " in unfinished.err
    for name in ("stopped", "whole"):
        done = call(*command(name))
        assert done.code == 0
        assert ("Resuming after step" in done.err) == (name == "stopped")
    assert_same_weights(tmp_path / "stopped", tmp_path / "whole")


def test_text_that_the_model_does_not_know_is_told(call, encoder, examples, tmp_path):
    rows = [{**row, "sentence": f"{row['sentence']} 漢 字"} for row in reviews(8)]
    odd = write_table(tmp_path / "odd.tsv", rows)
    done = call(*finetuning(encoder, "classify", examples[0], odd, tmp_path / "run"))
    assert done.code == 0 and f"of the tokens of {odd} are unknown" in done.err, done.err
    assert f"of the tokens of {examples[0]} are unknown" not in done.err


# Several labels per example


def test_several_labels_are_learned_by_an_option_and_answered_each(call, encoder, tmp_path):
    kinds = {"neg": "bad|short", "pos": "short"}
    rows = [{"sentence": row["sentence"], "label": kinds[row["label"]]} for row in reviews(12)]
    path, run = write_table(tmp_path / "a.tsv", rows), tmp_path / "run"
    parted = ["--label-separator", "|"]
    done = call(*finetuning(encoder, "classify", path, path, run, *parted, "--best", "highest f1 of bad"))
    assert done.code == 0, done.err
    assert "multi-label: short (12), bad (6); 0 examples have none" in done.err and "f1_micro" in done.err
    assert json.loads((run / "model/config.json").read_text())["problem_type"] == "multi_label_classification"
    row = call("classify", "--model", run, "a good film", "--threshold", "0.0001").out.rstrip("\n").split("\t")
    assert sorted(row[0].split(",")) == ["bad", "short"] and len(row) == 3
    assert sorted(cell.split()[0] for cell in row[1:]) == ["bad", "short"]
    answer = json.loads(call("classify", "--model", run, "a good film", "--json").out)
    assert set(answer) == {"labels", "probabilities"} and set(answer["probabilities"]) == {"bad", "short"}
    scored = call("evaluate", "--model", run, path, *parted, "--json")
    metrics = [score["metric"] for score in json.loads(scored.out)["scores"]]
    assert metrics == ["f1_micro", "f1_macro", "exact match", "f1 of bad", "f1 of short"]
    unclear = call("evaluate", "--model", run, path)
    assert unclear.code == 1 and "may be one label or several" in unclear.err
    for task, more in (("pair", parted), ("classify", ["--threshold", "0.3"])):
        wrong = call(*finetuning(encoder, task, path, path, tmp_path / "wrong", *more))
        assert wrong.code == 2 and not (tmp_path / "wrong").exists(), wrong.err
    one = call("classify", "--model", run, "a film", "--threshold", "1.5")
    assert one.code == 2 and "threshold=1.5" in one.err


# What is refused, before anything is trained


DROPOUT = "stack.block.dropout=0.2"
ROWS = "sentence\tlabel\na good film\tpos\na bad film\tneg\n"
SPOILT = {
    "other labels": ("dev.tsv", "sentence\tlabel\na\t0\n", ["dev.tsv", "(0)", "(neg, pos)", "--label-map 0=neg"]),
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
    for metric in ("bleu", "f1"):  # of F1s there are several
        done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", "--best", f"highest {metric}"))
        assert done.code == 2 and "there are: accuracy, f1 of pos, f1_macro, matthews" in done.err
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("metric", ["f1 of pos", "F1_macro", "Matthews"])
def test_every_metric_can_choose_the_weights(call, encoder, examples, tmp_path, metric):
    done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", "--best", f"highest {metric}"))
    assert done.code == 0, done.err
    [evaluation, *_] = [
        line["evaluation"]
        for line in map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
        if "evaluation" in line
    ]
    assert list(evaluation) == ["accuracy", "f1 of pos", "f1_macro", "matthews"]


def test_labels_of_dev_and_test_that_training_lacks_are_counted_as_wrong(call, encoder, examples, tmp_path):
    odd = tmp_path / "odd.tsv"
    odd.write_text(ROWS + "a film\tmixed\n")
    done = call(*finetuning(encoder, "classify", examples[0], odd, tmp_path / "run", "--test", odd))
    assert done.code == 0, done.err
    assert done.err.count("1 labels did not occur in training and are counted as wrong: 'mixed' (1)") == 2


def test_a_label_map_renames_what_is_learned(call, encoder, examples, tmp_path):
    mapped = ["--label-map", "neg=negative,pos=positive"]
    assert call(*finetuning(encoder, "classify", *examples, tmp_path / "run", *mapped)).code == 0
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    bad = call(*finetuning(encoder, "classify", *examples, tmp_path / "bad", "--label-map", "neg"))
    assert bad.code == 2 and "label map 'neg'" in bad.err
    number = call(*finetuning(encoder, "regress", *examples, tmp_path / "bad", *mapped))
    assert number.code == 2 and "regress has no names of labels" in number.err


def test_a_model_or_task_that_is_not_is_named(call, encoder, examples, tmp_path):
    missing = call(*finetuning(tmp_path / "nowhere", "classify", *examples, tmp_path / "run"))
    assert missing.code == 1 and "there is no such folder" in missing.err
    task = call(*finetuning(encoder, "clasify", *examples, tmp_path / "run"))
    assert task.code == 2 and "clasify" in task.err
    with pytest.raises(regard.Problem, match="did you mean 'classify'"):
        regard.finetune(encoder, "clasify", train=examples[0], dev=examples[1])
    with pytest.raises(regard.Problem, match="needs train=FILE"):
        regard.finetune(encoder, "classify", dev=examples[1])
