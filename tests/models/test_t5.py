"""T5 in both layouts: the reference library's states, logits and texts, and its folder again when saved."""

from __future__ import annotations

import io
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from published_translators import copied, fault, same, weights

import regard
from regard.config import change
from regard.decoding.beam import Beam
from regard.decoding.sample import GREEDY
from regard.errors import UsageProblem
from regard.models.t5 import PRESETS, T5, t5
from regard.rows import Tokens
from regard.tasks.translate import Translator
from regard.text.published import load_tokenizer
from regard.text.spm import SentencePiece
from regard.text.tokenizer import SENTINELS, Tokenizer
from regard.text.tokenizer import T5 as NAMES

transformers = pytest.importorskip("transformers", reason="the reference library is not installed: make oracles")
sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")

WORDS = "a the man woman dog sees bike rides house old young red and in on with no street child plays"
LIMIT = 16  # max_length of the folders here
SPARE = 5  # rows of the table that no piece has
SHAPE = {"d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
LAYOUTS = {
    "relu": {"feed_forward_proj": "relu"},
    "gated": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_max_distance": 40},
}


def sentences(count: int, longest: int = 9) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS.split(), k=draw.randint(1, longest))) for _ in range(count)]


def pieces() -> bytes:
    """A SentencePiece model with T5's special pieces."""
    file, special = io.BytesIO(), {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    options = {"vocab_size": 70, "hard_vocab_limit": False, "minloglevel": 2} | special
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences(300)), model_writer=file, **options)
    return file.getvalue()


def theirs_of(model: bytes):
    """The reference library's tokenizer of a SentencePiece model."""
    parsed = SentencePiece.parse(model)
    extra = [(name, 0.0) for name in SENTINELS]
    vocab = [(piece.text, piece.score) for piece in parsed.pieces] + extra
    return transformers.T5Tokenizer(vocab=vocab, _spm_precompiled_charsmap=parsed.charsmap)


@torch.no_grad()
def publish(place: Path, **settings) -> Path:
    """A folder as others would have published it, with numbers drawn by chance."""
    place.mkdir()
    tokenizer = theirs_of(pieces())
    tokenizer.save_pretrained(place)
    size = len(tokenizer) + SPARE
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=size, decoder_start_token_id=0, **SHAPE | settings)
    model = transformers.T5ForConditionalGeneration(config).eval()
    if settings.get("tie_word_embeddings") is False:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(size, SHAPE["d_model"]) / 4)
    for name, parameter in model.named_parameters():
        if "layer_norm" in name:
            parameter.normal_(1.0, 0.3)
        if "relative" in name:
            parameter.normal_()
    model.decoder.final_layer_norm.weight.normal_(0.0, 2.0)  # or the last token would be the likeliest next one
    out = model.lm_head.weight if settings.get("tie_word_embeddings") is False else model.shared.weight
    out[-SPARE:], out[1] = 0.0, 2.5 * out[1]  # what no text was written with; and the end, which comes now and then
    model.generation_config.update(max_length=LIMIT, forced_eos_token_id=1)
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def relu(tmp_path_factory) -> Path:
    return publish(tmp_path_factory.mktemp("t5") / "relu", **LAYOUTS["relu"])


@pytest.fixture(scope="module")
def gated(tmp_path_factory) -> Path:
    return publish(tmp_path_factory.mktemp("t5") / "gated", **LAYOUTS["gated"])


@pytest.fixture(params=LAYOUTS)
def folder(request) -> Path:
    return request.getfixturevalue(request.param)


def reference(folder: Path):
    kind = transformers.T5ForConditionalGeneration
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def rows(count: int, size: int, longest: int = 60) -> list[list[int]]:
    draw = random.Random(1)
    return [[*(draw.randrange(3, size) for _ in range(draw.randrange(longest))), 1] for _ in range(count)]


def padded(batch: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, batch))
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in batch]
    ids = [[*row, *[0] * (longest - len(row))] for row in batch]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


