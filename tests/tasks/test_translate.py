"""The translator: every text by itself, in order, within its limits; and what it looked at."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.attention.watch import watch
from regard.config import change
from regard.decoding.beam import Beam
from regard.decoding.sample import GREEDY, Sampling
from regard.errors import Problem, UsageProblem
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.tasks import translate
from regard.tasks.translate import Translator, moved
from regard.text.tokenizer import Tokenizer

TEXTS = ["a man sees a dog", "", "dog", "a man sees a dog and a dog sees a man and a man sees the man", " ", "the dog"]
TOKENIZER = Tokenizer.train("characters", TEXTS, 40)
CONFIG = transformer(2, 16, 2, 32, vocab=TOKENIZER.size)
TWO = Tokenizer.train("characters", ["ein hund sieht einen mann, und ein vogel"], 40)


def loud(model: torch.nn.Module) -> torch.nn.Module:
    """Weights large enough that what is written depends on what is read."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model.eval()


def translator(config=CONFIG) -> Translator:
    kind = Transformer if type(config) is type(CONFIG) else Seq2Seq
    return Translator(loud(kind(config)), TOKENIZER, TOKENIZER)


RECURRENT = seq2seq("additive", width=16, vocab=TOKENIZER.size)
BOTH = pytest.mark.parametrize("config", [CONFIG, RECURRENT], ids=["transformer", "rnn"])
LEARNED = change(change(CONFIG, "embedding.positions", "learned"), "embedding.longest", 12)


def texts_of(found) -> list[list[str]]:
    return [[one.text for one in row] for row in found]


# What it writes


@BOTH
@pytest.mark.parametrize("how", [GREEDY, Beam(1), Beam(4, 0.6, 3)], ids=["greedy", "beam 1", "beam 4"])
def test_a_text_is_translated_alone_as_among_others(config, how, monkeypatch):
    mt = translator(config)
    together = mt.translate(TEXTS, how)
    for text, found in zip(TEXTS, together, strict=True):
        [alone] = mt.translate([text], how)
        assert texts_of([alone]) == texts_of([found])
        assert [one.score for one in alone] == pytest.approx([one.score for one in found], abs=1e-4)
    assert texts_of(mt.translate(TEXTS[::-1], how)) == texts_of(together)[::-1]
    monkeypatch.setattr(translate, "BUDGET", 30)  # in other batches
    assert texts_of(mt.translate(TEXTS, how)) == texts_of(together)
    assert len({row[0] for row in texts_of(together)}) > 3  # they are not all the same


def test_blank_texts_become_empty_and_nothing_gives_nothing():
    mt = translator()
    assert [found[0].text == "" for found in mt.translate(TEXTS)] == [False, True, False, False, True, False]
    assert mt.translate([]) == [] and mt.translate([""])[0][0].tokens == []


def test_a_call_is_one_text_by_beam():
    mt = translator()
    [[best]] = mt.translate([TEXTS[0]], Beam(3, 0.5))
    assert mt(TEXTS[0], beam=3, penalty=0.5) == best.text
    assert mt(TEXTS[0]) == mt.translate([TEXTS[0]])[0][0].text
    with pytest.raises(UsageProblem, match="beam 0"):
        mt(TEXTS[0], beam=0)


def test_sampling_is_repeated_by_its_seed():
    mt = translator()
    drawn = {seed: texts_of(mt.translate(TEXTS, Sampling(3.0, seed=seed))) for seed in (1, 2)}
    assert drawn[1] == texts_of(mt.translate(TEXTS, Sampling(3.0, seed=1))) != drawn[2]


def test_translating_leaves_a_training_model_in_training():
    mt = translator(change(CONFIG, "encoder.block.dropout", 0.5))
    calm = mt.translate(TEXTS[:1])
    mt.model.train()
    assert mt.translate(TEXTS[:1]) == calm and mt.model.training


def test_a_translation_is_one_line():
    """A vocabulary of bytes has the newline too, and a model may write it."""
    tokenizer = Tokenizer.train("byte-bpe", TEXTS, 259)
    mt = Translator(loud(Transformer(change(CONFIG, "embedding.vocab", tokenizer.size))), tokenizer, tokenizer)
    written = mt.translation(translate.Hypothesis(tokenizer.encode("ein\nhund"), 0.0, 0.0))
    assert written.text == "ein hund"


