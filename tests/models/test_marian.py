"""Published Marian translators: the reference library's logits and translations, and its folder again when saved."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from published_translators import CONFIGS, copied, fault, same, weights

import regard
from regard.decoding.beam import Beam
from regard.decoding.sample import GREEDY, Sampling
from regard.errors import Problem
from regard.layers.embedding import halves
from regard.rows import Tokens
from regard.tasks.translate import Translator

transformers = pytest.importorskip("transformers", reason="the reference library is not installed: make oracles")
sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")  # a package that the reference would not use here

ENGLISH = "a the man woman dog sees bike rides house old young red and in on with no street child plays"
GERMAN = "ein der mann frau hund sieht rad fährt haus alt jung rot und in auf mit kein straße kind spielt"
LIMIT = 24  # max_length of the folders here
TABLES = ["model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"]
POSITIONS = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
SHAPE = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "max_position_embeddings": 64,
    "activation_function": "swish",
    "scale_embedding": True,
}


def sentences(words: str, count: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(words.split(), k=draw.randint(1, 12))) for _ in range(count)]


TEXTS = [*sentences(ENGLISH, 38), "", "A man, 42 years old – über \u4eba!", " dog  dog "]


def pieces(words: str) -> tuple[bytes, list[str]]:
    """A SentencePiece model, and its pieces."""
    file = io.BytesIO()
    lines, options = sentences(words, 300), {"hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, vocab_size=70, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    return file.getvalue(), [processor.id_to_piece(id) for id in range(3, processor.get_piece_size())]


def numbered(names: list[str]) -> dict[str, int]:
    """As opus-mt numbers them: the end first, padding last."""
    return {name: id for id, name in enumerate(["</s>", "<unk>", *dict.fromkeys(names), "<pad>"])}


@torch.no_grad()
def lively(config) -> torch.nn.Module:
    """A model whose numbers are drawn by chance: it would often write padding, and ends now and then."""
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if "positions" not in name:
            parameter.normal_(float("norm.weight" in name), 0.1 if "layers" in name else 0.2)
    last = model.model.decoder.layers[-1].final_layer_norm
    last.weight.normal_()  # or the last token would be the likeliest next one
    model.final_logits_bias.normal_(std=0.3)
    for token, bias in {config.eos_token_id: 1.5, config.pad_token_id: 2.0, 1: -9.0}.items():  # nothing unknown
        model.final_logits_bias[0, token] = bias
    return model


def publish(place: Path, separate: bool = False, **settings) -> Path:
    """A folder as others would have published it."""
    place.mkdir()
    (source, sources), (target, targets) = pieces(ENGLISH), pieces(GERMAN)
    vocabularies = {"vocab.json": numbered(sources if separate else sources + targets)}
    vocabularies |= {"target_vocab.json": numbered(targets)} if separate else {}
    for name, content in {"source.spm": source, "target.spm": target}.items():
        (place / name).write_bytes(content)
    for name, content in vocabularies.items():
        (place / name).write_text(json.dumps(content))
    (place / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": separate, "source_lang": "eng"}))
    ids, end = vocabularies["target_vocab.json" if separate else "vocab.json"], {"eos_token_id": 0}
    padding = {"pad_token_id": ids["<pad>"], "decoder_start_token_id": ids["<pad>"]}
    sizes = {"vocab_size": len(vocabularies["vocab.json"]), "decoder_vocab_size": len(ids)}
    sharing = {"share_encoder_decoder_embeddings": not separate}
    model = lively(transformers.MarianConfig(**SHAPE | end | padding | sizes | sharing | settings))
    how = {"max_length": LIMIT, "num_beams": 6, "forced_eos_token_id": 0, "bad_words_ids": [[ids["<pad>"]]]}
    model.generation_config.update(**how, renormalize_logits=True)
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def opus(tmp_path_factory) -> Path:
    return publish(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture(scope="module")
def separate(tmp_path_factory) -> Path:
    return publish(tmp_path_factory.mktemp("marian") / "separate", separate=True)


@pytest.fixture(params=["opus", "separate"])
def folder(request) -> Path:
    return request.getfixturevalue(request.param)


def reference(folder: Path):
    return transformers.MarianMTModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def rows(count: int, size: int) -> list[list[int]]:
    draw = random.Random(1)
    return [[*(draw.randrange(1, size - 1) for _ in range(draw.randrange(20))), 0] for _ in range(count)]


def padded(batch: list[list[int]], padding: int) -> dict[str, torch.Tensor]:
    """As the reference library must have it."""
    longest = max(map(len, batch))
    ids = [[*row, *[padding] * (longest - len(row))] for row in batch]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(ids) != padding}


@torch.no_grad()
def difference(folder: Path, theirs=None) -> float:
    """How far the logits of the two libraries are apart at most."""
    ours, theirs = Translator.load(folder, "cpu"), theirs or reference(folder)
    sources, targets = rows(9, ours.source.size), rows(9, ours.target.size)
    starts = [[ours.target.begin, *row[:-1]] for row in targets]
    target = Tokens.of(starts)
    got = target.rows.split(ours.model.logits(ours.model(Tokens.of(sources), target)))
    batch = padded(sources, ours.source.begin)
    wanted = theirs(**batch, decoder_input_ids=padded(starts, 0)["input_ids"]).logits
    return max((a - b[: len(a)]).abs().max().item() for a, b in zip(got, wanted, strict=True))


def written(row: list[int]) -> list[int]:
    """What was written between the first token and the end."""
    return row[1 : row.index(0)]


# The same numbers


def test_logits_are_the_references(folder):
    assert difference(folder) < 1e-5


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_every_activation_there_is(opus, tmp_path, activation):
    assert difference(copied(opus, tmp_path / "other", settings={"activation_function": activation})) < 1e-5


def test_a_file_of_halves(opus, tmp_path):
    halved = {name: t if name == "final_logits_bias" else t.half() for name, t in weights(opus).items()}
    half = copied(opus, tmp_path / "half", halved)
    assert difference(half) < 1e-5
    Translator.load(half, "cpu").save(tmp_path / "saved")
    same_folder(half, tmp_path / "saved")


def test_what_a_silent_config_means(opus, tmp_path):
    """The reference library's defaults are what files that do not say more were written by."""
    bare = dict.fromkeys(("activation_function", "scale_embedding", "dropout", "encoder_layerdrop"))
    assert difference(copied(opus, tmp_path / "bare", settings=bare)) < 1e-5


