"""GPT-2: learned positions, q, k and v in one matrix, matrices stored as (in, out)."""

from __future__ import annotations

from lookleft.config import DecoderOnlyConfig
from lookleft.interop.hf.family import (
    Family,
    Json,
    read_activation,
    require,
    special_ids,
    write_activation,
)
from lookleft.interop.places import Names, Place
from lookleft.text.vocab import Specials


def read(theirs: Json, tensors: frozenset[str]) -> Json:
    require(
        theirs,
        {
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
        },
    )
    return {
        "vocab_size": theirs["vocab_size"],
        "d_model": theirs["n_embd"],
        "n_layers": theirs["n_layer"],
        "n_heads": theirs["n_head"],
        "d_ff": theirs.get("n_inner") or 4 * theirs["n_embd"],
        "positions": {"kind": "learned", "max_len": theirs["n_positions"]},
        "norm_eps": theirs.get("layer_norm_epsilon", 1e-5),
        "norm_order": "pre",
        "final_norm": True,
        "activation": read_activation(theirs.get("activation_function", "gelu_new")),
        "dropout": theirs.get("resid_pdrop", 0.1),
        "attention_dropout": theirs.get("attn_pdrop", 0.1),
        "tie_embeddings": theirs.get("tie_word_embeddings", True),
    }


def write(ours: DecoderOnlyConfig, specials: Specials) -> Json:
    return {
        "vocab_size": ours.vocab_size,
        "n_embd": ours.d_model,
        "n_layer": ours.n_layers,
        "n_head": ours.n_heads,
        "n_inner": ours.d_ff,
        "n_positions": ours.context,
        "layer_norm_epsilon": ours.norm_eps,
        "activation_function": write_activation(ours.activation),
        "resid_pdrop": ours.dropout,
        "embd_pdrop": ours.dropout,
        "attn_pdrop": ours.attention_dropout,
        "tie_word_embeddings": ours.tie_embeddings,
        # The defaults of GPT-2 lie outside small vocabularies, so they are always said.
        "bos_token_id": None,
        "eos_token_id": None,
        **special_ids(specials),
    }


def names(ours: DecoderOnlyConfig) -> Names:
    layer, attention = "transformer.h.{i}.", "decoder.layers.{i}.self_attention."
    stacked = {
        attention + name: Place(layer + "attn.c_attn", is_transposed=True, part=i, n_parts=3)
        for i, name in enumerate(("to_q", "to_k", "to_v"))
    }
    return {
        "embedding.tokens": "transformer.wte",
        "decoder.positions.table": "transformer.wpe",
        "decoder.layers.{i}.self_norm": layer + "ln_1",
        **stacked,
        attention + "to_out": Place(layer + "attn.c_proj", is_transposed=True),
        "decoder.layers.{i}.feed_norm": layer + "ln_2",
        "decoder.layers.{i}.feed_forward.to_hidden": Place(layer + "mlp.c_fc", is_transposed=True),
        "decoder.layers.{i}.feed_forward.to_out": Place(layer + "mlp.c_proj", is_transposed=True),
        "decoder.norm": "transformer.ln_f",
        "head.own_weight": "lm_head.weight",
    }


GPT2 = Family(
    "gpt2", "GPT2LMHeadModel", DecoderOnlyConfig, read, write, names, prefix="transformer."
)