# Its limits


def test_a_long_text_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(translate, "LONGEST", 8)
    mt = translator()
    short, exact, long = mt.translate(["a dog", "a man se", "a man sees a dog"], GREEDY)
    assert [found[0].cut for found in (short, exact, long)] == [False, False, True]
    assert long[0].text == exact[0].text  # the first eight pieces are all it read


@pytest.mark.parametrize("how", [GREEDY, Beam(2)], ids=["greedy", "beam"])
def test_a_table_of_positions_limits_what_is_read_and_written(how):
    mt = translator(LEARNED)
    [short], [long] = mt.translate(["dog", TEXTS[3]], how)
    assert mt.longest == 11 and long.cut and not short.cut
    assert max(len(short.tokens), len(long.tokens)) <= 11
    assert mt.attention([TEXTS[3]], [long])[0].weights.shape == (len(long.tokens), 12)


def test_the_location_score_limits_the_source():
    mt = translator(seq2seq("location", width=16, vocab=TOKENIZER.size))
    [found] = mt.translate(["dog " * 100], GREEDY)
    assert mt.longest == 255 and found[0].cut


# What it looked at


@BOTH
def test_attention_is_what_writing_looked_at(config):
    mt = translator(config)
    with watch(mt.model) as seen:
        [[written]] = mt.translate([TEXTS[0]], GREEDY)
    looks = [calls for name, calls in seen.items() if translate.looks_back(name)]
    assert written.tokens and looks
    steps = torch.stack([torch.cat([call[0].mean(0) for call in calls]) for calls in looks]).mean(0)
    [looked] = mt.attention([TEXTS[0]], [written])
    np.testing.assert_allclose(looked.weights, steps[: len(written.tokens)].numpy(), atol=1e-5)
    np.testing.assert_allclose(looked.weights.sum(1), 1, atol=1e-5)
    assert len(looked.source) == len(TOKENIZER.encode(TEXTS[0])) + 1 and looked.source[-1] == "</s>"
    assert looked.target == [TOKENIZER.piece(token) for token in written.tokens]


def test_attention_of_given_and_of_empty_text():
    given, empty = translator().attention(["a dog", ""], ["the man", ""])
    assert given.weights.shape == (7, 6) and empty.weights.shape == (0, 1)


def test_a_model_without_attention_has_nothing_to_show():
    mt = translator(seq2seq(width=16, vocab=TOKENIZER.size))
    with pytest.raises(Problem, match="no attention from target to source"):
        mt.attention(["dog"], ["dog"])
    with (
        pytest.raises(UsageProblem, match="no attention is called 'attention'; there are: none"),
        watch(mt.model, "attention"),
    ):
        pass


def test_a_pattern_that_fits_no_attention_is_answered_with_the_names():
    with (
        pytest.raises(UsageProblem, match=r"no attention is called 'decoder\.cross'.*decoder\.blocks\.0\.cross"),
        watch(translator().model, "decoder.cross"),
    ):
        pass


# On disk


@BOTH
@pytest.mark.parametrize("shared", [True, False])
def test_it_comes_back_bit_for_bit(tmp_path, config, shared):
    target = TOKENIZER if shared else TWO
    config = config if shared else change(config, "target_vocab", TWO.size)
    mt = Translator(translator(config).model, TOKENIZER, target)
    mt.save(tmp_path / "model", "# a card")
    again = Translator.load(tmp_path / "model", "cpu")
    assert again.translate(TEXTS) == mt.translate(TEXTS)
    again.save(tmp_path / "twin", "# a card")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {path.name for path in (tmp_path / "twin").iterdir()}
    for name in names:
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "twin" / name).read_bytes()
    assert json.loads((tmp_path / "model" / "config.json").read_text())["embedding"]["vocab"] == TOKENIZER.size


def test_the_tokenizer_must_be_the_models(tmp_path):
    translator().save(tmp_path / "model")
    (tmp_path / "model" / "manifest.json").unlink()
    TWO.save(tmp_path / "model" / "tokenizer.json")
    with pytest.raises(Problem, match=rf"tokenizer.json has {TWO.size} pieces and the model was made for"):
        Translator.load(tmp_path / "model")


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_is_not_there_is_named(device):
    with pytest.raises(UsageProblem, match=f"device '{device}' cannot be used here"):
        moved(translator().model, device)
