"""The same GGUF file through transformers, which reads, dequantises and computes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint


def load_with_transformers(path: Path) -> Any:
    """What `AutoModelForCausalLM.from_pretrained(gguf_file=...)` gives, without its accelerate."""
    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    if config.tie_word_embeddings:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    model = model.to_empty(device="cpu")
    model.load_state_dict(tensors)
    # Tables that are no weights had no memory either: make them anew.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()
