"""The one module around attend: heads, projections, and shapes that cannot be."""

from __future__ import annotations

import pytest
import torch

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL
from regard.errors import UsageProblem
from regard.rows import Rows


def test_it_equals_torchs_attention_with_heads():
    torch.manual_seed(0)
    ours, rows = Attention(12, AttentionConfig(3)), Rows.of([5])
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    x = torch.randn(5, 12)
    later = torch.ones(5, 5).triu(1).bool()
    wanted = theirs(x[None], x[None], x[None], attn_mask=later, need_weights=False)[0][0]
    torch.testing.assert_close(ours(x, ours.remember(x, rows), rows, CAUSAL), wanted)


def test_a_head_may_have_a_size_of_its_own():
    attention, rows = Attention(10, AttentionConfig(3, size=8, bias=False)), Rows.of([2, 1])
    assert attention.q.weight.shape == (24, 10) and attention.out.weight.shape == (10, 24)
    assert attention.q.bias is None
    x = torch.randn(3, 10)
    assert attention(x, attention.remember(x, rows), rows).shape == (3, 10)


@pytest.mark.parametrize("heads", [3, 0, -2])
def test_heads_that_do_not_divide_the_width_are_refused(heads):
    with pytest.raises(UsageProblem, match=f"width 10 does not divide into {heads} heads"):
        Attention(10, AttentionConfig(heads))


def test_queries_after_a_memory_equal_the_end_of_one_pass():
    torch.manual_seed(0)
    attention = Attention(8, AttentionConfig(2, positions="rotary"))
    whole, begin, end = Rows.of([5, 3]), Rows.of([3, 2]), Rows.of([2, 1])
    x = torch.randn(8, 8)
    wanted = attention(x, attention.remember(x, whole), whole, CAUSAL)
    first, last = torch.tensor([0, 1, 2, 5, 6]), torch.tensor([3, 4, 7])
    start = torch.tensor([3, 3, 2])  # where each row's new tokens begin
    memory = attention.remember(x[first], begin).grown(attention.remember(x[last], end, start))
    torch.testing.assert_close(attention(x[last], memory, end, CAUSAL, start), wanted[last])
