"""What every check shares: findings in words, and hits that are confirmed before they count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lookleft.audit.chance import ALPHA, odds_of
from lookleft.audit.precision import OTHER_SHAPE_TOLERANCE, Rung, in_words
from lookleft.audit.session import Difference, Session, Setting, compare
from lookleft.audit.subject import Call
from lookleft.audit.verdict import Finding, Verdict

TITLES = {
    "K0": "purity",
    "K1": "future-swap",
    "K1g": "gradient",
    "K2": "truncation",
    "K3": "cache",
    "K4": "padding",
    "K5": "batch",
    "K6": "packing",
    "K7": "encoder-decoder",
    "K8": "receptive field",
    "K9": "labels",
    "K10": "generation",
    "K11": "dtype",
}
NATIVE_FLOOR = 3e-6  # relative; below it an other-shape difference may be float32 rounding
NATIVE_ROUNDING = 1e-5  # relative; below it, in a model that cannot run in float64, it is rounding
NATIVE_LEAK = 1e-2  # relative; above it even a model that cannot run in float64 is accused
LOUD_LEAK = 1e-6  # relative; what loud weights leak must be larger than what they round
FAR_ABOVE = 1e3  # a leak in a model with noise must stand out this much


class SkipCheckError(Exception):
    """Raised inside a check that turns out not to apply; its text is the reason."""


class NoPowerError(Exception):
    """Raised inside a check that could not have failed; its text is the reason."""


@dataclass(frozen=True)
class Hit:
    """A pair of calls whose answers differ where they had to agree."""

    setting: Setting
    a: Call
    b: Call
    keep: Tensor  # (B, T_out) where they had to agree
    difference: Difference
    cut: int | None = None


def finding(
    check: str, setting: Setting | str, verdict: Verdict, reason: str, **rest: Any
) -> Finding:
    words = setting if isinstance(setting, str) else setting.words
    return Finding(check, TITLES[check], words, verdict, reason, **rest)


def guarded(
    check: str,
    setting: Setting,
    body: Callable[[Session, Setting], Finding],
    session: Session,
    *,
    is_extra: bool = False,
) -> Finding:
    """Run one check; a subject that fails in it gets a sentence, never a verdict about leaks.

    An extra configuration that cannot be run is skipped: the plain one speaks for the model.
    """
    weak = Verdict.SKIPPED if is_extra else Verdict.INCONCLUSIVE
    try:
        return body(session, setting)
    except SkipCheckError as reason:
        return finding(check, setting, Verdict.SKIPPED, str(reason))
    except NoPowerError as reason:
        return finding(check, setting, weak, str(reason))
    except Exception as error:  # a stranger's model may raise anything
        return finding(
            check,
            setting,
            weak,
            f"the model raised {type(error).__name__} in this probe: {_short(error)}",
        )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or "no message"


@dataclass(frozen=True)
class Judged:
    """A difference between two answers of other shapes, weighed."""

    is_violation: bool
    is_clear: bool  # False: cannot be told from rounding
    words: str
    difference: Difference


def agree_in_value(
    session: Session, setting: Setting, a: Tensor, b: Tensor, keep: Tensor
) -> Judged:
    """Do answers computed with other shapes agree? Judged in float64 with relative 1e-9."""
    diff = compare(a, b, keep)
    if not diff.is_finite and not _finite_where(a, b, keep):
        return Judged(False, False, "outputs are not finite", diff)
    if not diff.is_finite:
        diff = compare(_clean(a, keep), _clean(b, keep), keep)
    if session.is_random and diff.relative > OTHER_SHAPE_TOLERANCE:
        words = f"differ by {diff.relative:.1e}, but the model draws random numbers"
        return Judged(False, False, words, diff)
    if session.noise * FAR_ABOVE > diff.relative:
        words = f"differ by {diff.relative:.1e}, two identical calls by {session.noise:.1e}"
        return Judged(False, False, words, diff)
    if diff.relative <= OTHER_SHAPE_TOLERANCE:
        return Judged(False, True, f"agree to {diff.relative:.1e}", diff)
    if setting.dtype is None and not session.is_wide:
        words = f"differ by {diff.relative:.1e} in {str(a.dtype).removeprefix('torch.')}"
        is_bad = diff.relative > NATIVE_LEAK
        is_rounding = diff.relative < NATIVE_ROUNDING and a.dtype == torch.float32
        return Judged(is_bad, is_bad or is_rounding, f"{words} (float64 cannot be run)", diff)
    if setting.dtype != torch.float64 or diff.relative < NATIVE_FLOOR:
        words = f"differ by {diff.relative:.1e}, which rounding inside the model could explain"
        return Judged(False, False, words, diff)
    return Judged(True, True, f"differ by {diff.relative:.1e} in float64", diff)


def _finite_where(a: Tensor, b: Tensor, keep: Tensor) -> bool:
    return bool(torch.isfinite(a[keep]).all() and torch.isfinite(b[keep]).all())


def _clean(values: Tensor, keep: Tensor) -> Tensor:
    """Values outside `keep` set to zero: padding may hold anything, NaN included."""
    return torch.where(keep.reshape(*keep.shape, *[1] * (values.dim() - 2)), values, 0.0)


@dataclass(frozen=True)
class Weighed:
    """A confirmed or dismissed same-shape hit."""

    verdict: Verdict
    words: str


_OTHER_DRAWS = "the two calls draw different numbers of random values"


def weigh(session: Session, hit: Hit) -> Weighed:
    """Rounding, noise or leak? Only a leak may be accused."""
    native = hit.difference.relative
    noise = session.noise_of(hit.setting, hit.a)
    is_noisy = noise * FAR_ABOVE > native
    if is_noisy or not session.draws_alike(hit.setting, hit.a, hit.b):
        odds = odds_of(session, hit.setting, hit.a, hit.b, hit.keep)
        verdict = Verdict.DISPROVED if odds.p_value < ALPHA else Verdict.INCONCLUSIVE
        why = f"two identical calls differ by {noise:.1e}" if is_noisy else _OTHER_DRAWS
        return Weighed(verdict, f"{why}, so runs were compared as samples ({odds.words})")
    if hit.setting.loudness != 1.0 and native < LOUD_LEAK:
        words = f"a change of {native:.1e} may be rounding that loud weights made larger"
        return Weighed(Verdict.SKIPPED, words)
    if is_narrow(hit.setting):
        if native > 0.02:
            return Weighed(Verdict.DISPROVED, f"relative change {native:.1e} in this dtype")
        return Weighed(Verdict.SKIPPED, f"a change of {native:.1e} is within 16-bit rounding")
    rung, d32, d64 = session.ladder(hit.setting, hit.a, hit.b, hit.keep)
    words = in_words(rung, d32, d64)
    if hit.setting.is_training and d64 == 0.0:
        # Dropout inside an expert falls on whichever tokens were sent there, in whichever order.
        return Weighed(Verdict.SKIPPED, f"shows in one precision only, with random draws: {words}")
    if rung in (Rung.LEAK, Rung.TINY_LEAK):
        return Weighed(Verdict.DISPROVED, words)
    if rung is Rung.ROUNDING:
        return Weighed(Verdict.VERIFIED, words)
    return Weighed(Verdict.INCONCLUSIVE, words)


def is_narrow(setting: Setting) -> bool:
    """Does this setting round to 16 bits? Then only large changes mean anything."""
    return setting.dtype in (torch.float16, torch.bfloat16) or setting.around == "autocast"


def lookup_of(func: Any, args: Any, kwargs: dict[str, Any], result: Any, ids: Tensor) -> bool:
    """Is this torch call the lookup of exactly these ids in an embedding table?"""
    if func is torch.nn.functional.embedding:
        index = args[0] if args else kwargs.get("input")
    elif func in (torch.embedding, torch.Tensor.__getitem__):
        index = args[1] if len(args) > 1 else kwargs.get("indices")
    else:
        return False
    return (
        isinstance(index, Tensor)
        and isinstance(result, Tensor)
        and result.is_floating_point()
        and index.shape == ids.shape
        and bool((index == ids).all())
    )
