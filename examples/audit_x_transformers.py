"""A decoder from x-transformers, as its README builds one.

lookleft audit examples/audit_x_transformers.py:build --quick
"""

from __future__ import annotations

from torch import nn
from x_transformers import Decoder, TransformerWrapper


def build() -> nn.Module:
    """Ids to logits: rotary positions, no absolute ones."""
    return TransformerWrapper(
        num_tokens=256,
        max_seq_len=128,
        use_abs_pos_emb=False,
        attn_layers=Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True),
    )
