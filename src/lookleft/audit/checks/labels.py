"""K9: each label is compared with the one output that may predict it."""

from __future__ import annotations

import inspect
from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import Hit, NoPowerError, SkipCheckError, finding, weigh
from lookleft.audit.localise import localise
from lookleft.audit.session import Session, Setting, compare
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

IGNORED = -100
LENGTH = 9
TOLERANCE = 1e-6
MOST_TOKENS = 600  # the sum over the vocabulary needs one row per token


def labels(session: Session, setting: Setting) -> Finding:
    """Which output answers which label: found by changing one label at a time."""
    if "loss" in session.subject.parts:
        if _arguments(session) == 1:
            return _normalised(session, setting)
    elif not session.subject.plan.has("labels"):
        raise SkipCheckError("the model takes no labels and no loss function was given")
    if not session.subject.kind.is_discrete:
        raise SkipCheckError("labels are probed for models of ids only")
    length = min(LENGTH, session.length)
    x = session.draw(81).x(2, length)
    call, _ = session.dress(setting, x)
    logits = session.out(setting, call)  # (B, T, V)
    shifts = _shifts(session)
    if (found := _peeks(session, setting, call, max(shifts))) is not None:
        return found
    wrong: list[Finding] = []
    for shift in shifts:
        if shift < max(shifts) and (found := _peeks(session, setting, call, shift)) is not None:
            return found
        try:
            answers = (_one(session, setting, call, logits, p, shift) for p in range(1, length))
            bad = next((one for one in answers if one is not None), None)
        except NoPowerError:
            if shift == shifts[-1]:
                raise
            continue
        if bad is None:
            words = f"labels 1 to {length - 1} are answered by the output {shift} before, each in"
            told = "" if shift or session.subject.plan.has("source") else _BY_CALLER
            return finding("K9", setting, Verdict.VERIFIED, f"{words} its own row{told}")
        wrong.append(bad)
    return wrong[0]


_BY_CALLER = ": whoever calls the model has to shift them"


def _shifts(session: Session) -> tuple[int, ...]:
    """How far before its label an output may stand; the first is what is expected.

    `labels` stand where their ids stand. Under any other name the caller may have shifted them.
    """
    if session.subject.plan.has("source"):
        return (0,)
    is_fixed = "loss" in session.subject.parts or session.subject.plan.roles["labels"] == "labels"
    return (1,) if is_fixed else (1, 0)


def _peeks(session: Session, setting: Setting, call: Call, shift: int) -> Finding | None:
    """Outputs must not change with the labels they are to predict, in training neither."""
    if "loss" in session.subject.parts:
        return None
    modes = (setting, replace(setting, is_training=True))
    found = (_peeks_in(session, mode, call, shift) for mode in modes)
    return next((one for one in found if one is not None), None)


