"""K7: source padding is invisible, the encoder looks both ways, every source token counts."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import Any

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
from lookleft.audit.checks.cache import chunk, feed, piece
from lookleft.audit.inputs import SOURCE_LENGTH
from lookleft.audit.localise import localise, record
from lookleft.audit.parting import Way, first_parting
from lookleft.audit.session import Session, Setting, changes, compare
from lookleft.audit.shrink import script
from lookleft.audit.subject import Call, Subject
from lookleft.audit.tensors import by_position
from lookleft.audit.verdict import Culprit, Finding, Verdict

LENGTHS = (SOURCE_LENGTH, SOURCE_LENGTH - 7, SOURCE_LENGTH // 2)
TARGET = 11


def encoder_decoder(session: Session, setting: Setting) -> Finding:
    """All questions about the source side, one after the other."""
    if not session.subject.plan.has("source"):
        raise SkipCheckError("the model has no source side")
    steps = [_every_token_counts, _looks_both_ways]
    if session.subject.plan.has("source_is_token"):
        steps += [_content, _content_in_steps, _amount]
    else:
        session.note("the model takes no mask for its source, so source padding is not probed")
    for step in steps:
        if (found := step(session, setting)) is not None:
            return found
    return finding(
        "K7",
        setting,
        Verdict.VERIFIED,
        "every source position matters, the encoder looks both ways"
        + (f"; source padding exact, its amount to {session.closeness}" if steps[2:] else ""),
    )


def _call(session: Session, seed: int, rows: int) -> Call:
    draw = session.draw(seed)
    length = min(TARGET, session.length)
    return Call(draw.x(rows, length), source=draw.source(rows))


def _every_token_counts(session: Session, setting: Setting) -> Finding | None:
    one = _call(session, 90, 1)
    assert one.source is not None
    rows = one.source.size(1)
    sources = one.source.repeat_interleave(rows, 0)  # (S, S)
    call = replace(one, x=one.x.repeat_interleave(rows, 0), source=sources)
    changed = torch.eye(rows, dtype=torch.bool)
    other = replace(call, source=session.draw(91).other_source(sources, changed))
    moved = changes(session.out(setting, call), session.out(setting, other)).amax(1)  # (S,)
    if bool((moved > 0).all()):
        return None
    if not bool((moved > 0).any()):
        if setting.is_scrambled:
            raise NoPowerError("no output uses the source at all")
        return _every_token_counts(session, replace(setting, is_scrambled=True))
    unseen = int((moved == 0).nonzero()[0, 0])
    if not setting.is_scrambled:
        return _every_token_counts(session, replace(setting, is_scrambled=True))
    return finding(
        "K7",
        setting,
        Verdict.DISPROVED,
        f"source position {unseen} of {rows} changes no output",
        worst=0.0,
        pair=(0, unseen),
        cause="cross-attention hides a part of the source",
    )


def _looks_both_ways(session: Session, setting: Setting) -> Finding | None:
    """The first encoder state has to change with a later source token."""
    masks = ["none", "ones", "right"] if session.subject.plan.has("source_is_token") else ["none"]
    last = LENGTHS[-1] - 1
    for mask in masks:
        seen = [_state_moves(session, setting, mask, at, seen_from=0) for at in (1, 5, last)]
        if None in seen:
            return None  # no tensor with source positions was found
        if any(seen):
            continue
        if not setting.is_scrambled:
            return _looks_both_ways(session, replace(setting, is_scrambled=True))
        if not _state_moves(session, setting, mask, 0, seen_from=last):
            return None  # nothing that can be watched mixes positions at all, in either direction
        return finding(
            "K7",
            setting,
            Verdict.DISPROVED,
            f"with a source mask of kind {mask!r} the first encoder state ignores every later "
            "source token: the encoder is causal",
            worst=0.0,
            pair=(0, 1),
            cause="a causal mask or flag reached the encoder",
            culprit=_one_way(session, setting),
        )
    return None


def _one_way(session: Session, setting: Setting) -> Culprit | None:
    """The module through which the last state sees the first token: it should see back as well."""
    call = _call(session, 92, 2)
    assert call.source is not None
    at = torch.arange(call.source.size(1)).expand(2, -1)
    other = replace(call, source=session.draw(93).other_source(call.source, at == 0))
    last = at == at.size(1) - 1
    return first_parting(session, setting, Way(call, last), Way(other, last))


def _state_moves(
    session: Session, setting: Setting, mask: str, at: int, *, seen_from: int
) -> bool | None:
    """Does the encoder state at `seen_from` change with the source token `at`? None: unknown."""
    call = _call(session, 92, 2)
    source = call.source
    assert source is not None
    length = source.size(1)
    if mask != "none":
        is_token = torch.ones(2, length, dtype=torch.bool)
        is_token[:, LENGTHS[-1] if mask == "right" else length :] = False
        call = replace(call, source_is_token=is_token)
    changed = (torch.arange(length) == at).expand(2, -1)
    other = replace(call, source=session.draw(93).other_source(source, changed))
    if "encode" in session.subject.parts:
        return not torch.equal(
            *(_encoded(session, setting, c)[:, seen_from] for c in (call, other))
        )
    known = False
    pairs = zip(record(session, setting, call), record(session, setting, other), strict=False)
    for one, two in pairs:
        for a, b in zip(one.outputs, two.outputs, strict=False):
            before, after = by_position(a, 2, length), by_position(b, 2, length)
            if before is None or after is None:
                continue
            known = True
            if not torch.equal(before[:, seen_from], after[:, seen_from]):
                return True
    return False if known else None


def _encoded(session: Session, setting: Setting, call: Call) -> Tensor:
    live = session.live(setting)
    encode = live.parts["encode"]
    session.forwards += 1
    arguments: list[Tensor | None] = [call.source]
    if len(inspect.signature(encode).parameters) > 1 and call.source_is_token is not None:
        style = session.subject.plan.styles["source_is_token"]
        arguments.append(style.write(call.source_is_token))
    with session.running(setting):
        states = encode(*arguments)
    states = states[0] if isinstance(states, tuple) else states
    states = getattr(states, "last_hidden_state", states)
    if not isinstance(states, Tensor):
        raise NoPowerError("encode returns no tensor")
    return states.detach()


def _padded(session: Session, seed: int) -> Call:
    call = _call(session, seed, len(LENGTHS))
    assert call.source is not None
    is_token = torch.arange(call.source.size(1))[None, :] < torch.tensor(LENGTHS)[:, None]
    return replace(call, source_is_token=is_token)


def _content(session: Session, setting: Setting) -> Finding | None:
    return _unseen_padding(session, setting, in_steps=False)


def _content_in_steps(session: Session, setting: Setting) -> Finding | None:
    if not session.subject.plan.has("cache"):
        return None
    return _unseen_padding(session, setting, in_steps=True)


def _unseen_padding(session: Session, setting: Setting, *, in_steps: bool) -> Finding | None:
    """What lies under source padding changes nothing: exact."""
    hit = None
    for attempt in range(2):
        call = _padded(session, 94 + attempt)
        assert call.source is not None
        assert call.source_is_token is not None
        fresh = session.draw(96 + attempt).other_source(call.source, ~call.source_is_token)
        other = replace(call, source=fresh)
        outs = [_out(session, setting, one, in_steps) for one in (call, other)]
        keep = torch.ones(outs[0].shape[:2], dtype=torch.bool)
        diff = compare(outs[0], outs[1], keep)
        if not diff.is_finite:
            raise NoPowerError("outputs are not finite with a padded source")
        if diff.worst == 0.0:
            return None
        hit = Hit(setting, call, other, keep, diff)
    assert hit is not None
    if in_steps:
        verdict = Verdict.DISPROVED if hit.difference.relative > 1e-12 else Verdict.INCONCLUSIVE
        words = f"relative change {hit.difference.relative:.1e}"
        culprit = _where_in_steps(session, setting, hit)
    else:
        weighed = weigh(session, hit)
        if weighed.verdict is Verdict.VERIFIED:
            return None
        verdict, words, culprit = weighed.verdict, weighed.words, localise(session, hit)
    return finding(
        "K7",
        setting,
        verdict,
        "outputs change with what lies under source padding"
        + (" while decoding with a cache" if in_steps else "")
        + f": {words}",
        worst=hit.difference.worst,
        pair=(hit.difference.where[1] if hit.difference.where else 0, LENGTHS[-1]),
        cause="cross-attention or the encoder does not get the source padding mask",
        culprit=culprit,
        snippet=None if in_steps else script(session, hit),
    )


def _out(session: Session, setting: Setting, call: Call, in_steps: bool) -> Tensor:
    if not in_steps:
        return session.out(setting, call)
    return torch.cat(feed(session, setting, call, _sizes(call))[0], 1)


def _sizes(call: Call) -> tuple[int, ...]:
    return (2, *[1] * (call.x.size(1) - 2))


def _where_in_steps(session: Session, setting: Setting, hit: Hit) -> Culprit | None:
    """The module that first tells two caches apart, in the first chunk that does."""
    lives: list[Subject] = [session.live(setting) for _ in range(2)]
    states: list[Any] = [None, None]
    at = 0
    for size in _sizes(hit.a):
        warm = copy.deepcopy(list(zip(lives, states, strict=True)))
        pair = zip((hit.a, hit.b), lives, states, strict=True)
        answers = [
            chunk(session, setting, call, live, state, at, size) for call, live, state in pair
        ]
        if not torch.equal(answers[0].out, answers[1].out):
            everywhere = torch.ones(answers[0].out.shape[:2], dtype=torch.bool)
            ways = [
                Way(piece(session, call, state, at, size), everywhere, live)
                for call, (live, state) in zip((hit.a, hit.b), warm, strict=True)
            ]
            return first_parting(session, setting, *ways)
        states, at = [answer.cache for answer in answers], at + size
    return None


def _amount(session: Session, setting: Setting) -> Finding | None:
    """A padded source against the same source alone."""
    for attempt in range(2):
        call = _padded(session, 98 + attempt)
        assert call.source is not None
        batch = session.out(setting, call)
        bad = None
        for row, n in enumerate(LENGTHS):
            alone = Call(call.x[row : row + 1], source=call.source[row : row + 1, :n])
            solo = session.out(setting, alone)
            keep = torch.ones(solo.shape[:2], dtype=torch.bool)
            judged = agree_in_value(session, setting, batch[row : row + 1], solo, keep)
            if judged.is_violation:
                bad = judged
                break
        if bad is None:
            return None
    assert bad is not None
    return finding(
        "K7",
        setting,
        Verdict.DISPROVED,
        f"a source with padding and the same source without {bad.words}",
        worst=bad.difference.worst,
        cause="the encoder counts or sees padding",
    )
