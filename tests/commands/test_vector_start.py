"""`--vectors`: an embedding that begins from a file of word vectors; and files that no model can begin from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import training
from toy_examples import SHAPE, SHORT, finetuning, shape, stories, write_stories

from regard.checkpoints.files import load_tensors
from regard.commands.encoders import new_reader, read_tokenizer
from regard.commands.vector_start import begin_from, vectors_for, words_of
from regard.errors import Problem
from regard.text.tokenizer import ENCODER, Tokenizer
from regard.text.vectors import Vectors

WORDS = ["good", "fine", "a", "film", "is", "so", "elsewhere"]
LSTM = ["embedding.width=16", "recurrent.width=16", "recurrent.last=16"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Vectors of 16 dimensions, of words that the toy vocabulary has, most of them whole, and one that it has not."""
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    Vectors(WORDS, np.random.default_rng(0).normal(size=(7, 16)).astype(np.float32)).write(path)
    return path


def found_among(words: list[str]) -> int:
    """How many of a vocabulary's words have a vector: learned twice it is not quite the same, and a word may be cut."""
    return sum(word.strip("▁") in WORDS for word in words)


def begun(preset, settings, encoder, file):
    """A table before and after it was begun, as words; and the vectors."""
    reader = new_reader(preset, read_tokenizer(encoder), settings)
    embed, words = reader.model.encoder.embed, words_of(reader.tokenizer)
    before = embed.tokens.weight.detach().clone()
    vectors = vectors_for(file, preset, settings)
    begin_from(vectors, embed, reader.tokenizer)
    return words, before, embed.tokens.weight.detach(), vectors


def test_words_have_their_vectors_and_the_rest_what_they_had(encoder, file, capsys):
    words, before, after, vectors = begun("lstm-tiny", LSTM, encoder, file)
    found = found_among(words)
    told = f"{found} of {len(words)} pieces begin with the vector of a word; {len(words) - found} have none"
    assert told in capsys.readouterr().err
    for word, old, new in zip(words, before, after, strict=True):
        known = word.strip("▁") in vectors
        assert torch.equal(new, torch.from_numpy(vectors[word.strip("▁")]) if known else old), word


def test_where_places_are_added_they_are_as_large_as_what_was_there(encoder, file):
    words, before, after, vectors = begun("bert-tiny", [*SHAPE, "embedding.width=16"], encoder, file)
    new = (before != after).any(1)
    assert after[new].std() == pytest.approx(float(before.std()), rel=1e-4)
    found = np.stack([vectors[word.strip("▁")] for word, fresh in zip(words, new, strict=True) if fresh])
    ratio = after[new].numpy() / found
    assert new.sum() == found_among(words) and np.allclose(
        ratio, ratio.mean(), rtol=1e-4
    )  # their directions and proportions are theirs


@pytest.mark.filterwarnings("ignore:asked for")
@pytest.mark.parametrize("kind", ["words", "bpe", "byte-bpe", "wordpiece"])
def test_whatever_the_kind_of_pieces_a_whole_word_is_found(kind):
    tokenizer = Tokenizer.train(kind, stories(), 300, special=ENCODER)
    found = {word.strip("▁") for word in words_of(tokenizer)}
    before = len(tokenizer.encode("film"))
    whole = {word for word in WORDS[:-1] if len(tokenizer.encode(f"film {word}")) == before + 1}
    assert whole and whole <= found


