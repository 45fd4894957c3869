"""What the shape of a dependency matrix, and the call where it starts, suggest went wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from lookleft.audit.spec import Rule
from lookleft.audit.verdict import Culprit

FAINT = 1e-6  # of the strongest forbidden entry: rounding that came along with the leak

# Calls that explain themselves wherever they are the first to mix positions.
_BY_CALL = (
    (("roll",), "the row is rolled around: what falls off its end comes back at its beginning"),
    (("flip",), "the row, or a running sum over it, is read backwards"),
    (("fft",), "a circular convolution: pad the row with zeros to twice its length first"),
    (("gru", "lstm", "rnn"), "a recurrent layer reads the row from both ends"),
    (("interpolate", "upsample"), "resampling blends neighbours on both sides"),
    (
        ("layer_norm", "group_norm", "instance_norm", "batch_norm"),
        "a statistic over time: the normalisation takes in other positions",
    ),
    (("embedding",), "what is looked up depends on other positions (ranks, counts, lengths)"),
    (("sort", "topk"), "a choice over time (top-k, routing, sorting)"),
    (("reshape", "view", "permute"), "axes are mixed up: positions end up in each other's places"),
)
_ATTENTION = ("matmul", "bmm", "attention", "einsum", "softmax")


def suggest(
    used: Tensor, rule: Rule, culprit: Culprit | None = None, *, is_discrete: bool = False
) -> str | None:
    """A likely cause in words, from how strongly output i used input j. (T_out, T)

    `is_discrete` says that values leak where gradients do not.
    """
    if used.size(0) != used.size(1) or used.size(0) < 3:
        return _by_call(culprit)
    forbidden = ~rule.allowed(used.size(0))
    leaks = forbidden & (used > FAINT * used.masked_fill(~forbidden, 0.0).max())
    if not bool(leaks.any()):
        return "only several later positions together are seen, not one alone"
    if (by_call := _by_call(culprit)) is not None:
        return by_call
    if rule.name.startswith("window") and (words := _window(leaks, int(rule.name.split(":")[1]))):
        return words
    if is_discrete:
        return (
            "values leak where gradients do not: a choice over time (top-k, routing, capacity, "
            "sorting) or something worked out from ids"
        )
    return _by_shape(used, leaks, forbidden, rule, culprit)


def _by_call(culprit: Culprit | None) -> str | None:
    name = (culprit.op or "").split(" ")[0].lower() if culprit is not None else ""
    return next((words for parts, words in _BY_CALL if any(p in name for p in parts)), None)


def _by_shape(
    used: Tensor, leaks: Tensor, forbidden: Tensor, rule: Rule, culprit: Culprit | None
) -> str:
    size = used.size(0)
    below = torch.ones(size, size).tril(-1).bool()
    at = torch.arange(size)
    gaps = (at[None, :] - at[:, None])[leaks]  # j - i
    share = float(leaks.sum()) / float(forbidden.sum())
    if rule.name == "causal" and share > 0.9 and float((used[below] > 0).float().mean()) < 0.1:
        return "inverted mask: the future is seen and the past is not"
    if bool((gaps == gaps[0]).all()) and abs(int(gaps[0])) <= 2:
        return f"off by {abs(int(gaps[0]))}: only position i{int(gaps[0]):+d} is seen wrongly"
    if share > 0.9:
        return _whole_triangle(used, forbidden, culprit)
    rows, columns = leaks.any(1), leaks.any(0)
    if int(columns.sum()) <= max(size // 10, 1):
        where = ", ".join(str(int(j)) for j in columns.nonzero()[:4, 0])
        return f"only input position(s) {where} are seen by everyone: a padding or prefix column"
    if int(rows.sum()) <= max(size // 10, 1):
        where = ", ".join(str(int(i)) for i in rows.nonzero()[:4, 0])
        return f"only output position(s) {where} see too much: a boundary"
    if (block := _block(leaks)) is not None:
        return f"leaks stay inside blocks of {block}: a chunk, patch or pooling is not causal"
    if bool((gaps > 0).all()) and int(gaps.max()) < size // 2:
        return f"sees up to {int(gaps.max())} positions ahead: a window or kernel is not one-sided"
    if _is_scattered(leaks, forbidden):
        return (
            "scattered positions see some later ones: a choice over time (top-k, routing, sorting)"
        )
    if not _is_attention(culprit):
        return "a part of the future is seen: a running value or summary takes in later positions"
    return "a part of the forbidden region is seen: a mask built from the wrong lengths or offsets"


def _window(leaks: Tensor, width: int) -> str | None:
    """How a window of the declared width was missed, when it is too wide."""
    at = torch.arange(leaks.size(0))
    back = (at[:, None] - at[None, :])[leaks]  # how far back the leaks look
    if bool((back < 0).any()):
        if not bool((back >= width).any()):
            return None
        return "later positions and those beyond the window are seen: its parts are joined wrongly"
    farthest = int(back.max())
    if farthest >= leaks.size(0) - 1:
        return f"everything before is seen: the window of {width} is not applied"
    if int(back.min()) > width:
        return f"what lies {int(back.min())} or more back is seen again: the window is not closed"
    return f"the window is {farthest + 1} wide instead of {width}"


def _is_attention(culprit: Culprit | None) -> bool:
    name = (culprit.op or "").split(" ")[0] if culprit is not None else ""
    return not name or any(part in name for part in _ATTENTION)


def _whole_triangle(used: Tensor, forbidden: Tensor, culprit: Culprit | None) -> str:
    strong = float(used[~forbidden].median())
    if strong > 0 and float(used[forbidden].median()) < 1e-3 * strong:
        return "the whole future is seen, faintly: a statistic over time, or a finite mask constant"
    if not _is_attention(culprit):
        return "the whole future is seen: a summary of the row (a mean, a sum, the last state)"
    return "the whole future is seen: the causal mask is missing or has no effect"


def _is_scattered(leaks: Tensor, forbidden: Tensor) -> bool:
    """Few cells, in many places, most of them without a leaking neighbour to the right."""
    if float(leaks.sum()) > 0.5 * float(forbidden.sum()):
        return False
    followed = leaks[:, :-1] & leaks[:, 1:]
    is_spread = int(leaks.any(1).sum()) >= leaks.size(0) // 4
    return is_spread and float(followed.sum()) < 0.5 * float(leaks.sum())


def _block(leaks: Tensor) -> int | None:
    """The smallest block length that holds every leak, if the blocks are well filled."""
    at = torch.arange(leaks.size(0))
    for size in range(3, leaks.size(0) // 2 + 1):
        inside = (at[:, None] // size) == (at[None, :] // size)
        ahead = inside & (at[None, :] > at[:, None])
        if not bool((leaks & ~inside).any()):
            is_filled = float((leaks & ahead).sum()) > 0.5 * float(ahead.sum())
            return size if is_filled else None
    return None
