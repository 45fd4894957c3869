"""What a page without a server needs: the sentence, its variants, and as many heads as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import lookleft
from lookleft.explore.card import ModelCard
from lookleft.explore.lanes import kinds_of
from lookleft.explore.layout import VERSION, head_json, trace_json
from lookleft.explore.lesson import Kind, TraceRequest
from lookleft.explore.trace import Trace

Scope = Literal["head", "layer", "all"]
MAX_NUMBERS = 400_000  # in one file, unless a scope is asked for: some four megabytes


def file_data(
    request: TraceRequest,
    ask: Callable[[TraceRequest], Trace],
    cards: Sequence[ModelCard],
    *,
    command: str,
    scope: Scope | None = None,
) -> dict[str, Any]:
    """The data of a one-file page; `ask` makes the traces, None takes the widest scope that fits.

    Variants and the cheater come with the one head that is looked at.
    """
    first = ask(request)
    scope = scope or widest_scope(first)
    views = [{"trace": trace_json(first), "heads": _heads(first, scope)}]
    for variant in _variants(first, cards):
        trace = ask(request.model_copy(update=variant))
        views.append({"trace": trace_json(trace), "heads": _heads(trace, "head")})
    return {
        "version": VERSION,
        "command": command,
        "lookleft": lookleft.__version__,
        "models": [card.to_json() for card in cards],
        "scope": scope,
        "views": views,
        "audit": None,
        "beam": None,
    }


def widest_scope(trace: Trace) -> Scope:
    """As many heads as stay below a few megabytes."""
    sizes: dict[Scope, int] = {
        scope: sum(_n_numbers(trace, kind, layer) for kind, layer, _ in _places(trace, scope))
        for scope in ("all", "layer")
    }
    return next((scope for scope, size in sizes.items() if size <= MAX_NUMBERS), "head")


def _variants(trace: Trace, cards: Sequence[ModelCard]) -> list[dict[str, Any]]:
    """What else a page without a server can show: each switch turned, and the cheater."""
    request = trace.request
    if trace.inference is None:
        return []
    turned: list[dict[str, Any]] = [
        {"inputs": "same" if request.inputs == "own" else "own", "forced": ()},
        {"is_cached": not request.is_cached},
        {"is_masked": not trace.is_masked},
    ]
    cheaters = [
        {"model": card.key}
        for card in cards
        if card.is_cheater and card.key != request.model and card.family == trace.card.family
    ]
    return [*turned, *cheaters]


def _heads(trace: Trace, scope: Scope) -> list[dict[str, Any]]:
    return [head_json(trace, *place) for place in _places(trace, scope)]


def _places(trace: Trace, scope: Scope) -> Iterator[tuple[Kind, int, int]]:
    """The heads within a scope: the one asked for, those of its layer number, or every one."""
    request, n_heads = trace.request, trace.lesson.network.config.n_heads
    if scope == "head":
        yield request.kind or trace.first_kind, request.layer, request.head
        return
    for kind, n_layers in kinds_of(trace.lesson.network).items():
        for layer in range(n_layers):
            if scope == "all" or layer == request.layer:
                yield from ((kind, layer, head) for head in range(n_heads))


def _n_numbers(trace: Trace, kind: Kind, layer: int) -> int:
    """How many numbers one head of a layer has in both lanes, about."""
    at = trace.training.layers[kind, layer]
    n_rows, n_columns, width = at.q.size(1), at.k.size(1), at.q.size(2)
    return 2 * (3 * n_rows * n_columns + 2 * (n_rows + n_columns) * width)
