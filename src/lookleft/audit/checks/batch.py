"""K5: what the other rows of a batch hold, and how many there are, changes nothing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import (
    Hit,
    NoPowerError,
    SkipCheckError,
    agree_in_value,
    finding,
    weigh,
)
from lookleft.audit.localise import localise
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

ROWS = 3
MANY = 9  # some code mixes rows only when there are more than a few


def batch(session: Session, setting: Setting) -> Finding:
    """Other rows' content: exact. Their order and number: within float64 rounding."""
    if not session.subject.is_batched:
        raise SkipCheckError("the inputs have no batch axis")
    shapes = [(ROWS, setting.length or session.length)]
    is_brief = session.quick or setting.is_brief
    if not is_brief and session.rule.documents is None and not session.subject.extras:
        shapes += [(ROWS, 1), (ROWS, 2), (MANY, 5)]
    done: list[str] = []
    for rows, length in shapes:
        try:
            found = _at(session, setting, rows, length)
        except (SkipCheckError, NoPowerError):
            raise
        except Exception:
            if not done:
                raise
            continue  # so short an input is not possible here
        if found is not None:
            return found
        done.append(f"{rows} rows of length {length}")
    words = f"{', '.join(done)}: content of other rows exact"
    if _has_other_shapes(session, setting):
        words += f", order and number to {session.closeness}"
    return finding("K5", setting, Verdict.VERIFIED, words)


def _has_other_shapes(session: Session, setting: Setting) -> bool:
    """Are rows also put in another order and number? Not where that draws or rounds otherwise."""
    is_rounding = setting.dtype is None and session.is_wide  # a wider setting speaks of this
    return not (session.quick or setting.is_training or is_rounding)


def _at(session: Session, setting: Setting, rows: int, length: int) -> Finding | None:
    x = session.draw(13).x(rows, length, setting.magnitude)
    call, is_token = session.dress(setting, x)
    base = session.out(setting, call)
    keep = is_token if session.rule.stride == 1 else torch.ones(base.shape[:2], dtype=torch.bool)
    if not _finite(base, keep):
        raise NoPowerError("outputs are not finite, so they cannot be compared")
    for row in range(ROWS):
        others = torch.ones(rows, length, dtype=torch.bool)
        others[row] = False
        for attempt in range(2):
            draw = session.draw(14 + attempt)
            other = replace(call, x=draw.other(x, others))
            hit = _content(session, setting, call, other, base, keep, row)
            if hit is None:
                break
            if attempt:
                return _accuse(session, hit, row, length)
    if not _has_other_shapes(session, setting):
        return None
    return _order_and_number(session, setting, call, base, keep)


def _finite(base: Tensor, keep: Tensor) -> bool:
    return bool(torch.isfinite(base[keep]).all())


def _content(
    session: Session,
    setting: Setting,
    call: Call,
    changed: Call,
    before: Tensor,
    keep: Tensor,
    row: int,
) -> Hit | None:
    mine = torch.zeros_like(keep)
    mine[row] = keep[row]
    after = session.out(setting, changed)
    mask = mine.reshape(*mine.shape, *[1] * (before.dim() - 2))
    diff = compare(torch.where(mask, before, 0.0), torch.where(mask, after, 0.0), mine)
    return Hit(setting, call, changed, mine, diff) if diff.worst > 0 else None


def _accuse(session: Session, hit: Hit, row: int, length: int) -> Finding | None:
    weighed = weigh(session, hit)
    if weighed.verdict is Verdict.VERIFIED:
        return None
    place = hit.difference.where[1] if hit.difference.where else 0
    if weighed.verdict is Verdict.INCONCLUSIVE:
        return finding("K5", hit.setting, Verdict.INCONCLUSIVE, weighed.words)
    return finding(
        "K5",
        hit.setting,
        Verdict.DISPROVED,
        f"row {row} changes at output {place} when only other rows of the batch do (T={length}): "
        f"{weighed.words}",
        worst=hit.difference.worst,
        pair=(place, place),
        cause=_cause(session),
        culprit=localise(session, hit),
        snippet=script(session, hit),
    )


def _cause(session: Session) -> str:
    parts = (part for root in session.subject.modules for part in root.modules())
    if session.subject.time[0] == 1 and any(
        getattr(part, "batch_first", True) is False for part in parts
    ):
        return "time and batch look swapped: a layer here is time-major; try time=(0, 0)"
    return "rows are mixed: a statistic over the batch, a shared capacity, a reshape"


def _order_and_number(
    session: Session, setting: Setting, call: Call, base: Tensor, keep: Tensor
) -> Finding | None:
    order = torch.arange(len(base)).roll(1)
    permuted = call.changed(**_taken(call, order))
    trials = {
        "in another order": (session.out(setting, permuted), base[order], keep[order]),
        "alone": (session.out(setting, call.only(slice(0, 1))), base[:1], keep[:1]),
        "in a pair": (session.out(setting, call.only(slice(0, 2))), base[:2], keep[:2]),
    }
    for words, (got, expected, where) in trials.items():
        judged = agree_in_value(session, setting, expected, got, where)
        if judged.is_violation:
            place = judged.difference.where
            return finding(
                "K5",
                setting,
                Verdict.DISPROVED,
                f"a row computed {words} differs from the same row in a batch of {len(base)}: "
                f"{judged.words}",
                worst=judged.difference.worst,
                pair=(place[1], place[1]) if place else None,
                cause="the result depends on the number or order of rows",
            )
        if not judged.is_clear:
            return finding(
                "K5", setting, Verdict.INCONCLUSIVE, f"a row computed {words}: {judged.words}"
            )
    return None


def _taken(call: Call, order: Tensor) -> dict[str, Tensor]:
    names = ("x", "is_token", "positions", "source", "source_is_token", "documents")
    return {n: value[order] for n in names if (value := getattr(call, n)) is not None}