@torch.no_grad()
def difference(folder: Path, theirs=None) -> float:
    """How far states and logits of the two libraries are apart at most."""
    ours, theirs = Translator.load(folder, "cpu"), theirs or reference(folder)
    sources, targets = rows(7, ours.source.size), [[0, *row[:-1]] for row in rows(7, ours.source.size)]
    source, target = Tokens.of(sources), Tokens.of(targets)
    got = source.rows.split(ours.model.encode(source)), target.rows.split(ours.model.logits(ours.model(source, target)))
    wanted = theirs(**padded(sources), decoder_input_ids=padded(targets)["input_ids"])
    pairs = (*zip(got[0], wanted.encoder_last_hidden_state, strict=True), *zip(got[1], wanted.logits, strict=True))
    return max((a - b[: len(a)]).abs().max().item() for a, b in pairs)


# The same numbers, the same texts


def test_states_and_logits_are_the_references(folder):
    """Of rows that are longer than the buckets tell apart, too."""
    assert difference(folder) < 1e-5


def test_the_layouts_differ_in_what_they_should(relu, gated):
    first, second = (Translator.load(folder, "cpu").model.config for folder in (relu, gated))
    assert first.tied and first.scaled_output and not first.encoder.block.gated
    assert not second.tied and not second.scaled_output and second.decoder.block.activation == "gelu-tanh"
    assert first.encoder.block.attention.size == 5 and first.decoder.layers == 2 and second.decoder.furthest == 40


@torch.no_grad()
@pytest.mark.parametrize("how", [GREEDY, Beam(4), Beam(4, 0.6)], ids=str)
def test_what_is_written_is_the_references(folder, how):
    ours, theirs = Translator.load(folder, "cpu"), reference(folder)
    sources = rows(30, ours.source.size, 20)
    beams, penalty = (how.size, how.penalty) if isinstance(how, Beam) else (1, 1.0)
    asked = {"num_beams": beams, "length_penalty": penalty} | unwritten(ours)
    wanted = theirs.generate(**padded(sources), **asked).tolist()
    got = [found[0].tokens for found in ours.decode(sources, how)]
    assert got == [row[1 : row.index(1)] for row in wanted]
    assert len({len(row) for row in got}) > 2


def unwritten(ours: Translator) -> dict:
    """What keeps the reference library from writing what is no piece, as is done here."""
    assert len(ours.ends.never) == SPARE
    return {"suppress_tokens": list(ours.ends.never), "renormalize_logits": True}


@torch.no_grad()
def test_text_in_and_text_out_as_the_reference_has_it(folder):
    ours, texts = Translator.load(folder, "cpu"), sentences(12)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert [ours.row(ids) for ids in ours.source.encode_batch(texts)] == tokenizer(texts)["input_ids"]
    ids = reference(folder).generate(**batch, num_beams=4, **unwritten(ours))
    wanted = tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert [found[0].text for found in ours.translate(texts, Beam(4))] == wanted


def test_pieces_alone_make_the_same_tokenizer(relu, tmp_path):
    """An older folder has SentencePiece's file, in which the sentinels are not."""
    (tmp_path / "spiece.model").write_bytes(pieces())
    ours, json, theirs = load_tokenizer(tmp_path), load_tokenizer(relu), theirs_of(pieces())
    texts = [*sentences(20), "A man, 42 years old – über \u4eba!", " dog  dog\tdog "]
    for one in (ours, json):
        assert one.size == len(theirs) and one.sentinels == [theirs.convert_tokens_to_ids(n) for n in SENTINELS[::-1]]
        assert one.sentinels[0] == one.size - 1 and (one.begin, one.end, one.unknown) == (0, 1, 2)
        assert [one.frame.row(ids)[0] for ids in one.encode_batch(texts)] == theirs(texts)["input_ids"]
        assert one.frame.row(one.encode("a"), one.encode("dog"))[0] == theirs("a", "dog")["input_ids"]


# Old configs and new


@pytest.mark.parametrize(
    "settings",
    [
        {"num_decoder_layers": 3},
        dict.fromkeys(("relative_attention_max_distance", "dense_act_fn", "is_gated_act", "scale_decoder_outputs")),
        {"feed_forward_proj": "gated-silu", "dense_act_fn": None},
        {"scale_decoder_outputs": None, "tie_word_embeddings": False},
    ],
    ids=str,
)
@torch.no_grad()
def test_configs_of_all_ages(tmp_path, settings):
    """Whatever they leave out means what the reference library takes it to mean."""
    shape = LAYOUTS["gated"] if "gated" in str(settings) else LAYOUTS["relu"]
    layers = {key: value for key, value in settings.items() if key == "num_decoder_layers"}
    place = publish(tmp_path / "whole", **shape | layers)
    silent = settings if not layers else {"num_decoder_layers": None}
    assert difference(copied(place, tmp_path / "other", settings=silent)) < 1e-4  # logits unscaled are large


