"""Every way by which queries meet keys: what it tells is what its weights say; and what it is where it reaches all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import regard.attention.route_hashed as hashed
import regard.attention.route_sorted as in_order
import regard.attention.route_window as windowed
from regard.attention.attend import attention_weights
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL, Mask, chosen_keys
from regard.attention.route import Meeting, Route
from regard.attention.route_hashed import Hashed, Local
from regard.attention.route_low_rank import LowRank
from regard.attention.route_sorted import Reach
from regard.attention.route_window import Window, chosen
from regard.attention.watch import watch
from regard.errors import UsageProblem
from regard.rows import Rows

WIDTH, HEADS = 16, 2
ROUTES = {
    "window": lambda: Window(5, WIDTH, HEADS, WIDTH // HEADS),
    "a wide window": lambda: Window(40, WIDTH, HEADS, WIDTH // HEADS),
    "low rank": lambda: LowRank(60, 7, 1),
    "low rank by head": lambda: LowRank(60, 7, HEADS),
    "local": lambda: Local(Reach(4, 1, 1)),
    "hashed": lambda: Hashed(Reach(4, 1, 0), 2, (4,)),
    "hashed by length": lambda: Hashed(Reach(4, 1, 1, 4, 8), 3, seed=3),
    "hashed by factors": lambda: Hashed(Reach(5, 2, 0), 1, (2, 4)),
}
LENGTHS = {"ragged": [50, 3, 0, 17], "even": [40, 40], "one": [53], "short": [2, 1]}


def some(rows: Rows) -> torch.Tensor:
    tokens = torch.rand(rows.total) < 0.1
    tokens[rows.first[rows.lengths > 0]] = True
    return tokens


def masks(name: str, rows: Rows):
    if name.startswith("low rank"):
        return [None]
    shown = torch.rand(len(rows), rows.longest) < 0.7
    found = [None, CAUSAL, chosen_keys(shown), CAUSAL & chosen_keys(shown)]
    if "window" in name:
        found += [chosen(some(rows), rows), chosen(some(rows), rows) & CAUSAL, chosen(some(rows), rows) & found[2]]
    return found


def attention(route: Route) -> Attention:
    made = Attention(WIDTH, AttentionConfig(HEADS)).double()
    made.route = route.double()
    made.k = made.q if isinstance(route, Hashed) else made.k
    return made.eval()


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", ROUTES)
def test_what_is_told_is_the_values_by_their_weights(name, lengths, monkeypatch):
    """Values and gradients, for every mask; also where all is done in small portions."""
    torch.manual_seed(0)
    rows = Rows.of(LENGTHS[lengths])
    made, x = attention(ROUTES[name]()), torch.randn(rows.total, WIDTH, dtype=torch.float64, requires_grad=True)
    for pairs in (2**26, 200):
        monkeypatch.setattr(windowed, "PAIRS", pairs)
        monkeypatch.setattr(in_order, "PAIRS", pairs)
        monkeypatch.setattr(hashed, "HASHED", pairs)
        for mask in masks(name, rows):
            memory = made.remember(x, rows)
            q, _ = made.placed(x, memory, rows, mask, 0, None)
            met = Meeting(q, memory, rows, made.score, mask)
            out = made.route(met)
            wanted = made.route.mixed(made.route.weights(met), memory, rows, mask)
            torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-9)
            inputs = [x, *made.parameters()]
            found, right = (
                torch.autograd.grad(y.sin().sum(), inputs, retain_graph=True, allow_unused=True) for y in (out, wanted)
            )
            for one, other in zip(found, right, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ROUTES)
def test_dropout_leaves_the_mean_alone(name):
    torch.manual_seed(0)
    rows = Rows.of([50, 3])
    made, x = attention(ROUTES[name]()), torch.randn(rows.total, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        memory = made.remember(x, rows)
        q, _ = made.placed(x, memory, rows, None, 0, None)
        met = Meeting(q, memory, rows, made.score)
        wanted = made.route(met)
        draws = [made.route(replace(met, dropout=0.3)) for _ in range(150)]
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(torch.stack(draws).mean(0), wanted, rtol=0, atol=0.5)


@torch.no_grad()
@pytest.mark.parametrize("name", ROUTES)
def test_watching_changes_nothing_and_shows_some_heads_and_rows(name):
    torch.manual_seed(0)
    rows = Rows.of([17, 3, 30])
    made, x = attention(ROUTES[name]()), torch.randn(rows.total, WIDTH, dtype=torch.float64)
    ask = lambda: made(x, made.remember(x, rows), rows)  # noqa: E731
    unseen = ask()
    with watch(made) as seen:
        assert torch.equal(unseen, ask())
    with watch(made, heads=[1], rows=[2, 0]) as part:
        ask()
    for row, weights in zip((2, 0), part[""][0], strict=True):
        torch.testing.assert_close(weights, seen[""][0][row][[1]])


# Where a way reaches everywhere


def full(made: Attention, x, rows, mask) -> torch.Tensor:
    """Attention of all with all, of the same queries, keys and values."""
    memory = made.remember(x, rows)
    q, _ = made.placed(x, memory, rows, mask, 0, None)
    weights = attention_weights(q, memory, rows, made.score, mask)
    return Route().mixed(weights, memory, rows, mask)


NOT_ITSELF = Mask(lambda row, q, k: q != k)


@torch.no_grad()
@pytest.mark.parametrize("rounds", [1, 3])
def test_one_bucket_is_attention_of_all_with_all(rounds):
    """But for tokens themselves, of which a query is the key."""
    torch.manual_seed(0)
    rows = Rows.of([30, 7, 2])
    made, x = attention(Hashed(Reach(32), rounds)), torch.randn(rows.total, WIDTH, dtype=torch.float64)
    for mask in (None, CAUSAL):
        memory = made.remember(x, rows)
        out = made.look(made.placed(x, memory, rows, mask, 0, None)[0], memory, rows, mask, None)
        wanted = full(made, x, rows, NOT_ITSELF if mask is None else NOT_ITSELF & mask)
        alone = rows.at == 0 if mask is CAUSAL else torch.zeros(rows.total, dtype=torch.bool)
        torch.testing.assert_close(out[~alone], wanted[~alone])
        own = made.split(made.v(x))
        torch.testing.assert_close(out[alone], own[alone])  # who sees nobody else sees itself


@torch.no_grad()
def test_chunks_that_reach_all_are_attention_of_all_with_all():
    torch.manual_seed(0)
    rows = Rows.of([8, 7, 2])
    for route in (Local(Reach(8, 0, 0)), Local(Reach(4, 1, 0)), Window(8, WIDTH, HEADS, WIDTH // HEADS)):
        made, x = attention(route), torch.randn(rows.total, WIDTH, dtype=torch.float64)
        memory = made.remember(x, rows)
        out = made.look(made.placed(x, memory, rows, None, 0, None)[0], memory, rows, None, None)
        torch.testing.assert_close(out, full(made, x, rows, None))


@torch.no_grad()
def test_more_rounds_come_nearer_to_attention_of_all_with_all():
    torch.manual_seed(0)
    rows = Rows.of([256])
    x, errors = torch.randn(256, WIDTH, dtype=torch.float64), []
    for rounds in (1, 8):
        torch.manual_seed(1)
        made = attention(Hashed(Reach(16), rounds, (16,)))
        memory = made.remember(x, rows)
        q, _ = made.placed(x, memory, rows, None, 0, None)
        found = made.route(Meeting(q * 8, memory, rows, made.score))
        weights = attention_weights(q * 8, memory, rows, made.score, NOT_ITSELF)
        errors.append(float((found - Route().mixed(weights, memory, rows, None)).abs().mean()))
    assert errors[1] < 0.6 * errors[0]


# Time and memory


class ComparedPairs(TorchDispatchMode):
    """How many queries and keys the attention kernels compare."""

    count = 0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if "attention" in operation.__name__ and "backward" not in operation.__name__:
            query, key = arguments[:2]
            self.count += query[..., 0].numel() * key.shape[-2]
        return operation(*arguments, **(options or {}))


def compared_pairs(side: int, length: int, heads: int = 2) -> int:
    rows, size = Rows.of([length]), 16
    made = Attention(heads * size, AttentionConfig(heads))
    made.route = Window(side, heads * size, heads, size)
    x = torch.randn(length, heads * size)
    with torch.no_grad(), ComparedPairs() as pairs:
        made(x, made.remember(x, rows), rows)
    return pairs.count


def test_work_falls_with_the_window_and_grows_with_the_length():
    assert 0 < compared_pairs(64, 4096) < 0.6 * compared_pairs(512, 4096) < 0.6 * 2 * 4096 * 4096
    assert compared_pairs(64, 8192) <= 4.1 * compared_pairs(64, 2048)


@pytest.mark.parametrize("name", ["window", "chosen", "low rank", "local", "hashed"])
def test_no_tensor_is_the_square_of_the_length(name):
    length = 4096
    rows, x = Rows.of([length]), torch.randn(length, WIDTH, requires_grad=True)
    routes = {
        "window": lambda: Window(32, WIDTH, HEADS, WIDTH // HEADS), "low rank": lambda: LowRank(length, 64, 1),
        "local": lambda: Local(Reach()), "hashed": lambda: Hashed(Reach(), 2),
    }  # fmt: skip
    routes["chosen"] = routes["window"]
    made = attention(routes[name]()).float()
    mask = chosen(torch.arange(length) % 512 == 0, rows) if name == "chosen" else None
    largest = 0

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.untyped_storage().nbytes() // 4)
            return out

    with Sizes():
        made(x, made.remember(x, rows), rows, mask).sum().backward()
    assert largest <= length * 64 * 2 * 2 * HEADS  # rounds, chunks, heads: none of them grows with the length
    assert largest < length**2 / 4


def test_what_a_way_cannot_do_is_refused():
    rows = Rows.of([5])
    x = torch.randn(5, WIDTH, dtype=torch.float64)
    for name, route in ROUTES.items():
        made = attention(route())
        with pytest.raises(UsageProblem, match="all with all"):
            made(x, made.remember(x, rows), rows, bias=torch.zeros(1, 1, 5, 5, dtype=torch.float64))
        with pytest.raises(UsageProblem, match="whole texts"):
            made(x[:2], made.remember(x, rows), Rows.of([2]))
        if name.startswith("low rank"):
            with pytest.raises(UsageProblem, match="mask"):
                made(x, made.remember(x, rows), rows, CAUSAL)
