"""BERT: post-norm encoder with learned positions and segments; with or without its head."""

from __future__ import annotations

from lookleft.config import EncoderOnlyConfig
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
    require(theirs, {"is_decoder": False, "position_embedding_type": "absolute"})
    # A bare encoder (sentence embeddings) comes without the masked-token head.
    has_head = any(name.startswith("cls.predictions.transform.") for name in tensors)
    return {
        "vocab_size": theirs["vocab_size"],
        "d_model": theirs["hidden_size"],
        "n_layers": theirs["num_hidden_layers"],
        "n_heads": theirs["num_attention_heads"],
        "d_ff": theirs["intermediate_size"],
        "positions": {"kind": "learned", "max_len": theirs["max_position_embeddings"]},
        "norm_eps": theirs.get("layer_norm_eps", 1e-12),
        "embed_norm": True,
        "activation": read_activation(theirs.get("hidden_act", "gelu")),
        "dropout": theirs.get("hidden_dropout_prob", 0.1),
        "attention_dropout": theirs.get("attention_probs_dropout_prob", 0.1),
        "n_types": theirs.get("type_vocab_size", 2),
        "logit_bias": has_head,
        "head_transform": has_head,
        "tie_embeddings": theirs.get("tie_word_embeddings", True),
    }


def write(ours: EncoderOnlyConfig, specials: Specials) -> Json:
    if not ours.n_types:
        raise ConfigError("it has no segments, and BERT adds one to every token")
    return {
        "vocab_size": ours.vocab_size,
        "hidden_size": ours.d_model,
        "num_hidden_layers": ours.n_layers,
        "num_attention_heads": ours.n_heads,
        "intermediate_size": ours.d_ff,
        "max_position_embeddings": ours.context,
        "layer_norm_eps": ours.norm_eps,
        "hidden_act": write_activation(ours.activation),
        "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": ours.attention_dropout,
        "type_vocab_size": ours.n_types,
        "tie_word_embeddings": ours.tie_embeddings,
        **special_ids(specials),
    }


def names(ours: EncoderOnlyConfig) -> Names:
    layer, attention = "bert.encoder.layer.{i}.", "encoder.layers.{i}.self_attention."
    return {
        "embedding.tokens": "bert.embeddings.word_embeddings",
        "embedding.types": "bert.embeddings.token_type_embeddings",
        "encoder.positions.table": "bert.embeddings.position_embeddings",
        "encoder.embed_norm": "bert.embeddings.LayerNorm",
        attention + "to_q": layer + "attention.self.query",
        attention + "to_k": layer + "attention.self.key",
        attention + "to_v": layer + "attention.self.value",
        attention + "to_out": layer + "attention.output.dense",
        "encoder.layers.{i}.self_norm": layer + "attention.output.LayerNorm",
        "encoder.layers.{i}.feed_forward.to_hidden": layer + "intermediate.dense",
        "encoder.layers.{i}.feed_forward.to_out": layer + "output.dense",
        "encoder.layers.{i}.feed_norm": layer + "output.LayerNorm",
        "head_transform.dense": "cls.predictions.transform.dense",
        "head_transform.norm": "cls.predictions.transform.LayerNorm",
        "head.bias": "cls.predictions.bias",
        "head.own_weight": "cls.predictions.decoder.weight",
    }


BERT = Family(
    "bert",
    "BertForMaskedLM",
    EncoderOnlyConfig,
    read,
    write,
    names,
    headless="BertModel",
    prefix="bert.",
)
