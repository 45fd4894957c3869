"""From whatever the user handed over to a subject that can be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.audit.constants import ids_with_meaning
from lookleft.audit.huggingface import is_huggingface, plain_greedy, special_ids, vocabulary
from lookleft.audit.masking import (
    is_causal,
    ways_to_call,
    with_causal_mask,
    with_mask_style,
)
from lookleft.audit.signature import MaskStyle, Plan, read_plan
from lookleft.audit.spec import Rule
from lookleft.audit.subject import Kind, Subject
from lookleft.audit.trials import outputs_for, with_positions, with_whole_vocabulary
from lookleft.errors import InputError

LENGTHS = (37, 17, 9, 5, 3, 2)  # the first that the subject accepts is used
_MEANS_IDS = ("ids", "idx", "tok")


def recognise(
    target: Any,
    rule: Rule,
    *,
    inputs: Any = None,
    time: tuple[int, int] = (1, 1),
    vocab: int | None = None,
    length: int | None = None,
    capabilities: Mapping[str, Callable[..., Any] | str | None],
) -> tuple[Subject, int]:
    """A subject and a length it accepts, or an InputError that says what is missing."""
    if vocab is not None and vocab < 2:
        raise InputError(f"vocab={vocab}: with fewer than 2 ids there is nothing to change")
    parts = _parts(target, capabilities)
    name = _name_of(target, parts["target"])
    plan = _plan_of(parts, name)
    sample = _Sample(inputs, plan)
    config = target.config if is_huggingface(target) else None
    if config is not None and "generate" not in parts and _can_generate(target):
        parts["generate"] = _huggingface_generate(target)
    if plan.unknown and not set(plan.unknown) <= set(sample.extras):
        raise InputError(
            f"{name} also needs {', '.join(plan.unknown)}, which cannot be guessed; pass inputs as "
            "a dictionary with all of them, or wrap the call in a function of one argument"
        )
    subject = Subject(
        name,
        parts,
        plan,
        Kind(),
        time=time,
        is_batched=_is_batched(sample.x, time[0]),
        extras=sample.extras,
        config=config,
    )
    lengths = _lengths(length, rule, sample, subject.is_batched, time[0])
    subject, used = _first_that_runs(subject, _kinds(subject, sample, vocab), rule, lengths)
    if config is None and (size := subject.kind.vocab) is not None:
        special = {*subject.kind.special, *ids_with_meaning(subject, size)}
        subject = replace(subject, kind=replace(subject.kind, special=tuple(sorted(special))))
    short = used if rule.documents is not None or subject.extras else min(used, 9)
    subject = with_mask_style(subject, short)
    if rule.name == "causal":
        subject = with_causal_mask(subject, short)
    return with_positions(subject, short), used


class _Sample:
    """The user's example inputs, sorted into the probed one and the rest."""

    def __init__(self, inputs: Any, plan: Plan) -> None:
        self.x: Tensor | None = None
        self.source: Tensor | None = None
        self.extras: dict[str, Any] = {}
        if callable(inputs) and not isinstance(inputs, Tensor):
            try:
                inputs = inputs()
            except TypeError as error:
                raise InputError(f"inputs() must work without arguments: {error}") from error
        if inputs is None:
            return
        if isinstance(inputs, Tensor):
            self.x = inputs
        elif isinstance(inputs, Mapping):
            known = {name: role for role, name in plan.roles.items()}
            self.x = inputs.get(plan.first)
            self.source = inputs.get(plan.roles.get("source", ""))
            self.extras = {
                key: value
                for key, value in inputs.items()
                if key != plan.first and key not in known
            }
        elif isinstance(inputs, tuple | list) and all(isinstance(t, Tensor) for t in inputs):
            if plan.has("source") and len(inputs) > 1:
                order = plan.positional or ("source", "x")
                named = dict(zip(order, inputs, strict=False))
                self.x, self.source = named["x"], named["source"]
            else:
                self.x = inputs[0]
                self.extras = dict(zip(plan.unknown, inputs[1:], strict=False))
        if not isinstance(self.x, Tensor) or self.x.dim() == 0:
            raise InputError(
                f"inputs of type {type(inputs).__name__} hold no tensor for {plan.first!r}; pass a "
                "tensor, a tuple, a dictionary by parameter name, or a function that returns one"
            )