# The same translations


@torch.no_grad()
@pytest.mark.parametrize("how", [GREEDY, Beam(4), Beam(4, 0.6), Beam(6)], ids=str)
def test_what_is_written_is_the_references(folder, how):
    ours, theirs = Translator.load(folder, "cpu"), reference(folder)
    sources, lengths = rows(40, ours.source.size), set()
    beams, penalty = (how.size, how.penalty) if isinstance(how, Beam) else (1, 1.0)
    for eager in (0.6, 1.3, 2.0):  # to end
        ours.model.bias[0, 0] = theirs.final_logits_bias[0, 0] = eager
        wanted = theirs.generate(**padded(sources, ours.source.begin), num_beams=beams, length_penalty=penalty)
        got = [found[0].tokens for found in ours.decode(sources, how)]
        assert got == [written(row) for row in wanted.tolist()]
        lengths |= set(map(len, got))
    assert max(lengths) == LIMIT - 2 and len(lengths) > 2  # some end, and the others are ended


@torch.no_grad()
def test_the_scores_of_all_hypotheses_are_the_references(opus):
    ours, theirs = Translator.load(opus, "cpu"), reference(opus)
    sources = rows(30, ours.source.size)
    asked = {"num_beams": 4, "num_return_sequences": 4, "return_dict_in_generate": True, "output_scores": True}
    wanted = theirs.generate(**padded(sources, ours.source.begin), **asked)
    found = [one for beams in ours.decode(sources, Beam(4, best=4)) for one in beams]
    assert [one.tokens for one in found[::4]] == [written(row) for row in wanted.sequences[::4].tolist()]
    np.testing.assert_allclose([one.score for one in found], wanted.sequences_scores, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("how", [GREEDY, Beam(4)], ids=["greedy", "beam 4"])
def test_texts_are_translated_as_the_reference_does(folder, how):
    assert [found[0].text for found in Translator.load(folder, "cpu").translate(TEXTS, how)] == translated(folder, how)


def translated(folder: Path, how: Beam | Sampling) -> list[str]:
    """The reference library's translations; of a blank text it has some too, and here there is none."""
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    ids = reference(folder).generate(**batch, num_beams=how.size if isinstance(how, Beam) else 1).tolist()
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text if source.strip() else "" for source, text in zip(TEXTS, texts, strict=True)]


def test_padding_is_never_written(opus):
    ours = Translator.load(opus, "cpu")
    with torch.no_grad():
        ours.model.bias[0, ours.target.begin] = 50.0
    for how in (GREEDY, Beam(3, best=3), Sampling(2.0)):
        for found in ours.decode(rows(5, ours.source.size), how):
            assert all(ours.target.begin not in one.tokens for one in found)


