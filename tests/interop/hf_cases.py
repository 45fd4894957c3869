"""Random tiny models of every class of transformers that lookleft reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

V, LAYERS = 61, 2
DECODER = {"vocab_size": V, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT2 = DECODER | {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 40}
LLAMA = DECODER | {
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
BERT = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
T5 = {
    "vocab_size": V,
    "d_model": 32,
    "num_layers": LAYERS,
    "num_heads": 4,
    "d_kv": 12,  # heads wider than d_model / num_heads
    "d_ff": 48,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,  # so that short texts reach the far buckets
    "decoder_start_token_id": 0,
}
BART = DECODER | {
    "d_model": 32,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@dataclass(frozen=True)
class Case:
    """One class of transformers in one configuration."""

    name: str
    model: str
    options: dict[str, Any]
    has_own_head: bool = False  # files of T5 v1.1 hold one, though the class ties by default

    def build(self) -> Any:
        """The model, with weights wide enough that every part matters."""
        torch.manual_seed(0)
        cls = getattr(transformers, self.model)
        model = cls(cls.config_class(**self.options)).eval()
        if self.has_own_head:
            model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "embed_positions" not in name:
                    parameter.add_(torch.randn(parameter.shape, dtype=torch.float64) * 0.2)
            for name, buffer in model.named_buffers():
                if "final_logits_bias" in name:
                    buffer.copy_(torch.randn(buffer.shape, dtype=torch.float64))
            for module in model.modules():
                if type(module).__name__ == "MarianSinusoidalPositionalEmbedding":
                    # Marian keeps its table in float32; here it is drawn in the model's own type.
                    module.weight.copy_(paper_waves(*module.weight.shape))
        return model


def paper_waves(length: int, width: int) -> Tensor:
    """sin(pos / 10000^(2i/d)) for all i, then the cosines, by the paper's formula."""
    angles = [[p / 10_000 ** (2 * i / width) for i in range(width // 2)] for p in range(length)]
    angle = torch.tensor(angles, dtype=torch.float64)
    return torch.cat((angle.sin(), angle.cos()), 1)


DECODERS = [
    Case("gpt2", "GPT2LMHeadModel", GPT2),
    Case("gpt2-untied", "GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False, "n_inner": 40}),
    Case("llama", "LlamaForCausalLM", LLAMA),
    Case("llama-tied", "LlamaForCausalLM", LLAMA | {"tie_word_embeddings": True}),
    Case("llama-llama3", "LlamaForCausalLM", LLAMA | {"rope_parameters": LLAMA3}),
    Case(
        "llama-linear",
        "LlamaForCausalLM",
        LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}},
    ),
    Case("llama-bias", "LlamaForCausalLM", LLAMA | {"attention_bias": True, "head_dim": 12}),
    Case("mistral-window", "MistralForCausalLM", LLAMA | {"sliding_window": 4}),
    Case("qwen2", "Qwen2ForCausalLM", LLAMA),
    Case("qwen3", "Qwen3ForCausalLM", LLAMA | {"head_dim": 16}),
]
ENCODER_DECODERS = [
    Case("marian", "MarianMTModel", BART | {"activation_function": "swish"}),
    Case("marian-scaled", "MarianMTModel", BART | {"scale_embedding": True, "dropout": 0.0}),
    Case(
        "marian-two-vocabularies",
        "MarianMTModel",
        BART
        | {
            "share_encoder_decoder_embeddings": False,
            "decoder_vocab_size": V - 10,
            "tie_word_embeddings": True,
        },
    ),
    Case("bart", "BartForConditionalGeneration", BART),
    Case("mbart", "MBartForConditionalGeneration", BART | {"scale_embedding": True}),
    Case("m2m100", "M2M100ForConditionalGeneration", BART),
    Case("t5", "T5ForConditionalGeneration", T5),
    Case(
        "t5-v1.1",
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        has_own_head=True,
    ),
]
ENCODERS = [Case("bert", "BertForMaskedLM", BERT)]
