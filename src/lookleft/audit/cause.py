"""What the shape of a dependency matrix suggests went wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from lookleft.audit.spec import Rule


def suggest(used: Tensor, rule: Rule) -> str | None:
    """A likely cause in words, from how strongly output i used input j. (T_out, T)"""
    if used.size(0) != used.size(1) or used.size(0) < 3:
        return None
    size = used.size(0)
    forbidden = ~rule.allowed(size)
    seen = used > 0
    leaks = seen & forbidden
    if not bool(leaks.any()):
        return "only several later positions together are seen, not one alone"
    below = torch.ones(size, size).tril(-1).bool()
    gaps = (torch.arange(size)[None, :] - torch.arange(size)[:, None])[leaks]  # j - i
    share = float(leaks.sum()) / max(float(forbidden.sum()), 1.0)
    if rule.name == "causal" and share > 0.9 and float(seen[below].float().mean()) < 0.1:
        return "inverted mask: the future is seen and the past is not"
    if bool((gaps == gaps[0]).all()) and abs(int(gaps[0])) <= 2:
        return f"off by {abs(int(gaps[0]))}: only position i{int(gaps[0]):+d} is seen wrongly"
    if share > 0.9:
        return _whole_triangle(used, forbidden)
    if rule.name.startswith("window") and bool((gaps < 0).any()):
        nearest = int((-gaps[gaps < 0]).min())
        return f"seen again beyond a distance of {nearest}: the window is too wide or not applied"
    rows, columns = leaks.any(1), leaks.any(0)
    if int(columns.sum()) <= max(size // 10, 1):
        where = ", ".join(str(int(j)) for j in columns.nonzero()[:4, 0])
        return f"only input position(s) {where} are seen by everyone: a padding or prefix column"
    if int(rows.sum()) <= max(size // 10, 1):
        where = ", ".join(str(int(i)) for i in rows.nonzero()[:4, 0])
        return f"only output position(s) {where} see too much: a boundary"
    if _is_scattered(leaks, forbidden):
        return (
            "scattered positions see some later ones: a choice over time (top-k, routing, sorting)"
        )
    if _is_blocky(leaks):
        return "leaks stay inside blocks: a chunk, patch or pooling window is not causal"
    if bool((gaps > 0).all()) and int(gaps.max()) < size // 2:
        return f"sees up to {int(gaps.max())} positions ahead: a window or kernel is not one-sided"
    return "a part of the forbidden region is seen: a mask built from the wrong lengths or offsets"


def _whole_triangle(used: Tensor, forbidden: Tensor) -> str:
    strong = float(used[~forbidden].median())
    faint = used[forbidden]
    if strong > 0 and float(faint.median()) < 1e-3 * strong:
        return "the whole future is seen, faintly: a statistic over time, or a finite mask constant"
    return "the whole future is seen: the causal mask is missing or has no effect"


def _is_scattered(leaks: Tensor, forbidden: Tensor) -> bool:
    """Few cells, in many places, most of them without a leaking neighbour to the right."""
    if float(leaks.sum()) > 0.5 * float(forbidden.sum()):
        return False
    followed = leaks[:, :-1] & leaks[:, 1:]
    is_spread = int(leaks.any(1).sum()) >= leaks.size(0) // 4
    return is_spread and float(followed.sum()) < 0.5 * float(leaks.sum())


def _is_blocky(leaks: Tensor) -> bool:
    """Each row's leaks end at the same place as its neighbours', in steps."""
    last = [int(row.nonzero().max()) for row in leaks if bool(row.any())]
    return len(last) >= 4 and len(set(last)) <= len(last) // 2