def _parts(target: Any, capabilities: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    parts: dict[str, Callable[..., Any]] = {}
    for name, given in capabilities.items():
        if isinstance(given, str):
            if not callable(getattr(target, given, None)):
                raise InputError(f"{name}={given!r}: the target has no method of that name")
            given = getattr(target, given)
        if given is not None and not callable(given):
            raise InputError(f"{name} must be a function, not {type(given).__name__}")
        if given is not None:
            parts[name] = given
    if not callable(parts.get("decode", target)):
        raise InputError(f"cannot audit {type(target).__name__}: it is not callable")
    parts["target"] = parts.pop("decode", target)
    return parts


def _name_of(target: Any, forward: Any) -> str:
    thing = forward if target is None else target
    if isinstance(thing, nn.Module):
        return type(thing).__name__
    return str(getattr(thing, "__qualname__", type(thing).__name__))


def _plan_of(parts: dict[str, Callable[..., Any]], name: str) -> Plan:
    forward = parts["target"]
    function = forward.forward if isinstance(forward, nn.Module) else forward
    plan = read_plan(function, name)
    names = list(inspect.signature(function).parameters)
    if plan.has("source") or isinstance(forward, nn.Module) or len(names) < 2:
        return plan
    if "encode" in parts or not plan.roles:  # decode(source, target[, source mask])
        roles = {"source": names[0]}
        styles = {}
        if len(names) > 2:
            roles["source_is_token"] = names[2]
            styles["source_is_token"] = MaskStyle(token_is_true="pad" not in names[2])
        if len(plan.unknown) or "encode" in parts:
            return Plan(names[1], roles, positional=("source", "x"), styles=styles)
    return plan


def _is_batched(x: Tensor | None, axis: int) -> bool:
    if x is None or axis:
        return x is None or x.dim() > 1
    return x.dim() > 2 or (x.dim() == 2 and not x.is_floating_point())


def _kinds(subject: Subject, sample: _Sample, vocab: int | None) -> list[Kind]:
    """Ways to build inputs, most likely first."""
    if subject.config is not None and sample.x is None:
        size = vocab or vocabulary(subject.config)
        if size is None:
            raise InputError(f"{subject.name}: the config has no vocab_size; pass vocab=")
        avoid, special = special_ids(subject.config)
        avoid = tuple(i for i in avoid if i < size)
        return [Kind(size, (), avoid, special, source_vocab=size)]
    tables = [m.num_embeddings for root in subject.modules for m in _of(root, nn.Embedding)]
    if sample.x is not None:
        return [_kind_of_sample(subject, sample, vocab, tables)]
    if vocab is not None:
        return [_plain_ids(vocab, vocab)]
    if not subject.modules:
        raise InputError(
            f"{subject.name} is a plain function: pass inputs= (an example tensor) or vocab="
        )
    kinds = [_plain_ids(size, size) for size in sorted(set(tables))]
    widths = [Kind(shape=(width,), source_shape=(width,)) for width in _widths(subject.modules)]
    if any(part in subject.plan.first for part in _MEANS_IDS):
        widths = []
    return [*kinds, *widths]


def _plain_ids(size: int, source_size: int | None) -> Kind:
    """Ids without known meanings; the first and last are the likeliest to have one."""
    special = sorted({*range(min(4, size)), size - 2, size - 1} - {-1})
    return Kind(size, special=tuple(special), source_vocab=source_size)


def _kind_of_sample(
    subject: Subject, sample: _Sample, vocab: int | None, tables: list[int]
) -> Kind:
    assert sample.x is not None
    x = subject_layout(sample.x, subject)
    source = sample.source if sample.source is not None else sample.x
    laid = subject_layout(source, subject)
    source_vocab = None if laid.is_floating_point() else _vocab_of(laid, vocab, tables)
    if not x.is_floating_point():
        size = _vocab_of(x, vocab, tables)
        return replace(_plain_ids(size, source_vocab), source_shape=tuple(laid.shape[2:]))
    spread = float(x.float().std()) if x.numel() > 1 else 1.0
    return Kind(
        None,
        tuple(x.shape[2:]),
        source_vocab=source_vocab,
        source_shape=tuple(laid.shape[2:]),
        magnitude=spread if 0 < spread < float("inf") else 1.0,
    )


def _vocab_of(x: Tensor, vocab: int | None, tables: list[int]) -> int:
    if vocab is not None:
        return vocab
    largest = int(x.max()) + 1
    return max((size for size in tables if size >= largest), default=max(largest, 2))


def subject_layout(x: Tensor, subject: Subject) -> Tensor:
    """A user's tensor with batch first and time second."""
    axis = subject.time[0]
    if not -x.dim() <= axis < x.dim():
        raise InputError(f"inputs of shape {tuple(x.shape)} have no axis {axis} for time")
    if not subject.is_batched:
        return x.movedim(axis, 0)[None]
    return x.movedim(axis, 1) if axis else x.transpose(0, 1)


def _of(root: nn.Module, kind: type[nn.Module]) -> list[Any]:
    return [part for part in root.modules() if isinstance(part, kind)]


def _widths(roots: list[nn.Module]) -> list[int]:
    names = ("d_model", "embed_dim", "input_size", "in_features", "in_channels", "normalized_shape")
    found: list[int] = []
    for part in (part for root in roots for part in root.modules()):
        for name in names:
            value = getattr(part, name, None)
            value = value[-1] if isinstance(value, tuple) and value else value
            if isinstance(value, int) and value not in found:
                found.append(value)
    return found[:6]


def _lengths(
    length: int | None, rule: Rule, sample: _Sample, is_batched: bool, axis: int
) -> tuple[int, ...]:
    if length is not None:
        if length < 2:
            raise InputError(f"length={length}: at least 2 positions are needed to see a leak")
        return (length,)
    if rule.documents is not None:
        return (len(rule.documents),)
    if sample.x is not None and sample.x.size(axis) > 1:
        preferred = sample.x.size(axis)
        return (*dict.fromkeys((max(preferred, 37), preferred, *LENGTHS)),)
    return LENGTHS


def _first_that_runs(
    subject: Subject, kinds: list[Kind], rule: Rule, lengths: tuple[int, ...]
) -> tuple[Subject, int]:
    problem: Exception | None = None
    for kind in kinds:
        for length in lengths:
            candidate = replace(subject, kind=kind)
            try:
                candidate, got = _that_runs(candidate, length)
            except InputError:
                raise
            except Exception as error:
                problem = problem or error
                continue
            if got != rule.outputs(length):
                raise InputError(
                    f"{subject.name}: {length} input positions gave {got} outputs along axis "
                    f"{subject.time[1]} where the rule {rule.name!r} expects "
                    f"{rule.outputs(length)}; say where time is with time=(input axis, output "
                    "axis), or use spec='stride:N' for a model that shortens its input"
                )
            return with_whole_vocabulary(candidate, length), length
    reason = (
        f"{type(problem).__name__}: {problem}" if problem else "no input shape could be guessed"
    )
    raise InputError(f"{subject.name} could not be run ({reason}); pass inputs= that it accepts")


def _that_runs(subject: Subject, length: int) -> tuple[Subject, int]:
    """The subject called in a way that works, and how many outputs that gives."""
    ways = [replace(subject, plan=plan) for plan in ways_to_call(subject.plan)]
    try:
        got = outputs_for(ways[0], length)
    except Exception:
        running = [way for way in ways[1:] if (is_causal(way, min(length, 9)) is not None)]
        if not running:
            raise
        best = next((way for way in running if is_causal(way, min(length, 9))), running[0])
        return best, outputs_for(best, length)
    if got == 1 < length and subject.plan.has("labels"):
        asked = replace(subject, plan=_with_labels(subject.plan))
        return asked, outputs_for(asked, length)
    return subject, got


def _with_labels(plan: Plan) -> Plan:
    """A plan that always passes labels: some models answer for the last position only without."""
    return replace(plan, needed=(*plan.needed, "labels"))


def _can_generate(target: Any) -> bool:
    asks = getattr(target, "can_generate", None)
    return callable(getattr(target, "generate", None)) and (not callable(asks) or bool(asks()))


def _huggingface_generate(model: Any) -> Callable[..., Tensor]:
    def generate(ids: Tensor, n: int, is_token: Tensor | None = None, **how: Any) -> Tensor:
        mask = torch.ones_like(ids) if is_token is None else is_token.long()
        if getattr(model.config, "is_encoder_decoder", False):
            defaults = model.generation_config
            if defaults.decoder_start_token_id is None and defaults.bos_token_id is None:
                how["decoder_start_token_id"] = 0  # any will do; a small config may name none
        with plain_greedy(model):
            out = model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=n,
                do_sample=False,
                num_beams=1,
                pad_token_id=0,
                **how,
            )
        return out if isinstance(out, Tensor) else out.sequences

    return generate
