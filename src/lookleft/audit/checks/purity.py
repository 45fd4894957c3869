"""K0: the same input gives the same output, whatever was asked before."""

from __future__ import annotations

import torch

from lookleft.audit.checks.base import NoPowerError, finding
from lookleft.audit.session import Session, Setting, compare, reseed
from lookleft.audit.subject import Answer, Call, Subject, cast
from lookleft.audit.verdict import Finding, Verdict


def purity(session: Session, setting: Setting) -> Finding:
    """f(x) twice; then around longer, shorter and train-mode neighbours: always the same."""
    x = session.draw(1).x(3, session.brief_length)
    call, _ = session.dress(setting, x)
    first = session.run(setting, call).out
    if not bool(torch.isfinite(first).all()):
        raise NoPowerError("the outputs contain NaN or infinite values, so nothing can be compared")
    _remark_on_globals(session, setting, call)
    if not _varies(session, setting, first):
        raise NoPowerError("the outputs do not depend on the input at all")
    keep = torch.ones(first.shape[:2], dtype=torch.bool)
    diff = compare(first, _again(session, setting, call, 0), keep)
    if diff.worst > 0:
        if diff.relative < 1e-12:
            raise NoPowerError(
                f"two identical calls differ by {diff.relative:.1e}: the kernels are not "
                "deterministic, so exact comparisons carry noise"
            )
        return finding(
            "K0",
            setting,
            Verdict.DISPROVED,
            "two identical calls on fresh copies with the same seed give different outputs: the "
            "model is not deterministic, so other verdicts are statistical at best",
            worst=diff.worst,
            cause="randomness that no seed reaches, or state outside the module (a global)",
        )
    other_seed = _again(session, setting, call, 12345)
    diff = compare(first, other_seed, keep)
    if diff.worst > 0:
        return finding(
            "K0",
            setting,
            Verdict.DISPROVED,
            "in eval mode the output changes with the random seed: dropout or sampling is active",
            worst=diff.worst,
            cause="dropout left on in eval mode, or sampling inside forward",
        )
    return _history(session, setting, call)


def _remark_on_globals(session: Session, setting: Setting, call: Call) -> None:
    """Note what a forward changes for everybody; the audit itself puts it back each time."""
    live = session.live(setting)
    with session.running(setting):
        before = _globals()
        session.forwards += 1
        live.forward(cast(call, setting.dtype))
        after = _globals()
    for name, value in before.items():
        if after[name] != value:
            session.note(f"a forward changes the {name} of the process: {value} -> {after[name]}")


def _globals() -> dict[str, object]:
    return {
        "default dtype": torch.get_default_dtype(),
        "gradient mode": torch.is_grad_enabled(),
        "number of threads": torch.get_num_threads(),
        "random seed": torch.initial_seed(),
    }


def _varies(session: Session, setting: Setting, first: torch.Tensor) -> bool:
    other, _ = session.dress(setting, session.draw(2).x(3, session.brief_length))
    return not torch.equal(first, session.run(setting, other).out)


def _again(session: Session, setting: Setting, call: Call, extra: int) -> torch.Tensor:
    live = session.live(setting)
    with session.running(setting, seed=session.seed + extra):
        session.forwards += 1
        return live.forward(cast(call, setting.dtype)).out.detach()


def _history(session: Session, setting: Setting, call: Call) -> Finding:
    live, draw, length = session.live(setting), session.draw(3), session.brief_length
    first = _run(session, setting, live, call).out
    keep = torch.ones(first.shape[:2], dtype=torch.bool)
    lengths = [max(length // 2, 1), 1]
    if session.rule.documents is None and not session.subject.extras:
        lengths.insert(0, length + 6)
    done = []
    for other in lengths:
        neighbour, _ = session.dress(setting, draw.x(2, other))
        try:
            _run(session, setting, live, neighbour)
        except Exception:  # this length is not possible, so it cannot have left traces
            live = session.live(setting)
            continue
        done.append(other)
        if (found := _differs(session, setting, live, call, first, keep)) is not None:
            return _stale(session, setting, found, f"a call of length {other} in between")
    for module in live.modules:
        module.train()
        module.eval()
    if (found := _differs(session, setting, live, call, first, keep)) is not None:
        return _stale(session, setting, found, "switching to train mode and back")
    if session.quick:
        return _clean(setting, done)
    return _fresh_against_used(session, setting, call, done)


def _fresh_against_used(session: Session, setting: Setting, call: Call, done: list[int]) -> Finding:
    """A first call that is short must not change what later long calls give."""
    live = session.live(setting)
    short, _ = session.dress(setting, session.draw(4).x(1, 2))
    try:
        _run(session, setting, live, short)
    except Exception:  # length 2 is not possible
        return _clean(setting, done)
    fresh = session.run(setting, call).out
    keep = torch.ones(fresh.shape[:2], dtype=torch.bool)
    if (found := _differs(session, setting, live, call, fresh, keep)) is not None:
        return _stale(session, setting, found, "a short first call")
    return _clean(setting, done)


def _clean(setting: Setting, lengths: list[int]) -> Finding:
    return finding(
        "K0",
        setting,
        Verdict.VERIFIED,
        f"same output before and after calls of length {', '.join(map(str, lengths)) or 'none'}, "
        "other seeds and a train/eval toggle",
    )


def _run(session: Session, setting: Setting, live: Subject, call: Call) -> Answer:
    return session.run(setting, call, live)


def _differs(
    session: Session,
    setting: Setting,
    live: Subject,
    call: Call,
    first: torch.Tensor,
    keep: torch.Tensor,
) -> float | None:
    reseed(session.seed)
    diff = compare(first, _run(session, setting, live, call).out, keep)
    return diff.worst if diff.worst > 0 or not diff.is_finite else None


def _stale(session: Session, setting: Setting, worst: float, what: str) -> Finding:
    return finding(
        "K0",
        setting,
        Verdict.DISPROVED,
        f"the same input gives another output after {what}: the model keeps state between calls",
        worst=worst,
        cause="stale module state (a cached mask, position table or statistic)",
    )
