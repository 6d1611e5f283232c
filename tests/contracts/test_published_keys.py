"""No key of a published config.json is silently ignored where it changes what a model computes: each key that Hugging
Face transformers knows is read, refused but for one value, or known to change nothing."""

from __future__ import annotations

import os

import pytest
import torch

from regard.checkpoints.settings import ONLY
from regard.errors import Problem
from regard.models import PUBLISHED, marian, t5
from regard.models.folder import load_published

os.environ["HF_HUB_OFFLINE"] = "1"

CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "albert": "Albert",
    "electra": "Electra",
    "longformer": "Longformer",
    "reformer": "Reformer",
    "openai-gpt": "OpenAIGPT",
    "gpt2": "GPT2",
    "vit": "ViT",
    "deit": "DeiT",
    "wav2vec2": "Wav2Vec2",
    "marian": "Marian",
    "t5": "T5",
}
SAME_OUTPUTS = {  # keys that change nothing in what a loaded model computes
    *("transformers_version", "architectures", "model_type", "_name_or_path", "dtype", "torch_dtype"),
    *("return_dict", "output_hidden_states", "output_attentions", "use_cache", "onnx_export", "torchscript"),
    *("chunk_size_feed_forward", "chunk_size_lm_head"),  # memory for time
    *("id2label", "label2id", "problem_type"),  # read by the tasks
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id"),
    *("initializer_range", "initializer_factor", "init_std", "axial_norm_std"),  # weights to begin with
    *("classifier_dropout", "classifier_dropout_prob", "qa_dropout", "seq_classif_dropout"),  # training
    *("summary_first_dropout", "summary_last_dropout", "layerdrop", "encoder_layerdrop", "decoder_layerdrop"),
    *("apply_spec_augment", "ctc_loss_reduction", "ctc_zero_infinity"),
    *("sinusoidal_pos_embds", "encoder_stride", "pooler_output_size"),  # told by the tensors
    *("tie_word_embeddings", "is_encoder_decoder"),  # the same: see below
}
READ_APART = {  # keys that a family reads beside its table, or that belong to heads it does not have
    "wav2vec2": {
        *("use_weighted_layer_sum", "classifier_proj_size", "tdnn_dim", "tdnn_kernel", "tdnn_dilation"),
        *("xvector_output_dim", "adapter_kernel_size", "adapter_stride", "num_adapter_layers"),
        *("output_hidden_size", "num_feat_extract_layers"),
    },
    "marian": {"decoder_vocab_size", "share_encoder_decoder_embeddings", "is_decoder"},
    "t5": {"feed_forward_proj", "dense_act_fn", "is_gated_act", "scale_decoder_outputs"},
}


def table_of(family: str) -> tuple[set[str], dict]:
    """The keys that a family reads, and those of which it understands one value."""
    if family in PUBLISHED:
        return {key for _, key in PUBLISHED[family].settings.pairs}, {**ONLY, **PUBLISHED[family].only}
    module = {"marian": marian, "t5": t5}[family]
    return {key for _, key in module.SETTINGS.pairs}, {**ONLY, **module.ONLY}


@pytest.mark.parametrize("family", CLASSES)
def test_every_key_that_transformers_knows_is_accounted_for(family):
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    known = getattr(transformers, f"{CLASSES[family]}Config")().to_dict()
    read, only = table_of(family)
    assert not known.keys() - read - only.keys() - SAME_OUTPUTS - READ_APART.get(family, set())
    assert {key: known[key] for key in only if known.get(key) not in (None, only[key])} == {}


def refused_keys() -> list[tuple[str, str]]:
    return [(family, key) for family in CLASSES if family in PUBLISHED for key in table_of(family)[1]]


@pytest.mark.parametrize("family, key", refused_keys())
def test_a_value_that_is_not_understood_is_refused_by_its_key(family, key):
    plain = table_of(family)[1][key]
    other = not plain if isinstance(plain, bool) else {"type": "linear", "factor": 2.0}
    with pytest.raises(Problem, match=f"folder: {key} is .* in config.json, and only"):
        PUBLISHED[family].load({"model_type": family, key: other}, {}, "folder")


@pytest.mark.parametrize("key", ["forced_bos_token_id", "forced_decoder_ids"])
def test_tokens_that_a_translation_must_begin_with_are_refused(key):
    for load in (marian.load, t5.load):
        with pytest.raises(Problem, match=f"{key} is 7 in generation_config.json"):
            load({}, {key: 7}, {}, "folder")


def test_an_output_that_is_not_the_embedding_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=8, tie_word_embeddings=False)
    torch.manual_seed(0)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(Problem, match=r"cls\.predictions\.decoder\.weight differs"):
        load_published(tmp_path)
