"""K2: later positions are cut off; earlier outputs must not notice."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import SkipCheckError, agree_in_value, finding
from lookleft.audit.checks.future import single_hit, swept
from lookleft.audit.parting import Way, first_parting
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Culprit, Finding, Verdict


def truncation_swept(session: Session, setting: Setting) -> Finding:
    """Truncation at other lengths."""
    return swept(session, setting, "K2", truncation)


def truncation(session: Session, setting: Setting) -> Finding:
    """f(x[:n]) against f(x)[:n]: not only the content of later positions but their existence."""
    rule, length = session.rule, setting.length or session.length
    if rule.documents is not None or session.subject.extras:
        raise SkipCheckError("inputs of a fixed length cannot be cut")
    cuts = truncation_points(length, session.quick)
    usable = {}
    for n in cuts:
        beyond = torch.arange(length) >= n
        kept = rule.protected(beyond)[: rule.outputs(n)]
        if bool(kept.any()):
            usable[n] = kept
    if not usable:
        raise SkipCheckError(f"under the rule {rule.name!r} every output may use the last position")
    judged = _truncated(session, setting, usable, seed=10)
    if judged is None:
        return finding(
            "K2", setting, Verdict.VERIFIED, f"cut at {', '.join(map(str, usable))}: same outputs"
        )
    n, words, is_clear = judged
    again = _truncated(session, setting, {n: usable[n]}, seed=11, rows=1)
    if again is None or not is_clear or not again[2]:
        return finding(
            "K2",
            setting,
            Verdict.INCONCLUSIVE,
            f"f(x[:{n}]) and f(x)[:{n}] {words}, but not on a second draw alone in its batch"
            if again is None
            else f"f(x[:{n}]) and f(x)[:{n}] {words}",
        )
    return finding(
        "K2",
        setting,
        Verdict.DISPROVED,
        f"outputs before position {n} change when the input ends there: f(x[:{n}]) and "
        f"f(x)[:{n}] {again[1]}",
        cause=_cause(session, setting, n),
        culprit=_where_cut(session, setting, n),
    )


def _cause(session: Session, setting: Setting, n: int) -> str:
    """Is it the content of later positions that is seen, or only that there are some?"""
    length = setting.length or session.length
    later = torch.arange(length) >= n
    if session.is_explained("K1") or single_hit(session, setting, later, rows=1, seed=20):
        return "what later positions hold is seen, not only their number (K1 asks about that)"
    return "something depends on the total length (a scale, a statistic, a boundary)"


def _where_cut(session: Session, setting: Setting, n: int) -> Culprit | None:
    """The module that answers otherwise when the input ends at n."""
    length = setting.length or session.length
    if session.rule.stride != 1 or setting.mask != "none":
        return None
    rows = 2 if n != 2 else 3  # an axis is known by its length, so no two may be equal
    call, _ = session.dress(setting, session.draw(11).x(rows, length))
    kept = session.rule.protected(torch.arange(length) >= n).expand(rows, -1)
    whole = Way(call, kept)
    return first_parting(session, setting, whole, Way(replace(call, x=call.x[:, :n]), kept[:, :n]))


def truncation_points(length: int, quick: bool) -> list[int]:
    """O(log T) lengths to cut at."""
    marks = {1, 2, length - 1, length // 2}
    if not quick:
        marks |= {2**k for k in range(length.bit_length())}
        marks |= {2**k + 1 for k in range(length.bit_length())}
    return sorted(n for n in marks if 1 <= n < length)


def _truncated(
    session: Session, setting: Setting, cuts: dict[int, Tensor], seed: int, rows: int = 2
) -> tuple[int, str, bool] | None:
    x = session.draw(seed).x(rows, setting.length or session.length, setting.magnitude)
    call, _ = session.dress(setting, x)
    full = session.out(setting, call)
    doubtful = None
    for n, kept in cuts.items():
        shorter = replace(call, x=x[:, :n])
        if call.is_token is not None:
            shorter = replace(shorter, is_token=call.is_token[:, :n])
        part = session.out(setting, shorter)
        keep = kept.expand(rows, -1)
        whole = full[:, : part.size(1)]
        judged = agree_in_value(session, setting, whole, part, keep)
        if judged.is_violation:
            return n, judged.words, True
        if not judged.is_clear:
            doubtful = (n, judged.words, False)
    return doubtful
