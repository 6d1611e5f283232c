"""What a policy writes: ragged, ended or cut, drawn from a seed, with chances that reading gives again; and a policy
that is rewarded for a word comes to write it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from regard.data.parallel import Ragged
from regard.data.preferences import Phases
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.lstm import PRESETS as LSTM
from regard.objectives.clipped import Clipped, Clipping
from regard.objectives.objective import Asked
from regard.rows import Tokens
from regard.tasks.rollouts import Rollouts, probabilities
from regard.tasks.writer import Writer
from regard.text.tokenizer import SPECIAL, Tokenizer
from regard.training.loop import train
from regard.training.report import Reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

WORDS = ["good", "bad", "film", "the", "is", "so"]
PROMPTS = [[3, 4, 5], [6], [7, 8, 5, 4]]


@pytest.fixture
def writer():
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("words", [" ".join(WORDS)], 9, special=SPECIAL)
    config = gpt2(1, 16, 2, tokenizer.size + 3, longest=24, dropout=0.0)  # a table with rows to spare
    return Writer(new_encoder("gpt2", config, {"write"}), tokenizer)


def counted(texts):
    return [float(text.split().count("good")) for text in texts]


def rollouts(writer, worth=counted, most=6):
    return Rollouts(writer, copy.deepcopy(writer.model), worth, most)


def test_texts_end_or_are_cut(writer):
    found = rollouts(writer).written(writer.model, Tokens.of(PROMPTS * 30), seed=0)
    lengths = {len(row) for row in found}
    assert max(lengths) == 6 and min(lengths) < 6
    end = writer.end
    for row in found:
        assert end not in row[:-1] and (row[-1] == end or len(row) == 6)
        assert not {0, 1} & {*row} and max(row) < writer.tokenizer.size  # <unk>, <s>, and what is no token


def test_what_is_drawn_follows_from_the_seed(writer):
    write = rollouts(writer)
    first, again, other = (write.written(writer.model, Tokens.of(PROMPTS), seed) for seed in (1, 1, 2))
    assert first == again != other


def test_the_judge_reads_all_of_the_text_and_the_reference_tells_it(writer):
    heard = []

    def worth(texts):
        heard.extend(texts)
        return counted(texts)

    found = rollouts(writer, worth)(writer.model, Tokens.of(PROMPTS), seed=0)
    for text, prompt, words in zip(heard, PROMPTS, found["written"].split(found["words"]), strict=True):
        assert text == writer.tokenizer.decode([*prompt, *words.tolist()])
    assert found["worth"].tolist() == counted(heard)
    alone = []
    for prompt, words in zip(PROMPTS, found["written"].split(found["words"]), strict=True):
        chances = writer.model.logits(writer.model(Tokens.of([[*prompt, *words.tolist()]]))).log_softmax(-1)
        alone += [chances[len(prompt) - 1 + n, word].item() for n, word in enumerate(words)]
    assert found["reference"].tolist() == pytest.approx(alone, rel=1e-4)
    assert probabilities(writer.model, found).tolist() == pytest.approx(alone, rel=1e-4)


class Kept(Reporter):
    def __init__(self):
        self.records = []

    def tell(self, record):
        self.records.append(record)


def learned(writer, folder, steps=40, rate=1e-2):
    torch.manual_seed(0)
    asked = Asked(
        writer.model,
        Clipped(writer.model.encoder.config.width, rollouts(writer), Clipping(coefficient=0.01, target=20.0)),
    )
    phases = Phases(Ragged.of(PROMPTS), texts=24, batch=24, passes=2, seed=0)
    optimizer = OptimizerConfig(rate, "linear", 0)
    config = TrainingConfig(steps=steps, report_every=2, evaluate_every=0, save_every=steps, optimizer=optimizer)
    told = Kept()
    train(asked, phases, config, folder, reporter=told)
    return told.records


def test_a_word_that_is_rewarded_is_written_more(writer, tmp_path):
    first, *_, last = learned(writer, tmp_path)
    assert first["reward"] < 1.5 and last["reward"] > 3.5  # of six words at most
    assert last["entropy"] < first["entropy"] and 0 < last["kl"] < 40


def test_a_recurrent_model_learns_likewise(tmp_path):
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("words", [" ".join(WORDS)], 9, special=SPECIAL)
    config = LSTM["lstm-tiny"]
    config = replace(config, embedding=replace(config.embedding, vocab=tokenizer.size))
    writer = Writer(new_encoder("lstm", config, {"write"}), tokenizer)
    first, *_, last = learned(writer, tmp_path)
    assert last["reward"] > first["reward"] + 0.5
