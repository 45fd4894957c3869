"""K8: every backend uses the same positions, and a single layer exactly its declared window."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lookleft.audit.checks.base import NoPowerError, SkipCheckError, finding
from lookleft.audit.checks.gradient import value_hit
from lookleft.audit.explain import dependency_map
from lookleft.audit.huggingface import backends, declared_window
from lookleft.audit.jacobian import gradient_map
from lookleft.audit.localise import localise
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Culprit, Finding, Verdict


def receptive_field(session: Session, setting: Setting) -> Finding:
    """Compare which inputs each output used, by gradient, between backends and with the config."""
    module = session.subject.module
    names = backends(module) if module is not None else ()
    window = declared_window(session.subject.config)
    if len(names) < 2 and window is None and not session.rule.is_fully_required:
        raise SkipCheckError("there is one attention backend only and no declared window")
    rows = list(range(session.rule.outputs(session.length)))
    if len(rows) > 64:
        raise SkipCheckError(f"{len(rows)} outputs are too many for a whole map; pass length=37")
    maps = {
        name: gradient_map(session, replace(setting, backend=name), rows)
        for name in names or (setting.backend,)
    }
    if any(not bool(torch.isfinite(one).all()) for one in maps.values()):
        raise NoPowerError("gradients are not finite, so they say nothing")
    first = next(iter(maps))
    for name, norms in maps.items():
        if (found := _judged(session, setting, name, norms, window)) is not None:
            return found
        apart = (norms > 1e-12 * norms.max()) ^ (maps[first] > 1e-12 * maps[first].max())
        if bool(apart.any()):
            target, source = divmod(int(apart.int().argmax()), norms.size(1))
            return finding(
                "K8",
                setting,
                Verdict.DISPROVED,
                f"output {target} uses input {source} with one of {first} and {name} only",
                pair=(target, source),
                cause="the backends draw different masks or windows",
                culprit=_culprit(session, replace(setting, backend=name), target, source),
                dependencies=dependency_map(norms, session),
            )
    words = f"the same with {' and '.join(str(name) for name in maps)}"
    if window is not None:
        words += f"; equal to the declared window of {window}"
    return finding("K8", setting, Verdict.VERIFIED, f"positions used are {words}")


def _culprit(session: Session, setting: Setting, target: int, source: int) -> Culprit | None:
    """The module through which one position reaches another, if it does."""
    hit = value_hit(session, setting, target, source)
    return None if hit is None else localise(session, hit)


def _judged(
    session: Session, setting: Setting, name: str | None, norms: Tensor, window: int | None
) -> Finding | None:
    """One backend against the declared window, or against a rule that requires everything."""
    used = norms > 0
    blamed = None
    if session.rule.is_fully_required and not bool(used.all()):
        target, source = divmod(int((~used).int().argmax()), norms.size(1))
        words = f"with {name or 'its only backend'} output {target} does not use input {source}"
        cause = "a mask hides what must be seen (a causal mask on an encoder)"
        # What lets the other direction through, and only that one, is where the mask is.
        blamed = (source, target)
    elif window is not None:
        gap = torch.arange(norms.size(0))[:, None] - torch.arange(norms.size(1))[None, :]
        wrong = used ^ ((gap >= 0) & (gap < window))
        if not bool(wrong.any()):
            return None
        target, source = divmod(int(wrong.int().argmax()), norms.size(1))
        verb = "uses" if bool(used[target, source]) else "does not use"
        words = f"with {name} output {target} {verb} input {source}, the window is {window}"
        cause = "the window is off by one, lost or narrowed on this backend"
    else:
        return None
    return finding(
        "K8",
        setting,
        Verdict.DISPROVED,
        words,
        pair=(target, source),
        cause=cause,
        culprit=_culprit(session, replace(setting, backend=name), *(blamed or (target, source))),
        dependencies=dependency_map(norms, session),
    )
