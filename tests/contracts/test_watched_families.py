"""What every family owes that can be looked at: watching changes no bit of its output, the weights are those of its
paper's formula, and writing step by step looks where reading at once does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from routes_by_hand import by_hand
from watched_models import LOOKED, LOOKED_BACK, READ, TEXT, TRANSLATED, WRITTEN, cove_reader, reader, translator

from regard.attention.attention import Attention
from regard.attention.position import Buckets, Distance
from regard.attention.route import Route
from regard.attention.watch import collect, watch
from regard.decoding.generate import Writing
from regard.layers.stack import Stack
from regard.layers.watching import watch_states
from regard.rows import Tokens
from regard.tasks.translate import looks_back
from regard.tasks.writer import Writer
from regard.viewer.looking import look
from regard.viewer.reading import framed, reads_on
from regard.viewer.translating import in_decoder, in_encoder

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

ROWS = [[5, 6, 7, 8, 9], [7, 3, 8], [4]]
TARGETS = [[1, 6, 4], [1, 3, 5, 9], [1]]


@pytest.fixture(scope="module", params=[*READ, "cove"])
def reads(request):
    return cove_reader() if request.param == "cove" else reader(request.param)


@pytest.fixture(scope="module", params=TRANSLATED)
def translates(request):
    return translator(request.param)


def run_reader(model):
    return model(Tokens.of(ROWS))


def run_translator(model):
    return model(Tokens.of(ROWS), Tokens.of(TARGETS))


# No bit of the output changes


def check_unchanged(model, run) -> None:
    unseen = run(model)
    with watch(model), collect(model) as calls, watch_states(model) as runs:
        watched = run(model)
    assert calls or runs
    assert torch.equal(unseen, watched) and torch.equal(unseen, run(model))


@torch.no_grad()
def test_watching_leaves_what_is_read_alone(reads):
    reads.embed([TEXT])  # a vocabulary without end learns its words
    check_unchanged(reads.model, run_reader)


@torch.no_grad()
def test_watching_leaves_what_is_translated_alone(translates):
    check_unchanged(translates.model, run_translator)


# The weights are those of the formula


class Projected:
    """What goes into the score of each attention, heard at the projections themselves: a list a call."""

    def __init__(self, model):
        self.q, self.k, self.handles = {}, {}, []
        for name, part in model.named_modules():
            if isinstance(part, Attention):
                self.q[name], self.k[name] = [], []
                self.listen(part.q, self.q[name])
                self.listen(part.k, self.k[name])

    def listen(self, module, heard):
        self.handles.append(module.register_forward_hook(lambda _, given, out: heard.append(out)))

    def stop(self):
        for handle in self.handles:
            handle.remove()


def bucket_of(apart: int, count: int, furthest: int, both_ways: bool) -> int:
    """T5's, for one distance: how far the key lies behind the query."""
    first = 0
    if both_ways:
        count //= 2
        first, apart = (count if apart < 0 else 0), abs(apart)
    apart = max(apart, 0)
    if apart < count // 2:
        return first + apart
    far = count // 2 + int(math.log(apart / (count // 2)) / math.log(furthest / (count // 2)) * (count - count // 2))
    return first + min(far, count - 1)


def t5_bias(buckets: Buckets, head: int, queries: int, keys: int) -> np.ndarray:
    table = buckets.table.weight.double().numpy()
    number = lambda i, j: bucket_of(i - j, len(table), buckets.furthest, buckets.both_ways)  # noqa: E731
    return np.array([[table[number(i, j), head] for j in range(keys)] for i in range(queries)])


def distance_scores(distance: Distance, q: np.ndarray, head: int, keys: int) -> np.ndarray:
    """Transformer-XL's (q + v) . r, for one head."""
    width, size = distance.distance.in_features, q.shape[1]
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    weight = distance.distance.weight.double().numpy()
    found = np.zeros((len(q), keys))
    for i in range(len(q)):
        for j in range(keys):
            waves = np.stack([np.sin((i - j) * rates), np.cos((i - j) * rates)], 1).reshape(-1)[:width]
            r = (weight @ waves)[head * size : (head + 1) * size]
            found[i, j] = (q[i] + distance.v[head].double().numpy()) @ r
    return found


