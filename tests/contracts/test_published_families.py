"""What every published family owes: the reference library's numbers, for every architecture it has a file for; and a
folder that goes back as it came.  The models are tiny, and their numbers large enough that a difference would show."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from regard.attention.watch import watch
from regard.checkpoints.files import load_tensors, write_folder
from regard.checkpoints.settings import value_at
from regard.errors import Problem
from regard.models import PUBLISHED
from regard.models.folder import load_published
from regard.models.published import Published
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-3,  # not the default: one that is not read would show
}
CAUSAL = {
    "vocab_size": 40,
    "n_embd": 16,
    "n_layer": 3,
    "n_head": 2,
    "n_positions": 20,
    "layer_norm_epsilon": 1e-3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
TINY = {
    "bert": SIZES,
    "roberta": SIZES | {"type_vocab_size": 1},
    "xlm-roberta": SIZES | {"type_vocab_size": 1},
    "camembert": SIZES | {"type_vocab_size": 1},
    "data2vec-text": SIZES | {"type_vocab_size": 1},
    "distilbert": {"vocab_size": 40, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 24}
    | {"max_position_embeddings": 20},
    "albert": SIZES | {"embedding_size": 8},
    "electra": SIZES | {"embedding_size": 8},
    "longformer": SIZES | {"attention_window": 4},
    "openai-gpt": CAUSAL,
    "gpt2": CAUSAL | {"n_inner": 24, "use_cache": False},
}
ACTIVATION = {name: "activation" if name == "distilbert" else "hidden_act" for name in TINY}
APART = ("LongformerForMultipleChoice", "LongformerForQuestionAnswering")  # these look for separators
CASES = [(name, one) for name in TINY for one in PUBLISHED[name].heads if one not in APART]
MASKED = [(name, architecture) for name, architecture in CASES if "MaskedLM" in architecture]

ROWS = [[5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [4, 20], [21]]
TOKENS = Tokens.of(ROWS)
SECOND = torch.zeros(4, 7, dtype=torch.long)  # which tokens are of the second segment
SECOND[0, 2:] = SECOND[1, 4:] = SECOND[3] = 1


def reference_model(name: str, architecture: str, **settings):
    """A random model of the reference library; norms too are far from what they begin with."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, architecture)
    labels = {"num_labels": 3} if architecture.endswith(("SequenceClassification", "TokenClassification")) else {}
    torch.manual_seed(0)
    model = kind(kind.config_class(**TINY[name] | labels | settings)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            is_norm = re.search(r"norm|ln_\w\.", parameter_name.lower()) and parameter_name.endswith("weight")
            parameter.normal_(float(bool(is_norm)), 0.3)
    return model


@torch.no_grad()
def reference_answer(model, **wishes):
    config = model.config
    ids = torch.full((len(ROWS), 7), config.pad_token_id)
    ids[TOKENS.rows.real] = TOKENS.ids
    asked = {"input_ids": ids, "attention_mask": TOKENS.rows.real.long()}
    if getattr(config, "type_vocab_size", 1) > 1:
        asked["token_type_ids"] = SECOND
    if type(model).__name__.endswith("MultipleChoice"):  # one choice each: a row is a question
        asked = {name: tensor[:, None] for name, tensor in asked.items()}
    if type(model).__name__.endswith("DoubleHeadsModel"):
        asked["mc_token_ids"] = TOKENS.rows.lengths - 1
    return model(**asked, **wishes)


def types_for(published: Published) -> torch.Tensor | None:
    return TOKENS.rows.unpad(SECOND) if published.model.encoder.config.embedding.types > 1 else None


NAMES = {  # role -> what the reference library calls its scores, the special before the common
    "pool": ["pooler_output"],
    "masked": ["prediction_logits", "logits"],
    "next": ["seq_relationship_logits", "sop_logits", "logits"],
    "choose": ["mc_logits", "logits"],
}


def reference_scores(role: str, answer) -> torch.Tensor:
    if role == "answer":
        return TOKENS.rows.unpad(torch.stack([answer.start_logits, answer.end_logits], -1))
    scores = next(answer[name] for name in NAMES.get(role, ["logits"]) if name in answer)
    if role == "replaced":
        return TOKENS.rows.unpad(scores)[:, None]
    if role == "choose":
        return scores.view(-1, 1)
    return TOKENS.rows.unpad(scores) if role in ("masked", "write", "tag") else scores


@dataclass
class Case:
    folder: Path
    reference: torch.nn.Module
    published: Published

    @property
    def config(self) -> dict:
        return json.loads((self.folder / "config.json").read_text())

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return load_tensors(self.folder / "model.safetensors")


def make_case(folder: Path, name: str, architecture: str, **settings) -> Case:
    reference = reference_model(name, architecture, **settings)
    reference.save_pretrained(folder)
    return Case(folder, reference, load_published(folder))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[1])