def test_the_first_gated_configs(gated, tmp_path):
    """Which say that the output is not the table, and nothing of scales."""
    first = {"tie_word_embeddings": False, "scale_decoder_outputs": None, "dense_act_fn": None, "is_gated_act": None}
    assert difference(copied(gated, tmp_path / "first", settings=first), reference(gated)) < 1e-5


# On disk


def test_it_is_saved_as_it_was_published(folder, tmp_path):
    Translator.load(folder, "cpu").save(tmp_path / "saved")
    same(folder, tmp_path / "saved")
    Translator.load(tmp_path / "saved", "cpu").save(tmp_path / "twin")
    for path in (tmp_path / "saved").iterdir():
        assert path.read_bytes() == (tmp_path / "twin" / path.name).read_bytes()


def test_an_old_config_is_not_written_anew(relu, tmp_path):
    silent = dict.fromkeys(("dense_act_fn", "is_gated_act", "scale_decoder_outputs", "dropout_rate"))
    place = copied(relu, tmp_path / "old", settings=silent)
    Translator.load(place, "cpu").save(tmp_path / "saved")
    same(place, tmp_path / "saved")


@torch.no_grad()
def test_the_reference_reads_what_is_saved_here(folder, tmp_path):
    Translator.load(folder, "cpu").save(tmp_path / "saved")
    asked = {"input_ids": torch.tensor([[5, 6, 7, 1]]), "decoder_input_ids": torch.tensor([[0, 9, 8]])}
    assert torch.equal(reference(folder)(**asked).logits, reference(tmp_path / "saved")(**asked).logits)
    first, second = (transformers.AutoTokenizer.from_pretrained(place) for place in (folder, tmp_path / "saved"))
    assert first(sentences(5))["input_ids"] == second(sentences(5))["input_ids"]


def test_mixed_precision_second_names_and_what_nothing_looks_at_are_kept(relu, tmp_path):
    tensors = {name: t if ".wo." in name else t.bfloat16() for name, t in weights(relu).items()}
    twins = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors |= dict.fromkeys(twins, tensors["shared.weight"]) | {unused: torch.rand(32, 4)}
    place = copied(relu, tmp_path / "old", tensors)
    assert difference(place) < 1e-5
    Translator.load(place, "cpu").save(tmp_path / "saved")
    same(place, tmp_path / "saved")


@pytest.mark.parametrize("name", ["encoder.embed_tokens", "decoder.embed_tokens", "lm_head"])
def test_the_table_may_go_by_any_of_its_names(relu, tmp_path, name):
    tensors = weights(relu)
    tensors[f"{name}.weight"] = tensors.pop("shared.weight")
    place = copied(relu, tmp_path / "other", tensors)
    assert difference(place, reference(relu)) < 1e-5
    Translator.load(place, "cpu").save(tmp_path / "saved")
    same(place, tmp_path / "saved")


# What is refused


def test_every_tensor_is_accounted_for(gated, tmp_path):
    tensors = weights(gated)
    extra = fault(copied(gated, tmp_path / "extra", tensors | {"encoder.surprise.weight": torch.zeros(1)}))
    assert "no place for encoder.surprise.weight" in extra
    fewer = {name: t for name, t in tensors.items() if "decoder.block.1.layer.1.EncDecAttention.q" not in name}
    assert "decoder.blocks.1.cross.q.weight is missing" in fault(copied(gated, tmp_path / "fewer", fewer))
    second = tensors | {"encoder.embed_tokens.weight": tensors["shared.weight"] + 1}
    assert "encoder.embed_tokens.weight differs" in fault(copied(gated, tmp_path / "second", second))


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"is_decoder": True}, "is_decoder is True"),
        ({"tie_encoder_decoder": True}, "tie_encoder_decoder is True"),
        ({"feed_forward_proj": "gated-relu"}, "feed_forward_proj is 'gated-relu' and dense_act_fn 'gelu_new'"),
        ({"feed_forward_proj": "odd-gelu"}, "feed_forward_proj is 'odd-gelu'"),
        ({"feed_forward_proj": "snake", "dense_act_fn": None, "is_gated_act": None}, "'snake' is not one of"),
        ({"d_model": "wide"}, "embedding.width: expected int, found 'wide'"),
        ({"d_kv": 6}, "is of another model"),
        ({"relative_attention_num_buckets": 2}, "2 buckets"),
        ({"eos_token_id": 2}, "eos_token_id is 2 in its config, and by its vocabulary 1"),
        ({"decoder_start_token_id": 1}, "decoder_start_token_id is 1"),
        ({"max_length": 0}, "max_length is 0"),
    ],
    ids=str,
)
def test_a_config_that_means_something_else_is_refused(gated, tmp_path, settings, told):
    place = copied(gated, tmp_path / "other", settings=settings)
    (place / "generation_config.json").unlink()
    assert told in fault(place)


