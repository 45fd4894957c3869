"""K1 with loud weights: does a mask hide the future, or only outweigh it?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lookleft.audit.checks.base import SkipCheckError, weigh
from lookleft.audit.checks.future import future_swap, single_hit
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Finding, Verdict

REACHED = 3e3  # scores this large do occur in trained models
HOLDABLE = 6e4  # scores this large can occur: half precision still holds them
FACTORS = tuple(2.0 ** (k / 4) for k in range(1, 50))


class Loudest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the largest attention score of a forward over `length` keys."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = length
        self.largest: float | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name
        if "softmax" in name and args and args[0].dim() > 2:
            self._see(args[0])
        elif "scaled_dot_product" in name and args[0].dim() == 4 and args[1].dim() == 4:
            query, key = args[0], args[1]
            key = key.repeat_interleave(query.size(1) // key.size(1), 1)
            scale = (kwargs or {}).get("scale") or query.size(-1) ** -0.5
            self._see(query @ key.mT * scale)
        return func(*args, **(kwargs or {}))

    def _see(self, scores: Tensor) -> None:
        if scores.size(-1) == self.length and scores.numel():
            self.largest = max(self.largest or 0.0, float(scores.max()))


def loud_weights(session: Session, setting: Setting) -> Finding:
    """Future-swap on a copy whose weights are scaled up until scores are as large as they get.

    A hidden position that was given a finite score is seen again when other scores fall below it.
    At scores that trained models reach this is a leak; at larger ones it is a remark.
    """
    scores = _scores(session, setting)
    reached = [factor for factor, score in scores.items() if score <= REACHED]
    if not reached:
        raise SkipCheckError(f"attention scores exceed {REACHED:.0f} as they are")
    found = future_swap(session, replace(setting, loudness=reached[-1]))
    words = f"attention scores up to {scores[reached[-1]]:.0f}"
    if found.verdict is Verdict.DISPROVED:
        cause = "hidden positions get a finite score, which loud ones fall below: mask with -inf"
        return replace(found, reason=f"with {words} {found.reason}", cause=cause)
    loudest = next(reversed(scores))
    is_open = found.verdict is Verdict.INCONCLUSIVE  # seen once and not again: no ground to accuse
    if is_open or _is_seen(session, replace(setting, loudness=loudest)):
        session.note(
            f"the mask adds a finite number: with attention scores of about {scores[loudest]:.0e}, "
            "which half precision can hold, hidden positions are seen"
        )
    verdict = Verdict.SKIPPED if is_open else found.verdict
    return replace(found, verdict=verdict, reason=f"{words}: {found.reason}")


def _scores(session: Session, setting: Setting) -> dict[float, float]:
    """The largest score for every factor that keeps it within what half precision holds."""
    length = setting.length or session.length
    call, _ = session.dress(setting, session.draw(6).x(2, length))
    scores: dict[float, float] = {}
    for factor in FACTORS:  # few of them are needed: scores grow at least with the square
        with Loudest(length) as watch:
            session.out(replace(setting, loudness=factor), call)
        if watch.largest is None:
            raise SkipCheckError("no attention scores were seen, so no mask can be outweighed")
        if not 0 < watch.largest <= HOLDABLE:
            break
        scores[factor] = watch.largest
    return scores


def _is_seen(session: Session, setting: Setting) -> bool:
    length = setting.length or session.length
    for cut in (1, length // 2):
        hit = single_hit(session, setting, torch.arange(length) >= cut, rows=1, seed=20)
        if hit is not None and weigh(session, hit).verdict is Verdict.DISPROVED:
            return True
    return False