def formula(attention: Attention, q: np.ndarray, k: np.ndarray, head: int) -> np.ndarray:
    """The scores of one row and one head, (Q, D) and (K, D), as the papers write them."""
    score = {name: p.double().numpy() for name, p in attention.score.named_parameters()}
    kind = type(attention.score).__name__
    if kind == "Additive":
        pairs = np.tanh((q @ score["query.weight"].T)[:, None] + (k @ score["key.weight"].T)[None])
        return pairs @ score["energy.weight"][0]
    if kind == "Location":
        return (q @ score["weight.weight"].T)[:, : len(k)]
    if kind == "General":
        return q @ score["weight.weight"].T @ k.T
    if kind == "Cosine":
        return score["strength"] * (q @ k.T) / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(k, axis=1)
    scale = math.sqrt(q.shape[1]) if kind == "ScaledDot" else 1.0
    if isinstance(attention.position, Distance):
        u = attention.position.u[head].double().numpy()
        return ((q + u) @ k.T + distance_scores(attention.position, q, head, len(k))) / scale
    return q @ k.T / scale


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def expected(model, name: str, q, k, head: int) -> np.ndarray:
    """The weights of one row and one head by hand."""
    attention = model.get_submodule(name)
    scores = formula(attention, q, k, head)
    if type(attention.route) is not Route:
        return by_hand(attention.route, q, k, head, model.encoder.config.stack.causal)
    owner = next((part for at, part in model.named_modules() if isinstance(part, Stack) and name.startswith(at)), None)
    own = owner is not None and not looks_back(name)
    if own and owner.distances is not None:
        scores = scores + t5_bias(owner.distances, head, len(q), len(k))
    if own and owner.mask is not None:  # causal; no row here is longer than a window
        scores = np.where(np.tril(np.ones(scores.shape)) > 0, scores, -np.inf)
    return softmax(scores)


def split(heard: torch.Tensor, lengths: list[int], heads: int) -> list[np.ndarray]:  # (N, H D) -> (T, H, D) each
    rows = heard.detach().double().unflatten(-1, (heads, -1)).split(lengths)
    return [row.numpy() for row in rows]


@torch.no_grad()
def check_formula(model, run) -> None:
    heard = Projected(model)
    with collect(model) as calls:
        run(model)
    heard.stop()
    assert calls
    for call in calls:
        weights, heads = call.weights(), call.q.shape[1]
        # the collector projects the queries once more, beside the model
        q = split(heard.q[call.name][0], call.rows.lengths.tolist(), heads)
        k = split(heard.k[call.name].pop(0), call.memory.rows.lengths.tolist(), heads)
        del heard.q[call.name][:2]
        for row, (one, other) in enumerate(zip(q, k, strict=True)):
            for head in range(heads):
                wanted = expected(model, call.name, one[:, head], other[:, head], head)
                got = weights[row, head, : len(one), : len(other)].numpy()
                np.testing.assert_allclose(got, wanted, atol=1e-6, rtol=0, err_msg=call.name)


@pytest.mark.parametrize("name", LOOKED)
def test_the_weights_of_what_reads_are_those_of_the_formula(name):
    check_formula(reader(name).model, run_reader)


@pytest.mark.parametrize("name", LOOKED_BACK)
def test_the_weights_of_what_translates_are_those_of_the_formula(name):
    check_formula(translator(name).model, run_translator)


# A look is what one pass shows


@torch.no_grad()
def in_one_pass(model, run) -> dict[str, list[list[torch.Tensor]]]:
    with watch(model) as seen:
        run(model)
    return seen


