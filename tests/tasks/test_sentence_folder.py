"""What modules.json names is applied as computed by hand, or refused by name; no oracle is needed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from regard.commands.embed import embed
from regard.commands.load import load
from regard.errors import Problem, UsageProblem
from regard.rows import Tokens
from regard.tasks.pooling import Pooling
from regard.tasks.reader import Reader

TEXTS = ["the cat sat on the mat", "a dog", "the mat"]
WIDTH = 16
TYPE = "sentence_transformers.models."


@pytest.fixture
def folder(small_bert, tmp_path) -> Path:
    return shutil.copytree(small_bert, tmp_path / "model", ignore=shutil.ignore_patterns("manifest.json"))


def write_modules(folder: Path, *modules: tuple[str, str, dict, dict]) -> Path:
    """Modules behind the encoder, each with its path, type, config and weights."""
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{TYPE}Transformer"}]
    for path, kind, config, weights in modules:
        listed.append({"idx": len(listed), "name": str(len(listed)), "path": path, "type": kind})
        (folder / path).mkdir(parents=True, exist_ok=True)
        (folder / path / "config.json").write_text(json.dumps(config))
        if weights:
            save_file(weights, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


def write_json(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content))


def pool(mode: object = "mean", **more: object) -> tuple[str, str, dict, dict]:
    return "1_Pooling", f"{TYPE}Pooling", {"embedding_dimension": WIDTH, "pooling_mode": mode, **more}, {}


def states(reader: Reader, text: str) -> torch.Tensor:  # (T, W)
    ids, types = reader.row(text)
    with torch.inference_mode():
        return list(reader.model.encoder.layers(Tokens.of([ids]), torch.tensor(types)))[-1]


def by_hand(mode: str, x: torch.Tensor, start: int = 0) -> torch.Tensor:
    weights = torch.arange(1.0, len(x) + 1)[start:, None]
    x = x[start:]
    return {
        "cls": x[0], "lasttoken": x[-1], "max": x.amax(0), "mean": x.mean(0),
        "mean_sqrt_len_tokens": x.sum(0) / len(x) ** 0.5, "weightedmean": (x * weights).sum(0) / weights.sum(),
    }[mode]  # fmt: skip


MODES = ["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"]


@pytest.mark.parametrize(
    "modes", [*([mode] for mode in MODES), ["max", "mean"], ["mean", "cls", "weightedmean"]], ids=str
)
def test_poolings_and_several_side_by_side(folder, modes):
    reader = load(write_modules(folder, pool(modes)), "cpu")
    wanted = [torch.cat([by_hand(mode, states(reader, text)) for mode in modes]) for text in TEXTS]
    assert np.allclose(reader.embed(TEXTS), torch.stack(wanted).numpy(), atol=1e-5)
    assert reader.embed([]).shape == (0, WIDTH * len(modes))
    assert np.array_equal(embed(reader, TEXTS, pooling="+".join(modes)), reader.embed(TEXTS))


def test_modules_are_applied_in_their_order_and_saved_again(folder, tmp_path):
    torch.manual_seed(0)
    linear, bias, scale, shift = torch.randn(8, WIDTH), torch.randn(8), torch.randn(8), torch.randn(8)
    dense = {"in_features": WIDTH, "out_features": 8, "activation_function": "torch.nn.modules.activation.ReLU"}
    modules = (
        pool(),
        ("deep/er/2_Dense", f"{TYPE}Dense", dense, {"linear.weight": linear, "linear.bias": bias}),
        ("3_LayerNorm", f"{TYPE}LayerNorm", {"dimension": 8}, {"norm.weight": scale.half(), "norm.bias": shift.half()}),
        ("4_Normalize", f"{TYPE}Normalize", {}, {}),
    )
    reader = load(write_modules(folder, *modules), "cpu")
    x = torch.stack([states(reader, text).mean(0) for text in TEXTS])
    wanted = F.layer_norm(F.relu(x @ linear.T + bias), (8,), scale.half().float(), shift.half().float())
    assert np.allclose(reader.embed(TEXTS), F.normalize(wanted, dim=-1).numpy(), atol=1e-5)
    assert reader.embed([]).shape == (0, 8)
    reader.save(tmp_path / "again")
    again = load(tmp_path / "again", "cpu")
    assert np.array_equal(again.embed(TEXTS), reader.embed(TEXTS))
    for path in [path for path in folder.rglob("*") if path.is_file() and path.parent != folder]:
        assert (tmp_path / "again" / path.relative_to(folder)).exists()


def test_prompts_are_put_before_texts_and_may_be_left_out_of_the_pooling(folder):
    write_modules(folder, pool(["mean", "weightedmean"], include_prompt=False))
    prompts = {"query": "the dog sat ", "passage": "a mat ", "document": ""}
    write_json(folder, "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": "query"})
    reader = load(folder, "cpu")
    for name, prompt in prompts.items():
        start = len(reader.row(prompt)[0]) - 1 if prompt else 0  # [CLS] is left out with the prompt
        x = states(reader, prompt + TEXTS[0])
        wanted = torch.cat([by_hand(mode, x, start) for mode in ("mean", "weightedmean")]).numpy()
        assert np.allclose(reader.embed(TEXTS[:1], prompt_name=name)[0], wanted, atol=1e-5)
        assert np.allclose(reader.embed(TEXTS, prompt=prompt)[0], wanted, atol=1e-5)
    assert np.array_equal(reader.embed(TEXTS), reader.embed(TEXTS, prompt_name="query"))
    with pytest.raises(UsageProblem, match="no prompt called 'question'; there are: query, passage, document"):
        reader.embed(TEXTS, prompt_name="question")
    with pytest.raises(UsageProblem, match="not both"):
        reader.embed(TEXTS, prompt_name="query", prompt="a")


def test_a_text_that_the_prompt_leaves_no_room_for_has_a_finite_vector(folder):
    reader = load(write_modules(folder, pool(["mean", "max", "lasttoken"], include_prompt=False)), "cpu")
    assert np.isfinite(reader.embed(["cat"], prompt="the dog sat " * 20)).all()


def test_prompts_by_the_command_line(folder, call):
    write_modules(folder, pool())
    prompts = {"prompts": {"query": "the dog "}, "default_prompt_name": "query"}
    write_json(folder, "config_sentence_transformers.json", prompts)
    first = call("embed", "cat", "--model", folder).out
    assert first == call("embed", "cat", "--model", folder, "--prompt-name", "query").out
    assert first == call("embed", "the dog cat", "--model", folder, "--prompt", "").out
    assert first != call("embed", "cat", "--model", folder, "--prompt", "").out
    assert "there are: query" in call("embed", "cat", "--model", folder, "--prompt-name", "x").err


@pytest.mark.parametrize("place, settings", [("sentence_bert_config.json", {"max_seq_length": 7}),
                                             ("tokenizer_config.json", {"model_max_length": 7})])  # fmt: skip
def test_the_length_that_is_read_stands_in_either_place(folder, place, settings):
    write_modules(folder, pool())
    write_json(folder, place, settings)
    assert len(load(folder, "cpu").row("cat " * 20)[0]) == 7


def test_text_is_made_lower_case_where_the_folder_says_so(folder):
    write_modules(folder, pool())
    plain = load(folder, "cpu").embed(["THE CAT"])
    write_json(folder, "sentence_bert_config.json", {"do_lower_case": True})
    reader = load(folder, "cpu")
    assert np.array_equal(reader.embed(["THE CAT"]), reader.embed(["the cat"]))
    assert not np.array_equal(reader.embed(["THE CAT"]), plain)


DENSE = {"in_features": WIDTH, "out_features": 8}
WEIGHTS = {"linear.weight": torch.zeros(8, WIDTH), "linear.bias": torch.zeros(8)}
REFUSED = [
    ([pool("median")], "the pooling 'median'; there are: cls, max"),
    ([pool(None, pooling_mode_median_tokens=True)], "the pooling 'pooling_mode_median_tokens'"),
    ([pool(), ("2_CNN", f"{TYPE}CNN", {}, {})], "the module 'sentence_transformers.models.CNN'; known are"),
    ([("1_Evil", "evil.Pooling", {}, {})], "the module 'evil.Pooling'"),
    ([pool(), ("2_Own", "os.system", {}, {})], "the module 'os.system'"),
    ([("2_Normalize", f"{TYPE}Normalize", {}, {})], "reads 'sentence_embedding', which no module before it writes"),
    ([("1_Dense", f"{TYPE}Dense", {**DENSE, "module_input_name": "token_embeddings"}, WEIGHTS)], "names no Pooling"),
    ([pool(), ("2_Dense", f"{TYPE}Dense", {**DENSE, "activation_function": "os.system"}, WEIGHTS)], "is 'os.system'"),
    (
        [pool(), ("2_Dense", f"{TYPE}Dense", {**DENSE, "activation_function": "torch.nn.Module"}, WEIGHTS)],
        "there can be",
    ),
    ([pool(), ("2_Dense", f"{TYPE}Dense", {**DENSE, "module_output_name": "scores"}, WEIGHTS)], "the feature 'scores'"),
    ([pool(), ("2_Dense", f"{TYPE}Dense", {**DENSE, "bias": False}, WEIGHTS)], "linear.bias.*asks for"),
    (
        [pool(), ("2_Dense", f"{TYPE}Dense", {"in_features": "many"}, WEIGHTS)],
        "in_features is 'many', which is no size",
    ),
    ([pool(), ("2_Dense", f"{TYPE}Dense", DENSE, {})], r"2_Dense holds no model\.safetensors"),
    ([pool(), ("2_Layers", f"{TYPE}WeightedLayerPooling", {}, {})], "only behind the Transformer"),
    ([("2_Layers", f"{TYPE}WeightedLayerPooling", {}, {}), pool()], "output_hidden_states"),
    ([pool(), ("3_More", f"{TYPE}Transformer", {}, {})], "must be a Transformer"),
]


@pytest.mark.parametrize("modules, told", REFUSED)
def test_what_cannot_be_applied_is_refused_by_name(folder, modules, told):
    write_modules(folder, *modules)
    with pytest.raises(Problem, match=told):
        load(folder, "cpu")


@pytest.mark.parametrize("settings, told", [
    ({"transformer_task": "text-generation"}, "transformer_task of its Transformer is 'text-generation'"),
    ({"module_output_name": "sentence_embedding"}, "module_output_name"),
    ({"modality_config": {"text": {"method": "get_text_features"}}}, "get_text_features"),
    ({"modality_config": {"image": {}}}, "modality_config"),
    ({"query_expansion": {"length": 32}}, "query_expansion"),
    ({"max_seq_length": "long"}, "'long' is no number of tokens"),
])  # fmt: skip
def test_settings_of_the_transformer_that_cannot_be_applied_are_refused(folder, settings, told):
    write_json(write_modules(folder, pool()), "sentence_bert_config.json", settings)
    with pytest.raises(Problem, match=told):
        load(folder, "cpu")


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp", "a/../../b", "..", "C:\\x", "a\\..\\..\\b", "link"])
def test_a_path_that_leads_out_of_the_folder_is_refused(folder, path):
    (folder / "link").symlink_to(folder.parent)
    listed = [{"path": "", "type": f"{TYPE}Transformer"}, {"path": path, "type": f"{TYPE}Pooling"}]
    write_json(folder, "modules.json", listed)
    with pytest.raises(Problem, match="leads out of the folder"):
        load(folder, "cpu")


@pytest.mark.parametrize("content", ["{", "{}", "[]", "[1]", "null"])
def test_a_modules_json_that_lists_nothing_is_refused(folder, content):
    (folder / "modules.json").write_text(content)
    with pytest.raises(Problem, match=r"modules\.json"):
        load(folder, "cpu")


def test_a_pickled_module_is_refused_with_the_remedy(folder):
    write_modules(folder, pool(), ("2_Dense", f"{TYPE}Dense", DENSE, {}))
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    with pytest.raises(Problem, match=rf"2_Dense/pytorch_model\.bin is a pickle.*regard convert {folder} NEW_FOLDER"):
        load(folder, "cpu")


def test_a_default_prompt_that_is_not_there_is_refused(folder):
    write_json(write_modules(folder, pool()), "config_sentence_transformers.json", {"default_prompt_name": "query"})
    with pytest.raises(Problem, match="default_prompt_name is 'query', and the prompts are: none"):
        load(folder, "cpu")


def test_layers_of_another_width_than_a_module_reads_are_refused(folder):
    reader = load(write_modules(folder, pool(), ("2_Dense", f"{TYPE}Dense", DENSE, WEIGHTS)), "cpu")
    with pytest.raises(UsageProblem, match="the vectors have 64 numbers and a module of its folder reads 16"):
        reader.embed(TEXTS, layers="concat last 4")
    assert reader.embed(TEXTS, layers="concat last 4", pooling=Pooling("mean")).shape == (3, 64)
