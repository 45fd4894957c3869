"""A trace as the versioned JSON that the page reads; one head at a time."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.explore import heads
from lookleft.explore.lanes import Inference
from lookleft.explore.lesson import Kind
from lookleft.explore.sameness import MEASURED, TOLERANCE, compare_lanes
from lookleft.explore.tokens import Token, label_of, single, written_text
from lookleft.explore.trace import Trace
from lookleft.models import EncoderDecoder, EncoderOnly

VERSION = 1
N_CANDIDATES = 8
MAX_PROBLEMS = 64
SUM_TOLERANCE = 1e-4  # of a row of weights around 1


def trace_json(trace: Trace) -> dict[str, Any]:
    """Everything but the heads, and the one head that was asked for."""
    request, lesson = trace.request, trace.lesson
    kind = trace.first_kind if request.kind is None else request.kind
    return {
        "version": VERSION,
        "id": trace.id,
        "model": trace.card.to_json(),
        "settings": {
            "target": "typed" if trace.is_target_typed else "model",
            "inputs": request.inputs,
            "forced": list(request.forced),
            "is_masked": trace.is_masked,
            "is_cached": request.is_cached,
            "cover": list(request.cover),
            "pad": request.pad,
            "n_given": lesson.n_given,
            "long": request.long,
        },
        "cut": None if lesson.cut is None else asdict(lesson.cut),
        "source": None if lesson.source is None else lesson.source.to_json(),
        "target": lesson.target.to_json(),
        "columns": _tokens_json(lesson.columns),
        "wanted": _tokens_json(lesson.wanted),
        "masks": {name: _mask_json(*parts) for name, parts in trace.masks.items()},
        "training": _training_json(trace),
        "inference": None if trace.inference is None else _inference_json(trace, trace.inference),
        "sameness": _sameness_json(trace),
        "heads": _head_map(trace),
        "problems": _problems(trace),
        "head": head_json(trace, kind, request.layer, request.head),
    }


def head_json(trace: Trace, kind: Kind, layer: int, head: int) -> dict[str, Any]:
    """All matrices of one head in both lanes."""
    trace.check_head(kind, layer, head)
    trained = trace.training.layers[kind, layer]
    allowed, bias = trace.masks[kind][2], trace.bias(kind, head)
    rows, columns = trace.labels(kind)
    stepped = None
    if trace.inference is not None and (kind, layer) in trace.inference.layers:
        n_steps = len(trace.inference.reads)
        n_keys = [len(columns)] * n_steps if kind == "cross" else list(range(1, n_steps + 1))
        at = trace.inference.layers[kind, layer]
        stepped = heads.inference_head(at, head, allowed, bias, n_keys)
    return {
        "kind": kind,
        "layer": layer,
        "head": head,
        "kv_head": heads.kv_head(trained, head),
        "scale": trace.scale(kind, layer),
        "trace": trace.id,
        "training": heads.training_head(trained, head, allowed, bias),
        "inference": stepped,
        "rows": _tokens_json(rows),
        "columns": _tokens_json(columns),
    }


def _tokens_json(tokens: list[Token] | tuple[Token, ...]) -> list[dict[str, Any]]:
    return [asdict(token) for token in tokens]


def _mask_json(causal: Tensor | None, padding: Tensor, allowed: Tensor) -> dict[str, Any]:
    return {
        "causal": None if causal is None else causal.tolist(),
        "padding": padding.tolist(),
        "allowed": allowed.tolist(),
    }


def plain(value: float) -> float | None:
    """A number that JSON can say, or None."""
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _training_json(trace: Trace) -> dict[str, Any]:
    lesson, width = trace.lesson, len(trace.lesson.columns)
    log_probs = trace.training.logits.double().log_softmax(-1)  # (T, V)
    picked = trace.log_probs  # (T,)
    ranks = (log_probs > picked[:, None]).sum(-1).tolist()
    is_encoder = isinstance(lesson.network, EncoderOnly)
    counted = [not is_encoder or t in trace.request.cover for t in range(lesson.n_rows)]
    rows = [
        {
            "row": t,
            "target": token.id,
            "log_prob": plain(float(picked[t])),
            "loss": plain(-float(picked[t])),
            "prob": plain(float(picked[t].exp())),
            "rank": ranks[t],
            "is_counted": counted[t],
            "candidates": _candidates(trace.bundle, log_probs[t]),
        }
        for t, token in enumerate(lesson.wanted)
    ]
    loss = -float(picked[torch.tensor(counted)].mean()) if any(counted) else math.nan
    return {
        "rows": rows,
        "loss": plain(loss),
        "n_targets": sum(counted),
        "ms": round(trace.training.ms, 3),
        "passes": 1,
        "scores": width * width,
    }


def _inference_json(trace: Trace, lane: Inference) -> dict[str, Any]:
    log_probs, n_steps = lane.logits.double().log_softmax(-1), len(lane.reads)
    is_own, lesson = trace.request.inputs == "own", trace.lesson
    columns = _columns_read(trace, lane)
    steps = []
    for t, step in enumerate(lane.steps):
        candidates = _candidates(trace.bundle, log_probs[t])
        steps.append(
            {
                "step": t,
                "row": t,
                "is_given": not is_own or t < lesson.n_given or 0 < t <= len(lesson.forced),
                "cache_length": step.cache_length,
                "reused": max(step.cache_length - 1, 0),
                "cache_bytes": step.cache_bytes,
                "ms": round(step.ms, 3),
                "scores": t + 1 if trace.request.is_cached else (t + 1) ** 2,
                "chosen": _candidate(trace.bundle, log_probs[t], lane.said[t]),
                "is_forced": t < len(lesson.forced),
                "candidates": candidates,
                "is_end": lane.said[t] == lesson.eos,
                "next": asdict(columns[t + 1]) if t + 1 < n_steps else None,
            }
        )
    counts = range(1, n_steps + 1)
    return {
        "columns": _tokens_json(columns),
        "steps": steps,
        "stopped": "end" if is_own and steps[-1]["is_end"] else "rows",
        "ms": round(sum(step.ms for step in lane.steps), 3),
        "passes": n_steps,
        "scores": sum(step["scores"] for step in steps),
        "scores_cached": sum(counts),
        "scores_uncached": sum(n * n for n in counts),
        "text": _own_text(trace, lane) if is_own else None,
    }


def _columns_read(trace: Trace, lane: Inference) -> list[Token]:
    """What the steps read, with labels: the reference's as long as they are its tokens."""
    reference = trace.lesson.columns[: len(lane.reads)]
    if lane.reads == [token.id for token in reference]:
        return list(reference)
    n_start = _n_start(trace)
    start = [single(trace.bundle, id, "start") for id in lane.reads[:n_start]]
    return [*start, *written_text(trace.bundle, lane.reads[n_start:]).tokens]