def test_without_a_limit_of_its_own_a_folder_writes_as_far_as_its_places_go(opus, tmp_path):
    limitless = Translator.load(copied(opus, tmp_path / "limitless", generation={"max_length": None}), "cpu")
    far = Translator.load(copied(opus, tmp_path / "far", generation={"max_length": 10**9}), "cpu")
    near = Translator.load(
        copied(opus, tmp_path / "near", settings={"max_length": 9}, generation={"max_length": 5}), "cpu"
    )
    for translator, most in ((limitless, 63), (far, 63), (near, 3)):
        with torch.no_grad():
            translator.model.bias[0, translator.target.end] = -99.0
        for how in (GREEDY, Beam(2)):
            assert {len(one.tokens) for (one,) in translator.decode(rows(5, 70), how)} == {most}


def test_a_source_longer_than_its_places_is_cut_and_says_so(opus):
    ours = Translator.load(opus, "cpu")
    long, short = ours.translate(["dog " * 200, "dog"], GREEDY)
    assert ours.longest == 63 and long[0].cut and not short[0].cut


# What it looked at


@torch.no_grad()
def test_attention_is_the_references(opus):
    ours, theirs = Translator.load(opus, "cpu"), reference(opus)
    text = TEXTS[0]
    [[best]] = ours.translate([text], Beam(4))
    [looked] = ours.attention([text], [best])
    source, target = torch.tensor([ours.row(ours.source.encode(text))]), [ours.target.begin, *best.tokens]
    asked = theirs(input_ids=source, decoder_input_ids=torch.tensor([target]), output_attentions=True)
    wanted = torch.stack(asked.cross_attentions).mean((0, 1, 2))[:-1]
    np.testing.assert_allclose(looked.weights, wanted, atol=1e-5)
    assert looked.source[-1] == "</s>" and looked.source[0].startswith("▁") and len(looked.target) == len(best.tokens)


# On disk


def same_folder(one: Path, other: Path) -> None:
    """The same model, and vocabularies by their bytes."""
    same(one, other)
    names = {path.name for path in one.iterdir()} - {"manifest.json"}
    assert names == {path.name for path in other.iterdir()} - {"manifest.json"}
    for name in names - {"model.safetensors", *CONFIGS}:
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_it_is_saved_as_it_was_published(folder, tmp_path):
    Translator.load(folder, "cpu").save(tmp_path / "saved")
    same_folder(folder, tmp_path / "saved")
    again = Translator.load(tmp_path / "saved", "cpu")
    again.save(tmp_path / "twin", "# a card")
    for path in folder.iterdir():
        assert (tmp_path / "saved" / path.name).read_bytes() == (tmp_path / "twin" / path.name).read_bytes()
    assert (tmp_path / "twin" / "README.md").read_text() == "# a card"


@torch.no_grad()
def test_the_reference_reads_what_is_saved_here(folder, tmp_path):
    Translator.load(folder, "cpu").save(tmp_path / "saved")
    theirs, again = reference(folder), reference(tmp_path / "saved")
    assert again.generation_config.to_dict() == theirs.generation_config.to_dict()
    sizes = theirs.config.vocab_size, theirs.config.decoder_vocab_size
    source, target = (torch.tensor(rows(1, size)) for size in sizes)
    asked = {"input_ids": source, "decoder_input_ids": target}
    assert torch.equal(again(**asked).logits, theirs(**asked).logits)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")("a man").input_ids


