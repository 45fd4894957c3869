"""K3: decoding with a cache gives what one full forward gives, however it is cut up."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lookleft.audit.checks.base import (
    Judged,
    NoPowerError,
    SkipCheckError,
    agree_in_value,
    finding,
)
from lookleft.audit.checks.padding import padded
from lookleft.audit.constants import constants_of
from lookleft.audit.huggingface import crop_cache, reorder_cache
from lookleft.audit.parting import Way, first_parting
from lookleft.audit.session import Difference, Session, Setting, compare
from lookleft.audit.subject import Answer, Call, Subject
from lookleft.audit.verdict import Culprit, Finding, Verdict

STEPS = 12  # one-token steps at most, so that the cost does not grow with the length
ROWS = 2


class CannotError(Exception):
    """The model or its cache does not offer this operation."""


def cache(session: Session, setting: Setting) -> Finding:
    """Every schedule of chunks against the full forward, in float64."""
    if session.subject.has("step"):
        return _stepwise(session, setting)
    if not session.subject.plan.has("cache"):
        raise SkipCheckError("the model takes no cache")
    if session.rule.name == "bidirectional" or session.rule.documents is not None:
        raise SkipCheckError(f"cached decoding is not defined for the rule {session.rule.name!r}")
    trials = _trials(session, is_brief=session.quick or setting.is_brief)
    done, doubtful = [], None
    for words, trial in trials.items():
        try:
            judged = trial(session, setting, 0)
        except (SkipCheckError, NoPowerError):
            raise
        except CannotError:
            continue
        except Exception as error:
            if words == "prompt, then single tokens":
                raise
            session.note(f"cache: {words} raised {type(error).__name__}: {error}"[:200])
            continue
        if judged.is_violation:
            again = trial(session, setting, 1)
            if again.is_violation:
                culprit = trial.culprit(session, setting) if isinstance(trial, _Schedule) else None
                found = _accuse(setting, words, again, culprit)
                if isinstance(trial, _Schedule) and trial.ignores_cache(session, setting):
                    found = replace(found, cause="the cache is not read: a step sees itself only")
                return found
            doubtful = words, again
        elif not judged.is_clear:
            doubtful = words, judged
        done.append(words)
    if doubtful is not None:
        return finding("K3", setting, Verdict.INCONCLUSIVE, f"{doubtful[0]}: {doubtful[1].words}")
    return finding("K3", setting, Verdict.VERIFIED, f"equal to the full forward: {'; '.join(done)}")


def _accuse(
    setting: Setting, words: str, judged: Judged, culprit: Culprit | None = None
) -> Finding:
    place = judged.difference.where
    return finding(
        "K3",
        setting,
        Verdict.DISPROVED,
        f"cached decoding and the full forward {judged.words} ({words})",
        worst=judged.difference.worst,
        pair=(place[1], place[1]) if place else None,
        cause=_CAUSES.get(words, "positions, mask alignment or the window differ with a cache"),
        culprit=culprit,
    )


_CAUSES = {
    "several tokens on a warm cache": "several new tokens at once are not taken one after another: "
    "their mask is aligned to the wrong end, or a recurrence is stepped once only",
    "single steps": "the step computes something else than the full forward",
    "rows reordered": "some state is not reordered with the beams",
    "rows left-padded unequally": "padding or positions are lost once there is a cache",
    "rolled back": "rolling back leaves traces in the cache",
}


def _trials(
    session: Session, *, is_brief: bool
) -> dict[str, Callable[[Session, Setting, int], Judged]]:
    length = session.length
    half = max(length // 2, 1)
    chunks = {
        "prompt, then single tokens": [half, *[1] * min(length - half, 3 if is_brief else STEPS)],
        "several tokens on a warm cache": [half, length - half],
    }
    if not is_brief:
        chunks |= {
            "single tokens from the start": [1] * min(length, 37),
            "all but the last": [length - 1, 1],
            "one, then the rest": [1, length - 1],
            "uneven chunks": _uneven(session, length),
        }
        for mark in sorted(c for c in constants_of(session.subject) if c < length - 2)[:4]:
            for prompt in (mark - 1, mark, mark + 1):
                if prompt >= 1:
                    chunks[f"prompt of {prompt}"] = [prompt, 1, 1, 2]
    trials = {words: _Schedule(tuple(sizes)) for words, sizes in chunks.items() if min(sizes) > 0}
    rest: dict[str, Callable[[Session, Setting, int], Judged]] = {}
    if not is_brief:
        rest = {
            "chunk on a warm cache looks ahead": _warm_swap,
            "rows reordered": _reordered,
            "rolled back": _rolled_back,
        }
        if session.subject.plan.has("is_token"):
            rest["an all-ones mask"] = _Schedule((half, 1, 2, 1), has_mask=True)
        if session.subject.plan.has("positions"):
            rest["explicit positions"] = _Schedule((half, 1, 2, 1), has_positions=True)
    if session.subject.plan.has("is_token") and "left" in session.subject.plan.sides:
        rest["rows left-padded unequally"] = _left_padded  # how prompts are continued in batches
    return {**trials, **rest}


def _uneven(session: Session, length: int) -> list[int]:
    draw = session.draw(15)
    sizes: list[int] = []
    while sum(sizes) < length:
        sizes.append(min(1 + draw.integer(7), length - sum(sizes)))
    return sizes


@dataclass(frozen=True)
class _Schedule:
    """Feed a row in chunks and compare with feeding it at once."""

    sizes: tuple[int, ...]
    has_mask: bool = False
    has_positions: bool = False

    def __call__(self, session: Session, setting: Setting, attempt: int) -> Judged:
        call = self._call(session, attempt)
        full = session.out(setting, call)
        parts, _ = feed(session, setting, call, self.sizes)
        together = torch.cat(parts, 1)
        for size, part in zip(self.sizes, parts, strict=True):
            if part.size(1) != size and full.size(1) == call.x.size(1):
                words = f"part: a chunk of {size} tokens with a cache gave {part.size(1)} outputs"
                return Judged(True, True, words, Difference(torch.inf, torch.inf, None, 0.0, True))
        if self.sizes[1:2] == (1,) and not self.has_mask and not self.has_positions:
            _past_matters(session, setting, call, full)
        keep = torch.ones(full.shape[:2], dtype=torch.bool)
        return agree_in_value(session, setting, full, together, keep)

    def _call(self, session: Session, attempt: int) -> Call:
        total = sum(self.sizes)
        call = _whole(session, session.draw(16 + attempt).x(ROWS, total))
        if self.has_mask:
            call = replace(call, is_token=torch.ones(ROWS, total, dtype=torch.bool))
        if self.has_positions:
            call = replace(call, positions=torch.arange(total).expand(ROWS, -1))
        return call

    def ignores_cache(self, session: Session, setting: Setting) -> bool:
        """Does the last chunk give what it would give without anything before it?"""
        call = self._call(session, 1)
        last = feed(session, setting, call, self.sizes)[0][-1]
        alone = replace(call, x=call.x[:, -self.sizes[-1] :], is_token=None, positions=None)
        return torch.equal(last, session.out(setting, alone))

    def culprit(self, session: Session, setting: Setting) -> Culprit | None:
        """The module that answers otherwise in the first chunk that is wrong."""
        call = self._call(session, 1)
        full = session.out(setting, call)
        live, state, at = session.live(setting), None, 0
        for size in self.sizes:
            warm, kept = copy.deepcopy((live, state))
            answer = chunk(session, setting, call, live, state, at, size)
            here = torch.zeros(call.x.shape[:2], dtype=torch.bool)
            here[:, at : at + size] = True
            expected = full[:, at : at + size]
            everywhere = torch.ones(ROWS, size, dtype=torch.bool)
            if agree_in_value(session, setting, expected, answer.out, everywhere).is_violation:
                wrong = Way(piece(session, call, kept, at, size), everywhere, warm)
                return first_parting(session, setting, Way(call, here), wrong)
            state, at = answer.cache, at + size
        return None


def _whole(session: Session, x: Tensor) -> Call:
    has_flag = session.subject.plan.has("use_cache")
    source = session.draw(977).source(x.size(0)) if session.subject.plan.has("source") else None
    return Call(x, use_cache=False if has_flag else None, source=source)


def _past_matters(session: Session, setting: Setting, call: Call, full: Tensor) -> None:
    last = replace(call, x=call.x[:, -1:])
    if call.is_token is not None:
        last = replace(last, is_token=call.is_token[:, -1:])
    if call.positions is not None:
        last = replace(last, positions=call.positions[:, -1:])
    alone = session.out(setting, last)
    if torch.equal(alone, full[:, -1:]):
        raise NoPowerError("the last output ignores everything before it, so a cache cannot matter")


def feed(
    session: Session,
    setting: Setting,
    call: Call,
    sizes: tuple[int, ...],
    *,
    live: Subject | None = None,
    state: Any = None,
    start: int = 0,
) -> tuple[list[Tensor], Any]:
    """Outputs of consecutive chunks through one cache, and the cache. -> [(B, n, ...)], cache"""
    live = session.live(setting) if live is None else live
    outs, at = [], start
    for size in sizes:
        answer = chunk(session, setting, call, live, state, at, size)
        if answer.cache is None:
            raise SkipCheckError("the forward returned no cache")
        outs.append(answer.out)
        state, at = answer.cache, at + size
    return outs, state


def chunk(
    session: Session, setting: Setting, call: Call, live: Subject, state: Any, at: int, size: int
) -> Answer:
    return session.run(setting, piece(session, call, state, at, size), live)


def piece(session: Session, call: Call, state: Any, at: int, size: int) -> Call:
    """The part of a call that one chunk feeds, with the cache so far."""
    part = replace(call, x=call.x[:, at : at + size], cache=state, offset=at)
    if session.subject.plan.has("use_cache"):
        part = replace(part, use_cache=True)
    if call.is_token is not None:
        part = replace(part, is_token=call.is_token[:, : at + size])
    if call.positions is not None:
        part = replace(part, positions=call.positions[:, at : at + size])
    return part


def _warm_swap(session: Session, setting: Setting, attempt: int) -> Judged:
    """K1 inside a chunk that follows a cached prompt: exact."""
    length = session.length
    half = max(length // 2, 1)
    cut = half + max((length - half) // 2, 1)
    draw = session.draw(18 + attempt)
    call = _whole(session, draw.x(ROWS, length))
    changed = (torch.arange(length) >= cut).expand(ROWS, -1)
    other = replace(call, x=draw.other(call.x, changed))
    sizes = (half, length - half)
    before = feed(session, setting, call, sizes)[0][1]
    after = feed(session, setting, other, sizes)[0][1]
    keep = torch.stack([session.rule.protected(row)[half:] for row in changed])
    diff = compare(before, after, keep)
    words = f"change by {diff.relative:.1e} at outputs before {cut} when later ones do"
    return Judged(diff.relative > 1e-12, True, words, diff)


def _reordered(session: Session, setting: Setting, attempt: int) -> Judged:
    """Permute and repeat the rows of a warm cache, as beam search does."""
    half, rows = max(session.length // 2, 1), 3
    call = _whole(session, session.draw(20 + attempt).x(rows, half + 2))
    order = torch.tensor([2, 0, 0])
    live = session.live(setting)
    _, state = feed(session, setting, call, (half,), live=live)
    moved = reorder_cache(live.module, state, order)
    if moved is None:
        raise CannotError("no way to reorder the cache")
    mixed = torch.cat([call.x[order, :half], call.x[:, half:]], 1)
    source = call.source[order] if call.source is not None else None
    whole = replace(call, x=mixed, source=source)
    parts, _ = feed(session, setting, whole, (1, 1), live=live, state=moved, start=half)
    full = session.out(setting, whole)[:, half:]
    keep = torch.ones(full.shape[:2], dtype=torch.bool)
    return agree_in_value(session, setting, full, torch.cat(parts, 1), keep)


def _rolled_back(session: Session, setting: Setting, attempt: int) -> Judged:
    """Feed three tokens too many, crop the cache, go on with others."""
    half = max(session.length // 2, 1)
    draw = session.draw(22 + attempt)
    call = _whole(session, draw.x(ROWS, half + 3))
    live = session.live(setting)
    _, state = feed(session, setting, call, (half, 3), live=live)
    try:
        cropped = crop_cache(state, half)
    except Exception as error:  # some caches cannot be cropped at this point, and say so
        raise CannotError(str(error)) from error
    if cropped is None:
        raise CannotError("no way to crop the cache")
    changed = (torch.arange(half + 3) >= half).expand(ROWS, -1)
    other = replace(call, x=draw.other(call.x, changed))
    parts, _ = feed(session, setting, other, (1, 2), live=live, state=cropped, start=half)
    full = session.out(setting, other)[:, half:]
    keep = torch.ones(full.shape[:2], dtype=torch.bool)
    return agree_in_value(session, setting, full, torch.cat(parts, 1), keep)


def _left_padded(session: Session, setting: Setting, attempt: int) -> Judged:
    """Rows of unequal length through one cache, against the same call at once."""
    width, has_positions = session.length, session.subject.plan.has("positions")
    lengths = [width, max(width - 7, 2), max(width // 2, 2)]
    made = padded(session, lengths, "left", 24 + attempt, positions=has_positions, width=width)
    whole = made.call
    if session.subject.plan.has("use_cache"):
        whole = replace(whole, use_cache=False)
    full = session.out(setting, whole)
    prompt = max(width - 4, 1)
    parts, _ = feed(session, setting, whole, (prompt, 1, 1, *([width - prompt - 2])))
    return agree_in_value(session, setting, full, torch.cat(parts, 1), made.is_token)


def _stepwise(session: Session, setting: Setting) -> Finding:
    """A step function, token by token, against the full forward."""
    length = min(session.length, 37)
    for attempt in range(2):
        x = session.draw(26 + attempt).x(3, length)
        call, _ = session.dress(setting, x)
        full = session.out(setting, call)
        outs = _steps(session, setting, x)
        together = torch.stack([_flat(out, full) for out in outs], 1)
        if together.shape != full.shape:
            raise SkipCheckError(
                f"step gives {tuple(together.shape)} in all, the full forward {tuple(full.shape)}"
            )
        if attempt == 0:
            _past_matters(session, setting, call, full)
        keep = torch.ones(full.shape[:2], dtype=torch.bool)
        judged = agree_in_value(session, setting, full, together, keep)
        if not judged.is_violation:
            verdict = Verdict.VERIFIED if judged.is_clear else Verdict.INCONCLUSIVE
            return finding("K3", setting, verdict, f"{length} single steps: {judged.words}")
    return _accuse(setting, "single steps", judged)


def _steps(session: Session, setting: Setting, x: Tensor) -> list[Tensor]:
    live = session.live(setting)
    step, state = live.parts["step"], None
    outs = []
    values = x.to(setting.dtype) if x.is_floating_point() and setting.dtype else x
    for at in range(x.size(1)):
        session.forwards += 1
        with session.running(setting):
            try:
                out, state = step(values[:, at], state)
            except (RuntimeError, IndexError, ValueError):
                if at:
                    raise
                step = _columns(live.parts["step"])
                out, state = step(values[:, at], state)
        outs.append(out.detach())
    return outs


def _columns(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that wants (B, 1) instead of (B,)."""
    return lambda token, state: step(token[:, None], state)


def _flat(out: Tensor, full: Tensor) -> Tensor:
    return out[:, 0] if out.dim() == full.dim() else out
