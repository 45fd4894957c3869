"""Rules that change what may come next: functions of a row's logits and its tokens so far.

A rule sees the logits of one row, (V,), and all that the decoder has read in it: the prompt of a
language model, the start token of a translation, and every token since. What it returns takes
their place; -inf forbids a token. In a beam search rules see log-probabilities, and none may rise
above 0: that no token adds to a sum is how the search knows when it may stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch import Tensor

from lookleft.errors import InputError
from lookleft.generate.request import Rule


def repetition_penalty(penalty: float) -> Rule:
    """Makes tokens that have occurred less likely (Keskar et al. 2019, 4.1); 1 changes nothing."""
    if not (math.isfinite(penalty) and penalty > 0):
        raise InputError(
            f"repetition_penalty={penalty} must be a number above 0; 1 changes nothing"
        )

    def rule(logits: Tensor, text: Sequence[int]) -> Tensor:
        seen = torch.tensor(sorted(set(text)), dtype=torch.long, device=logits.device)
        old = logits[seen]
        # Dividing a negative logit would raise it.
        return logits.index_put((seen,), torch.where(old < 0, old * penalty, old / penalty))

    return rule


def no_repeated_ngram(n: int) -> Rule:
    """Forbids every token that would make some n tokens in a row occur twice."""
    if n < 1:
        raise InputError(f"no_repeat_ngram={n} must be at least 1")

    def rule(logits: Tensor, text: Sequence[int]) -> Tensor:
        text = list(text)
        last = text[len(text) - n + 1 :] if n > 1 else []
        if len(text) < n:
            return logits
        starts = range(len(text) - n + 1)
        banned = {text[i + n - 1] for i in starts if text[i : i + n - 1] == last}
        return _forbidden(logits, banned)

    return rule


def only_allowed(allowed: Callable[[Sequence[int]], Collection[int]]) -> Rule:
    """Forbids all tokens but those that `allowed(tokens so far)` names."""

    def rule(logits: Tensor, text: Sequence[int]) -> Tensor:
        kept = sorted(allowed(text))
        if not kept or not 0 <= kept[0] <= kept[-1] < logits.numel():
            raise InputError(
                f"after {list(text)[-8:]} the allowed tokens are {kept[:8]}; name at least one, "
                f"all of them in 0..{logits.numel() - 1}"
            )
        index = torch.tensor(kept, dtype=torch.long, device=logits.device)
        return torch.full_like(logits, -math.inf).index_put((index,), logits[index])

    return rule


def biased(bias: Mapping[int, float]) -> Rule:
    """Adds a number to the logits of some tokens; -inf forbids one."""
    if any(math.isnan(value) or value == math.inf for value in bias.values()):
        raise InputError(f"a bias must be a number or -inf, got {dict(bias)!r:.200}")

    def rule(logits: Tensor, text: Sequence[int]) -> Tensor:
        wrong = [id for id in bias if not 0 <= id < logits.numel()]
        if wrong:
            raise InputError(f"a bias for id {wrong[0]}, outside 0..{logits.numel() - 1}")
        index = torch.tensor(list(bias), dtype=torch.long, device=logits.device)
        added = torch.tensor(list(bias.values()), dtype=logits.dtype, device=logits.device)
        # Log-probabilities again: a beam search relies on none being above 0.
        return logits.index_put((index,), added, accumulate=True).log_softmax(-1)

    return rule


def _forbidden(logits: Tensor, ids: Collection[int]) -> Tensor:
    index = torch.tensor(sorted(ids), dtype=torch.long, device=logits.device)
    return logits.index_fill(0, index, -math.inf)