def _peeks_in(session: Session, setting: Setting, call: Call, shift: int) -> Finding | None:
    length, vocab = call.x.size(1), session.subject.kind.vocab or 2
    first = call.x.remainder(vocab)
    for cut in (1, length // 2, length - 1):
        later = torch.arange(length) >= cut
        second = torch.where(later, (first + 1 + call.x.flip(0) % (vocab - 1)) % vocab, first)
        a, b = replace(call, labels=first), replace(call, labels=second)
        before, after = session.out(setting, a), session.out(setting, b)
        if before.shape != after.shape or before.size(1) != length:
            return None  # with labels the forward returns something else
        keep = (torch.arange(length) <= cut - shift).expand(len(first), -1)
        diff = compare(before, after, keep)
        if diff.worst == 0.0 or not diff.is_finite:
            continue
        hit = Hit(setting, a, b, keep, diff, cut)
        if weigh(session, hit).verdict is not Verdict.DISPROVED:
            continue
        output = diff.where[1] if diff.where else 0
        return finding(
            "K9",
            setting,
            Verdict.DISPROVED,
            f"output {output} changes when labels from {cut} on do: it is told what it is asked",
            worst=diff.worst,
            pair=(output, cut),
            cause="the labels are an input of the model, not only of its loss",
            culprit=localise(session, hit),
        )
    return None


def _arguments(session: Session) -> int:
    return len(inspect.signature(session.subject.parts["loss"]).parameters)


def _one(
    session: Session, setting: Setting, call: Call, logits: Tensor, place: int, shift: int
) -> Finding | None:
    row, vocab = 1, logits.size(-1)
    first, second = int(call.x[1, place]) % vocab, int(call.x[0, place]) % vocab
    if first == second:
        second = (first + 1) % vocab
    losses = [_loss(session, setting, call, row, place, label) for label in (first, second)]
    moved = losses[0] - losses[1]
    if moved != moved:
        return _accuse(setting, place, "makes the loss NaN: no output answers it", None)
    if moved == 0.0:
        return _accuse(setting, place, "does not change the loss: no output answers it", None)
    expected = logits[..., second] - logits[..., first]  # (B, T): what each output would give
    if expected.numel() == 0:
        raise NoPowerError("the outputs have no vocabulary axis")
    apart = (expected - moved).abs()
    wanted = (row, place - shift)
    if float(apart[wanted]) <= TOLERANCE * max(1.0, abs(moved)):
        return None
    best = divmod(int(apart.argmin()), apart.size(1))
    if float(apart[best]) > TOLERANCE * max(1.0, abs(moved)):
        raise NoPowerError("the loss of one label is not the cross-entropy of any one output")
    return _accuse(
        setting, place, f"is answered by output {best[1]} of row {best[0]}, not {wanted[1]}", best
    )


def _accuse(setting: Setting, place: int, words: str, best: tuple[int, int] | None) -> Finding:
    return finding(
        "K9",
        setting,
        Verdict.DISPROVED,
        f"the label at position {place} of row 1 {words}",
        pair=(best[1], place) if best else None,
        cause="labels are shifted twice, not at all, or per part of a row",
    )


def _loss(
    session: Session, setting: Setting, call: Call, row: int, place: int, label: int
) -> float:
    wanted = torch.full(call.x.shape[:2], IGNORED)
    wanted[row, place] = label
    if "loss" in session.subject.parts:
        live = session.live(setting)
        session.forwards += 1
        with session.running(setting):
            arguments = (call.x, wanted, call.source)[: _arguments(session)]
            return float(live.parts["loss"](*arguments))
    loss = session.run(setting, replace(call, labels=wanted)).loss
    if loss is None:
        raise SkipCheckError("the forward returned no loss for its labels")
    return float(loss)


def _normalised(session: Session, setting: Setting) -> Finding:
    """A score per token: over the vocabulary, the probabilities of one place sum to one."""
    vocab = session.subject.kind.vocab
    if vocab is None or vocab > MOST_TOKENS:
        raise SkipCheckError(f"a sum over the vocabulary needs at most {MOST_TOKENS} ids")
    length = min(LENGTH, session.length)
    x = session.draw(82).x(1, length)
    for place in (1, length // 2, length - 1):
        rows = x.repeat(vocab, 1)
        rows[:, place] = torch.arange(vocab)
        live = session.live(setting)
        session.forwards += 1
        with session.running(setting):
            scores = live.parts["loss"](rows)
        if not isinstance(scores, Tensor) or scores.dim() != 2:
            raise SkipCheckError("the scoring function gives no score per token, (B, T)")
        at = place - (length - scores.size(1))  # the first token may have no score
        total = float((-scores[:, at].detach().double().abs()).exp().sum())
        if abs(total - 1.0) > 1e-6:
            return finding(
                "K9",
                setting,
                Verdict.DISPROVED,
                f"the probabilities of all tokens at position {place} sum to {total:.4f}, not to 1",
                worst=abs(total - 1.0),
                pair=(place, place),
                cause="the score of a token is worked out from inputs that contain it",
            )
    return finding("K9", setting, Verdict.VERIFIED, "probabilities sum to one at three positions")
