"""K1 for models that never answer twice alike: runs are samples, the verdict statistical."""

from __future__ import annotations

from torch import Tensor

from lookleft.audit.canary import planted
from lookleft.audit.chance import ALPHA, CALM, odds_of, permutation_test
from lookleft.audit.checks.base import NoPowerError, finding
from lookleft.audit.session import Session, Setting
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

PLANTED = (0.01, 0.1, 1.0)  # shares of the next position's embedding


def swap_of_samples(session: Session, setting: Setting, a: Call, b: Call, keep: Tensor) -> Finding:
    """Are outputs distributed alike whatever comes later? `keep` (B, T_out): where they must be.

    Passes only if a planted leak is noticed by the same test.
    """
    odds = odds_of(session, setting, a, b, keep)
    if odds.p_value < ALPHA:
        return finding(
            "K1",
            setting,
            Verdict.DISPROVED,
            f"output {odds.where[1]} is distributed otherwise when later inputs change, which "
            f"{session.rule.name!r} forbids: {odds.words}",
            worst=odds.distance,
            pair=(odds.where[1], _first_changed(a.x[odds.where[0]], b.x[odds.where[0]])),
            cause="seen through noise, so neither a map nor a module can be given: fix the noise",
        )
    if odds.p_value < CALM:
        raise NoPowerError(f"too odd for chance, too weak to accuse ({odds.words})")
    for size in PLANTED:
        if _notices(session, setting, a, b, keep, size):
            words = f"every output is distributed alike whatever comes later ({odds.words})"
            return finding("K1", setting, Verdict.VERIFIED, words, detection_limit=size)
    raise NoPowerError(f"the noise drowns even a planted leak ({odds.words})")


def _first_changed(before: Tensor, after: Tensor) -> int:
    """The first position of a row (T, ...) that was replaced."""
    return int((before != after).reshape(len(before), -1).any(1).int().argmax())


def _notices(
    session: Session, setting: Setting, a: Call, b: Call, keep: Tensor, size: float
) -> bool:
    """Is a leak of this size, planted into both calls, told from chance?"""

    def sample(call: Call, seed: int) -> Tensor:
        out = planted(session, setting, call, size, seed)
        if out is None:
            raise NoPowerError("there is noise, and nowhere to plant a leak to weigh it by")
        return out

    found = permutation_test(lambda seed: sample(a, seed), lambda seed: sample(b, seed), keep)
    return found.p_value < ALPHA
