"""K1 and K2: later positions change, or are cut off; earlier outputs must not notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from lookleft.audit.canary import detection_limit
from lookleft.audit.checks.base import (
    CONFIRMATIONS,
    Hit,
    NoPowerError,
    SkipCheckError,
    agree_in_value,
    finding,
    weigh,
)
from lookleft.audit.explain import explain, explain_briefly
from lookleft.audit.huggingface import constants
from lookleft.audit.parting import Way, first_parting
from lookleft.audit.session import Session, Setting, changes, compare
from lookleft.audit.shrink import script, smaller_hit
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Culprit, Finding, Verdict

ALL_CUTS = 40  # up to this length every cut is probed; beyond it O(log T) of them


def probe_sets(session: Session, length: int) -> Tensor:
    """Sets of input positions to change together, each protecting some output. (R, T) bool"""
    at = torch.arange(length)
    cuts = cut_points(session, length)
    candidates = [at >= cut for cut in cuts]
    if session.rule.name != "causal":
        candidates += [at < cut for cut in cuts]
    if session.rule.name not in ("causal", "strict", "bidirectional"):
        candidates += [at == one for one in cuts]
    if session.rule.documents is not None:
        known = torch.tensor(session.rule.documents)
        candidates += [known == one for one in sorted(set(session.rule.documents))]
    kept = [one for one in candidates if session.rule.protected(one).any()]
    if not kept:
        return torch.zeros(0, length, dtype=torch.bool)
    return torch.stack(kept)


def cut_points(session: Session, length: int) -> list[int]:
    """Where to cut: everywhere when short; else around powers of two and config constants."""
    if length <= (12 if session.quick else ALL_CUTS):
        return list(range(1, length))
    cuts = {1, 2, length - 1, length // 2}
    marks = {2**k for k in range(1, length.bit_length())}
    if not session.quick:
        marks |= {c for c in constants(session.subject.config) if c < length}
    for mark in marks:
        cuts |= {mark} if session.quick else {mark - 1, mark, mark + 1}
    draw = session.draw(5)
    cuts |= {1 + draw.integer(length - 1) for _ in range(2 if session.quick else 6)}
    return sorted(cut for cut in cuts if 1 <= cut < length)


def future_swap(session: Session, setting: Setting) -> Finding:
    """Change what an output may not see, at every cut; compare bit for bit."""
    length = setting.length or session.length
    sets = probe_sets(session, length)
    if not len(sets):
        raise SkipCheckError(f"the rule {session.rule.name!r} forbids nothing at length {length}")
    if setting.rows is not None:
        return _few_rows(session, setting, sets)
    x = session.draw(6).x(len(sets) + 1, length, setting.magnitude)
    past = torch.arange(length) < length - 1  # one more row asks whether the past matters
    changed = torch.cat([sets, past[None]])
    a, b, keep = _pair(session, setting, x, changed, 7)
    keep[-1] = False
    before, after = session.out(setting, a), session.out(setting, b)
    diff = compare(before, after, keep)
    if not diff.is_finite:
        keep_finite = _finite_rows(before, after)
        if not bool((keep_finite[:, None] & keep).any()):
            raise NoPowerError("outputs are not finite, so they cannot be compared")
        keep &= keep_finite[:, None]
        diff = compare(before.nan_to_num(0, 0, 0), after.nan_to_num(0, 0, 0), keep)
    if diff.worst > 0 and diff.where is not None:
        return _confirm(session, setting, sets, before, after, keep)
    return _with_power(session, setting, sets, before, after)


SWEPT = (2, 3, 8, 9, 16, 17, 64, 65, 129)


def lengths_swept(session: Session, setting: Setting) -> Finding:
    """Future-swap at other lengths: some faults begin past a threshold."""
    return _swept(session, setting, "K1", future_swap)


def truncation_swept(session: Session, setting: Setting) -> Finding:
    """Truncation at other lengths."""
    return _swept(session, setting, "K2", truncation)


def _swept(
    session: Session, setting: Setting, check: str, body: Callable[[Session, Setting], Finding]
) -> Finding:
    done = []
    for length in SWEPT:
        if length == session.length:
            continue
        try:
            found = body(session, replace(setting, length=length))
        except (SkipCheckError, NoPowerError):
            continue
        except Exception:  # longer than the model allows
            break
        if found.verdict is Verdict.DISPROVED:
            return replace(found, configuration=setting.words)
        if found.verdict is Verdict.VERIFIED:
            done.append(length)
    if not done:
        raise SkipCheckError("no other length could be judged")
    return finding(check, setting, Verdict.VERIFIED, f"lengths {', '.join(map(str, done))}")


def _few_rows(session: Session, setting: Setting, sets: Tensor) -> Finding:
    """The same with a fixed small batch, one middle and one late cut."""
    assert setting.rows is not None
    length = sets.size(1)
    seen = 0.0
    for index in sorted({0, len(sets) // 2, len(sets) - 1}):
        x = session.draw(8 + index).x(setting.rows, length, setting.magnitude)
        changed = torch.zeros(setting.rows, length, dtype=torch.bool)
        changed[0] = sets[index]
        a, b, keep = _pair(session, setting, x, changed, 9)
        keep[1:] = False
        before, after = session.out(setting, a), session.out(setting, b)
        diff = compare(before, after, keep)
        if not diff.is_finite:
            raise NoPowerError("outputs are not finite, so they cannot be compared")
        if diff.worst > 0:
            return _confirm(session, setting, sets[index : index + 1], before, after, keep)
        seen = max(seen, diff.elsewhere)
    if seen == 0.0:
        raise NoPowerError("changing later positions changed no output at all")
    return finding("K1", setting, Verdict.VERIFIED, f"three cuts of length {length}, bit for bit")


def _pair(
    session: Session, setting: Setting, x: Tensor, changed: Tensor, seed: int
) -> tuple[Call, Call, Tensor]:
    call, is_token = session.dress(setting, x)
    draw = session.draw(seed)
    other = draw.other(x, changed, setting.magnitude)
    if "special" in setting.note and (special := session.subject.kind.special):
        picked = torch.tensor(special)[torch.arange(x.size(1)) % len(special)]
        other = torch.where(changed, picked[None, :], other)
    protected = torch.stack([session.rule.protected(row) for row in changed])  # (R, T_out)
    if session.rule.stride == 1:
        protected &= is_token
    return call, replace(call, x=other), protected


def _finite_rows(before: Tensor, after: Tensor) -> Tensor:
    fine = torch.isfinite(before) & torch.isfinite(after)
    return fine.flatten(1).all(1)


def _confirm(
    session: Session, setting: Setting, sets: Tensor, before: Tensor, after: Tensor, keep: Tensor
) -> Finding:
    """Accuse only what shows again, alone in its batch, on fresh inputs and a fresh copy."""
    change = changes(before, after).masked_fill(~keep, 0.0).nan_to_num(0.0)  # (R, T_out)
    order = change[: len(sets)].amax(1).argsort(descending=True)
    rows = (setting.rows,) if setting.rows else (1, 3)
    for size in rows:
        for index in order[:2].tolist():
            for attempt in range(CONFIRMATIONS):
                hit = single_hit(session, setting, sets[index], rows=size, seed=20 + attempt)
                if hit is None:
                    continue
                weighed = weigh(session, hit)
                if weighed.verdict is Verdict.VERIFIED:
                    return _with_power(session, setting, sets, before, after, weighed.words)
                if weighed.verdict is not Verdict.DISPROVED:
                    return finding("K1", setting, weighed.verdict, weighed.words)
                if session.is_explained("K1"):
                    return explain_briefly(session, "K1", hit, weighed.words, setting.words)
                again = partial(single_hit, session, setting, rows=size, seed=20)
                small = smaller_hit(hit, again)
                return replace(
                    explain(session, "K1", hit, weighed.words, setting.words),
                    snippet=script(session, small),
                )
    return finding(
        "K1",
        setting,
        Verdict.INCONCLUSIVE,
        "a change showed once in a batch of cuts but not in a row of its own nor on other draws: "
        "rows of the batch influence each other (see K5), or a tie was broken differently",
    )


def single_hit(
    session: Session, setting: Setting, changed: Tensor, *, rows: int, seed: int
) -> Hit | None:
    """Change one row's forbidden positions; the hit, if protected outputs of that row move."""
    length = changed.numel()
    x = session.draw(seed).x(rows, length, setting.magnitude)
    marked = torch.zeros(rows, length, dtype=torch.bool)
    marked[0] = changed
    a, b, keep = _pair(session, setting, x, marked, seed + 40)
    keep[1:] = False
    diff = compare(session.out(setting, a), session.out(setting, b), keep)
    if diff.worst == 0.0 or not diff.is_finite:
        return None
    cut = int(changed.long().argmax())
    shown = replace(setting, rows=rows)
    return Hit(shown, a, b, keep, diff, cut)


