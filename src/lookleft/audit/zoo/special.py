"""What the rules on names cannot know: settings of single configuration classes, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Special:
    """Values that overrule the rules for one configuration class."""

    reason: str
    values: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(
        default_factory=dict
    )  # also valid at full size: kinds of layers


_ALL_KINDS = "the defaults hold one kind of layer only; here is one of each"
_SHARED_BLOCK = "the shared block needs two places to be shared between"
_ONE_CODEBOOK = "with one codebook it is a plain decoder"

_TINY_BERT: Mapping[str, Any] = {
    "model_type": "bert",
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
}


def _layers(**columns: Sequence[str]) -> dict[str, Any]:
    """Lists with one entry per layer, and the number of layers they agree on."""
    return {name: list(column) for name, column in columns.items()} | {
        "num_hidden_layers": len(next(iter(columns.values())))
    }


SPECIAL: Mapping[str, Special] = {
    "BambaConfig": Special(_ALL_KINDS, plan={"attn_layer_indices": [1], "num_hidden_layers": 2}),
    "BigBirdConfig": Special(
        "blocks so small that sparse attention is used at the audited length",
        {"block_size": 2, "num_random_blocks": 1},
    ),
    "BigBirdPegasusConfig": Special(
        "blocks so small that sparse attention is used at the audited length",
        {"block_size": 2, "num_random_blocks": 1},
    ),
    "BltConfig": Special(
        "the cache the class makes for itself asks for a number of layers the configuration lacks",
        {"use_cache": False},
    ),
    "CohereCompassTextConfig": Special(
        "rotary parameters are given per kind of layer",
        {
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
                for kind in ("sliding_attention", "full_attention")
            }
        },
    ),
    "DbrxConfig": Special(
        "the attention part reads a `rope_theta` and a bound that its own defaults do not hold",
        {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    ),
    "DeepseekV4Config": Special(
        "compression rates small enough that blocks are completed within the audited length",
        {
            "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 7},
            "o_groups": 2,
            "index_topk": 3,
        },
        plan=_layers(
            layer_types=(
                "sliding_attention",
                "compressed_sparse_attention",
                "heavily_compressed_attention",
            ),
            mlp_layer_types=("hash_moe", "moe", "moe"),
        ),
    ),
    "EncoderDecoderConfig": Special(
        "two BERT-like halves that have to be told their parts",
        {
            "decoder": dict(_TINY_BERT) | {"is_decoder": True, "add_cross_attention": True},
            "encoder": dict(_TINY_BERT),
        },
    ),
    "FlintConfig": Special(
        "one dense and one expert layer",
        plan=_layers(layer_types=("full_attention", "sliding_attention"))
        | {"mlp_only_layers": [0]},
    ),
    "GPTNeoConfig": Special(
        "one global and one local layer",
        plan={"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    ),
    "Gemma4TextConfig": Special(
        "full-attention layers have a head width of their own; two layers reuse keys and values",
        {
            "num_kv_shared_layers": 2,
            "global_head_dim": 16,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 16,
        },
        plan=_layers(layer_types=("sliding_attention", "full_attention") * 2),
    ),
    "Gemma4UnifiedTextConfig": Special(
        "full-attention layers have a head width of their own", {"global_head_dim": 16}
    ),
    "GlmMoeDsaConfig": Special(
        _ALL_KINDS,
        plan=_layers(
            layer_types=("indexed_attention",) * 3,
            mlp_layer_types=("dense", "sparse", "sparse"),
            indexer_types=("full", "full", "shared"),
        ),
    ),
    "GraniteMoeHybridConfig": Special(
        _ALL_KINDS, plan=_layers(layer_types=("linear_attention", "full_attention"))
    ),
    "HrmTextConfig": Special(
        "the number of layers is multiplied by the class itself",
        {"num_hidden_layers": 1, "num_layers_per_stack": None},
    ),
    "JambaConfig": Special(
        _ALL_KINDS,
        plan={
            "num_hidden_layers": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
        },
    ),
    "LEDConfig": Special("the window must be even", {"attention_window": 4}),
    "Lfm2Config": Special(_ALL_KINDS, plan=_layers(layer_types=("conv", "full_attention"))),
    "Lfm2MoeConfig": Special(_ALL_KINDS, plan=_layers(layer_types=("conv", "full_attention"))),
    "LongcatFlashConfig": Special(
        "the rotary table is as wide as `head_dim`, the rotary part of a head", {"head_dim": 4}
    ),
    "Mamba2Config": Special("heads x head width must be twice the width", {"num_heads": 8}),
    "MiniMaxM3VLTextConfig": Special(
        _ALL_KINDS + "; one selection of blocks per key/value head",
        {"index_n_heads": 2},
        plan=_layers(
            layer_types=("full_attention", "minimax_m3_sparse"),
            mlp_layer_types=("dense", "sparse"),
        ),
    ),
    "MusicgenDecoderConfig": Special(_ONE_CODEBOOK, {"num_codebooks": 1}),
    "MusicgenMelodyDecoderConfig": Special(_ONE_CODEBOOK, {"num_codebooks": 1}),
    "Qwen4ExpTextConfig": Special(
        "the indexer and the n-gram embeddings are off by default",
        {
            "indexer_n_heads": 4,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 8,
            "indexer_compress_ratio": 2,
            "ple_layer_ids": [1],
            "ple_embed_dim": 16,
            "heads_per_ngram": 2,
            "make_ngram_vocab_size_divisible_by": 8,
            "split_ngram_parts": 2,
        },
    ),
    "RecurrentGemmaConfig": Special(
        "two recurrent layers come before the first attention", {"num_hidden_layers": 3}
    ),
    "ReformerConfig": Special(
        "a position table of 8 x 16 whose widths add up to the hidden size",
        {"axial_pos_shape": [8, 16], "axial_pos_embds_dim": [16, 16], "hash_seed": 0},
        plan={"attn_layers": ["local", "lsh"]},
    ),
    "XLMConfig": Special("bidirectional unless told to be causal", {"causal": True}),
    "XLNetConfig": Special("bidirectional unless told to be one-way", {"attn_type": "uni"}),
    "XmodConfig": Special("a language must be chosen", {"default_language": "en_XX"}),
    "Zamba2Config": Special(
        _SHARED_BLOCK, plan=_layers(layers_block_type=("linear_attention", "hybrid") * 2)
    ),
    "ZambaConfig": Special(
        _SHARED_BLOCK,
        {"attention_hidden_size": 64, "attention_head_dim": 16},
        plan=_layers(layers_block_type=("linear_attention", "hybrid") * 2),
    ),
    "ZayaConfig": Special(
        _ALL_KINDS, plan=_layers(layer_types=("hybrid", "hybrid_sliding")) | {"sliding_window": 5}
    ),
    "xLSTMConfig": Special(
        "key widths are rounded up to 64", {"hidden_size": 128, "embedding_dim": 128}
    ),
}

# Classes that cannot be asked about token ids alone.
NEEDS_MORE: Mapping[str, str] = {
    "Gemma3nForConditionalGeneration": "the vision tower comes from the packages timm and Pillow",
    "Gemma4AssistantForCausalLM": "drafts from another model's states and keys, not from ids alone",
    "Gemma4UnifiedAssistantForCausalLM": (
        "drafts from another model's states and keys, not from ids alone"
    ),
    "Nemotron3_5TranscribeForConditionalGeneration": (
        "an audio model whose parts check one another's full sizes; its text part is NemotronH"
    ),
    "VibeVoiceAsrForConditionalGeneration": (
        "an audio model whose speech tokenizers stay at full size; its text part is Qwen2"
    ),
    "VoxtralRealtimeForConditionalGeneration": "every token is paired with frames of audio",
}