@pytest.mark.parametrize(("model", "settings"), [("bert-tiny", shape()), ("lstm-tiny", LSTM)])
def test_a_classifier_begins_from_them(call, encoder, examples, file, tmp_path, model, settings):
    settings = settings if "--set" in settings else [word for one in settings for word in ("--set", one)]
    more = ["--tokenizer", encoder, *settings, "--vectors", file]
    for name, vectors in (("with", more), ("without", more[:-2])):
        done = call(*finetuning(model, "classify", *examples, tmp_path / name, *vectors, "--rate", "1e-6"))
        assert done.code == 0, done.err
        assert ("pieces begin with the vector of a word" in done.err) == (name == "with")
    saved = [load_tensors(tmp_path / name / "model/model.safetensors") for name in ("with", "without")]
    name = next(name for name in saved[0] if name.endswith(("word_embeddings.weight", "embed.tokens.weight")))
    tables = [tensors[name] for tensors in saved]
    assert (tables[0] - tables[1]).abs().amax(1).gt(0.01).sum() == found_among(words_of(read_tokenizer(encoder)))
    again = call(*finetuning(model, "classify", *examples, tmp_path / "with", *more, "--rate", "1e-6"))
    assert again.code == 0 and "is finished" in again.err


def test_pretraining_begins_from_them(call, file, tmp_path):
    text = write_stories(tmp_path / "text.txt")
    command = ["pretrain", "bert-tiny", text, *SHORT, *shape(), "--vectors", file, "--out", tmp_path / "run"]
    done = call(*command)
    assert done.code == 0 and "begin with the vector of a word" in done.err, done.err


def test_what_cannot_begin_from_them_is_told_before_anything_is_made(call, encoder, examples, file, tmp_path):
    tokenizer = ["--tokenizer", encoder]
    wide = call(*finetuning("bert-tiny", "classify", *examples, tmp_path / "a", *tokenizer, "--vectors", file))
    assert wide.code == 1 and "have 16 dimensions, and the embedding of bert-tiny has 128" in wide.err
    assert "--set embedding.width=16" in wide.err
    fits = call(
        *finetuning("bert-tiny", "classify", *examples, tmp_path / "a", *tokenizer, "--vectors", file, *shape())
    )
    assert fits.code == 0, fits.err
    narrow = [*shape(), "--vectors", file, "--set", "stack.block.width=32"]  # ALBERT's words are narrower than it is
    assert call(*finetuning("albert-base", "classify", *examples, tmp_path / "e", *tokenizer, *narrow)).code == 0
    learned = call(*finetuning(encoder, "classify", *examples, tmp_path / "b", "--vectors", file))
    assert learned.code == 2 and "has words of its own already" in learned.err
    elmo = call("pretrain", "elmo-tiny", write_stories(tmp_path / "t.txt"), "--vectors", file, "--out", tmp_path / "c")
    assert elmo.code == 2 and "reads them by their characters" in elmo.err
    gone = call(*finetuning("bert-tiny", "classify", *examples, tmp_path / "d", *tokenizer, "--vectors", "no.txt"))
    assert gone.code == 1 and "no.txt" in gone.err
    assert not any((tmp_path / name).exists() for name in "bcd")


def test_vectors_of_another_language_are_refused(encoder, tmp_path):
    Vectors(["nichts", "davon"], np.ones((2, 16), np.float32)).write(tmp_path / "other.txt")
    with pytest.raises(Problem, match="no piece of the vocabulary is a word that has a vector"):
        begun("lstm-tiny", LSTM, encoder, tmp_path / "other.txt")


@pytest.mark.parametrize(("model", "shared"), [("transformer-tiny", True), ("rnn-dot", False)])
def test_a_translator_begins_from_them(call, corpus, tmp_path, model, shared):
    width = 32 if shared else 16
    words = ["man", "dog", "house", "mann", "hund"]
    Vectors(words, np.random.default_rng(0).normal(size=(5, width)).astype(np.float32)).write(tmp_path / "vectors.txt")
    more = ["--vectors", tmp_path / "vectors.txt", *([] if shared else ["--no-shared"])]
    done = call(*training(corpus, tmp_path / "run", *more, model=model))
    assert done.code == 0, done.err
    assert done.err.count("pieces begin with the vector of a word") == (1 if shared else 2)
    assert ("5 of " if shared else "3 of ") in done.err
