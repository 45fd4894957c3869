"""K4: padding is seen by nobody, however much of it there is and whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import (
    Hit,
    Judged,
    NoPowerError,
    SkipCheckError,
    agree_in_value,
    finding,
    weigh,
)
from lookleft.audit.huggingface import is_from_library
from lookleft.audit.localise import first_not_finite, localise
from lookleft.audit.parting import Way, first_parting
from lookleft.audit.session import Session, Setting, compare, positions_of
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Culprit, Finding, Verdict

AMOUNTS = (1, 2, 7)
LEFT_EDGE = (
    "left padding changes results, and the model takes no position ids that could tell it where a "
    "row begins"
)
_Step = Callable[[Session, Setting], Finding | None]


@dataclass(frozen=True)
class Padded:
    """Rows of unequal length inside one rectangle."""

    call: Call
    is_token: Tensor  # (B, T)
    rows: list[Tensor]  # each row's tokens alone, (1, n)


def padding(session: Session, setting: Setting) -> Finding:
    """Content under padding: exact. Amount of padding, unequal rows: to 1e-9 in float64."""
    if not session.subject.plan.has("is_token"):
        raise SkipCheckError("the model takes no padding mask")
    if session.rule.stride != 1 or session.rule.documents is not None:
        raise SkipCheckError(f"padding is not defined for the rule {session.rule.name!r}")
    for step in _steps(session, setting):
        try:
            found = step(session, setting)
        except _SpoiledError as spoiled:
            found = _not_finite(session, setting, spoiled.call)
        if found is not None:
            return found
    words = f"content under {' and '.join(session.subject.plan.sides)} padding exact"
    if _amount in _steps(session, setting):
        words += f"; 0, 1, 2, 7 pads and unequal rows agree to {session.closeness}"
    return finding("K4", setting, Verdict.VERIFIED, words)


def _steps(session: Session, setting: Setting) -> tuple[_Step, ...]:
    """All questions; fewer in a hurry, and only the exact one in a dtype that rounds."""
    if setting.dtype is None and session.is_wide:
        return (_content,)
    if setting.is_brief or session.quick:
        return (_content, _amount)
    return (_content, _none_is_ones, _amount, _short_rows)


def padded(
    session: Session, lengths: list[int], side: str, seed: int, *, positions: bool, width: int
) -> Padded:
    """Rows of the given lengths, filled up to `width` on one side."""
    draw = session.draw(seed)
    x = draw.x(len(lengths), width)
    is_token = torch.zeros(len(lengths), width, dtype=torch.bool)
    for row, n in enumerate(lengths):
        is_token[row, : n if side == "right" else width] = True
        if side == "left":
            is_token[row, : width - n] = False
    rows = [x[r : r + 1, is_token[r]] for r in range(len(lengths))]
    call = Call(x, is_token=is_token, positions=positions_of(is_token) if positions else None)
    if session.subject.plan.has("source"):
        call = replace(call, source=session.draw(977).source(len(lengths)))
    return Padded(call, is_token, rows)


def _content(session: Session, setting: Setting) -> Finding | None:
    """Batches of three and of one: some code believes that a single row is never padded."""
    length = session.brief_length
    short = max(length - 5, 1)
    for lengths in ([length, short, max(length // 2, 1)], [short]):
        if (found := _content_of(session, setting, lengths)) is not None:
            return found
    return None


def _content_of(session: Session, setting: Setting, lengths: list[int]) -> Finding | None:
    length = session.brief_length
    sides = session.subject.plan.sides
    if setting.dtype is None and not session.subject.plan.has("positions"):
        sides = ("right",)  # padding on the left may not be meant, and wider settings speak of it
    for side in sides:
        has_positions = session.subject.plan.has("positions") and side == "left"
        seen = None
        for attempt in range(2):
            made = padded(
                session, lengths, side, 30 + attempt, positions=has_positions, width=length
            )
            other = replace(
                made.call,
                x=session.draw(32 + attempt).other(made.call.x, ~made.is_token, 10.0),
            )
            seen = _exact(session, setting, made.call, other, made.is_token)
            if seen is None:
                break
        if seen is not None:
            weighed = weigh(session, seen)
            if weighed.verdict is Verdict.VERIFIED:
                continue
            where = seen.difference.where or (0, 0)
            culprit = localise(session, seen)
            return finding(
                "K4",
                setting,
                weighed.verdict,
                f"output {where[1]} of row {where[0]} changes with what lies under the {side} "
                f"padding: {weighed.words}",
                worst=seen.difference.worst,
                pair=(where[1], int((~seen.a.is_token[where[0]]).long().argmax()))
                if seen.a.is_token is not None
                else None,
                cause=_cause(culprit),
                culprit=culprit,
                snippet=script(session, seen),
            )
    return None


def _cause(culprit: Culprit | None) -> str:
    """What let the padding through, as far as the first call tells."""
    call = (culprit.op or "") if culprit is not None else ""
    if "conv" in call:
        return "a convolution reads what lies under padding: set it to zero before"
    if any(part in call for part in ("gru", "lstm", "rnn", "stack", "cumsum")):
        return "a recurrent state or running sum takes padding in"
    if any(part in call for part in ("norm", "mean", "sub", "var", "std")):
        return "a statistic over time takes padding in"
    return "the padding mask is lost, inverted or not applied on this path"


def _exact(session: Session, setting: Setting, a: Call, b: Call, keep: Tensor) -> Hit | None:
    before, after = session.out(setting, a), session.out(setting, b)
    keep = keep[:, : before.size(1)]  # told lengths, some layers leave out what only pads
    if not bool(torch.isfinite(before[keep]).all() and torch.isfinite(after[keep]).all()):
        raise _SpoiledError(a)
    mask = keep.reshape(*keep.shape, *[1] * (before.dim() - 2))
    diff = compare(torch.where(mask, before, 0.0), torch.where(mask, after, 0.0), keep)
    return Hit(setting, a, b, keep, diff) if diff.worst > 0 else None


class _SpoiledError(Exception):
    """Outputs at real tokens are NaN or infinite under a padding mask."""

    def __init__(self, call: Call) -> None:
        super().__init__("not finite")
        self.call = call


def _not_finite(session: Session, setting: Setting, call: Call) -> Finding:
    """A violation if the same tokens are fine without padding; else there is nothing to compare."""
    bare, _ = session.dress(replace(setting, mask="none"), call.x)
    if not bool(torch.isfinite(session.out(setting, bare)).all()):
        raise NoPowerError("outputs are not finite with and without padding")
    assert call.is_token is not None
    return finding(
        "K4",
        setting,
        Verdict.DISPROVED,
        "outputs at real tokens are NaN or infinite under a padding mask, finite without one",
        cause="a row in which everything is masked, or masks added to below the smallest number",
        culprit=first_not_finite(session, setting, call),
    )


def _none_is_ones(session: Session, setting: Setting) -> Finding | None:
    x = session.draw(34).x(2, session.brief_length)
    bare, is_token = session.dress(replace(setting, mask="none"), x)
    ones = replace(bare, is_token=is_token)
    a, b = session.out(setting, bare), session.out(setting, ones)
    judged = agree_in_value(session, setting, a, b, torch.ones(a.shape[:2], dtype=torch.bool))
    if not judged.is_violation:
        return None
    return finding(
        "K4",
        setting,
        Verdict.DISPROVED,
        f"a mask that marks every position as a token changes the outputs: {judged.words}",
        worst=judged.difference.worst,
        cause="another path is taken when a mask is given, and it masks differently",
    )


def _amount(session: Session, setting: Setting) -> Finding | None:
    """Rows with 0, 1, 2 and 7 pads in one batch, each against itself alone."""
    length = session.brief_length
    # Longest first: some recurrent layers insist on it when they are told lengths.
    several = sorted({max(length - amount, 1) for amount in (0, *AMOUNTS)}, reverse=True)
    has_positions = session.subject.plan.has("positions")
    for side in session.subject.plan.sides:
        ways = (True, False) if has_positions and side == "left" else (False,)
        for with_positions in ways:
            for lengths in (several, several[-1:]):
                found = _against_alone(session, setting, lengths, side, with_positions)
                if found is not None:
                    return found
    return None


def _against_alone(
    session: Session, setting: Setting, lengths: list[int], side: str, with_positions: bool
) -> Finding | None:
    width = session.brief_length
    judged, culprit = None, None
    for attempt in range(2):
        made = padded(session, lengths, side, 36 + attempt, positions=with_positions, width=width)
        judged = None
        out = session.out(setting, made.call)
        for row, alone in enumerate(made.rows):
            if alone.size(1) < 1:
                continue
            call = Call(alone, source=_row(made.call.source, row))
            solo = session.out(setting, call)
            mine = out[row : row + 1, made.is_token[row][: out.size(1)]]
            keep = torch.ones(solo.shape[:2], dtype=torch.bool)
            one = agree_in_value(session, setting, mine, solo, keep)
            if one.is_violation or not one.is_clear:
                judged = one
                if attempt:
                    mine_only = torch.zeros_like(made.is_token)
                    mine_only[row] = made.is_token[row]
                    whole, single = Way(made.call, mine_only), Way(call, keep)
                    culprit = first_parting(session, setting, whole, single)
                break
        if judged is None:
            return None
    assert judged is not None
    if side == "left" and not with_positions:
        return _bare_left(session, setting, judged)
    verdict = Verdict.DISPROVED if judged.is_violation else Verdict.INCONCLUSIVE
    words = "with position ids " if with_positions else ""
    return finding(
        "K4",
        setting,
        verdict,
        f"a row padded on the {side} {words}differs from the same row alone: {judged.words}",
        worst=judged.difference.worst,
        cause="padding is counted (positions, statistics, recurrent state) or seen",
        culprit=culprit,
    )


def _bare_left(session: Session, setting: Setting, judged: Judged) -> Finding | None:
    """Left padding without position ids: by convention a warning, if the model has another way."""
    if session.subject.plan.has("positions"):
        session.note(
            "left padding changes results unless position ids are passed: the bare forward counts "
            "positions from the left edge"
        )
        return None
    if is_from_library(session.subject.module) or session.subject.plan.has("source"):
        session.note(f"{LEFT_EDGE}: pad on the right")
        return None
    return finding(
        "K4",
        setting,
        Verdict.INCONCLUSIVE,
        f"{LEFT_EDGE}: a fault if rows are ever padded on the left ({judged.words})",
        worst=judged.difference.worst,
        cause="positions are counted from the left edge, padding included",
    )


def _row(values: Tensor | None, row: int) -> Tensor | None:
    return None if values is None else values[row : row + 1]


def _short_rows(session: Session, setting: Setting) -> Finding | None:
    """Rows with one token or none must not spoil their neighbours."""
    length = session.brief_length
    has_positions = session.subject.plan.has("positions")
    for side in session.subject.plan.sides:
        for short in (1, 0):
            lengths = [length, max(length // 2, 1), short]
            made = padded(
                session, lengths, side, 38, positions=has_positions and side == "left", width=length
            )
            try:
                out = session.out(setting, made.call)
            except Exception as error:
                if short:
                    raise
                session.note(f"a row without tokens makes the model raise {type(error).__name__}")
                continue
            bad = ~torch.isfinite(out).flatten(2).all(-1) if out.dim() > 2 else ~torch.isfinite(out)
            spoiled = bad & made.is_token
            if bool(spoiled.any()):
                row, place = divmod(int(spoiled.int().argmax()), length)
                return finding(
                    "K4",
                    setting,
                    Verdict.DISPROVED,
                    f"a row of length {short} gives NaN at output {place} of row {row}",
                    cause="softmax over a row in which everything is masked",
                    culprit=first_not_finite(session, setting, made.call),
                )
    return None
