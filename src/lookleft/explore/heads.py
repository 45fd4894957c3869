"""One head for the page: its matrices as plain numbers, and what its pattern is called.

Dimensions: T rows, N steps, S columns, K head width.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookleft.explore.lanes import Attention

THUMBNAIL = 16  # cells a side, at most
_STRONG = 0.5  # mean weight from which a pattern gives a head its name
_EVEN = 0.85  # share of the largest possible entropy from which a head is called spread
_RISING = 0.7  # correlation between row and column from which cross-attention is called aligned


def numbers(values: Tensor) -> Any:
    """Nested lists of floats; what JSON cannot say (infinities, NaN) is None.

    Nine digits tell any two float32 numbers apart.
    """
    return _short(values.double().tolist())


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(f"{value:.9g}") if math.isfinite(value) else None


def training_head(
    layer: Attention, head: int, allowed: Tensor, bias: Tensor | None
) -> dict[str, Any]:
    """The matrices of one head in the training lane."""
    group = kv_head(layer, head)
    return {
        "q": numbers(layer.q[head]),
        "k": numbers(layer.k[group]),
        "v": numbers(layer.v[group]),
        "scores": numbers(layer.scores[head]),
        "masked": numbers(masked(layer.scores[head], allowed)),
        "weights": numbers(layer.weights[head]),
        "out": numbers(layer.out[head]),
        "bias": None if bias is None else numbers(bias),
    }


def inference_head(
    layer: Attention, head: int, allowed: Tensor, bias: Tensor | None, n_keys: list[int]
) -> dict[str, Any]:
    """The same of the inference lane; row t ends with the last key that existed then."""
    group = kv_head(layer, head)

    def ragged(matrix: Tensor) -> Any:
        return [numbers(row[:n]) for row, n in zip(matrix, n_keys, strict=True)]

    scores = layer.scores[head]
    may = allowed[: scores.size(0), : scores.size(1)]
    return {
        "q": numbers(layer.q[head]),
        "k": numbers(layer.k[group]),
        "v": numbers(layer.v[group]),
        "scores": ragged(scores),
        "masked": ragged(masked(scores, may)),
        "weights": ragged(layer.weights[head]),
        "out": numbers(layer.out[head]),
        "bias": None if bias is None else ragged(bias[: scores.size(0)]),
    }


def masked(scores: Tensor, allowed: Tensor) -> Tensor:
    """What the softmax sees: minus infinity where the mask hides. (T, S), (T, S) -> (T, S)."""
    return scores.masked_fill(~allowed, -math.inf)


def kv_head(layer: Attention, head: int) -> int:
    """The key/value head that serves this query head."""
    return head * layer.k.size(0) // layer.q.size(0)


def thumbnail(weights: Tensor) -> dict[str, Any]:
    """The pattern in at most 16 x 16 cells of one byte each, 255 for weight 1. (T, S) -> JSON."""
    rows, columns = (min(size, THUMBNAIL) for size in weights.shape)
    small = F.adaptive_max_pool2d(weights.nan_to_num(0.0)[None], (rows, columns))[0]
    data = (small.clamp(0, 1) * 255).round().to(torch.uint8).flatten().tolist()
    return {"rows": rows, "columns": columns, "data": base64.b64encode(bytes(data)).decode()}


def entropy(weights: Tensor) -> Tensor:
    """How widely each row looks, in bits. (T, S) -> (T,)."""
    nats: Tensor = torch.special.entr(weights.double().nan_to_num(0.0)).sum(-1)
    return nats / math.log(2)


def pattern(weights: Tensor, allowed: Tensor, *, is_cross: bool) -> str:
    """The name of what a head does: previous, self, first, spread, aligned, mixed. (T, S)."""
    n_rows = weights.size(0)
    if is_cross:
        return "aligned" if _is_rising(weights) else _is_spread(weights, allowed)
    if n_rows > 1:
        rows = torch.arange(1, n_rows)  # the first row can only look at itself
        columns = {"previous": rows - 1, "self": rows, "first": torch.zeros_like(rows)}
        if n_rows == 2:
            del columns["first"]  # the first token is the previous one
        mean = {name: float(weights[rows, at].mean()) for name, at in columns.items()}
        best = max(mean, key=mean.__getitem__)
        if mean[best] > _STRONG:
            return best
    return _is_spread(weights, allowed)


def _is_spread(weights: Tensor, allowed: Tensor) -> str:
    most = allowed.sum(-1).clamp(min=1).double().log2()  # bits of an even row
    wide = most > 0
    if not bool(wide.any()):
        return "self"
    share = (entropy(weights)[wide] / most[wide]).mean()
    return "spread" if float(share) > _EVEN else "mixed"


def _is_rising(weights: Tensor) -> bool:
    """True if later rows look at later columns, and mostly at one."""
    if weights.size(0) < 3 or float(weights.amax(-1).mean()) <= _STRONG:
        return False
    places = torch.stack([torch.arange(weights.size(0)), weights.argmax(-1)]).double()
    if bool((places[1] == places[1, 0]).all()):
        return False
    return float(torch.corrcoef(places)[0, 1]) > _RISING
