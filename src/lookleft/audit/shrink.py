"""The counterexample made small, as a script that needs nothing of this package."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lookleft.audit.huggingface import is_from_library
from lookleft.audit.session import Session
from lookleft.audit.signature import TriangleStyle

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
    inputs = [value for call in (hit.a, hit.b) for value in (call.x, call.source)]
    size = max(0 if value is None else value.numel() for value in inputs)
    if not is_plain or size > _MOST_VALUES or hit.a.labels is not None:
        return None
    row = hit.difference.where[0] if hit.difference.where else int(hit.keep.any(1).int().argmax())
    kept = hit.keep[row].nonzero()[:, 0].tolist()
    wide = ".double()" if hit.setting.dtype == torch.float64 else ""
    mode = ".train()" if hit.setting.is_training else ".eval()"
    named = _named_lines(session, hit)
    lines = [
        "import torch",
        *_model_lines(subject.module, hit),
        f"model = model{wide}{mode}",
        *_input_lines(session, hit),
        *named,
        "def run(x):",
        "    torch.manual_seed(0)",
        "    with torch.no_grad():",
        f"        out = model({'x' if hit.a.source is None else '**x'}{', **named' * bool(named)})",
        "    out = out[0] if isinstance(out, tuple) else out",
        '    return getattr(out, "logits", out)',
        f"apart = (run(a) - run(b))[{row}, {kept}].abs().max()",
        'print("largest change where nothing may change:", float(apart))',
    ]
    return "\n".join(lines) + "\n"


def _input_lines(session: Session, hit: Hit) -> list[str]:
    """The two inputs; of an encoder-decoder both sides, of which one is the same."""
    a, b, plan = hit.a, hit.b, session.subject.plan
    if a.source is None or b.source is None:
        return [f"a = {_written(a.x)}", f"b = {_written(b.x)}"]
    names = {plan.roles["source"]: (a.source, b.source), plan.first: (a.x, b.x)}
    whole = ", ".join(f"{name!r}: {_written(one)}" for name, (one, _) in names.items())
    other = ", ".join(
        f"{name!r}: {_written(two)}" for name, (one, two) in names.items() if one is not two
    )
    return [f"a = {{{whole}}}", f"b = {{**a, {other}}}"]


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
    masks = {"is_token": call.is_token, "source_is_token": call.source_is_token}
    for role, mask in (masks | {"memory_is_token": call.source_is_token}).items():
        if mask is not None and plan.has(role):
            named[plan.roles[role]] = _written(plan.styles[role].write(mask))
    for role in ("positions", "documents"):
        value = getattr(call, role)
        if value is not None and plan.has(role):
            named[plan.roles[role]] = _written(value)
    if plan.has("triangle"):
        named[plan.roles["triangle"]] = _triangle(plan.triangle, call.x.size(1), hit)
    if call.use_cache is not None and plan.has("use_cache"):
        named[plan.roles["use_cache"]] = str(call.use_cache)
    if call.attentions and plan.has("attentions"):
        named[plan.roles["attentions"]] = "True"
    if not named:
        return []
    return ["named = {" + ", ".join(f"{key!r}: {value}" for key, value in named.items()) + "}"]


def _triangle(style: TriangleStyle, length: int, hit: Hit) -> str:
    """The causal mask as an expression."""
    wide = ", dtype=torch.float64" if hit.setting.dtype == torch.float64 else ""
    forms = {
        "added": f"torch.full(({length}, {length}), -torch.inf{wide}).triu(1)",
        "hide": f"torch.ones({length}, {length}, dtype=torch.bool).triu(1)",
        "allow": f"torch.ones({length}, {length}, dtype=torch.bool).tril()",
        "ones": f"torch.ones({length}, {length}, dtype=torch.long).tril()",
    }
    return forms[style.form] + "[None]" * style.axes


def _written(values: Tensor) -> str:
    if values.dtype == torch.bool:
        return f"torch.tensor({values.tolist()})"
    if values.is_floating_point():
        return f"torch.tensor({values.tolist()}, dtype=torch.float64)"
    return f"torch.tensor({values.tolist()})"
