"""Products in lower precision: near to those in float32, row by row, and nothing that could be trained or saved."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention.attention import Attention, AttentionConfig
from regard.errors import Problem, UsageProblem
from regard.layers import lowered as part
from regard.layers.lowered import NEEDS, Lowered, Table, instructions, lowered
from regard.layers.packed import LAYOUTS, packed

OFF = {"bf16": 0.005, "int8": 0.015}  # of the length of what comes out


@pytest.fixture(params=OFF)
def precision(request):
    if not instructions() & set(NEEDS[request.param]):
        pytest.skip(f"this CPU has no instructions for {request.param}")
    return request.param


class Small(nn.Module):
    """Words, a line, a classifier, and an output whose weight is the words'."""

    def __init__(self, bias: bool = True):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.line = nn.Embedding(300, 256), nn.Linear(256, 384, bias)
        self.few, self.out = nn.Linear(384, 3), nn.Linear(256, 300, bias)
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.line(x), self.out(x), F.linear(x, self.words.weight, self.out.bias)


def apart(found, wanted) -> float:
    return ((found - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 33, 700])
def test_products_are_near_to_those_in_float32(precision, rows, bias):
    model, x = Small(bias).eval(), torch.randn(rows, 256)
    with torch.inference_mode():
        wanted = model(x)
        lowered(model, precision)
        for found, more, exact in zip(model(x), model(x[None]), wanted, strict=True):
            assert found.dtype == torch.float32 and 0 < apart(found, exact) < OFF[precision]
            assert torch.equal(more[0], found)
        again = model(x)
        with packed("cpu"):  # which lays out weights in float32
            assert all(map(torch.equal, model(x), again))


@torch.inference_mode()
def test_a_row_does_not_depend_on_the_others(precision):
    model, x = lowered(Small().eval(), precision), torch.randn(9, 256) * torch.logspace(-3, 3, 9)[:, None]
    for together, alone in zip(model(x), model(x[4:5]), strict=True):
        torch.testing.assert_close(together[4:5], alone, rtol=1e-6, atol=1e-6)
    assert model.line(x[:0]).shape == (0, 384)


@torch.inference_mode()
def test_rows_whose_numbers_are_all_the_same(precision):
    model, x = Small().eval(), torch.tensor([0.0, 1.0, -1000.0, 1e-20])[:, None].expand(-1, 256).contiguous()
    wanted = model(x)
    for found, exact in zip(lowered(model, precision)(x), wanted, strict=True):
        assert torch.equal(found[:1], exact[:1]) if precision == "int8" else True
        torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05 * exact.abs().max().item())


@torch.inference_mode()
def test_int8_wastes_no_steps_on_numbers_that_are_not_there():
    if not instructions() & set(NEEDS["int8"]):
        pytest.skip("this CPU has no instructions for int8")
    model, x = Small().eval(), F.gelu(torch.randn(64, 256))
    wanted = model.line(x)
    assert apart(lowered(model, "int8").line(x), wanted) < 0.0085  # from -most to most it would be 0.01


def test_small_weights_words_and_scores_stay_as_they_are(precision):
    model = Small().eval()
    model.attention = Attention(256, AttentionConfig(heads=1, score="general", positions="distance"))
    words, ids = model.words.weight.detach().clone(), torch.tensor([3, 0, 299])
    lowered(model, precision)
    assert type(model.line) is Lowered and type(model.few) is nn.Linear and type(model.attention.q) is Lowered
    assert type(model.attention.score.weight) is nn.Linear and type(model.attention.position.distance) is nn.Linear
    assert type(model.words.weight) is Table and model.out.weight is model.words.weight
    assert torch.equal(model.words(ids), words[ids])
    assert model.line.out_features == 384 and precision in repr(model)


def test_what_is_lowered_holds_less(precision):
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(3))).eval()
    lowered(model, precision)
    assert sum(weight.numel() for weight in model.parameters()) == 3 * 256  # biases
    assert not any(weight.requires_grad for weight in model.parameters())
    assert torch.equal(model(torch.ones(1, 256)), copy.deepcopy(model)(torch.ones(1, 256)))


@torch.inference_mode()
def test_a_table_is_laid_out_once_and_when_it_is_wanted(precision):
    model = lowered(Small().eval(), precision)
    assert model.words.weight.product is None
    with packed("cpu"):
        model.out(torch.randn(4, 256))
    product = model.words.weight.product
    assert product is not None and id(model.words.weight) not in LAYOUTS
    model.out(torch.randn(4, 256))
    assert model.words.weight.product is product


def test_it_is_neither_saved_nor_trained(precision):
    model, x = lowered(Small().eval(), precision), torch.randn(2, 256)
    with pytest.raises(Problem, match=f"in {precision} is not saved.*load it again in float32"):
        model.state_dict()
    with pytest.raises(Problem, match=r"gradients .* load it again in float32"):
        model.line(x.clone().requires_grad_())
    with pytest.raises(Problem, match=f"in {precision} cannot be trained"):
        model.train().line(x)


def test_float32_changes_nothing():
    model = Small()
    assert lowered(model, "float32") is model and type(model.line) is nn.Linear and model.state_dict()


def test_it_is_chosen_by_what_the_cpu_has(monkeypatch):
    with pytest.raises(UsageProblem, match="no precision is called 'int4'; there are: float32, bf16, int8"):
        lowered(Small(), "int4")
    monkeypatch.setattr(part, "instructions", lambda: {"avx2"})
    with pytest.raises(Problem, match=r"no instructions for bf16 \(avx512_bf16 or amx_bf16\).* choose float32"):
        lowered(Small(), "bf16")
    with pytest.raises(Problem, match=r"no instructions for int8 \(avx512_vnni"):
        lowered(Small(), "int8")


def test_linux_tells_the_same_instructions_as_torch(monkeypatch):
    told = instructions()
    names = {name for needed in NEEDS.values() for name in needed}
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert instructions() & names == told & names or not part.Path("/proc/cpuinfo").is_file()