def old(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors as older files have them: the table by all its names, and the positions beside it."""
    tensors = weights(folder)
    table = tensors["model.shared.weight"]
    positions = halves(torch.arange(64), 32)
    return tensors | {f"{name}.weight": table for name in TABLES} | dict.fromkeys(POSITIONS, positions)


def test_second_names_and_tables_of_positions_are_kept(opus, tmp_path):
    place = copied(opus, tmp_path / "old", old(opus))
    assert len(weights(place)) == len(weights(opus)) + 5
    assert difference(place) < 1e-5
    Translator.load(place, "cpu").save(tmp_path / "saved")
    same_folder(place, tmp_path / "saved")


@pytest.mark.parametrize("name", TABLES)
def test_the_table_may_go_by_any_of_its_names(opus, tmp_path, name):
    tensors = weights(opus)
    tensors[f"{name}.weight"] = tensors.pop("model.shared.weight")
    place = copied(opus, tmp_path / "other", tensors)
    assert difference(place, reference(opus)) < 1e-5
    Translator.load(place, "cpu").save(tmp_path / "saved")
    same_folder(place, tmp_path / "saved")


# What is refused


def test_every_tensor_is_accounted_for(opus, tmp_path):
    tensors = weights(opus)
    extra = fault(copied(opus, tmp_path / "extra", tensors | {"model.surprise.weight": torch.zeros(1)}))
    assert "no place for model.surprise.weight" in extra
    bias = "decoder.blocks.1.cross.q.bias is missing"
    fewer = {name: t for name, t in tensors.items() if name != "model.decoder.layers.1.encoder_attn.q_proj.bias"}
    assert bias in fault(copied(opus, tmp_path / "fewer", fewer))
    narrow = tensors | {"final_logits_bias": tensors["final_logits_bias"][:, 1:]}
    assert "bias is [1, " in fault(copied(opus, tmp_path / "narrow", narrow))
    del tensors["model.shared.weight"]
    assert "embed.tokens.weight is missing" in fault(copied(opus, tmp_path / "wordless", tensors))


def test_what_should_be_equal_and_is_not_is_named(opus, tmp_path):
    untied = old(opus) | {"lm_head.weight": torch.zeros_like(weights(opus)["model.shared.weight"])}
    assert "lm_head.weight differs from model.shared.weight" in fault(copied(opus, tmp_path / "untied", untied))
    for number, table in enumerate((torch.rand(64, 32), halves(torch.arange(65), 32), torch.zeros(()))):
        learned = old(opus) | {POSITIONS[1]: table}
        assert f"{POSITIONS[1]} is not the table" in fault(copied(opus, tmp_path / f"learned{number}", learned))


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"static_position_embeddings": False}, "static_position_embeddings is False"),
        ({"normalize_embedding": True}, "normalize_embedding is True"),
        ({"normalize_before": True}, "normalize_before is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"activation_function": "snake"}, "activation: 'snake' is not one of"),
        ({"d_model": "wide"}, "embedding.width: expected int, found 'wide'"),
        ({"d_model": 10**12}, "width=1000000000000"),
        ({"d_model": 10**7}, "is of another model"),
        ({"encoder_attention_heads": 5}, "does not divide into 5 heads"),
        ({"share_encoder_decoder_embeddings": False}, "no place for model.shared.weight"),
        ({"eos_token_id": 1}, "eos_token_id is 1 in its config, and by its vocabulary 0"),
        ({"pad_token_id": 1}, "pad_token_id is 1"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id is 0"),
        ({"bad_words_ids": [[3, 4]]}, "bad_words_ids is [[3, 4]]"),
        ({"max_length": "long"}, "max_length is 'long'"),
        ({"max_length": 1}, "max_length is 1"),
        ({"max_length": True}, "max_length is True"),
    ],
    ids=str,
)
def test_a_config_that_means_something_else_is_refused(opus, tmp_path, settings, told):
    place = copied(opus, tmp_path / "other", settings=settings)
    (place / "generation_config.json").unlink()
    assert told in fault(place)


def test_a_vocabulary_of_another_model_is_refused(opus, tmp_path):
    place = copied(opus, tmp_path / "other")
    ids = json.loads((place / "vocab.json").read_text())
    (place / "vocab.json").write_text(json.dumps(ids | {"more": len(ids)}))
    assert f"has {len(ids) + 1} pieces and the model was made for {len(ids)}" in fault(place)
    (place / "source.spm").unlink()
    assert "source.spm" in fault(place)


# The commands


def test_it_is_shown_scored_and_known_as_a_translator(opus, tmp_path):
    shown = "\n".join(regard.show(opus).lines())
    assert "positions: sinusoidal-halves" in shown and "decoder.blocks.2" in shown
    (tmp_path / "source").write_text("a man\nthe dog\n"), (tmp_path / "target").write_text("ein mann\nder hund\n")
    scored = regard.evaluate(opus, [tmp_path / "source", tmp_path / "target"], Beam(2), device="cpu")
    assert scored.hypotheses == [
        found[0].text for found in regard.load(opus, "cpu").translate(["a man", "the dog"], Beam(2))
    ]
    with pytest.raises(Problem, match="is a translator"):
        regard.embed(opus, ["a man"])


def test_the_command_translates(call, opus, tmp_path):
    (tmp_path / "text").write_text("".join(f"{text}\n" for text in TEXTS))
    done = call("translate", "--model", opus, "--beam", 4, "--device", "cpu", "--file", tmp_path / "text")
    assert (done.code, done.err) == (0, "")
    assert done.out.split("\n")[:-1] == translated(opus, Beam(4))
