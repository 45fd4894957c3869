"""K1 on compiled code: a compiler may lose a mask that the code it reads has."""

from __future__ import annotations

import shutil
import time as clock
import warnings

from lookleft.audit.checks.base import SkipCheckError
from lookleft.audit.checks.future import future_swap
from lookleft.audit.session import Session, Setting
from lookleft.audit.verdict import Finding

PATIENCE = 20.0  # seconds that tracing may take before code generation is not even begun
_COMPILERS = ("g++", "gcc", "clang++", "c++")


def compiled_swap(session: Session, setting: Setting) -> Finding:
    """Future-swap through torch.compile; skipped where it would fail or take too long.

    A compilation cannot be interrupted, so the time is kept by not beginning the slow one: code
    generation costs several times what tracing did.
    """
    if setting.compiler == "inductor":
        if not any(shutil.which(name) for name in _COMPILERS):
            raise SkipCheckError("no C++ compiler is installed, so no code can be generated")
        traced = session.seconds_traced
        if traced is None or traced > PATIENCE:
            took = "failed" if traced is None else f"took {traced:.0f} s"
            raise SkipCheckError(f"tracing the model {took}, so generating code is not tried")
    began = clock.perf_counter()
    with warnings.catch_warnings():
        # The compiler warns about itself; where warnings are errors the model would be blamed.
        warnings.simplefilter("ignore")
        found = future_swap(session, setting)
    if setting.compiler != "inductor":
        session.seconds_traced = clock.perf_counter() - began
    return found
