"""The encoder-decoders that grew out of fairseq and Marian: one layout, four sets of choices.

          positions        norms   norm after embeddings   bias on logits
marian    sinusoidal       post    no                      yes
bart      learned, +2      post    yes                     yes
mbart     learned, +2      pre     yes                     yes
m2m_100   sinusoidal, +pad pre     no                      no
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig, Sinusoidal
from lookleft.interop.hf.family import (
    Family,
    Json,
    first_of,
    read_activation,
    read_width,
    require,
    special_ids,
    write_activation,
)
from lookleft.interop.places import Names, Place
from lookleft.nn.positions import SinusoidalPositions
from lookleft.text.vocab import Specials

BART_OFFSET = 2  # two rows before the first learned position


def read(theirs: Json, tensors: frozenset[str]) -> Json:
    kind, width = theirs["model_type"], read_width(theirs, "d_model")
    require(theirs, {"decoder_attention_heads": theirs["encoder_attention_heads"]})
    require(theirs, {"decoder_ffn_dim": theirs["encoder_ffn_dim"]})
    is_pre = kind in ("mbart", "m2m_100")
    is_shared = theirs.get("share_encoder_decoder_embeddings", True)
    longest = theirs["max_position_embeddings"]
    positions: Json
    if kind == "marian":
        positions = {"kind": "sinusoidal", "layout": "halves"}
    elif kind == "m2m_100":
        # Positions are counted from the id of padding, a habit of fairseq.
        offset = theirs.get("pad_token_id", 1) + 1
        positions = {"kind": "sinusoidal", "layout": "halves", "offset": offset}
        positions["spacing"] = "tensor2tensor"
    else:
        positions = {"kind": "learned", "max_len": longest, "offset": BART_OFFSET}
    return {
        "vocab_size": theirs["vocab_size"] if is_shared else theirs["decoder_vocab_size"],
        "source_vocab_size": None if is_shared else theirs["vocab_size"],
        "d_model": width,
        "n_encoder_layers": theirs["encoder_layers"],
        "n_decoder_layers": theirs["decoder_layers"],
        "n_heads": theirs["encoder_attention_heads"],
        "d_ff": theirs["encoder_ffn_dim"],
        "positions": positions,
        "norm_order": "pre" if is_pre else "post",
        "final_norm": is_pre,
        "embed_norm": kind in ("bart", "mbart"),
        "activation": read_activation(theirs.get("activation_function", "gelu")),
        "embed_scale": math.sqrt(width) if theirs.get("scale_embedding", False) else 1.0,
        "logit_bias": kind != "m2m_100",
        "dropout": theirs.get("dropout", 0.1),
        "attention_dropout": theirs.get("attention_dropout", 0.0),
        "tie_embeddings": theirs.get("tie_word_embeddings", True),
        "start_id": first_of(theirs, "decoder_start_token_id", "bos_token_id", "pad_token_id"),
        "max_len": longest,
    }


def write(ours: EncoderDecoderConfig, specials: Specials) -> Json:
    source_vocab = ours.source_vocab_size
    is_scaled = math.isclose(ours.embed_scale, math.sqrt(ours.d_model))
    config = {
        "is_encoder_decoder": True,
        "vocab_size": source_vocab or ours.vocab_size,
        "decoder_vocab_size": ours.vocab_size,
        "share_encoder_decoder_embeddings": source_vocab is None,
        "d_model": ours.d_model,
        "encoder_layers": ours.n_encoder_layers,
        "decoder_layers": ours.n_decoder_layers,
        "encoder_attention_heads": ours.n_heads,
        "decoder_attention_heads": ours.n_heads,
        "encoder_ffn_dim": ours.d_ff,
        "decoder_ffn_dim": ours.d_ff,
        "max_position_embeddings": min(ours.context, LONGEST_TABLE),
        "activation_function": write_activation(ours.activation),
        "scale_embedding": is_scaled,
        "dropout": ours.dropout,
        "attention_dropout": ours.attention_dropout,
        "tie_word_embeddings": ours.tie_embeddings,
        "decoder_start_token_id": ours.start_id,
        # Small vocabularies do not have the default ids of these classes, so all are said.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 0,
        "forced_eos_token_id": None,
        **special_ids(specials),
    }
    if isinstance(ours.positions, Sinusoidal) and ours.positions.offset:
        config["pad_token_id"] = ours.positions.offset - 1
    return config


# Marian files hold their sinusoidal table, so an endless context must end somewhere.
LONGEST_TABLE = 1024


def names(ours: EncoderDecoderConfig) -> Names:
    table: dict[str, str | Place] = {
        "embedding.tokens": "model.shared",
        "head.bias": Place("final_logits_bias", has_row=True),
        "head.own_weight": "lm_head.weight",
    }
    if ours.source_vocab_size is not None:
        table["embedding.tokens"] = "model.decoder.embed_tokens"
        table["source_embedding.tokens"] = "model.encoder.embed_tokens"
    for stack in ("encoder", "decoder"):
        mine, theirs = f"{stack}.layers.{{i}}.", f"model.{stack}.layers.{{i}}."
        table |= {
            f"{stack}.positions.table": f"model.{stack}.embed_positions",
            f"{stack}.embed_norm": f"model.{stack}.layernorm_embedding",
            f"{stack}.norm": f"model.{stack}.layer_norm",
            mine + "self_norm": theirs + "self_attn_layer_norm",
            mine + "cross_norm": theirs + "encoder_attn_layer_norm",
            mine + "feed_forward.to_hidden": theirs + "fc1",
            mine + "feed_forward.to_out": theirs + "fc2",
            mine + "feed_norm": theirs + "final_layer_norm",
        }
        for attention, name in (
            ("self_attention", "self_attn"),
            ("cross_attention", "encoder_attn"),
        ):
            for part in ("q", "k", "v", "out"):
                table[f"{mine}{attention}.to_{part}"] = f"{theirs}{name}.{part}_proj"
    return table


make_family = partial(
    Family,
    config=EncoderDecoderConfig,
    read=read,
    write=write,
    names=names,
    prefix="model.",
    zero_if_missing=("final_logits_bias",),
    aliases={
        "model.shared.weight": (
            "model.decoder.embed_tokens.weight",
            "model.encoder.embed_tokens.weight",
            "lm_head.weight",
        ),
        "model.decoder.embed_tokens.weight": ("lm_head.weight",),
    },
)
MARIAN = make_family("marian", "MarianMTModel")
BART = make_family("bart", "BartForConditionalGeneration")
MBART = make_family("mbart", "MBartForConditionalGeneration")
M2M100 = make_family("m2m_100", "M2M100ForConditionalGeneration")


def sinusoidal_tables(positions: Sinusoidal, d_model: int, length: int) -> dict[str, Tensor]:
    """The fixed position tables that Marian files carry although they could be computed."""
    waves = SinusoidalPositions(positions, d_model)
    table = waves(torch.arange(length)[None], torch.float32)[0]  # (length, D)
    return {
        f"model.{stack}.embed_positions.weight": table.clone() for stack in ("encoder", "decoder")
    }
