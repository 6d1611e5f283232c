"""Masks joined: a band stays a band where it can, and never claims to be one where it is not."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from regard.attention.mask import CAUSAL, FULL, Mask, band, chosen_keys, prefix, window

MASKS = {
    "full": FULL,
    "causal": CAUSAL,
    "window": window(2),
    "left": band(3, 0),
    "right": band(None, 1),
    "chosen": chosen_keys(torch.tensor([[True, False, False, True, False, True]])),
    "prefix": prefix(torch.tensor([2])),
}


def grid(mask: Mask, size=6):
    row, query, key = torch.zeros(1, 1, 1).long(), torch.arange(size)[None, :, None], torch.arange(size)[None, None, :]
    return mask.allows(row, query, key)


@pytest.mark.parametrize("a, b", list(product(MASKS, MASKS)))
def test_joined_masks_allow_what_both_or_either_allow(a, b):
    first, second = MASKS[a], MASKS[b]
    assert torch.equal(grid(first & second), grid(first) & grid(second))
    assert torch.equal(grid(first | second), grid(first) | grid(second))


@pytest.mark.parametrize("a, b", list(product(MASKS, MASKS)))
def test_a_mask_that_says_it_is_a_band_is_that_band(a, b):
    for mask in (MASKS[a] & MASKS[b], MASKS[a] | MASKS[b]):
        if mask.band is not None:
            assert torch.equal(grid(mask), grid(band(*mask.band)))


def test_two_bands_are_a_band():
    assert (window(4) & CAUSAL).band == (4, 0)
    assert (FULL & window(3)).band == (3, 3)
    assert (CAUSAL & MASKS["chosen"]).band is None


@pytest.mark.parametrize("name", MASKS)
def test_every_mask_fills_its_grid(name):
    assert grid(MASKS[name]).shape == (1, 6, 6) and grid(MASKS[name]).dtype == torch.bool
