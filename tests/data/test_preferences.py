"""Pairs and prompts from files, with their faults; and the order in which they are asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.data.parallel import Ragged
from regard.data.preferences import Phases, PreferenceBatches, fitting, read_preferences, read_prompts
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem

PAIR = {"prompt": "So, ", "chosen": "yes", "rejected": "no"}


def written(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_pairs_are_read_with_and_without_prompts(tmp_path):
    data = read_preferences(written(tmp_path / "a.jsonl", PAIR, {"chosen": "a", "rejected": "b"}))
    assert data.pairs == [("So, ", "yes", "no"), ("", "a", "b")] and data.place(1).endswith("a.jsonl, line 2")
    table = written(tmp_path / "a.csv", "rejected,chosen", "b,a")
    assert read_preferences(table).pairs == [("", "a", "b")]


def test_what_teaches_nothing_is_left_out_and_counted(tmp_path):
    equal, blank = {**PAIR, "rejected": "yes "}, {**PAIR, "chosen": " "}
    missing = {"prompt": "So, ", "chosen": "yes"}
    data = read_preferences(written(tmp_path / "a.jsonl", PAIR, equal, blank, missing))
    assert (len(data), data.equal, data.blank) == (1, 1, 2)
    [told] = data.lines()
    assert "1 pairs" in told and "1 of two texts that are the same" in told and "2 without a text" in told
    with pytest.raises(Problem, match="no pair to learn from: of 2 rows 1 have two texts that are the same, 1 lack"):
        read_preferences(written(tmp_path / "b.jsonl", equal, blank))


def test_pairs_that_contradict_each_other_are_told(tmp_path):
    turned = {**PAIR, "chosen": "no", "rejected": "yes"}
    data = read_preferences(written(tmp_path / "a.jsonl", PAIR, turned, {**PAIR, "chosen": "maybe"}))
    assert len(data) == 3 and "warning: 2 pairs stand there the other way round too" in data.lines()[1]


def test_a_file_without_the_fields_is_refused(tmp_path):
    with pytest.raises(Problem, match="no field 'rejected'; there are: prompt, chosen, other"):
        read_preferences(written(tmp_path / "a.jsonl", {"prompt": "a", "chosen": "b", "other": "c"}))


def test_messages_are_no_text(tmp_path):
    messages = {**PAIR, "chosen": [{"role": "assistant", "content": "yes"}]}
    path = written(tmp_path / "a.jsonl", PAIR, messages)
    with pytest.raises(Problem, match="line 2: chosen is no text but a list or an object"):
        read_preferences(path)
    assert read_preferences(path, Reading(skip_bad=1)).skipped == 1
    code = {**PAIR, "chosen": '{"a": ', "rejected": "[{ and so on"}
    assert len(read_preferences(written(tmp_path / "b.jsonl", code))) == 1  # it only looks like one


def test_prompts_are_lines_or_a_column(tmp_path):
    prompts = read_prompts(written(tmp_path / "a.txt", "The film", "", " ", "It, was so"))
    assert prompts.texts == ["The film", "It, was so"] and prompts.place(1).endswith("line 4")
    assert "2 prompts; left out: " in prompts.lines()[0]
    table = written(tmp_path / "a.jsonl", {"id": 1, "prompt": "The film\nwas"}, {"id": 2, "prompt": "It"})
    assert read_prompts(table).texts == ["The film\nwas", "It"]
    with pytest.raises(Problem, match="no field 'prompt'; there are: id, question"):
        read_prompts(written(tmp_path / "b.jsonl", {"id": 1, "question": "?"}))
    with pytest.raises(Problem, match="all prompts are blank"):
        read_prompts(written(tmp_path / "c.jsonl", {"prompt": " "}))


def test_what_fits():
    kept, first = fitting([3, 9, 4, 8], 4)
    assert kept.tolist() == [0, 2] and first == 1
    assert fitting([1, 2], 4)[1] is None


def test_a_phase_writes_once_and_learns_from_each_text_as_often_as_there_are_passes():
    prompts = Ragged.of([[number] * (1 + number % 3) for number in range(10)])
    phases = Phases(prompts, texts=6, batch=2, passes=2, seed=3)
    batches = [phases.at(position) for position in range(24)]
    assert [position for position, batch in enumerate(batches) if "prompts" in batch] == [0, 6, 12, 18]
    for start in range(0, 24, 3):
        assert sorted(np.concatenate([batch["chosen"] for batch in batches[start : start + 3]])) == [*range(6)]
    firsts = [row[0] for start in (0, 6, 12, 18) for row in batches[start]["prompts"].tolist()]
    assert sorted(firsts[:10]) == [*range(10)] and sorted(firsts[10:20]) == [*range(10)]
    assert firsts[:10] != firsts[10:20]
    assert batches[0]["seed"] != batches[6]["seed"]
    assert [phases.epoch_of(position)[0] for position in (0, 6, 12, 18)] == [0, 0, 1, 1]


def test_batches_follow_from_seed_and_position_alone():
    prompts = Ragged.of([[number] for number in range(10)])
    one, other = Phases(prompts, 4, 2, 1, seed=3), Phases(prompts, 4, 2, 1, seed=3)
    for position in (5, 2, 0, 7):
        first, second = one.at(position), other.at(position)
        assert first["chosen"].tolist() == second["chosen"].tolist() and first.get("seed") == second.get("seed")
    with pytest.raises(UsageProblem, match="texts that divide into batches"):
        Phases(prompts, 5, 2, 1, seed=0)


def test_each_turn_of_a_step_has_texts_of_its_own():
    phases = Phases(Ragged.of([[number] for number in range(8)]), 2, 2, 1, seed=0, turns=2)
    batches = [phases.at(position) for position in range(4)]
    assert [batch["turn"] for batch in batches] == [0, 1, 0, 1]
    assert sorted(row[0] for batch in batches for row in batch["prompts"].tolist()) == [*range(8)]


def test_pairs_keep_their_sides_together():
    prompts, texts = Ragged.of([[1], [2], [3]]), Ragged.of([[10], [11], [20], [21], [30], [31]])
    pairs = PreferenceBatches(prompts, texts, np.arange(6, dtype=np.float32), 2, seed=0)
    batch = pairs.batch(np.array([2, 0]))
    assert batch["prompts"].tolist() == [[3], [1]] and batch["texts"].tolist() == [[30], [31], [10], [11]]
    assert batch["reference"].tolist() == [4.0, 5.0, 0.0, 1.0]
    assert pairs.per_epoch == 2