def _with_power(
    session: Session, setting: Setting, sets: Tensor, before: Tensor, after: Tensor, extra: str = ""
) -> Finding:
    """Clean so far; passes only if the probes could have noticed something."""
    moved = changes(before, after) > 0  # (R + 1, T_out)
    free = ~torch.stack([session.rule.protected(row) for row in sets])
    dead = int((free.any(1) & ~(moved[:-1] & free).any(1)).sum())
    if dead == len(sets):
        return _retry(session, setting, "changing later positions changed no output at all")
    required_past = bool(session.rule.allowed(sets.size(1))[-1, :-1].any())
    if required_past and not bool(moved[-1, -1]) and setting.mask != "right":
        return _retry(session, setting, "no output uses an earlier position")
    words = f"{len(sets)} cuts of length {sets.size(1)}, bit for bit"
    is_plain = replace(setting, backend=None) == session.base and not extra
    return finding(
        "K1",
        setting,
        Verdict.VERIFIED,
        words + (f"; what differs is {extra}" if extra else ""),
        detection_limit=detection_limit(session, setting) if is_plain else None,
    )


def _retry(session: Session, setting: Setting, why: str) -> Finding:
    """Weights that hide everything are redrawn once; then the probe has no power."""
    if setting.is_scrambled or not session.subject.modules:
        raise NoPowerError(why)
    again = future_swap(session, replace(setting, is_scrambled=True))
    return replace(again, reason=f"with the given weights {why}; redrawn: {again.reason}")


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
        cause="the future is seen (see K1)"
        if session.is_explained("K1")
        else "something depends on the total length (a scale, a statistic, a boundary)",
        culprit=_where_cut(session, setting, n),
    )


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