def case(request, tmp_path_factory) -> Case:
    return make_case(tmp_path_factory.mktemp("published"), *request.param)


@pytest.fixture(scope="module", params=MASKED, ids=lambda case: case[0])
def masked(request, tmp_path_factory) -> Case:
    """One architecture of each family, for what does not depend on the head."""
    return make_case(tmp_path_factory.mktemp("published"), *request.param)


@torch.no_grad()
def check_numbers(case: Case) -> None:
    answer = reference_answer(case.reference, output_hidden_states=True)
    model, types = case.published.model, types_for(case.published)
    layers = list(model.encoder.layers(TOKENS, types))
    for layer, states in zip(layers, answer.hidden_states, strict=True):
        torch.testing.assert_close(layer, TOKENS.rows.unpad(states), atol=1e-5, rtol=0)
    assert torch.equal(model(TOKENS, types), layers[-1])
    for role in model.heads:
        scores = model.scores(role, layers[-1], TOKENS.rows)
        torch.testing.assert_close(scores, reference_scores(role, answer), atol=1e-5, rtol=0)


def states(published: Published) -> torch.Tensor:
    with torch.no_grad():
        return published.model(TOKENS, types_for(published))


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    """Bit for bit, precision and names included."""
    return found.keys() == wanted.keys() and all(
        found[name].dtype == wanted[name].dtype and torch.equal(found[name], wanted[name]) for name in wanted
    )


# The reference library's numbers


def test_every_layer_and_head_agrees_with_the_reference(case):
    assert case.published.layout.architecture == type(case.reference).__name__
    assert len(case.published.model.heads) == len(case.published.family.heads[case.published.layout.architecture])
    check_numbers(case)


@torch.no_grad()
def test_a_row_alone_is_the_row_in_a_batch(case):
    model, types = case.published.model, types_for(case.published)
    together = [TOKENS.rows.split(layer) for layer in model.encoder.layers(TOKENS, types)]
    for number, row in enumerate(ROWS):
        own = None if types is None else TOKENS.rows.split(types)[number]
        for layer, states in enumerate(model.encoder.layers(Tokens.of([row]), own)):
            torch.testing.assert_close(states, together[layer][number], atol=1e-5, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "gelu_new", "gelu_pytorch_tanh", "silu"])
@pytest.mark.parametrize("name, architecture", [*MASKED, ("electra", "ElectraForPreTraining")])
def test_another_activation(tmp_path, name, architecture, activation):
    case = make_case(tmp_path, name, architecture, **{ACTIVATION[name]: activation})
    check_numbers(case)
    assert json.loads(case.published.files()["config.json"])[ACTIVATION[name]] == activation


@pytest.mark.parametrize(
    "name, architecture, settings",
    [
        ("bert", "BertModel", {"num_hidden_layers": 12}),  # numbers of two digits
        ("albert", "AlbertModel", {"num_hidden_layers": 12}),
        ("albert", "AlbertForMaskedLM", {"num_hidden_groups": 2}),
        ("electra", "ElectraForPreTraining", {"embedding_size": 16}),  # not narrow
    ],
)
def test_another_shape(tmp_path, name, architecture, settings):
    check_numbers(make_case(tmp_path, name, architecture, **settings))


