"""What an output rests on: where the answer is known, and where it can be computed by hand."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from small_models import (
    BOTH,
    BYTES,
    PIECES,
    bert_reader,
    gpt_writer,
    headed,
    recurrent_translator,
    sentiment,
    task_of,
    transformer_translator,
)

from regard.attention.attend import attention_weights, padded
from regard.attention.attention import Attention
from regard.rows import Tokens
from regard.tasks.finetuned import Finetuned
from regard.tasks.translate import looks_back
from regard.viewer.explain import by_definition
from regard.viewer.looking import look

TEXT = "the cat sat on the mat"
ATTENTION, ROLLOUT, GRADIENT, OCCLUSION = range(4)


@torch.no_grad()
def only_cat_matters() -> Finetuned:
    """A classifier that looks everywhere alike; what it is told comes along one direction, and of one word alone."""
    reader = headed("classify")
    model, cat = reader.model, PIECES.encode("cat")[0]
    for name, weight in model.named_parameters():
        weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    common, telling = torch.tensor([1.0, -1.0] * 8), torch.tensor([1.0, 1.0, -1.0, -1.0] * 4)
    model.encoder.embed.tokens.weight.copy_(common.expand_as(model.encoder.embed.tokens.weight))
    model.encoder.embed.tokens.weight[cat] += telling
    attention, head = model.encoder.stack.blocks[0].attention, model.heads["classify"]
    attention.v.weight.copy_(torch.outer(telling, telling) / 16)
    attention.out.weight.copy_(torch.eye(16))
    head.dense.weight.copy_(torch.eye(16))
    head.out.weight[1] = telling
    return task_of(reader)


def test_the_one_token_that_matters_is_found_though_attention_is_everywhere_alike():
    found = look(only_cat_matters(), TEXT)
    shares = found.block("encoder/explain/0")
    cat = found.header()["sides"]["text"]["shown"].index("cat")
    np.testing.assert_allclose(shares[ATTENTION], 1 / 8, atol=1e-6)
    assert shares[OCCLUSION, cat] == pytest.approx(1)
    assert shares[GRADIENT, cat] == pytest.approx(1)


@torch.no_grad()
def test_hiding_by_a_mask_is_what_asking_again_says():
    model = sentiment()
    reader = model.reader
    ids, types = reader.row(TEXT)

    def chance(row):
        tokens = Tokens.of([row])
        scores = reader.model.scores("classify", reader.model(tokens, torch.tensor(types)), tokens.rows)
        return scores.log_softmax(-1)[0]

    label = int(chance(ids).argmax())
    masked = [[PIECES.mask if place == hidden else id for place, id in enumerate(ids)] for hidden in range(len(ids))]
    lost = np.array([float(chance(ids)[label] - chance(row)[label]) for row in masked])
    got = look(model, TEXT).block("encoder/explain/0")[OCCLUSION]
    np.testing.assert_allclose(got, lost / abs(lost).sum(), atol=1e-5)


@torch.no_grad()
def test_a_state_without_a_head_is_explained_by_how_it_turns():
    reader = sentiment().reader
    ids, types = reader.row(TEXT)

    def state(row):
        return reader.model(Tokens.of([row]), torch.tensor(types))[3]

    masked = [[PIECES.mask if place == hidden else id for place, id in enumerate(ids)] for hidden in range(len(ids))]
    turned = np.array([1 - float(torch.cosine_similarity(state(ids), state(row), 0)) for row in masked])
    shares = look(sentiment(), TEXT).block("encoder/explain/3")
    np.testing.assert_allclose(shares[OCCLUSION], turned / turned.sum(), atol=1e-4)
    assert (shares[GRADIENT] >= 0).all() and shares[GRADIENT].max() > 0


@torch.no_grad()
def test_without_a_token_for_it_a_token_is_hidden_from_attention():
    """GPT-2 has neither a mask nor an unknown token: nobody looks at what is hidden."""
    writer, query = gpt_writer(), 4
    assert BYTES.special("<unk>") is None and BYTES.special("<mask>") is None
    ids = writer.begun([TEXT])[0]
    shares = look(writer, TEXT).block(f"decoder/explain/{query}")
    assert not shares[:, query + 1 :].any()

    def chance(hidden: int | None) -> float:
        with hide(writer.model, hidden):
            states = writer.model(Tokens.of([ids[: query + 1]]))
        return float(writer.model.logits(states[-1:]).log_softmax(-1)[0, ids[query + 1]])

    lost = np.array([chance(None) - chance(hidden) for hidden in range(query + 1)])
    np.testing.assert_allclose(shares[OCCLUSION, : query + 1], lost / abs(lost).sum(), atol=1e-4)


class hide:
    """Attention as its formula has it, without one key; and scaled, for a gradient by differences."""

    def __init__(self, model, key: int | None = None, scale: float = 0.0, looks=lambda name: True):
        self.parts = [(n, m) for n, m in model.named_modules() if isinstance(m, Attention) and looks(n)]
        self.key, self.scale = key, scale

    def __enter__(self):
        self.handles = [part.register_forward_hook(self.hook) for _, part in self.parts]

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()

    def hook(self, attention, given, out):
        x, memory, rows, mask, start, bias = (*given, None, 0, None)[:6]
        q = attention.split(attention.q(x))
        own = attention.position.bias(q, rows, memory.rows, mask)
        q = attention.score.queries(attention.position.queries(q, rows.at + start))
        weights = attention_weights(q, memory, rows, attention.score, mask, own if bias is None else bias)
        if self.key is not None and self.scale:
            weights[..., self.key] *= self.scale
        elif self.key is not None:
            weights[..., self.key] = 0
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
        return attention.out(rows.unpad((weights @ padded(memory.v, memory.rows)).transpose(1, 2)).flatten(1))


def slopes(model, chance, keys: int, looks=lambda name: True) -> np.ndarray:
    """How the answer changes as the weights of a key grow, by differences, in double precision."""
    model.double()
    step, found = 1e-5, []
    with torch.no_grad():
        for key in range(keys):
            values = []
            for scale in (1 + step, 1 - step):
                with hide(model, key, scale, looks):
                    values.append(float(chance()))
            found.append((values[0] - values[1]) / (2 * step))
    model.float()
    return np.array(found) / abs(np.array(found)).sum()


def test_the_gradient_is_that_of_a_language_model():
    writer, query = gpt_writer(), 5
    ids = writer.begun([TEXT])[0]

    def chance():
        states = writer.model(Tokens.of([ids[: query + 1]]))
        return writer.model.logits(states[-1:]).log_softmax(-1)[0, ids[query + 1]]

    got = look(writer, TEXT).block(f"decoder/explain/{query}")[GRADIENT]
    np.testing.assert_allclose(got[: query + 1], slopes(writer.model, chance, query + 1), atol=1e-4)


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_the_gradient_is_that_of_a_translator_over_its_source(kind):
    mt = transformer_translator() if kind == "transformer" else recurrent_translator("general")
    source, inputs = mt.row(BOTH.encode(TEXT)), [BOTH.begin, *BOTH.encode("a dog sat")]
    query = 2

    def chance():
        states = mt.model(Tokens.of([source]), Tokens.of([inputs[: query + 1]]))
        return mt.model.logits(states[-1:]).log_softmax(-1)[0, inputs[query + 1]]

    got = look(mt, TEXT, target="a dog sat").block(f"cross/explain/{query}")[GRADIENT]
    np.testing.assert_allclose(got, slopes(mt.model, chance, len(source), looks_back), atol=1e-4)


def test_a_translator_over_its_target_rests_on_what_it_wrote():
    shares = look(transformer_translator(), TEXT, target="a dog sat").block("decoder/explain/1")
    assert shares[:, :2].any(-1).all() and not shares[:, 2:].any()


def test_the_rollout_of_a_source_goes_through_the_encoder():
    found = look(transformer_translator(), TEXT, target="a dog sat")
    row = found.block("cross/mean")[:, 1].mean(0) @ found.block("encoder/rollout")[-1]
    np.testing.assert_allclose(found.block("cross/explain/1")[ROLLOUT], row, atol=1e-6)


def test_attention_by_definition_gives_the_same_states():
    reader = bert_reader()
    tokens = Tokens.of([PIECES.encode(TEXT)])
    with torch.no_grad():
        plain = reader.model(tokens)
    with by_definition(reader.model) as weights:
        again = reader.model(tokens)
    torch.testing.assert_close(again.detach(), plain, atol=1e-5, rtol=0)
    assert len(weights) == 3 and all(one.requires_grad for _, one in weights)


def test_of_a_long_text_several_tokens_are_hidden_together(monkeypatch):
    from regard.viewer import explain

    monkeypatch.setattr(explain, "BUDGET", 0)
    monkeypatch.setattr(explain, "FEWEST", 3)
    lost = look(gpt_writer(), TEXT).block("decoder/explain/5")[OCCLUSION, :6]
    assert np.allclose(lost[0::2], lost[1::2]) and len(np.unique(lost.round(7))) == 3


def test_an_explanation_of_frozen_weights():
    reader = headed("masked")
    for weight in reader.model.parameters():
        weight.requires_grad_(False)
    assert look(reader, TEXT).block("encoder/explain/2")[GRADIENT].any()


@pytest.mark.parametrize("make", [bert_reader, gpt_writer, transformer_translator])
def test_a_look_that_nobody_holds_is_freed_at_once(make):
    """Its arrays are large and its Python objects few: a garbage collection might come after hundreds of looks."""
    gc.disable()
    try:
        held = look(make(), TEXT)
        [held.block(f"{one['name']}/explain/0") for one in held.header()["attentions"] if one["explain"]]
        alive = weakref.ref(held)
        del held
        assert alive() is None
    finally:
        gc.enable()
