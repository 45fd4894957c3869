"""Trial runs that show how a subject wants its ids and positions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.audit.inputs import Draw
from lookleft.audit.subject import Call, Subject, cast


def outputs_for(subject: Subject, length: int) -> int:
    """How many output positions a forward of this length gives."""
    return tried(subject, trial_call(subject, length, rows=3)).size(1)


def trial_call(subject: Subject, length: int, rows: int) -> Call:
    """Random inputs in the dtype of the subject's weights."""
    draw = Draw(subject.kind, 0)
    source = draw.source(rows) if subject.plan.has("source") else None
    dtype = next((p.dtype for m in subject.modules for p in m.parameters()), torch.float32)
    return cast(
        Call(draw.x(rows, length), source=source), dtype if dtype.is_floating_point else None
    )


def tried(subject: Subject, call: Call) -> Tensor:
    """Outputs of one forward on a fresh copy in eval mode."""
    twin = subject.copied(share_parameters=True)
    for module in twin.modules:
        module.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return twin.forward(call).out


def with_whole_vocabulary(subject: Subject, length: int) -> Subject:
    """Found to run with few ids: use all rows of the table that the ids are looked up in."""
    if subject.config is not None or not subject.kind.is_discrete or not subject.modules:
        return subject
    call = trial_call(subject, length, rows=3)
    wanted = subject.native(call.x, subject.time[0])
    sizes: list[int] = []

    def look(table: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and torch.equal(args[0], wanted):
            sizes.append(int(table.num_embeddings))  # type: ignore[arg-type]

    twin = subject.copied(share_parameters=True)
    for module in twin.modules:
        module.eval()
        for table in (m for m in module.modules() if isinstance(m, nn.Embedding)):
            table.register_forward_pre_hook(look)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin.forward(call)
    size = min(sizes, default=subject.kind.vocab or 2)
    if subject.kind.vocab is None or size <= subject.kind.vocab:
        return subject
    return replace(subject, kind=replace(subject.kind, vocab=size))


def with_positions(subject: Subject, length: int) -> Subject:
    """The subject with the number its positions start at, or without explicit positions."""
    if not subject.plan.has("positions"):
        return subject
    call = trial_call(subject, length, rows=2)
    expected = tried(subject, call)
    counted = torch.arange(length).expand(2, -1)
    for first in range(4):
        plan = replace(subject.plan, first_position=first)
        trial = replace(subject, plan=plan)
        try:
            out = tried(trial, replace(call, positions=counted))
        except Exception:  # positions of another shape or meaning
            break
        if out.shape == expected.shape and torch.allclose(out, expected, rtol=1e-3, atol=1e-5):
            return trial
    return replace(subject, plan=subject.plan.without("positions"))
