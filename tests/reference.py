"""Attention in plain loops over Python floats: slow, obvious, and the oracle for `attend`.

It shares no line with the package: lists in, lists out, one number at a time in float64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Matrix = list[list[float]]


def attend_one_head(
    queries: Matrix,
    keys: Matrix,
    values: Matrix,
    allowed: list[list[bool]],
    scale: float,
    bias: Matrix | None = None,
) -> tuple[Matrix, Matrix]:
    """Outputs and weights of one head of one row. Keys that may not be seen are left out."""
    outputs, all_weights = [], []
    for t, query in enumerate(queries):
        seen = [s for s in range(len(keys)) if allowed[t][s]]
        scores = {}
        for s in seen:
            product = sum(a * b for a, b in zip(query, keys[s], strict=True))
            scores[s] = product * scale + (bias[t][s] if bias else 0.0)
        largest = max(scores.values(), default=0.0)
        raised = {s: math.exp(score - largest) for s, score in scores.items()}
        total = sum(raised.values())
        weights = [raised[s] / total if s in raised else 0.0 for s in range(len(keys))]
        width = len(query)
        outputs.append([sum(weights[s] * values[s][k] for s in seen) for k in range(width)])
        all_weights.append(weights)
    return outputs, all_weights


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    allowed: Tensor,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """q (B, H, T, K), keys and values (B, G, S, K) -> outputs (B, H, T, K), weights (B, H, T, S).

    `allowed` is (B or 1, 1, T, S), `bias` (B, H, T, S).
    """
    n_rows, n_heads, n_queries, width = q.shape
    n_keys, heads_per_group = keys.size(2), n_heads // keys.size(1)
    scale = width**-0.5 if scale is None else scale
    out = torch.zeros(n_rows, n_heads, n_queries, width, dtype=torch.float64)
    weights = torch.zeros(n_rows, n_heads, n_queries, n_keys, dtype=torch.float64)
    for b in range(n_rows):
        rules = allowed[b if allowed.size(0) > 1 else 0, 0].tolist()
        for h in range(n_heads):
            group = h // heads_per_group
            head_out, head_weights = attend_one_head(
                q[b, h].tolist(),
                keys[b, group].tolist(),
                values[b, group].tolist(),
                rules,
                scale,
                None if bias is None else bias[b, h].tolist(),
            )
            out[b, h] = torch.tensor(head_out, dtype=torch.float64)
            weights[b, h] = torch.tensor(head_weights, dtype=torch.float64).view(n_queries, n_keys)
    return out, weights
