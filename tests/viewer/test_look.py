"""A Look: what its header tells, the blocks that are there, and what is refused."""

from __future__ import annotations

import json
from threading import Thread

import numpy as np
import pytest
import torch
from loud_models import loud
from small_models import (
    BYTES,
    LINES,
    bert_reader,
    gpt_writer,
    recurrent_translator,
    sentiment,
    tagger,
    transformer_translator,
)

from regard.errors import Problem, UsageProblem
from regard.models import bigram, lstm
from regard.models.heads import new_encoder
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens
from regard.tasks.static import StaticReader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.marian import Marian
from regard.text.vectors import Vectors
from regard.viewer import look as module
from regard.viewer.look import Look
from regard.viewer.looking import look
from regard.viewer.sides import Side

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def bert():
    return bert_reader()


@pytest.fixture(scope="module")
def gpt():
    return gpt_writer()


@pytest.fixture(scope="module")
def translator():
    return transformer_translator()


def shapes(found: Look, *names: str) -> list[tuple[int, ...]]:
    return [found.block(name).shape for name in names]


# What the header tells


def test_an_encoder(bert):
    found = look(bert, "the cat [MASK] on", second="a dog", name="small")
    told = found.header()
    assert json.loads(json.dumps(told)) == told
    assert (told["format"], told["model"], told["family"], told["kind"]) == (1, "small", "bert", "encoder")
    side = told["sides"]["text"]
    assert side["shown"] == ["[CLS]", "the", "cat", "[MASK]", "on", "[SEP]", "a", "dog", "[SEP]"]
    assert side["special"] == [True, False, False, False, False, True, False, False, True]
    assert side["words"] == list(range(9))
    [attention] = told["attentions"]
    assert (attention["name"], attention["queries"], attention["keys"]) == ("encoder", "text", "text")
    assert attention["rollout"] and attention["flow"] and not attention["causal"]
    [first, *_] = attention["layers"]
    module = {"module": "encoder.stack.blocks.0.attention", "score": "scaled-dot", "scale": 8**-0.5, "bias": False}
    assert first == {"heads": 2, "queries": 9, "keys": 9, "size": 8, **module}
    [hidden] = told["output"]["predictions"]
    assert hidden["at"] == 3 and len(hidden["top"]) == 5


def test_what_fills_a_hidden_word_is_what_fill_says(bert):
    [told] = look(bert, "the cat [MASK] on").header()["output"]["predictions"]
    [filled] = bert.fill("the cat [MASK] on")
    assert [share for _, share in told["top"]] == pytest.approx([one.probability for one in filled], abs=1e-5)


def test_pieces_of_words(bert):
    side = look(bert, "catdog sat").header()["sides"]["text"]
    assert side["pieces"][1:-1] == ["▁cat", "d", "o", "g", "▁sat"]
    assert side["shown"][1:-1] == ["cat", "d", "o", "g", "sat"]
    assert side["words"] == [0, 1, 1, 1, 1, 2, 3]


def test_a_language_model_tells_what_it_expected(gpt):
    found = look(gpt, TEXT)
    told = found.header()
    ids = gpt.begun([TEXT])[0]
    assert told["kind"] == "decoder" and told["attentions"][0]["name"] == "decoder" and told["attentions"][0]["causal"]
    assert [one["at"] for one in told["output"]["predictions"]] == list(range(1, len(ids)))
    with torch.no_grad():
        states, _ = gpt.model.read(Tokens.of([ids]))
        best = gpt.model.logits(states)[2, : gpt.tokenizer.size].softmax(-1).max()
    assert told["output"]["predictions"][2]["top"][0][1] == pytest.approx(float(best), abs=1e-5)


def test_what_is_written_is_there(gpt):
    found = look(gpt, "the cat", write=4)
    ids = gpt.begun(["the cat"])[0]
    pieces = found.header()["sides"]["text"]["pieces"]
    assert len(ids) < len(pieces) <= len(ids) + 4
    assert shapes(found, "decoder/0/weights") == [(2, len(pieces), len(pieces))]
    assert not np.triu(found.block("decoder/1/weights"), 1).any()


def test_a_translation(translator):
    found = look(translator, TEXT, target="a dog sat")
    told = found.header()
    assert told["kind"] == "encoder-decoder" and told["family"] == "transformer"
    names = {one["name"]: (one["queries"], one["keys"]) for one in told["attentions"]}
    wanted = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("written", "source")}
    assert names == wanted
    target, written = told["sides"]["target"]["pieces"], told["sides"]["written"]["pieces"]
    assert target[0] == "<s>" and written[-1] == "</s>" and target[1:] == written[:-1]
    assert [one["at"] for one in told["output"]["predictions"]] == list(range(len(written)))
    assert told["output"]["side"] == "written"