def close(got, wanted) -> None:
    np.testing.assert_allclose(got, np.asarray(wanted), atol=1e-5, rtol=0)


def test_a_look_shows_each_layer_of_a_reader(reads):
    found = look(reads, TEXT)
    if isinstance(reads, Writer) and reads_on(reads):
        ids = reads.begun([TEXT])[0]
    else:
        _, ids, _ = framed(reads, TEXT, None)
    assert len(found.header()["sides"]["text"]["pieces"]) == len(ids)
    seen = in_one_pass(reads.model, lambda model: model(Tokens.of([ids])))
    calls = [call[0] for calls in seen.values() for call in calls]  # ALBERT's one attention is every layer
    attentions = found.header()["attentions"]
    assert len(calls) == sum(len(attention["layers"]) for attention in attentions)
    for attention in attentions:
        for number, weights in enumerate(calls):
            close(found.block(f"{attention['name']}/{number}/weights"), weights)
    assert attentions or found.header()["states"]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_step_by_step_looks_as_when_it_is_read(name):
    writer, prompt = reader(name), "the cat"
    found, how = look(writer, prompt, write=5), Writing(most=5, temperature=0)
    ids = [*writer.begun([prompt])[0], *writer.generate([prompt], how)[0].tokens]
    assert len(found.header()["sides"]["text"]["pieces"]) == len(ids) > len(writer.begun([prompt])[0])
    with torch.no_grad(), watch(writer.model) as seen, watch_states(writer.model) as runs:
        writer.model(Tokens.of([ids]))
    for number, calls in enumerate(seen.values()):
        close(found.block(f"decoder/{number}/weights"), calls[0][0])
    for number, ran in enumerate(runs):
        close(found.block(f"states/forward/{number}"), ran.run()[0])


@pytest.mark.parametrize("target", [None, "a dog sat"], ids=["its own", "given"])
def test_a_translation_step_by_step_looks_as_in_one_pass(translates, target):
    found = look(translates, TEXT, target=target)
    model, vocabulary = translates.model, translates.target
    out = vocabulary.encode(target) if target else translates.translate([TEXT])[0][0].tokens
    source, inputs = Tokens.of([translates.row(vocabulary.encode(TEXT))]), Tokens.of([[vocabulary.begin, *out]])
    seen = in_one_pass(model, lambda model: model(source, inputs))
    kinds = {"encoder": in_encoder, "decoder": in_decoder, "cross": looks_back}
    told = {attention["name"]: len(attention["layers"]) for attention in found.header()["attentions"]}
    for kind, belongs in kinds.items():
        layers = [calls[0][0] for name, calls in seen.items() if belongs(name)]
        assert told.get(kind, 0) == len(layers)
        for number, weights in enumerate(layers):
            close(found.block(f"{kind}/{number}/weights"), weights)
    with torch.no_grad(), watch_states(model) as runs:
        model(source, inputs)
    states = {state["name"]: len(state["layers"]) for state in found.header()["states"]}
    assert sum(states.values()) == len(runs)
    for ran in runs:
        name = f"{ran.name}-{'backward' if ran.backward else 'forward'}"
        close(found.block(f"states/{name}/{ran.layer}"), ran.run()[0])


# Every family's look is whole: each block that is told of is there, and explanations are shares


def check_blocks(found) -> None:
    for name in found.blocks():
        block = found.block(name)
        assert block.dtype == np.float32 and block.flags.c_contiguous
        assert name.endswith("/scores") or np.isfinite(block).all(), name
    for attention in found.header()["attentions"]:
        shares = found.block(f"{attention['name']}/explain/1")
        assert shares.shape == (4, attention["layers"][0]["keys"])
        totals = abs(shares).sum(-1)
        assert np.allclose(totals, 1, atol=1e-5)


def test_every_block_of_a_reader_is_there(reads):
    check_blocks(look(reads, TEXT))


def test_every_block_of_a_translation_is_there(translates):
    check_blocks(look(translates, TEXT, target="a dog sat"))
