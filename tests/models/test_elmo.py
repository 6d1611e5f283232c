"""ELMo: its layers and its formula, words that no vocabulary has, its folder."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.commands.encoders import new_reader
from regard.commands.load import load
from regard.config import change
from regard.models.elmo import PRESETS, Elmo
from regard.models.heads import new_encoder, with_heads
from regard.objectives.language import Both
from regard.objectives.objective import Asked
from regard.rows import Tokens
from regard.tasks.mix import Mix
from regard.tasks.reader import Reader
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat", "a dog sat", "the dog and the cat sat too", "a cat and a mat"] * 2
TEXTS = ["the cat sat", "a dog and an axolotl", "mat"]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return new_reader("elmo-tiny", Tokenizer.train("words", LINES, 40))


def alone(reader: Reader, text: str) -> list[torch.Tensor]:
    with torch.inference_mode():
        return list(reader.model.encoder.layers(Tokens.of([reader.row(text)[0]])))


def test_layers_are_the_words_twice_and_two_of_both_ways(reader):
    encoder, tokens = reader.model.encoder, Tokens.of([reader.row(text)[0] for text in TEXTS])
    with torch.no_grad():
        layers = list(encoder.layers(tokens))
        words = encoder.embed.read(tokens)
        assert [layer.shape for layer in layers] == [(len(tokens.ids), 32)] * 3
        torch.testing.assert_close(layers[0], torch.cat([words, words], -1))
        forward, backward = encoder.both(tokens)
        torch.testing.assert_close(layers[2], torch.cat([forward, backward], -1))
        [(low, _), (high, _)] = encoder.ways[0].each(words, tokens.rows)
        [(_, _), (bare, _)] = plain_ways(encoder).each(words, tokens.rows)
    torch.testing.assert_close(high, bare + low)  # the second is added to the first
    torch.testing.assert_close(layers[1][:, :16], low)


def plain_ways(encoder: Elmo):
    """The same forward way without what goes round the second layer."""
    from regard.layers.recurrent import Way

    way = Way(change(encoder.config.recurrent, "residual", False), encoder.config.embedding.width).eval()
    way.load_state_dict(encoder.ways[0].state_dict())
    return way


def test_sentences_stand_between_ends(reader):
    end = reader.tokenizer.end
    ids, _ = reader.row("the cat")
    assert (ids[0], ids[-1], len(ids)) == (end, end, 4)


def test_a_mix_of_its_layers_is_the_papers_formula(reader):
    weights = (0.2, 0.5, 0.6)  # gamma * s_j
    wanted = [sum(w * layer for w, layer in zip(weights, alone(reader, text), strict=True)) for text in TEXTS]
    for layers in (Mix(weights), "mix 0.2 0.5 0.6"):
        vectors = reader.embed(TEXTS, layers=layers)
        assert np.allclose(vectors, torch.stack([one.mean(0) for one in wanted]), atol=1e-6)


def test_a_word_outside_the_vocabulary_is_read_by_its_characters(reader):
    [quokka, wombat, again] = reader.embed_words([["the", "quokka"], ["the", "wombat"], ["the", "quokka"]])
    assert np.allclose(quokka, again, atol=1e-6) and not np.allclose(quokka[1], wombat[1], atol=1e-4)
    [word] = reader.embed_words([["cat"]], layers="first")
    met = reader.model.encoder.embed(torch.tensor(reader.reading.table()[reader.tokenizer.encode("cat")]).long())
    assert np.allclose(word[0, :16], met.detach().numpy(), atol=1e-6)


def test_in_a_folder_it_is_the_same_and_knows_new_words_too(reader, tmp_path):
    reader.save(tmp_path / "elmo")
    again = load(tmp_path / "elmo", "cpu")
    texts = [*TEXTS, "a Schnabeltier sat"]
    assert np.array_equal(again.embed(texts), reader.embed(texts))
    assert again.tokenizer.frame == reader.tokenizer.frame


def test_a_mix_learned_with_a_head_begins_as_the_mean_of_the_layers(reader):
    published, fresh = with_heads(
        reader.published, {"tag"}, 3, config=change(reader.model.encoder.config, "mixed", True)
    )
    assert fresh == ["encoder.mix.preferences", "encoder.mix.scale", "heads.tag.out.bias", "heads.tag.out.weight"]
    mixed = Reader(published, reader.tokenizer)
    tokens = Tokens.of([mixed.row(text)[0] for text in TEXTS])
    with torch.no_grad():
        layers = torch.stack(list(mixed.model.encoder.layers(tokens)))
        torch.testing.assert_close(mixed.model(tokens), layers.mean(0))
        mixed.model.encoder.mix.preferences.copy_(torch.tensor([1.0, 2.0, -1.0]))
        mixed.model.encoder.mix.scale.fill_(1.5)
        shares = torch.tensor([1.0, 2.0, -1.0]).softmax(0)
        torch.testing.assert_close(mixed.model(tokens), 1.5 * torch.einsum("j,jnw->nw", shares, layers))
        assert torch.equal(torch.cat(mixed.model.encoder.both(tokens), -1), layers[-1])


def test_two_language_models_learn_a_text(reader):
    torch.manual_seed(0)
    learner = Reader(with_heads(reader.published, {"write"})[0], reader.tokenizer)
    asked = Asked(learner.model.train(), Both())
    rows = [learner.row(line)[0] for line in LINES[:4]]
    batch = {
        "tokens": Tokens.of([row[:-1] for row in rows]),
        "wanted": torch.tensor([id for r in rows for id in r[1:]]),
    }
    optimizer = torch.optim.AdamW(asked.parameters(), 0.02)
    losses = []
    for _ in range(60):
        result = asked(asked.prepare(batch))
        loss = result.loss / result.count
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] > 2.2 and losses[-1] < 0.5 * losses[0]


def test_the_published_size_has_the_published_number_of_parameters():
    with torch.device("meta"):
        encoder = new_encoder("elmo", PRESETS["elmo"], ()).model.encoder
    assert round(sum(p.numel() for p in encoder.parameters()) / 1e6, 1) == 93.7  # 93.6, and torch's second biases
