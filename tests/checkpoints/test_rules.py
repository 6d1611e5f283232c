"""One table of names, read in either direction: nothing is lost, taken twice or passed over in silence."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.rules import Rules, transposed
from regard.errors import Problem

RULES = Rules(
    (("embed", "embeddings.word"), ("blocks.{i}.q", "layer.{i}.self.query"), ("scale", "cls.scale")),
    tied={"decoder.weight": "embeddings.word.weight"},
    ignored=("embeddings.position_ids",),
)
OURS = ["embed.weight", "blocks.0.q.weight", "blocks.0.q.bias", "blocks.12.q.weight", "blocks.345.q.bias", "scale"]
THEIRS = [
    "embeddings.word.weight",
    "layer.0.self.query.weight",
    "layer.0.self.query.bias",
    "layer.12.self.query.weight",
    "layer.345.self.query.bias",
    "cls.scale",
]


def tensors(names: list[str]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([float(number)]) for number, name in enumerate(names)}


def values(named: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: tensor.item() for name, tensor in named.items()}


def test_the_table_is_read_in_both_directions():
    assert values(RULES.load(tensors(THEIRS), "file")) == values(tensors(OURS))
    assert values(RULES.save(tensors(OURS))) == values(tensors(THEIRS))


def test_tensors_are_handed_on_and_not_copied():
    given = tensors(THEIRS)
    assert RULES.load(given, "file")["scale"] is given["cls.scale"]


def test_under_a_prefix():
    """Theirs alone have it, twins and constants too."""
    under = RULES.under("model.")
    given = tensors([f"model.{name}" for name in THEIRS])
    given["model.decoder.weight"] = given["model.embeddings.word.weight"].clone()
    given["model.embeddings.position_ids"] = torch.arange(3)
    assert values(under.load(given, "file")) == values(tensors(OURS))
    assert values(under.save(tensors(OURS))) == values(tensors([f"model.{name}" for name in THEIRS]))
    with pytest.raises(Problem, match=r"no place for cls\.scale"):
        under.load(tensors(["cls.scale"]), "file")


def test_tables_add_up():
    more = Rules((("head", "classifier"),), tied={"twin.bias": "classifier.bias"}, ignored=("constant",))
    given = tensors([*THEIRS, "classifier.weight", "classifier.bias"])
    given |= {"twin.bias": given["classifier.bias"], "constant": torch.ones(1)}
    assert values((RULES + more).load(given, "file")) == values(tensors([*OURS, "head.weight", "head.bias"]))


@pytest.mark.parametrize(
    "name",
    [
        "surprise",
        "layer.0.self.query.weight.extra",
        "layer.0.self.query.running_mean",
        "layer.x.self.query.weight",
        "layer..self.query.weight",
        "layer.-1.self.query.weight",
        "xlayer.0.self.query.weight",
        "embeddingsXword.weight",  # the dot of a name is a dot
        "embeddings.word.weight\n",
    ],
)
def test_a_name_no_row_takes_is_told(name):
    with pytest.raises(Problem, match="file: no place for") as found:
        RULES.load(tensors([*THEIRS, name]), "file")
    assert name in str(found.value)


def test_a_name_two_rows_take_is_told():
    double = Rules((("one", "layer.0"), ("blocks.{i}", "layer.{i}")))
    with pytest.raises(Problem, match=r"no place for layer\.0\.weight"):
        double.load(tensors(["layer.0.weight"]), "file")


def test_many_names_are_counted():
    with pytest.raises(Problem, match=r"no place for odd\.0, odd\.1, .*, odd\.7 and 2 more\. Tensors are left out"):
        RULES.load(tensors([f"odd.{number}" for number in range(10)]), "file")


def test_what_is_not_ours_cannot_be_saved():
    with pytest.raises(Problem, match=r"the model: no place for heads\.new\.weight"):
        RULES.save(tensors([*OURS, "heads.new.weight"]))


def test_what_is_not_ours_is_saved_by_our_name_where_that_is_wanted():
    ours = tensors([*OURS, "blocks.0.gate.weight"])
    saved = RULES.save(ours, own_names=True)
    assert saved.keys() == {*THEIRS, "regard.blocks.0.gate.weight"}
    assert values(RULES.load(saved, "file")) == values(ours)
    with pytest.raises(Problem, match=r"file: regard\.scale is there by its published name too"):
        RULES.load(saved | {"regard.scale": torch.zeros(1)}, "file")


def test_twins_must_be_equal():
    given = tensors(THEIRS)
    assert values(RULES.load(given | {"decoder.weight": given["embeddings.word.weight"] + 0}, "file")) == values(
        tensors(OURS)
    )
    for other in (torch.tensor([9.0]), torch.zeros(2)):
        with pytest.raises(Problem, match=r"file: decoder\.weight differs from embeddings\.word\.weight"):
            RULES.load(given | {"decoder.weight": other}, "file")
    with pytest.raises(Problem, match=r"decoder\.weight differs"):  # the second name alone
        RULES.load({"decoder.weight": torch.zeros(1)}, "file")


def test_old_names_of_norms_are_renewed():
    norm = Rules((("norm", "LayerNorm"),))
    found = norm.load(tensors(["LayerNorm.gamma", "LayerNorm.beta"]), "file")
    assert values(found) == {"norm.weight": 0.0, "norm.bias": 1.0}
    with pytest.raises(Problem, match=r"LayerNorm\.gamma is there by its new name too, LayerNorm\.weight"):
        norm.load(tensors(["LayerNorm.gamma", "LayerNorm.weight"]), "file")


# Tensors that are not ours as they stand


FUSED = Rules(
    (
        (tuple(f"blocks.{{i}}.{part}" for part in "qkv"), "h.{i}.attn", transposed),
        ("blocks.{i}.out", "h.{i}.proj", transposed),
        ("blocks.{i}.norm", "h.{i}.ln"),
    ),
    ignored=("h.{i}.mask",),
)


def fused(layers: int = 2) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"attn.weight": (4, 12), "attn.bias": (12,), "proj.weight": (4, 6), "proj.bias": (6,), "ln.weight": (4,)}
    return {
        f"h.{i}.{name}": torch.randn(shape, generator=generator)
        for i in range(layers)
        for name, shape in shapes.items()
    }


def test_one_of_theirs_is_three_of_ours_with_rows_and_columns_exchanged():
    given = fused()
    found = FUSED.load(given, "file")
    assert len(found) == 2 * (6 + 2 + 1)
    x = torch.randn(3, 4)
    q, k, v = (x @ found[f"blocks.1.{part}.weight"].T + found[f"blocks.1.{part}.bias"] for part in "qkv")
    torch.testing.assert_close(torch.cat([q, k, v], 1), x @ given["h.1.attn.weight"] + given["h.1.attn.bias"])
    assert torch.equal(found["blocks.0.out.weight"], given["h.0.proj.weight"].T)


def test_what_was_parted_and_exchanged_goes_back_bit_for_bit():
    given = fused(12)
    again = FUSED.under("model.").save(FUSED.load(given, "file"))
    assert again.keys() == {f"model.{name}" for name in given}
    for name, tensor in given.items():
        assert torch.equal(again[f"model.{name}"], tensor) and again[f"model.{name}"].is_contiguous()


def test_a_part_that_is_missing_is_told():
    ours = FUSED.load(fused(), "file")
    del ours["blocks.1.k.weight"], ours["blocks.1.v.weight"]
    missing = r"h\.1\.attn\.weight cannot be written without blocks\.1\.k\.weight, blocks\.1\.v\.weight"
    with pytest.raises(Problem, match=missing):
        FUSED.save(ours)


def test_constants_have_a_number_too():
    given = fused(1) | {"h.0.mask": torch.ones(2, 2)}
    assert "h.0.mask" not in FUSED.load(given, "file") and list(FUSED.constants(given)) == ["h.0.mask"]
    for odd in ("h.0.mask.weight", "h.x.mask"):
        with pytest.raises(Problem, match="no place for"):
            FUSED.load(given | {odd: torch.ones(2)}, "file")
