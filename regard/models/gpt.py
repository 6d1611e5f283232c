"""GPT (Radford et al., 2018): a causal stack over pieces of words, pretrained to tell the next one, then fine-tuned."""

from __future__ import annotations

from dataclasses import replace

from regard.checkpoints.rules import Rules
from regard.models.encoder import EncoderConfig
from regard.models.gpt2 import BLOCKS, CHOICE, ONLY, PAIRS, PREFIX, SCORE, GPTSettings, gpt2
from regard.models.published import EncoderFamily, Layout, NextHeadNames


def gpt(layers=12, width=768, heads=12, vocab=40478, *, longest=512) -> EncoderConfig:
    """Norms come last, as in the first Transformer, so the last state needs none of its own."""
    config = gpt2(layers, width, heads, vocab, longest=longest)
    stack = replace(config.stack, final_norm=False, block=replace(config.stack.block, norm_first=False))
    return replace(config, stack=stack)


PRESETS = {"gpt-tiny": gpt(2, 128, 2, longest=256), "gpt": gpt()}

PLACES = Rules((*BLOCKS.rows, ("encoder.embed.positions", "positions_embed")), ignored=BLOCKS.ignored)
BODY = PLACES + Rules((("encoder.embed.tokens", "tokens_embed"),))
WRITE = NextHeadNames({"lm_head.weight": "transformer.tokens_embed.weight"})
BOTH = (WRITE, CHOICE)
HEAD_ALONE = PLACES.under(PREFIX) + Rules((("encoder.embed.tokens", "lm_head"),)) + CHOICE.rules

# what they call gelu is its approximation; the exact one has no name of theirs
ACTIVATIONS = {"gelu": "gelu-tanh", "gelu-exact": "gelu", "silu": "swish"}

FAMILY = EncoderFamily(
    gpt(),
    GPTSettings((*PAIRS, ("stack.block.activation", "afn")), {"afn": ACTIVATIONS}),
    BODY,
    PREFIX,
    {
        "OpenAIGPTModel": (),
        "OpenAIGPTLMHeadModel": (WRITE,),
        "OpenAIGPTDoubleHeadsModel": BOTH,
        "OpenAIGPTForSequenceClassification": (SCORE,),
    },
    (Layout("OpenAIGPTDoubleHeadsModel", HEAD_ALONE, BOTH),),  # its files have the table as the head's
    only=ONLY,
)
