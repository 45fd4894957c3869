"""K10: what generate returns is what full forwards would have chosen."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from lookleft.audit.checks.base import NoPowerError, SkipCheckError, agree_in_value, finding
from lookleft.audit.checks.padding import LEFT_EDGE
from lookleft.audit.session import Session, Setting
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

NEW = 6
PROMPT = 7
TIE = 1e-6  # relative to the largest logit: nearer than this two tokens count as tied


@dataclass(frozen=True)
class Miss:
    """A generated token that a full forward would not have chosen."""

    row: int
    place: int
    gap: float


def generation(session: Session, setting: Setting) -> Finding:
    """Re-score every greedy token; call order and left padding must not matter."""
    if "generate" not in session.subject.parts:
        raise SkipCheckError("the model has no generate function")
    if not session.subject.kind.is_discrete:
        raise SkipCheckError("generation is probed for models of ids only")
    prompts = _prompts(session, 83, 2)
    first, scores = _answer(session, setting, prompts)
    if not torch.equal(first, _generate(session, setting, prompts, seed=99)):
        raise SkipCheckError("generate gives other ids with another seed: it samples")
    if (found := _call_order(session, setting, prompts, first)) is not None:
        return found
    if scores is not None:
        return _scored(session, setting, prompts, first, scores)
    missed = rescored(session, setting, prompts, first)
    if missed is not None:
        again = _prompts(session, 84, 2)
        second = _generate(session, setting, again)
        missed = rescored(session, setting, again, second)
    if missed is not None:
        cause = _other_positions(session, setting, again, second) or _OTHER_PATH
        return _accuse(setting, missed, "", cause)
    if (found := _left_padded(session, setting)) is not None:
        return found
    done = []
    for words, how in _shortcuts(session, setting).items():
        try:
            missed = _with_shortcut(session, setting, how)
        except (NoPowerError, SkipCheckError):
            continue
        except Exception as error:  # most models and caches do not offer every shortcut
            session.note(f"{words} raised {type(error).__name__}: {error}"[:160])
            continue
        if missed is not None:
            return _accuse(setting, missed, f" with {words}")
        done.append(words)
    return finding(
        "K10",
        setting,
        Verdict.VERIFIED,
        f"{NEW} greedy tokens for 2 prompts are the best of a full forward, whatever was asked "
        "before and with padded prompts where they are accepted"
        + (f"; so are those of {' and '.join(done)}" if done else ""),
    )


def _shortcuts(session: Session, setting: Setting) -> dict[str, dict[str, Any]]:
    """Ways of a Hugging Face model to guess several tokens and check them at once."""
    if session.subject.config is None or not _takes_more(session):
        return {}
    draft = session.live(replace(setting, is_scrambled=True)).module
    return {
        "prompt lookup": {"prompt_lookup_num_tokens": 3},
        "a draft model": {"assistant_model": draft},
    }


def _takes_more(session: Session) -> bool:
    parameters = inspect.signature(session.subject.parts["generate"]).parameters.values()
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


def _with_shortcut(session: Session, setting: Setting, how: dict[str, Any]) -> Miss | None:
    """Re-score one prompt continued in this way: the text must be that of plain greedy search."""
    missed = None
    for attempt in range(2):
        prompt = _prompts(session, 110 + attempt, 1)
        prompt = torch.cat([prompt, prompt[:, :3]], 1)  # something to look up
        missed = rescored(session, setting, prompt, _generate(session, setting, prompt, how=how))
        if missed is None:
            return None
    return missed


_OTHER_PATH = "the decoding path (cache, positions, mask) differs from the full forward"


def _accuse(setting: Setting, missed: Miss, words: str, cause: str = _OTHER_PATH) -> Finding:
    return finding(
        "K10",
        setting,
        Verdict.DISPROVED,
        f"the token generated at position {missed.place} of row {missed.row}{words} is not the one "
        f"a full forward prefers: {missed.gap:.2e} below the best",
        worst=missed.gap,
        pair=(missed.place, missed.place),
        cause=cause,
    )


def _prompts(session: Session, seed: int, rows: int) -> Tensor:
    draw = session.draw(seed)
    if session.subject.plan.has("source"):
        return draw.source(rows, PROMPT)
    return draw.x(rows, min(PROMPT, session.length))


def _generate(session: Session, setting: Setting, prompts: Tensor, **rest: Any) -> Tensor:
    """The ids alone."""
    return _answer(session, setting, prompts, **rest)[0]


def _answer(
    session: Session,
    setting: Setting,
    prompts: Tensor,
    *,
    is_token: Tensor | None = None,
    live: Any = None,
    seed: int | None = None,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Tensor, Tensor | None]:
    """The ids, and the log-probability of each answer if generate returns it too."""
    live = session.live(setting) if live is None else live
    session.forwards += NEW
    with session.running(setting, seed=seed):
        if is_token is None:
            answer = live.parts["generate"](prompts, NEW, **how)
        else:
            answer = live.parts["generate"](prompts, NEW, is_token)
    ids, scores = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
        raise SkipCheckError("generate(ids, n) must return ids of shape (B, T)")
    if scores is not None and (not isinstance(scores, Tensor) or scores.shape != ids.shape[:1]):
        raise SkipCheckError("generate(ids, n) returned scores that are not of shape (B,)")
    return ids, scores


def _scored(
    session: Session, setting: Setting, prompts: Tensor, ids: Tensor, scores: Tensor
) -> Finding:
    """Beam search: each score must be the sum of the answer's log-probabilities."""
    ids, known, logits = _full(session, setting, prompts, ids)
    new = ids[:, known:]
    log_probs = logits[:, known - 1 :].double().log_softmax(-1)  # (B, new, V)
    ends = torch.isin(new, torch.tensor(session.subject.kind.avoid, dtype=new.dtype)).long()
    is_counted = ends.cumsum(1) - ends == 0  # the end itself counts, padding behind it does not
    sums = (log_probs.gather(2, new[..., None])[..., 0] * is_counted).sum(1)  # (B,)
    apart = (sums - scores.double()).abs()
    row, worst = int(apart.argmax()), float(apart.max())
    size = float(sums.abs().max())
    if worst <= 1e-4 * max(size, 1.0):
        words = f"the scores of {len(sums)} answers are their log-probabilities in a full forward"
        return finding("K10", setting, Verdict.VERIFIED, words)
    return finding(
        "K10",
        setting,
        Verdict.DISPROVED,
        f"the score of answer {row} is {float(scores[row]):.4f}; a full forward says "
        f"{float(sums[row]):.4f}",
        worst=worst,
        cause="beams are scored by another path than the full forward, or not reordered",
    )


