"""The counterexample made small, as a script that needs nothing of this package."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lookleft.audit.huggingface import is_from_library
from lookleft.audit.session import Session

if TYPE_CHECKING:
    from lookleft.audit.checks.base import Hit

SMALLER = (2, 3, 4, 6, 9, 13, 19)
_MOST_VALUES = 400  # beyond this an input is described by its seed instead of written out


def smaller_hit(hit: Hit, again: Callable[[Tensor], Hit | None]) -> Hit:
    """The shortest hit that `again` can find when later positions change, or the one given."""
    for length in (n for n in SMALLER if n < hit.a.x.size(1)):
        for cut in sorted({length - 1, max(length // 2, 1), 1}, reverse=True):
            try:
                found = again(torch.arange(length) >= cut)
            except Exception:  # too short for this model
                found = None
            if found is not None and found.difference.relative >= 1e-3 * hit.difference.relative:
                return found
    return hit


def script(session: Session, hit: Hit) -> str | None:
    """A script that shows the hit; None when its inputs cannot be written down."""
    subject = session.subject
    is_plain = subject.time == (1, 1) and subject.is_batched and not subject.extras
    if not is_plain or hit.a.x.numel() > _MOST_VALUES or hit.a.source is not None:
        return None
    rows = [row for row in range(hit.keep.size(0)) if bool(hit.keep[row].any())]
    row, kept = rows[0], hit.keep[rows[0]].nonzero()[:, 0].tolist()
    wide = ".double()" if hit.setting.dtype == torch.float64 else ""
    mode = ".train()" if hit.setting.is_training else ".eval()"
    lines = [
        "import torch",
        *_model_lines(subject.module, hit),
        f"model = model{wide}{mode}",
        f"a = {_written(hit.a.x)}",
        f"b = {_written(hit.b.x)}",
        *_named_lines(session, hit),
        "def run(x):",
        "    torch.manual_seed(0)",
        "    with torch.no_grad():",
        f"        out = model(x{', **named' if _named_lines(session, hit) else ''})",
        "    out = out[0] if isinstance(out, tuple) else out",
        '    return getattr(out, "logits", out)',
        f"apart = (run(a) - run(b))[{row}, {kept}].abs().max()",
        'print("largest change where nothing may change:", float(apart))',
    ]
    return "\n".join(lines) + "\n"


def _model_lines(module: nn.Module | None, hit: Hit) -> list[str]:
    if module is None:
        return ["model = torch.nn.Identity()  # put your function here, as a module"]
    if not is_from_library(module) or not type(module).__module__.startswith("transformers."):
        return _own_model(type(module))
    config: Any = module.config
    backend = hit.setting.backend or config._attn_implementation
    settings = {key: value for key, value in config.to_diff_dict().items() if _is_plain(value)}
    return [
        f"from transformers import {type(config).__name__}, {type(module).__name__}",
        "torch.manual_seed(0)",
        f"config = {type(config).__name__}(**{settings!r})",
        f"config._attn_implementation = {backend!r}",
        f"model = {type(module).__name__}(config)",
    ]


def _own_model(kind: type[nn.Module]) -> list[str]:
    """How to make the user's model: by its class if that takes no arguments."""
    needs = [p for p in signature(kind).parameters.values() if p.default is p.empty]
    if needs or kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        return [f"model = build()  # your {kind.__name__}, as it was audited"]
    return [f"from {kind.__module__} import {kind.__name__}", f"model = {kind.__name__}()"]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(part) for part in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    return isinstance(value, int | float | str | bool | type(None))


def _named_lines(session: Session, hit: Hit) -> list[str]:
    """The masks and flags of the call, by the names the model gives them."""
    plan, call = session.subject.plan, hit.a
    named: dict[str, str] = {}
    if call.is_token is not None and plan.has("is_token"):
        mask = plan.styles["is_token"].write(call.is_token)
        named[plan.roles["is_token"]] = _written(mask)
    for role in ("positions", "documents"):
        value = getattr(call, role)
        if value is not None and plan.has(role):
            named[plan.roles[role]] = _written(value)
    if call.use_cache is not None and plan.has("use_cache"):
        named[plan.roles["use_cache"]] = str(call.use_cache)
    if call.attentions and plan.has("attentions"):
        named[plan.roles["attentions"]] = "True"
    if not named:
        return []
    return ["named = {" + ", ".join(f"{key!r}: {value}" for key, value in named.items()) + "}"]


def _written(values: Tensor) -> str:
    if values.dtype == torch.bool:
        return f"torch.tensor({values.tolist()})"
    if values.is_floating_point():
        return f"torch.tensor({values.tolist()}, dtype=torch.float64)"
    return f"torch.tensor({values.tolist()})"