def _own_text(trace: Trace, lane: Inference) -> str:
    """What the model says when it reads its own words, its last choice included."""
    ids = (*lane.reads[_n_start(trace) :], lane.said[-1])
    said = [id for id in ids if id != trace.lesson.eos]
    return written_text(trace.bundle, said).text


def _n_start(trace: Trace) -> int:
    """Tokens that a decoder reads before any of its text."""
    return 1 if isinstance(trace.lesson.network, EncoderDecoder) else 0


def _candidates(bundle: Bundle, log_probs: Tensor) -> list[dict[str, Any]]:
    """The likeliest next tokens. (V,) -> JSON."""
    best = log_probs.nan_to_num(nan=-torch.inf).topk(min(N_CANDIDATES, log_probs.numel()))
    return [_candidate(bundle, log_probs, id) for id in best.indices.tolist()]


def _candidate(bundle: Bundle, log_probs: Tensor, id: int) -> dict[str, Any]:
    """One next token and how likely it is. (V,) -> JSON."""
    log_prob = float(log_probs[id])
    return {
        "id": id,
        "text": label_of(bundle, id),
        "prob": plain(math.exp(log_prob)),
        "log_prob": plain(log_prob),
    }


def _sameness_json(trace: Trace) -> dict[str, Any] | None:
    found = compare_lanes(trace)
    if found is None:
        return None
    weights, probs, largest = (side.tolist() for side in (found.weights, found.probs, found.rows))
    rows: list[dict[str, Any] | None] = [
        {"row": t, "weights": plain(weights[t]), "probs": plain(probs[t]), "largest": plain(most)}
        for t, most in enumerate(largest)
    ]
    return {
        "tolerance": TOLERANCE,
        "is_same": found.is_same,
        "largest": plain(found.largest),
        "n_rows": len(rows),
        "rows": rows + [None] * (found.n_steps - len(rows)),
        "first_difference": found.first_difference,
        "measured": MEASURED,
    }


def _head_map(trace: Trace) -> list[dict[str, Any]]:
    """Every head in small: its pattern, its name, how widely it looks."""
    return [
        {
            "kind": kind,
            "layer": layer,
            "head": head,
            "tag": heads.pattern(weights, trace.masks[kind][2], is_cross=kind == "cross"),
            "entropy": plain(float(heads.entropy(weights).mean())),
            "thumbnail": heads.thumbnail(weights),
        }
        for (kind, layer), attention in trace.training.layers.items()
        for head, weights in enumerate(attention.weights)
    ]


def _problems(trace: Trace) -> list[dict[str, Any]]:
    """Rows whose numbers are bad, each with a sentence."""
    found: list[dict[str, Any]] = []

    def note(kind: Kind, layer: int, head: int, row: int, what: str, message: str) -> None:
        place = {"kind": kind, "layer": layer, "head": head, "row": row}
        found.append({**place, "what": what, "message": message})

    for (kind, layer), attention in trace.training.layers.items():
        sums = attention.weights.double().sum(-1)  # (H, T)
        is_blind = ~trace.masks[kind][2].any(-1)  # (T,)
        is_wrong = ~((sums - 1).abs() < SUM_TOLERANCE) & ~is_blind  # also for NaN
        for head, row in is_wrong.nonzero().tolist():
            total = float(sums[head, row])
            if math.isfinite(total):
                said = f"the weights of this row add up to {total:.4f}, not to 1"
                note(kind, layer, head, row, "row_sum", said)
            else:
                said = "this row is not a number: its scores overflowed, or a weight is not sound"
                note(kind, layer, head, row, "not_finite", said)
        for (row,) in is_blind.nonzero().tolist():
            note(kind, layer, 0, row, "sees_nothing", "this row may look at nothing: it gets zeros")
    return found[:MAX_PROBLEMS]