def test_a_vocabulary_that_is_too_large_is_refused(relu, tmp_path):
    place = copied(relu, tmp_path / "other")
    (place / "tokenizer.json").unlink()
    (place / "spiece.model").write_bytes(pieces())
    (place / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 120}))
    assert "it belongs to another model" in fault(place)
    (place / "tokenizer_config.json").write_text(json.dumps({"extra_ids": "many"}))
    assert "extra_ids is 'many'" in fault(place)


# Made here


@pytest.mark.parametrize("gated", [False, True])
@torch.no_grad()
def test_a_new_one_is_read_by_the_reference(tmp_path, gated):
    tokenizer = Tokenizer.train("unigram", sentences(50), 130, special=NAMES)
    torch.manual_seed(0)
    model = T5(t5(2, 24, 4, 40, size=5, vocab=tokenizer.size, gated=gated)).eval()
    Translator.of(model, tokenizer, tokenizer).save(tmp_path / "new")
    assert difference(tmp_path / "new") < 1e-5
    again = regard.load(tmp_path / "new", "cpu")
    again.save(tmp_path / "again")
    same(tmp_path / "new", tmp_path / "again")
    reads = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    text = "the old dog <extra_id_0> a bike <extra_id_1>"
    assert reads(text)["input_ids"] == again.row(again.source.encode(text, allow=["<extra_id_0>", "<extra_id_1>"]))


def test_numbers_begin_as_the_authors_have_them():
    """The reference library's own, but for the output of the gated layout, where it begins far too large."""
    torch.manual_seed(0)
    model = T5(t5(1, 96, 6, 160, size=20, vocab=300, gated=True))
    block = model.decoder.blocks[0]
    wanted = {
        block.attention.q: (96 * 20) ** -0.5, block.cross.k: 96**-0.5, block.cross.v: 96**-0.5,
        block.attention.out: (6 * 20) ** -0.5, block.feed.up: 96**-0.5, block.feed.gate: 96**-0.5,
        block.feed.down: 160**-0.5, model.embed.tokens: 1.0, model.out: 96**-0.5,
        model.encoder.distances.table: 96**-0.5,
    }  # fmt: skip
    for part, std in wanted.items():
        assert math.isclose(part.weight.std().item(), std, rel_tol=0.15), part
    tied = T5(t5(1, 96, 6, 160, vocab=300))
    states = tied.logits(torch.nn.functional.normalize(torch.randn(200, 96), dim=-1) * 96**0.5)
    assert math.isclose(states.std().item(), 1.0, rel_tol=0.1)  # so that the first loss is that of a guess


def test_presets_have_the_published_sizes():
    with torch.device("meta"):
        count = {name: sum(p.numel() for p in T5(config).parameters()) for name, config in PRESETS.items()}
    assert count["t5-small"] == 60_506_624 and count["t5-base"] == 222_903_552 and count["t5-large"] == 737_668_096
    assert count["t5-v1.1-small"] == 76_961_152 and count["t5-v1.1-base"] == 247_577_856


def test_what_is_no_t5_is_told():
    with pytest.raises(UsageProblem, match="differ in their number of layers alone"):
        T5(change(t5(2, 24, 4, 40, vocab=30), "encoder.block.inner", 50))
    with pytest.raises(UsageProblem, match="one vocabulary"):
        T5(replace(t5(2, 24, 4, 40, vocab=30), target_vocab=30))
    assert len(T5(change(t5(2, 24, 4, 40, vocab=30), "decoder.layers", 1)).decoder.blocks) == 1