def _call_order(
    session: Session, setting: Setting, prompts: Tensor, first: Tensor
) -> Finding | None:
    live = session.live(setting)
    _generate(session, setting, prompts, live=live)
    _generate(session, setting, _prompts(session, 85, 1), live=live)
    again = _generate(session, setting, prompts, live=live)
    if torch.equal(first, again):
        return None
    return finding(
        "K10",
        setting,
        Verdict.DISPROVED,
        "the same prompt gives other ids after another prompt was continued in between",
        cause="state is kept between calls of generate",
    )


def _full(
    session: Session, setting: Setting, prompts: Tensor, ids: Tensor
) -> tuple[Tensor, int, Tensor]:
    """Whole answers, how many of their ids were given, and the logits (B, T - 1, V) over them."""
    known = prompts.size(1)
    has_source = session.subject.plan.has("source")
    if has_source:
        known = 1  # the target begins with a start token
    elif ids.size(1) <= known or not torch.equal(ids[:, :known], prompts):
        ids = torch.cat([prompts, ids], 1)  # only the new tokens were returned
    if ids.size(1) <= known:
        raise NoPowerError("generate returned no new token")
    call = Call(ids[:, :-1])
    if has_source:
        call = replace(call, source=prompts)
    return ids, known, session.out(setting, call)


def rescored(session: Session, setting: Setting, prompts: Tensor, ids: Tensor) -> Miss | None:
    """The first generated token that is clearly not the best of a full forward, or None."""
    return _first_miss(session, *_full(session, setting, prompts, ids))


def _other_positions(
    session: Session, setting: Setting, prompts: Tensor, ids: Tensor
) -> str | None:
    """Would positions from 0 explain the ids, where a plain forward counts from elsewhere?"""
    first = session.subject.plan.first_position
    if not first or session.subject.plan.has("source"):
        return None
    ids, known, _ = _full(session, setting, prompts, ids)
    counted = torch.arange(ids.size(1) - 1).expand(len(ids), -1)
    logits = session.out(setting, Call(ids[:, :-1], positions=counted - first))
    if _first_miss(session, ids, known, logits) is not None:
        return None
    return f"generate counts positions from 0, a forward without position ids from {first}"


def _first_miss(session: Session, ids: Tensor, known: int, logits: Tensor) -> Miss | None:
    """The first of the ids (B, T) from `known` on that logits (B, T - 1, V) do not put highest."""
    stop = set(session.subject.kind.avoid)
    for row in range(ids.size(0)):
        for place in range(known, ids.size(1)):
            token = int(ids[row, place])
            if token in stop:
                break  # an end, or padding after it
            scores = logits[row, place - 1].clone()
            scores[[i for i in stop if i < scores.numel()]] = -torch.inf  # may be suppressed
            gap = float(scores.max() - scores[token])
            if gap > TIE * max(float(logits[row, place - 1].abs().max()), 1.0):
                return Miss(row, place, gap)
    return None


def _left_padded(session: Session, setting: Setting) -> Finding | None:
    """Prompts of unequal length in one batch, re-scored each without its padding."""
    takes_mask = len(inspect.signature(session.subject.parts["generate"]).parameters) > 2
    if not takes_mask or session.subject.plan.has("source"):
        return None
    if session.subject.config is not None and not session.subject.plan.has("is_token"):
        return None  # the library's generate takes a mask that this model's forward does not
    for attempt in range(2):
        prompts = _prompts(session, 86 + attempt, 2)
        is_token = torch.ones_like(prompts, dtype=torch.bool)
        is_token[1, :3] = False
        ids = _generate(session, setting, prompts, is_token=is_token)
        short, continued = prompts[1:, 3:], ids[1:, prompts.size(1) :]
        missed = rescored(session, setting, short, torch.cat([short, continued], 1))
        if missed is None:
            return None
    assert missed is not None
    if _left_edge_counts(session, setting, prompts, is_token):
        session.note(f"{LEFT_EDGE}: generate for prompts of one length at a time")
        return None
    return _accuse(setting, missed, " of a left-padded prompt")


def _left_edge_counts(
    session: Session, setting: Setting, prompts: Tensor, is_token: Tensor
) -> bool:
    """Does a plain forward mind left padding too, with no position ids to tell it better?"""
    plan = session.subject.plan
    if plan.has("positions") or not plan.has("is_token"):
        return False
    padded = session.out(setting, Call(prompts, is_token=is_token))[1:, 3:]
    alone = session.out(setting, Call(prompts[1:, 3:]))
    keep = torch.ones(alone.shape[:2], dtype=torch.bool)
    return agree_in_value(session, setting, alone, padded, keep).is_violation
