"""K1: later positions change; earlier outputs must not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from lookleft.audit.canary import detection_limit
from lookleft.audit.checks.base import (
    FAR_ABOVE,
    Hit,
    NoPowerError,
    SkipCheckError,
    finding,
    is_narrow,
    weigh,
)
from lookleft.audit.checks.samples import swap_of_samples
from lookleft.audit.constants import constants_of
from lookleft.audit.explain import explain, explain_briefly
from lookleft.audit.session import Difference, Session, Setting, changes, compare
from lookleft.audit.shrink import script, smaller_hit
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

ALL_CUTS = 40  # up to this length every cut is probed; beyond it O(log T) of them
SPECIAL = "special tokens in the suffix"
REPEATED = "repeated tokens"
FEW = 5  # different ids where they are to come back


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
        marks |= {c for c in constants_of(session.subject) if c < length}
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
    x = _drawn(session, setting, 6, len(sets) + 1, length)
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
        if session.noise_of(setting, a) * FAR_ABOVE > diff.relative:
            return swap_of_samples(session, setting, a, b, keep)
        return _confirm(session, setting, sets, _Seen(a, b, before, after, keep))
    return _with_power(session, setting, sets, before, after)


def _drawn(session: Session, setting: Setting, seed: int, rows: int, length: int) -> Tensor:
    """Inputs for a swap; ids differ everywhere unless the setting wants them to come back."""
    x = session.draw(seed).x(rows, length, setting.magnitude)
    if REPEATED not in setting.note:
        return x
    few = x[0, : min(FEW, length)]
    return few[torch.arange(rows * length).reshape(rows, length) * 7 % len(few)]


@dataclass(frozen=True)
class _Seen:
    """Two batches of cuts and what came out."""

    a: Call
    b: Call
    before: Tensor
    after: Tensor
    keep: Tensor

    @property
    def difference(self) -> Difference:
        return compare(self.before, self.after, self.keep)


SWEPT = (2, 3, 8, 9, 16, 17, 64, 65, 129)
_FARTHEST = 1100  # thresholds beyond this length are not looked for
_MOST_THRESHOLDS = 4


def lengths_swept(session: Session, setting: Setting) -> Finding:
    """Future-swap at other lengths: some faults begin past a threshold."""
    found = swept(session, setting, "K1", future_swap)
    if found.verdict is Verdict.DISPROVED or session.subject.config is not None:
        return found
    far = sorted(c for c in constants_of(session.subject) if max(SWEPT) <= c < _FARTHEST)
    for length in sorted({n for c in far[:_MOST_THRESHOLDS] for n in (c, c + 1)}):
        try:
            beyond = future_swap(session, replace(setting, length=length, rows=1))
        except Exception:  # longer than the model allows, or without power there
            continue
        if beyond.verdict is Verdict.DISPROVED:
            return beyond
    return found


def swept(
    session: Session, setting: Setting, check: str, body: Callable[[Session, Setting], Finding]
) -> Finding:
    """One check at other lengths, up to the first violation or the longest the model takes."""
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
        x = _drawn(session, setting, 8 + index, setting.rows, length)
        changed = torch.zeros(setting.rows, length, dtype=torch.bool)
        changed[0] = sets[index]
        a, b, keep = _pair(session, setting, x, changed, 9)
        keep[1:] = False
        before, after = session.out(setting, a), session.out(setting, b)
        diff = compare(before, after, keep)
        if not diff.is_finite:
            raise NoPowerError("outputs are not finite, so they cannot be compared")
        if diff.worst > 0:
            seen_here = _Seen(a, b, before, after, keep)
            return _confirm(session, setting, sets[index : index + 1], seen_here)
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
    if SPECIAL in setting.note and (special := session.subject.kind.special):
        picked = torch.tensor(special)[torch.arange(x.size(1)) % len(special)]
        other = torch.where(changed, picked[None, :], other)
    protected = torch.stack([session.rule.protected(row) for row in changed])  # (R, T_out)
    if session.rule.stride == 1:
        protected &= is_token
    return call, replace(call, x=other), protected


def _finite_rows(before: Tensor, after: Tensor) -> Tensor:
    fine = torch.isfinite(before) & torch.isfinite(after)
    return fine.flatten(1).all(1)


def _confirm(session: Session, setting: Setting, sets: Tensor, seen: _Seen) -> Finding:
    """Accuse only what shows again, alone in its batch, on fresh inputs and a fresh copy."""
    change = changes(seen.before, seen.after).masked_fill(~seen.keep, 0.0).nan_to_num(0.0)
    order = change[: len(sets)].amax(1).argsort(descending=True)  # (R,)
    for hit in _hits_again(session, setting, sets, seen, order[:2].tolist()):
        weighed = weigh(session, hit)
        if weighed.verdict is Verdict.VERIFIED:
            return _with_power(session, setting, sets, seen.before, seen.after, weighed.words)
        if weighed.verdict is not Verdict.DISPROVED:
            return finding("K1", setting, weighed.verdict, weighed.words)
        if session.is_explained("K1"):
            return explain_briefly(session, "K1", hit, weighed.words, setting.words)
        again = partial(single_hit, session, setting, rows=hit.a.x.size(0), seed=20)
        small = smaller_hit(hit, again)
        return replace(
            explain(session, "K1", hit, weighed.words, setting.words),
            snippet=script(session, small),
        )
    once = weigh(session, Hit(setting, seen.a, seen.b, seen.keep, seen.difference))
    if once.verdict is Verdict.VERIFIED:
        return _with_power(session, setting, sets, seen.before, seen.after, once.words)
    return finding(
        "K1",
        setting,
        Verdict.SKIPPED if is_narrow(setting) else Verdict.INCONCLUSIVE,
        "a change showed once in a batch of cuts but not in a row of its own nor on other draws: "
        "rows of the batch influence each other (see K5), or a tie was broken differently",
    )


def _hits_again(
    session: Session, setting: Setting, sets: Tensor, seen: _Seen, cuts: list[int]
) -> Iterator[Hit]:
    """The same cuts in other draws: alone, among few rows, among as many as at first.

    Behind other beginnings the changed parts are also tried as they were: what only some ids set
    off shows again, what hung on an exact tie does not.
    """
    for size in (setting.rows,) if setting.rows else (1, 3, seen.a.x.size(0)):
        for index in cuts:
            row = index if len(sets) > 1 else 0
            tails = (None, None, None, (seen.a.x[row], seen.b.x[row]))
            for attempt, tail in enumerate(tails):
                hit = single_hit(
                    session, setting, sets[index], rows=size, seed=20 + attempt, tail=tail
                )
                if hit is not None:
                    yield hit


def single_hit(
    session: Session,
    setting: Setting,
    changed: Tensor,
    *,
    rows: int,
    seed: int,
    tail: tuple[Tensor, Tensor] | None = None,
) -> Hit | None:
    """Change one row's forbidden positions; the hit, if protected outputs of that row move.

    A `tail` is what those positions hold before and after, (T, ...) each; else they are drawn.
    """
    length = changed.numel()
    x = _drawn(session, setting, seed, rows, length)
    marked = torch.zeros(rows, length, dtype=torch.bool)
    marked[0] = changed
    if tail is not None:
        x[0, changed] = tail[0][changed]
    a, b, keep = _pair(session, setting, x, marked, seed + 40)
    if tail is not None:
        b.x[0, changed] = tail[1][changed]
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
