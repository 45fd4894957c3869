"""Llama and the types that share its layout: Mistral (a window), Qwen2 (biases), Qwen3 (norms)."""

from __future__ import annotations

from dataclasses import replace

from lookleft.config import DecoderOnlyConfig, Rotary
from lookleft.errors import ConfigError
from lookleft.interop.hf.family import (
    Family,
    Json,
    read_activation,
    require,
    special_ids,
    write_activation,
)
from lookleft.interop.places import Names
from lookleft.text.vocab import Specials


def read(theirs: Json, tensors: frozenset[str]) -> Json:
    kind = theirs["model_type"]
    require(theirs, {"pretraining_tp": 1, "use_sliding_window": False, "mlp_bias": False})
    has_bias = theirs.get("attention_bias", kind == "qwen2")
    return {
        "vocab_size": theirs["vocab_size"],
        "d_model": theirs["hidden_size"],
        "n_layers": theirs["num_hidden_layers"],
        "n_heads": theirs["num_attention_heads"],
        "n_kv_heads": theirs.get("num_key_value_heads"),
        "head_width": theirs.get("head_dim"),
        "d_ff": theirs["intermediate_size"],
        "positions": read_rope(theirs),
        "window": theirs.get("sliding_window") if kind == "mistral" else None,
        "norm": "rms",
        "norm_eps": theirs.get("rms_norm_eps", 1e-6),
        "norm_order": "pre",
        "final_norm": True,
        "activation": read_activation(theirs.get("hidden_act", "silu")),
        "gated": True,
        "qkv_bias": has_bias,
        "out_bias": has_bias and kind != "qwen2",
        "ff_bias": False,
        "qk_norm": kind == "qwen3",
        "attention_dropout": theirs.get("attention_dropout", 0.0),
        "tie_embeddings": theirs.get("tie_word_embeddings", False),
        "max_len": theirs.get("max_position_embeddings", 2048),
    }


def read_rope(theirs: Json) -> Json:
    """Rotary settings in the new spelling (rope_parameters) or the old one (rope_scaling)."""
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    require(rope, {"partial_rotary_factor": 1.0})
    theta = rope.get("rope_theta", theirs.get("rope_theta", 10_000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return {"kind": "rotary", "theta": theta}
    if kind not in ("linear", "llama3"):
        raise ConfigError(f"rope_type={kind!r} is not supported, only default, linear and llama3")
    scaling = {"kind": kind, "factor": rope["factor"]}
    if kind == "llama3":
        scaling |= {
            "low_freq_factor": rope["low_freq_factor"],
            "high_freq_factor": rope["high_freq_factor"],
            "original_max_len": rope["original_max_position_embeddings"],
        }
    return {"kind": "rotary", "theta": theta, "scaling": scaling}


def write_rope(rotary: Rotary) -> Json:
    scaling = rotary.scaling
    if scaling is None:
        return {"rope_theta": rotary.theta, "rope_type": "default"}
    rope: Json = {
        "rope_theta": rotary.theta,
        "rope_type": scaling.kind,
        "factor": scaling.factor,
    }
    if scaling.kind == "llama3":
        rope |= {
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_max_len,
        }
    return rope


def write(ours: DecoderOnlyConfig, specials: Specials) -> Json:
    if not isinstance(ours.positions, Rotary):
        raise ConfigError(f"it has {ours.positions.kind} positions, not rotary ones")
    return {
        "vocab_size": ours.vocab_size,
        "hidden_size": ours.d_model,
        "num_hidden_layers": ours.n_layers,
        "num_attention_heads": ours.n_heads,
        "num_key_value_heads": ours.kv_heads,
        "head_dim": ours.head_dim,
        "intermediate_size": ours.d_ff,
        "rope_parameters": write_rope(ours.positions),
        "rms_norm_eps": ours.norm_eps,
        "hidden_act": write_activation(ours.activation),
        "attention_bias": ours.qkv_bias,
        "attention_dropout": ours.attention_dropout,
        "tie_word_embeddings": ours.tie_embeddings,
        "max_position_embeddings": ours.max_len,
        "sliding_window": ours.window,
        **special_ids(specials),
    }


def names(ours: DecoderOnlyConfig) -> Names:
    layer, attention = "model.layers.{i}.", "decoder.layers.{i}.self_attention."
    feed = "decoder.layers.{i}.feed_forward."
    return {
        "embedding.tokens": "model.embed_tokens",
        "decoder.layers.{i}.self_norm": layer + "input_layernorm",
        attention + "to_q": layer + "self_attn.q_proj",
        attention + "to_k": layer + "self_attn.k_proj",
        attention + "to_v": layer + "self_attn.v_proj",
        attention + "to_out": layer + "self_attn.o_proj",
        attention + "norm_q": layer + "self_attn.q_norm",
        attention + "norm_k": layer + "self_attn.k_norm",
        "decoder.layers.{i}.feed_norm": layer + "post_attention_layernorm",
        feed + "to_gate": layer + "mlp.gate_proj",
        feed + "to_hidden": layer + "mlp.up_proj",
        feed + "to_out": layer + "mlp.down_proj",
        "decoder.norm": "model.norm",
        "head.own_weight": "lm_head.weight",
    }


LLAMA = Family("llama", "LlamaForCausalLM", DecoderOnlyConfig, read, write, names, prefix="model.")
MISTRAL = replace(LLAMA, model_type="mistral", architecture="MistralForCausalLM")
QWEN2 = replace(LLAMA, model_type="qwen2", architecture="Qwen2ForCausalLM")
QWEN3 = replace(LLAMA, model_type="qwen3", architecture="Qwen3ForCausalLM")
