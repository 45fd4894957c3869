"""Trial runs that show how a subject wants its ids, masks and positions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.audit.inputs import Draw
from lookleft.audit.signature import MaskStyle
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
    roles = {role: name for role, name in subject.plan.roles.items() if role != "positions"}
    return replace(subject, plan=replace(subject.plan, roles=roles))


def with_mask_style(subject: Subject, length: int) -> Subject:
    """The subject with its padding masks written the way it understands, or without them."""
    plan = subject.plan
    for role in ("is_token", "source_is_token"):
        if not plan.has(role):
            continue
        guess = plan.styles[role]
        is_ambiguous = plan.roles[role] in ("mask", "src_mask", "source_mask", "valid")
        turns = (
            (guess.token_is_true, not guess.token_is_true)
            if is_ambiguous
            else (guess.token_is_true,)
        )
        dtypes = dict.fromkeys((guess.dtype, torch.bool, torch.long, torch.float32))
        styles = [MaskStyle(turn, dtype) for turn in turns for dtype in dtypes]
        best = _best_style(subject, role, styles, length)
        if best is not None:
            plan = replace(plan, styles={**plan.styles, role: best})
        else:
            roles = {other: name for other, name in plan.roles.items() if other != role}
            plan = replace(plan, roles=roles)
        subject = replace(subject, plan=plan)
    return subject


def _best_style(
    subject: Subject, role: str, styles: list[MaskStyle], length: int
) -> MaskStyle | None:
    """The first style in which a mask of tokens says nothing; else the first that runs."""
    runs = None
    for style in styles:
        rank = _understands(subject, role, style, length)
        if rank == 0:
            return style
        if rank is not None and runs is None:
            runs = style
    return runs


def _understands(subject: Subject, role: str, style: MaskStyle, length: int) -> int | None:
    """0: a mask of all tokens says the same as no mask; 1: it runs; None: it fails."""
    plan = replace(subject.plan, styles={**subject.plan.styles, role: style})
    trial = replace(subject, plan=plan)
    call = trial_call(trial, length, rows=2)
    shape = call.x.shape[:2] if role == "is_token" or call.source is None else call.source.shape[:2]
    dressed = call.changed(**{role: torch.ones(shape, dtype=torch.bool)})
    try:
        outs = [tried(trial, one) for one in (call, dressed)]
    except Exception:  # this way of writing the mask is not understood
        return None
    if outs[0].shape != outs[1].shape:
        return None
    return 0 if torch.allclose(outs[0], outs[1], rtol=1e-3, atol=1e-5, equal_nan=True) else 1
