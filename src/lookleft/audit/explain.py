"""From a confirmed hit to a finding: who saw whom, where it starts, what it looks like."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.cause import suggest
from lookleft.audit.checks.base import Hit, finding
from lookleft.audit.jacobian import gradient_map
from lookleft.audit.localise import localise
from lookleft.audit.session import Session, Setting, changes
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call
from lookleft.audit.verdict import DependencyMap, Finding, Verdict

LONGEST_MAP = 96  # a map costs one row per position


def explain(session: Session, check: str, hit: Hit, words: str, configuration: str) -> Finding:
    """The DISPROVED finding for a hit whose leak is confirmed."""
    used = swap_map(session, hit.setting, hit.a)
    pair = _pair(session, hit, used)
    target, source = pair
    reason = (
        f"output {target} changes when input {source} does, which {session.rule.name!r} forbids: "
        f"{words}, confirmed with B={hit.a.x.size(0)}, T={hit.a.x.size(1)}"
    )
    culprit = localise(session, hit)
    cause = None
    if used is not None:
        is_discrete = _is_discrete(session, hit, used)
        cause = suggest(used, session.rule, culprit, is_discrete=is_discrete)
    found = finding(
        check,
        configuration,
        Verdict.DISPROVED,
        reason,
        worst=hit.difference.worst,
        pair=pair,
        cause=cause,
        culprit=culprit,
        snippet=script(session, hit),
        dependencies=dependency_map(used, session) if used is not None else None,
    )
    session.explained[check] = found
    return found


def _is_discrete(session: Session, hit: Hit, used: Tensor) -> bool:
    """Do values leak where no gradient does? Then something chooses instead of weighing."""
    setting = replace(hit.setting, rows=None, length=used.size(1))
    try:
        norms = gradient_map(session, setting, list(range(used.size(0))))
    except Exception:  # not differentiable, or its inputs cannot be found: nothing is known
        return False
    outside = norms.masked_fill(session.rule.allowed(used.size(1)), 0.0)
    return bool(torch.isfinite(norms).all()) and float(outside.max()) < 1e-12 * float(norms.max())


def explain_briefly(
    session: Session, check: str, hit: Hit, words: str, configuration: str
) -> Finding:
    """The same for further configurations of a check that is already explained in full."""
    target, source = _pair(session, hit, None)
    return finding(
        check,
        configuration,
        Verdict.DISPROVED,
        f"output {target} changes when inputs from {source} on do, which {session.rule.name!r} "
        f"forbids: {words}, confirmed with B={hit.a.x.size(0)}, T={hit.a.x.size(1)}",
        worst=hit.difference.worst,
        pair=(target, source),
        cause=session.explained[check].cause,
        culprit=localise(session, hit, is_brief=True),
    )


def swap_map(session: Session, setting: Setting, call: Call) -> Tensor | None:
    """How much output i moves when input j alone is replaced. (T_out, T)"""
    length = call.x.size(1)
    if length > LONGEST_MAP:
        return None
    one = call.only(slice(0, 1))
    rows = one.changed(**_repeated(one, length))
    changed = torch.eye(length, dtype=torch.bool)
    other = session.draw(33).other(rows.x, changed, setting.magnitude)
    wide = replace(setting, rows=None)
    try:
        before = session.out(wide, rows)
        after = session.out(wide, replace(rows, x=other))
    except Exception:  # a map is a picture, not evidence: do without
        return None
    return changes(before, after).nan_to_num(0.0).T.contiguous()


def _repeated(call: Call, count: int) -> dict[str, Tensor]:
    names = ("x", "is_token", "positions", "source", "source_is_token", "documents")
    values = {name: getattr(call, name) for name in names}
    return {
        name: value.repeat_interleave(count, 0)
        for name, value in values.items()
        if value is not None
    }


def dependency_map(used: Tensor, session: Session) -> DependencyMap:
    """The picture of a (T_out, T) matrix beside what the rule allows."""
    allowed = session.rule.allowed(used.size(1))
    return DependencyMap(
        tuple(tuple(row) for row in used.tolist()), tuple(tuple(row) for row in allowed.tolist())
    )


def _pair(session: Session, hit: Hit, used: Tensor | None) -> tuple[int, int]:
    target = hit.difference.where[1] if hit.difference.where else 0
    if used is not None:
        forbidden = used.masked_fill(~_of_hit(session, hit, used), 0.0)
        if float(forbidden.max()) > 0:
            row, column = divmod(int(forbidden.argmax()), used.size(1))
            return row, column
    return target, hit.cut or 0


def _of_hit(session: Session, hit: Hit, used: Tensor) -> Tensor:
    forbidden = ~session.rule.allowed(used.size(1))
    if hit.a.is_token is not None and hit.a.is_token.size(1) == used.size(0):
        forbidden &= hit.a.is_token[0][:, None]
    return forbidden