def test_its_own_translation(translator):
    written = look(translator, TEXT).header()["sides"]["written"]["pieces"]
    tokens = translator.translate([TEXT])[0][0].tokens
    assert written == [*(translator.target.piece(token) for token in tokens), "</s>"]


def test_a_recurrent_translator_has_looks_and_states():
    found = look(recurrent_translator("additive"), TEXT, target="a dog")
    told = found.header()
    [cross] = told["attentions"]
    assert cross["name"] == "cross" and cross["layers"][0]["score"] == "additive" and not cross["rollout"]
    names = [(one["name"], one["side"], one["cell"], len(one["layers"])) for one in told["states"]]
    source = [("encoder-forward", "source", "lstm", 2), ("encoder-backward", "source", "lstm", 2)]
    assert names == [*source, ("decoder-forward", "target", "lstm", 2)]
    target = len(told["sides"]["target"]["pieces"])
    assert shapes(found, "states/decoder-forward/1") == [(6, target, 16)]


def test_a_bottleneck_has_states_alone():
    told = look(recurrent_translator(None), TEXT, target="a dog").header()
    assert told["attentions"] == [] and told["states"] and told["explanations"] == []


def test_a_translator_with_marians_pieces(tmp_path):
    sentencepiece = pytest.importorskip(
        "sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'"
    )
    lines, options = LINES * 20, {"hard_vocab_limit": False, "minloglevel": 2, "vocab_size": 40}
    with (tmp_path / "source.spm").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, **options)
    cut = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "source.spm"))
    names = ["</s>", "<unk>", *(cut.id_to_piece(id) for id in range(3, cut.get_piece_size())), "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}))
    vocabulary = Marian(tmp_path / "source.spm", tmp_path / "vocab.json")
    model = loud(Transformer(transformer(2, 16, 2, 24, vocab=vocabulary.size)))
    told = look(Translator(model, vocabulary, vocabulary), TEXT, target="a dog").header()
    source, target = told["sides"]["source"], told["sides"]["target"]
    assert source["special"] == [False] * (len(source["pieces"]) - 1) + [True] and source["pieces"][-1] == "</s>"
    assert target["pieces"][0] == "<pad>" and target["special"][0]
    assert "".join(source["shown"][:-1]).replace("␣", "") == TEXT.replace(" ", "")


def test_a_classifier_tells_its_label():
    model = sentiment()
    found = look(model, TEXT)
    [told] = found.header()["output"]["predictions"]
    judged = model(TEXT)
    assert told["at"] == 0 and told["top"][0] == [judged.label, pytest.approx(judged.probability, abs=1e-5)]
    assert found.header()["attentions"][0]["explain"] == ["label", "state"]


def test_a_tagger_tells_a_label_for_each_token():
    told = look(tagger(), TEXT).header()
    assert [one["at"] for one in told["output"]["predictions"]] == list(range(1, 7))


# Blocks


def test_blocks_are_computed_once_and_kept(bert):
    found = look(bert, TEXT)
    assert found.held == 0
    weights = found.block("encoder/1/weights")
    assert found.block("encoder/1/weights") is weights and found.held == weights.nbytes
    assert weights.dtype == np.float32 and weights.flags.c_contiguous and not weights.flags.writeable
    assert set(found.blocks()) > {"encoder/0/q", "encoder/1/scores", "encoder/mean", "encoder/rollout", "encoder/flow"}


def test_the_parts_of_a_number_give_the_number(bert):
    found = look(bert, TEXT)
    q, k, v = (found.block(f"encoder/0/{part}") for part in "qkv")
    scores, weights = found.block("encoder/0/scores"), found.block("encoder/0/weights")
    scale = found.header()["attentions"][0]["layers"][0]["scale"]
    np.testing.assert_allclose(np.einsum("hqd,hkd->hqk", q, k) * scale, scores, atol=1e-5)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(shares / shares.sum(-1, keepdims=True), weights, atol=1e-6)
    assert v.shape == k.shape
    np.testing.assert_allclose(found.block("encoder/mean")[0], weights.mean(0), atol=1e-7)


def test_what_is_not_allowed_has_no_score(gpt):
    scores = look(gpt, TEXT).block("decoder/0/scores")
    assert np.isneginf(scores[:, 0, 1:]).all() and np.isfinite(np.tril(np.nan_to_num(scores, neginf=0))).all()


@pytest.mark.parametrize(
    "name",
    ["", "encoder", "encoder/9/weights", "encoder/-1/weights", "encoder/0/w", "decoder/0/weights", "encoder/0/bias",
     "states/forward/0", "encoder/explain/99", "encoder/explain/x", "../etc/passwd", "encoder/0/weights/0",
     "encoder/١/weights", "encoder/00000000000000000001/weights", "cross/rollout"],
)  # fmt: skip
def test_an_unknown_block_is_refused(bert, name):
    with pytest.raises(Problem, match="no block"):
        look(bert, TEXT).block(name)


def test_what_was_asked_for_longest_ago_is_forgotten(bert, monkeypatch):
    found = look(bert, TEXT)
    size = found.block("encoder/0/weights").nbytes
    monkeypatch.setattr(module, "KEPT", 2 * size)
    found.block("encoder/1/weights")
    found.block("encoder/0/weights")
    found.block("encoder/2/weights")
    assert list(found._kept) == ["encoder/0/weights", "encoder/2/weights"]


def test_many_may_ask_at_once(bert):
    found, got = look(bert, TEXT), []
    threads = [Thread(target=lambda: got.append(found.block("encoder/rollout"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and all(one is got[0] for one in got)


def test_looks_at_one_model_do_not_disturb_each_other(gpt):
    looks = [look(gpt, line) for line in LINES]
    wanted = [look(gpt, line).block("decoder/explain/3") for line in LINES]
    got = [np.zeros(0)] * len(looks)

    def ask(number: int) -> None:
        got[number] = looks[number].block("decoder/explain/3")

    threads = [Thread(target=ask, args=(number,)) for number in range(len(looks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_states_are_refused_once_the_model_has_learned():
    writer = Writer(new_encoder("lstm", lstm.lstm(8, vocab=BYTES.size), {"write"}), BYTES)
    found = look(writer, TEXT)
    found.block("states/forward/0")
    with torch.no_grad():
        next(writer.model.parameters()).add_(1)
    found.block("states/forward/0")
    with pytest.raises(Problem, match="look again"):
        found.block("states/forward/1")


# What cannot be looked at


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_text(bert, gpt, translator, text):
    for model in (bert, gpt, translator):
        with pytest.raises(Problem, match="text is empty"):
            look(model, text)


def test_what_has_no_looks(gpt):
    counted = Writer(bigram.counted([np.arange(90) % 7], gpt.tokenizer.size), gpt.tokenizer)
    with pytest.raises(Problem, match="nothing to look at in a bigram"):
        look(counted, TEXT)
    with pytest.raises(Problem, match="nothing to look at in a StaticReader"):
        look(StaticReader(Vectors(["cat"], np.ones((1, 2), np.float32))), TEXT)


def test_what_is_asked_of_the_wrong_model(bert, gpt, translator):
    for model, wish in [
        (bert, {"write": 3}), (bert, {"target": "a"}), (gpt, {"second": "a"}), (gpt, {"target": "a"}),
        (gpt, {"write": -1}), (translator, {"second": "a"}), (translator, {"write": 1}),
    ]:  # fmt: skip
        with pytest.raises(UsageProblem):
            look(model, TEXT, **wish)


def test_a_text_that_is_too_long(bert, gpt, translator):
    found = look(bert, "the cat " * 40)
    assert found.header()["sides"]["text"]["pieces"][-1] == "[SEP]" and "the end is cut" in found.header()["notes"][0]
    with pytest.raises(Problem, match="shorten it"):
        look(gpt, "the cat " * 40)
    with pytest.raises(Problem, match="shorten it"):
        look(gpt, TEXT, write=60)


def test_looking_leaves_a_model_as_it_was(bert):
    bert.model.train()
    look(bert, TEXT).block("encoder/explain/1")
    assert bert.model.training
    bert.model.eval()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in bert.model.modules())


# Anybody's weights


def shares(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1])


def test_arrays_of_anybody():
    weights = shares(2, 3, 4, 4)
    found = Look.of_arrays(weights, ["[CLS]", "play", "##ing", "Ġwell"], name="theirs")
    told = found.header()
    assert told["kind"] == "encoder" and told["sides"]["text"]["shown"] == ["[CLS]", "play", "ing", "well"]
    assert told["sides"]["text"]["words"] == [0, 1, 1, 2]
    np.testing.assert_allclose(found.block("encoder/1/weights"), weights[1], atol=1e-7)
    assert shapes(found, "encoder/rollout", "encoder/flow") == [(2, 4, 4), (4, 4)]
    assert "encoder/0/q" not in found.blocks()
    with pytest.raises(Problem):
        found.block("encoder/0/q")


def test_arrays_that_look_back_or_across():
    causal = np.tril(shares(1, 1, 3, 3))
    causal /= causal.sum(-1, keepdims=True)
    assert Look.of_arrays(causal, list("abc")).header()["attentions"][0]["causal"]
    across = Look.of_arrays(shares(1, 1, 2, 3), ["x", "y"], list("abc")).header()
    assert across["attentions"][0]["name"] == "cross" and not across["attentions"][0]["rollout"]


@pytest.mark.parametrize(
    "weights, told",
    [
        (np.ones((2, 3, 3)), "shape"),
        (np.full((1, 1, 3, 3), "x"), "numbers"),
        (np.zeros((0, 1, 3, 3)), "shape"),
        (shares(1, 1, 4, 3), "3 queries"),
        (np.full((1, 1, 3, 3), np.nan), "finite"),
        (shares(1, 1, 3, 3) * 2, "sum to 2"),
        (-shares(1, 1, 3, 3), "negative"),
    ],
)
def test_arrays_that_are_no_weights(weights, told):
    with pytest.raises(Problem, match=told):
        Look.of_arrays(weights, list("abc"))


def test_a_file_of_arrays(tmp_path):
    path = tmp_path / "attn.npz"
    np.savez(path, weights=shares(2, 1, 3, 3).astype(np.float16), queries=np.array(["a", "</script>", "ü"]))
    found = Look.of_file(path)
    assert found.model == "attn" and found.header()["sides"]["text"]["pieces"] == ["a", "</script>", "ü"]
    np.savez_compressed(path, weights=shares(2, 1, 3, 2), queries=list("abc"), keys=[b"x", b"y"], name="theirs")
    found = Look.of_file(path)
    assert found.model == "theirs" and found.header()["sides"]["source"]["pieces"] == ["x", "y"]


def test_files_that_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "attn.npz"
    for content in (b"", b"PK\x03\x04 not a zip", b"\x93NUMPY"):
        path.write_bytes(content)
        with pytest.raises(Problem, match="cannot be read"):
            Look.of_file(path)
    with pytest.raises(Problem, match="cannot be read"):
        Look.of_file(tmp_path / "missing.npz")
    np.savez(path, weights=np.array([{"a": 1}], object), queries=list("a"))
    with pytest.raises(Problem, match="cannot be read"):
        Look.of_file(path)
    np.savez(path, queries=list("abc"))
    with pytest.raises(Problem, match="no array 'weights'"):
        Look.of_file(path)
    np.savez(path, weights=shares(1, 1, 3, 3), queries=np.arange(3))
    with pytest.raises(Problem, match="queries is an array of int64"):
        Look.of_file(path)
    monkeypatch.setattr(module, "LARGEST", 100)
    np.savez_compressed(path, weights=np.zeros((1, 1, 30, 30)), queries=list("abc"))
    with pytest.raises(Problem, match="unfolds to"):
        Look.of_file(path)


# How tokens are shown


@pytest.mark.parametrize(
    "pieces, shown, words",
    [
        (["▁play", "ing", "."], ["play", "ing", "."], [0, 0, 1]),
        (["the▁", "cat▁"], ["the", "cat"], [0, 1]),  # GPT marks where a word ends
        (["▁", "\\n", "\\n\\n", "▁▁"], ["␣", "⏎", "⏎⏎", "␣␣"], [0, 1, 2, 3]),
        (["▁don", "'", "t"], ["don", "'", "t"], [0, 1, 2]),
        (["▁caf", "\ufffd", "\ufffd"], ["caf", "\ufffd", "\ufffd"], [0, 0, 0]),
        (["▁", "你", "好"], ["␣", "你", "好"], [0, 0, 0]),
        ([""], ["␣"], [0]),
    ],
)
def test_how_pieces_are_shown(pieces, shown, words):
    told = Side.of(pieces).header()
    assert told["shown"] == shown and told["words"] == words


def test_tokens_of_anybody_are_words_unless_they_have_the_marks_of_pieces():
    weights = np.full((1, 1, 3, 3), 1 / 3)
    words = [Look.of_arrays(weights, tokens).header()["sides"]["text"]["words"] for tokens in (
        ["the", "white", "house"], ["▁the", "▁white", "house"], ["play", "##ing", "here"]
    )]  # fmt: skip
    assert words[0] == [0, 1, 2]
    assert words[1] == [0, 1, 1]
    assert words[2][:2] == [0, 0]
