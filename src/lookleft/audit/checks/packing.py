"""K6: documents packed into one row do not see each other."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import Hit, SkipCheckError, agree_in_value, finding, weigh
from lookleft.audit.huggingface import is_from_library
from lookleft.audit.localise import localise
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

SHARES = (7, 1, 12, 2, 15)  # lengths of the documents, one and two among them


def packing(session: Session, setting: Setting) -> Finding:
    """Change one document, then another: the rest exact. Packed against separate: to 1e-9."""
    plan = session.subject.plan
    if not plan.has("documents") and not plan.has("positions"):
        raise SkipCheckError("the model takes neither document ids nor positions")
    if session.rule.name == "bidirectional" or session.rule.documents is not None:
        raise SkipCheckError(f"packing by positions is not probed under {session.rule.name!r}")
    is_declared = plan.has("documents") or session.is_asked("K6")
    for rows, mask in ((1, "none"), (2, "none"), (1, "ones"), (2, "ones")):
        if mask == "ones" and not plan.has("is_token"):
            continue
        hit = _crossing(session, setting, rows, mask)
        if hit is None:
            continue
        if (rows, mask) == (1, "none") and not is_declared:
            raise SkipCheckError(
                "positions that start again do not separate documents in this model; ask for "
                "checks='K6' if they should"
            )
        if mask == "ones" and is_from_library(session.subject.module):
            session.note(
                "a mask of ones switches off the separation of packed documents; pass no mask"
            )
            continue
        found = _accuse(session, setting, hit, rows, mask)
        if found is not None:
            return found
    if (found := _against_separate(session, setting)) is not None:
        return found
    if is_declared and plan.has("labels") and not is_from_library(session.subject.module):
        found = _losses(session, setting)
    return found or finding(
        "K6",
        setting,
        Verdict.VERIFIED,
        f"documents of lengths {', '.join(map(str, SHARES))} in one row: content of others exact, "
        f"packed and separate agree to {session.closeness}; B=1 and 2, with and without a mask of "
        "ones",
    )


def _packed(session: Session, rows: int, mask: str, seed: int) -> tuple[Call, Tensor]:
    """A packed call and which document each position belongs to. -> call, (T,)"""
    documents = torch.cat([torch.full((n,), d) for d, n in enumerate(SHARES)])  # (T,)
    positions = torch.cat([torch.arange(n) for n in SHARES])
    length = documents.numel()
    call = Call(session.draw(seed).x(rows, length))
    if session.subject.plan.has("documents"):
        call = replace(call, documents=documents.expand(rows, -1))
    if session.subject.plan.has("positions"):
        call = replace(call, positions=positions.expand(rows, -1))
    if mask == "ones":
        call = replace(call, is_token=torch.ones(rows, length, dtype=torch.bool))
    if session.subject.plan.has("use_cache"):
        call = replace(call, use_cache=False)
    return call, documents


def _crossing(session: Session, setting: Setting, rows: int, mask: str) -> Hit | None:
    """A hit that shows in two draws, or None."""
    seen = None
    for attempt in range(2):
        call, documents = _packed(session, rows, mask, 70 + attempt)
        before = session.out(setting, call)
        seen = None
        for document in range(len(SHARES)):
            changed = (documents == document).expand(rows, -1)
            other = replace(call, x=session.draw(72 + document).other(call.x, changed))
            diff = compare(before, session.out(setting, other), ~changed)
            if diff.worst > 0 and diff.is_finite:
                seen = Hit(setting, call, other, ~changed, diff)
                break
        if seen is None:
            return None
    return seen


def _accuse(session: Session, setting: Setting, hit: Hit, rows: int, mask: str) -> Finding | None:
    weighed = weigh(session, hit)
    if weighed.verdict is Verdict.VERIFIED:
        return None
    place = hit.difference.where or (0, 0)
    source = int((~hit.keep[0]).long().argmax())
    words = f"with B={rows}" + (" and a mask of ones" if mask == "ones" else "")
    return finding(
        "K6",
        setting,
        weighed.verdict,
        f"{words} output {place[1]} changes with another document that begins at {source}: "
        f"{weighed.words}",
        worst=hit.difference.worst,
        pair=(place[1], source),
        cause="documents of one row are not kept apart on this path",
        culprit=localise(session, hit),
        snippet=script(session, hit),
    )


def _against_separate(session: Session, setting: Setting) -> Finding | None:
    for attempt in range(2):
        call, documents = _packed(session, 1, "none", 78 + attempt)
        packed = session.out(setting, call)
        bad = None
        for document in range(len(SHARES)):
            mine = documents == document
            alone = replace(call, x=call.x[:, mine], positions=None, documents=None)
            if call.documents is not None:
                alone = replace(alone, documents=torch.zeros_like(alone.x[..., 0:]).long())
            out = session.out(setting, alone)
            keep = torch.ones(out.shape[:2], dtype=torch.bool)
            judged = agree_in_value(session, setting, packed[:, mine], out, keep)
            if judged.is_violation:
                bad = judged
                break
        if bad is None:
            return None
    assert bad is not None
    return finding(
        "K6",
        setting,
        Verdict.DISPROVED,
        f"a document in a packed row and the same document alone {bad.words}",
        worst=bad.difference.worst,
        cause="positions or state run on from one document to the next",
    )


def _losses(session: Session, setting: Setting) -> Finding | None:
    """The loss of a packed row is made of the losses of its documents and nothing else."""
    call, documents = _packed(session, 1, "none", 80)
    whole = session.run(setting, replace(call, labels=call.x)).loss
    total, count = 0.0, 0
    for document, n in enumerate(SHARES):
        if n < 2:
            continue
        x = call.x[:, documents == document]
        alone = replace(call, x=x, labels=x, positions=None, documents=None)
        loss = session.run(setting, alone).loss
        if loss is None:
            return None
        total, count = total + float(loss) * (n - 1), count + n - 1
    if whole is None or abs(float(whole) - total / count) <= 1e-9 * max(1.0, abs(total / count)):
        return None
    return finding(
        "K6",
        setting,
        Verdict.DISPROVED,
        f"a packed row has the loss {float(whole):.6f}, its documents {total / count:.6f}",
        worst=abs(float(whole) - total / count),
        cause="the last token of a document is asked for the first of the next",
    )
