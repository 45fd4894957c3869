"""Small values for the fields of a configuration, chosen by the names of the fields."""

from __future__ import annotations

import re
from typing import Any

VOCABULARY = 99
WIDTH = 32
INNER = 64
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 8
WINDOW = 5  # windows and chunks far below the audited length, so that it crosses every boundary
CHUNK = 7

# The whole name must match and the first match wins. A value already smaller is kept.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"(src_|tgt_|decoder_|text_)?vocab_size(_per_layer_input)?", VOCABULARY),
    (r"(max|n)_(\w+_)?position(s|_embeddings)|max_(seq_len|length)|context_length|n_ctx", 128),
    (r"(original|model)_max_(position_embeddings|length)", 128),
    (
        r"sliding_window(_size)?|attention_window(_size)?|(keep_)?window_size|local_attention",
        WINDOW,
    ),
    (r"(attention_|mamba_)?chunk_size|(local|lsh)_attn_chunk_length|local_radius", CHUNK),
    (r"(global_|index_)?block_size|expert_capacity", 4),
    (r"(swa_)?num_key_value_heads|num_kv_heads|kv_n_heads|num_query_groups", KV_HEADS),
    (r"(speech_|t2u_)?((en|de)coder_)?attention_heads|n_heads?|num_heads", HEADS),
    (r"(swa_)?num_((en|de)coder_)?attention_heads(_per_layer)?", HEADS),
    (r"linear_num_(key_|value_)?heads", HEADS),
    (r"(n|num)_(hidden_)?layers?|num_(en|de)coder_layers|num_blocks|depth", 2),
    (r"(speech_|t2u_)?(en|de)coder_layers|hidden_layers|num_sparse_(en|de)coder_layers", 2),
    (r"num_kv_shared_layers", 2),
    (
        r"hidden_size(_global)?|d_model|n_embd|emb_dim|embedding_(size|dim)|word_embed_proj_dim",
        WIDTH,
    ),
    (r"(in|out)put_embedding_size|lru_width|backbone_hidden_size", WIDTH),
    (r"dim_model_base|router_hidden_size|hidden_dim|out(put)?_(hidden_size|dim)", WIDTH),
    (r"encoder_hidden_size", WIDTH),
    (r"\w+_embed_dim|prompt_mid_dim|hidden_size_per_layer_input|prompt_length", 16),
    (r"qk_(nope|rope)_head_dim|rotary_dim", HEAD_DIM // 2),
    (r"(\w+_)?head_dim|d_kv|dim_head|kv_channels|d_head|attention_head_size", HEAD_DIM),
    (r"mamba_(d_head|headdim)", HEAD_DIM),
    (r"mamba_(n|num)_heads|n_mamba_heads", 8),
    (r"mamba_d_ssm", INNER),
    (r"(\w+_)?intermediate_size(_mlp)?|(\w+_)?ffn_(dim|hidden_size)", INNER),
    (r"d_ff|d_inner|dff|dim_ff|feed_forward_size|n_inner", INNER),
    (r"(q|kv|o)_lora_rank|laurel_rank|gated_norm_rank|adapter_rank|hc_lowrank", 16),
    (r"(moe_)?num_(local_)?experts|n_routed_experts|zero_expert_num", 4),
    (r"num_experts_per_tok(en)?|moe_(topk|k|top_k)|top_k_experts", 2),
    (r"n_shared_experts|n_group|topk_group|num_expert_group|(mamba_)?n_?groups", 1),
    (r"index_n_heads", 16),  # scores pass a ReLU: with few heads whole rows tie at zero
    (r"index_topk(_blocks)?", 4),
    (r"(mamba_d_|ssm_)?state(_size)?", 8),
    (r"time_step_rank|mamba_dt_rank", 4),
    (r"(relative_attention_)?num_buckets|position_bias_num_buckets", 8),
    (r"relative_(attention_)?max_distance|position_bias_max_distance", 16),
    (r"first_k_dense_replace|num_dense_layers|moe_layer_start_index", 1),
    (r"(de|en)coder_sparse_step", 1),
    (r"(pronunciation|shape|char|\w+_hash_byte_group|ngram)_vocab(_size)?(_base)?", VOCABULARY),
)

# What these fields leave open is filled in: `None` would switch the mechanism off, or break.
_OPEN = r"head_dim|num_key_value_heads|num_experts_per_tok|n_routed_experts|n_shared_experts"

# Off by default in some classes, where the size of the window then is 0 or `None`.
_SWITCHES = {"use_sliding_window": True, "sliding_window": WINDOW}

# One special token each, inside the vocabulary and apart from one another.
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
_LAST_TEXT_TOKEN = 89  # ids of images, audio and the like follow it


def small_value(name: str, value: Any) -> Any:
    """The value a tiny configuration gives to field `name`; `value` itself where no rule speaks."""
    if name in _TOKENS:
        return _TOKENS[name]
    if name.endswith(("token_id", "token_index")) and isinstance(value, int):
        return _LAST_TEXT_TOKEN + 1 + sum(map(ord, name)) % (VOCABULARY - _LAST_TEXT_TOKEN - 1)
    if name in _SWITCHES:
        return _SWITCHES[name]
    if isinstance(value, list | tuple):
        return [small_value(name, item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | None):
        return value
    if value is None and not re.fullmatch(_OPEN, name):
        return None
    small = next((size for pattern, size in _SIZES if re.fullmatch(pattern, name)), None)
    if small is None:
        return value
    return small if value is None else min(small, value)
