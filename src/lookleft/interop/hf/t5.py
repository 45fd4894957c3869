"""T5: relative positions, unscaled attention, RMSNorm, no biases; v1.0 (ReLU) and v1.1 (gated)."""

from __future__ import annotations

import math

from lookleft.config import EncoderDecoderConfig, Relative
from lookleft.errors import ConfigError
from lookleft.interop.hf.family import (
    Family,
    Json,
    first_of,
    read_activation,
    read_width,
    special_ids,
    write_activation,
)
from lookleft.interop.places import Names
from lookleft.text.vocab import Specials


def read(theirs: Json, tensors: frozenset[str]) -> Json:
    width = read_width(theirs, "d_model")
    gate, _, bend = theirs.get("feed_forward_proj", "relu").rpartition("-")
    # "gated-gelu" has always meant the tanh form here.
    activation = "gelu_tanh" if (gate, bend) == ("gated", "gelu") else read_activation(bend)
    # v1.0 ties its head and scales the logits; v1.1 does neither. Old configs say the second by
    # the first.
    is_scaled = theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True))
    return {
        "vocab_size": theirs["vocab_size"],
        "d_model": width,
        "n_encoder_layers": theirs["num_layers"],
        "n_decoder_layers": theirs.get("num_decoder_layers") or theirs["num_layers"],
        "n_heads": theirs["num_heads"],
        "head_width": theirs["d_kv"],
        "d_ff": theirs["d_ff"],
        "positions": {
            "kind": "relative",
            "n_buckets": theirs.get("relative_attention_num_buckets", 32),
            "max_distance": theirs.get("relative_attention_max_distance", 128),
        },
        "norm": "rms",
        "norm_eps": theirs.get("layer_norm_epsilon", 1e-6),
        "norm_order": "pre",
        "final_norm": True,
        "activation": activation,
        "gated": gate == "gated",
        "qkv_bias": False,
        "out_bias": False,
        "ff_bias": False,
        "attention_scale": 1.0,
        "logit_scale": width**-0.5 if is_scaled else 1.0,
        "tie_embeddings": "lm_head.weight" not in tensors,
        "dropout": theirs.get("dropout_rate", 0.1),
        "attention_dropout": theirs.get("dropout_rate", 0.1),
        "start_id": first_of(theirs, "decoder_start_token_id", "pad_token_id"),
    }


def write(ours: EncoderDecoderConfig, specials: Specials) -> Json:
    if not isinstance(ours.positions, Relative):
        raise ConfigError(f"it has {ours.positions.kind} positions, not relative ones")
    bend = write_activation(ours.activation)
    if ours.gated:
        bend = "gated-gelu" if ours.activation == "gelu_tanh" else f"gated-{bend}"
    is_scaled = math.isclose(ours.logit_scale, ours.d_model**-0.5)
    return {
        "is_encoder_decoder": True,
        "vocab_size": ours.vocab_size,
        "d_model": ours.d_model,
        "num_layers": ours.n_encoder_layers,
        "num_decoder_layers": ours.n_decoder_layers,
        "num_heads": ours.n_heads,
        "d_kv": ours.head_dim,
        "d_ff": ours.d_ff,
        "relative_attention_num_buckets": ours.positions.n_buckets,
        "relative_attention_max_distance": ours.positions.max_distance,
        "layer_norm_epsilon": ours.norm_eps,
        "feed_forward_proj": bend,
        "scale_decoder_outputs": is_scaled,
        "tie_word_embeddings": is_scaled,
        "dropout_rate": ours.dropout,
        "decoder_start_token_id": ours.start_id,
        **special_ids(specials),
    }


def names(ours: EncoderDecoderConfig) -> Names:
    table = {
        "embedding.tokens": "shared",
        "head.own_weight": "lm_head.weight",
    }
    for stack, feed in (("encoder", 1), ("decoder", 2)):
        mine, theirs = f"{stack}.layers.{{i}}.", f"{stack}.block.{{i}}.layer."
        hidden = "wi_1" if ours.gated else "wi"
        table |= {
            # All layers share the table of the first.
            f"{stack}.relative.table": (
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
            ),
            f"{stack}.norm": f"{stack}.final_layer_norm",
            mine + "self_norm": theirs + "0.layer_norm",
            mine + "cross_norm": theirs + "1.layer_norm",
            mine + "feed_norm": f"{theirs}{feed}.layer_norm",
            mine + "feed_forward.to_gate": f"{theirs}{feed}.DenseReluDense.wi_0",
            mine + "feed_forward.to_hidden": f"{theirs}{feed}.DenseReluDense.{hidden}",
            mine + "feed_forward.to_out": f"{theirs}{feed}.DenseReluDense.wo",
        }
        for part in ("q", "k", "v", "out"):
            letter = part[0]  # q, k, v, o
            table[f"{mine}self_attention.to_{part}"] = f"{theirs}0.SelfAttention.{letter}"
            table[f"{mine}cross_attention.to_{part}"] = f"{theirs}1.EncDecAttention.{letter}"
    return table


T5 = Family(
    "t5",
    "T5ForConditionalGeneration",
    EncoderDecoderConfig,
    read,
    write,
    names,
    aliases={
        "shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    },
)