SEEN_IN_SHAPES = {"vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings", "type_vocab_size"}


@pytest.mark.parametrize("name", TINY)
def test_a_config_that_is_silent_means_what_the_reference_takes_it_for(name):
    """But for what the tensors' shapes contradict.  An epsilon, an activation or a number of heads they do not."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    family = PUBLISHED[name]
    theirs = getattr(transformers, next(iter(family.heads))).config_class().to_dict()
    silent = {key for _, key in family.settings.pairs if key in theirs and key not in SEEN_IN_SHAPES}
    said = family.settings.load(family.default, {key: theirs[key] for key in silent})
    dropped = re.compile(r".*(dropout|layers|width|vocab|longest)$")  # in training alone, or seen in shapes
    for path, key in family.settings.pairs:
        if key in silent and not dropped.match(path):
            assert value_at(family.default, path) == value_at(said, path), key


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_roberta_counts_from_behind_its_padding(tmp_path, padding):
    case = make_case(tmp_path, "roberta", "RobertaModel", pad_token_id=padding)
    assert case.published.model.encoder.embed.places == 20 - (padding + 1)
    check_numbers(case)


# A folder goes back as it came


def test_the_same_tensors_under_the_same_names(case):
    assert same(case.published.files()["model.safetensors"], case.tensors)


def test_the_config_goes_back_as_it_came(case):
    assert json.loads(case.published.files()["config.json"]) == case.config


def test_what_we_do_not_know_in_a_config_is_kept(case):
    odd = case.config | {"id2label": {"0": "no", "1": "yes"}, "my_note": [1, {"deep": None}], "hidden_dropout_prob": 0}
    published = case.published.family.load(odd, case.tensors, case.folder)
    assert json.loads(published.files()["config.json"]) == odd


def test_the_reference_library_reads_what_we_write(case, tmp_path):
    write_folder(tmp_path / "ours", case.published.files())
    again, told = type(case.reference).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    found, wanted = reference_answer(again.eval()), reference_answer(case.reference)
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("told", ["dtype", "torch_dtype", None])
@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_half_precision_goes_back_as_it_came(masked, precision, told):
    half = {name: tensor.to(precision) for name, tensor in masked.tensors.items()}
    config = {key: value for key, value in masked.config.items() if key != "dtype"}
    config |= {told: str(precision).removeprefix("torch.")} if told else {}
    published = masked.published.family.load(config, half, masked.folder)
    assert same(published.files()["model.safetensors"], half)
    assert next(published.model.parameters()).dtype == torch.float32


# Looking inside


@pytest.mark.parametrize("name, architecture, attentions", [("bert", "BertModel", 12), ("albert", "AlbertModel", 1)])
@torch.no_grad()
def test_watching_shows_the_reference_weights_and_changes_nothing(tmp_path, name, architecture, attentions):
    case = make_case(tmp_path, name, architecture, num_hidden_layers=12)
    with watch(case.published.model) as seen:
        watched = states(case.published)
    assert torch.equal(watched, states(case.published))
    assert len(seen) == attentions
    case.reference.set_attn_implementation("eager")
    grids = reference_answer(case.reference, output_attentions=True).attentions
    calls = [call for calls in seen.values() for call in calls]  # ALBERT's one attention is called by every layer
    for call, grid in zip(calls, grids, strict=True):
        for weights, whole, row in zip(call, grid, ROWS, strict=True):
            torch.testing.assert_close(weights, whole[:, : len(row), : len(row)], atol=1e-5, rtol=0)


# Files as they are found


def reload(case: Case, tensors: dict[str, torch.Tensor], **settings) -> Published:
    return case.published.family.load(case.config | settings, tensors, case.folder)


def test_old_names_of_norms(masked):
    """What is read is written by its new name, which every reader knows."""
    old = {".weight": ".gamma", ".bias": ".beta"}
    aged = {
        name.replace(end, old[end]) if "norm" in name.lower() else name: tensor
        for name, tensor in masked.tensors.items()
        for end in old
        if name.endswith(end)
    }
    assert sum(name.endswith((".gamma", ".beta")) for name in aged) >= 6
    published = reload(masked, aged)
    assert torch.equal(states(published), states(masked.published))
    assert same(published.files()["model.safetensors"], masked.tensors)


def test_a_norm_by_both_names_is_refused(masked):
    name = next(name for name in masked.tensors if name.endswith("embeddings.LayerNorm.weight"))
    with pytest.raises(Problem, match=r"LayerNorm\.gamma is there by its new name too"):
        reload(masked, masked.tensors | {name.replace("weight", "gamma"): masked.tensors[name] + 1})


def test_words_that_stand_in_a_file_twice(masked):
    """Accepted where they are equal, and written twice again; refused where they are not."""
    tied = masked.published.layout.rules.tied
    assert tied
    whole = masked.tensors | {second: masked.tensors[first].clone() for second, first in tied.items()}
    assert same(reload(masked, whole).files()["model.safetensors"], whole)
    for second, first in tied.items():
        with pytest.raises(Problem, match=f"{second} differs from {first}"):
            reload(masked, whole | {second: whole[first] + 1})


def test_tables_of_constants_are_no_weights(masked):
    (name,) = masked.published.layout.rules.ignored
    whole = masked.tensors | {name: torch.arange(20)[None]}
    published = reload(masked, whole)
    assert torch.equal(states(published), states(masked.published))
    assert same(published.files()["model.safetensors"], whole)


@pytest.mark.parametrize("name", TINY)
def test_a_bare_encoder_with_and_without_prefix_and_pooler(tmp_path, name):
    family = PUBLISHED[name]
    case = make_case(tmp_path, name, next(iter(family.heads)))
    without = {name: tensor for name, tensor in case.tensors.items() if not name.startswith("pooler")}
    for bare in (case.tensors, without):
        for prefix in ("", family.prefix):
            tensors = {prefix + name: tensor for name, tensor in bare.items()}
            published = reload(case, tensors)
            assert torch.equal(states(published), states(case.published))
            assert published.layout.architecture == case.published.layout.architecture
            assert same(published.files()["model.safetensors"], tensors)


@pytest.mark.parametrize(
    "name, architecture",
    [
        ("roberta", "RobertaForMaskedLM"),
        ("roberta", "RobertaForSequenceClassification"),
        ("xlm-roberta", "XLMRobertaForMaskedLM"),
        ("albert", "AlbertForMaskedLM"),
        ("bert", "BertForTokenClassification"),  # with a pooler it looks as one for sequences does
        ("bert", "BertForQuestionAnswering"),
    ],
)
def test_a_pooler_that_nothing_uses(tmp_path, name, architecture):
    case = make_case(tmp_path, name, architecture)
    pooler = {"albert": "albert.pooler"}.get(name, f"{PUBLISHED[name].prefix}pooler.dense")
    whole = case.tensors | {f"{pooler}.weight": torch.randn(16, 16), f"{pooler}.bias": torch.randn(16)}
    published = reload(case, whole)
    assert published.layout.architecture == architecture
    assert published.model.heads.keys() == case.published.model.heads.keys() | {"pool"}
    assert same(published.files()["model.safetensors"], whole)
    assert torch.equal(states(published), states(case.published))


def test_a_file_that_holds_more_than_it_is_called(tmp_path):
    """The first BERT is called a masked LM by its config, and has the next-sentence head too."""
    case = make_case(tmp_path, "bert", "BertForPreTraining")
    published = reload(case, case.tensors, architectures=["BertForMaskedLM"])
    assert published.layout.architecture == "BertForPreTraining"
    check_numbers(Case(case.folder, case.reference, published))


@pytest.mark.parametrize("named", [None, [], ["Unheard"], "BertModel", 5, [["BertModel"]], {"a": 1}], ids=str)
def test_a_file_is_known_by_its_names(tmp_path, named):
    case = make_case(tmp_path, "bert", "BertForSequenceClassification")
    published = reload(case, case.tensors, architectures=named)
    assert published.layout.architecture == "BertForSequenceClassification"


# What cannot be


def test_what_is_missing_extra_or_misshapen_is_named(case):
    tensors = case.tensors
    name = next(name for name in tensors if name.endswith(("embeddings.LayerNorm.bias", "h.0.ln_1.bias")))
    with pytest.raises(Problem, match=rf"missing \(1\): {re.escape(name)}\."):
        reload(case, {key: tensor for key, tensor in tensors.items() if key != name})
    with pytest.raises(Problem, match=r"fits best: too many \(2\): surprise\.bias, surprise\.weight\. Tensors are"):
        reload(case, tensors | {"surprise.weight": torch.ones(2), "surprise.bias": torch.ones(())})
    with pytest.raises(Problem, match=rf"of another shape or type \(1\): {re.escape(name)} is \[3\] .*, here"):
        reload(case, tensors | {name: torch.ones(3)})
    with pytest.raises(Problem, match=str(case.folder)):
        reload(case, {})


ABSURD = [
    *(("hidden_size", size) for size in (10**9, 10**30, 10**7, 0, -16, "16", 16.5, True, [16], {"a": 1})),
    *(("num_attention_heads", heads) for heads in (3, 0, -2, 10**9)),
    *(("num_hidden_layers", layers) for layers in (10**9, -1, 2, 900)),
    *(("vocab_size", size) for size in (10**8, 10**12, -1)),
    *(("type_vocab_size", types) for types in (-1, 10**30, 3)),
    *(("max_position_embeddings", places) for places in (10**8, 0, "many")),
    *(("layer_norm_eps", number) for number in (-1.0, float("nan"), float("inf"), "small")),
    *(("hidden_act", word) for word in ("os.system", ["gelu"], {"gelu": 1}, 3)),
    ("hidden_dropout_prob", 1.5),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Case:
    return make_case(tmp_path_factory.mktemp("published"), "bert", "BertModel")


@pytest.mark.parametrize("key, value", ABSURD, ids=lambda value: str(value)[:20])
def test_an_absurd_config_is_refused_before_it_costs(plain, tmp_path, key, value):
    """Torch would fail otherwise than by a Problem if it were to make what some of these ask for."""
    write_folder(tmp_path / "model", plain.published.files() | {"config.json": b"{}"})
    (tmp_path / "model" / "manifest.json").unlink()
    (tmp_path / "model" / "config.json").write_text(json.dumps(plain.config | {key: value}))
    with pytest.raises(Problem, match=str(tmp_path / "model")) as found:
        load_published(tmp_path / "model")
    assert found.value.exit_code == 1  # the file is at fault, not the command


def test_nothing_a_config_names_is_run(plain, tmp_path):
    marker = tmp_path / "was-run"
    write_folder(tmp_path / "model", plain.published.files())
    (tmp_path / "model" / "manifest.json").unlink()
    (tmp_path / "model" / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w')")
    named = {"AutoConfig": "modeling_evil.Config", "AutoModel": "modeling_evil.Model"}
    odd = plain.config | {"auto_map": named, "trust_remote_code": True, "_name_or_path": str(tmp_path / "elsewhere")}
    (tmp_path / "model" / "config.json").write_text(json.dumps(odd))
    published = load_published(tmp_path / "model")
    assert torch.equal(states(published), states(plain.published)) and not marker.exists()
    assert json.loads(published.files()["config.json"]) == odd
