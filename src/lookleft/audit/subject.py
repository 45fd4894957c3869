"""How to call a stranger's model: one batch-major call in, one batch-major answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.audit.copying import fresh_copy, modules_of
from lookleft.audit.signature import Plan, pick_cache, pick_loss, pick_output
from lookleft.errors import InputError


@dataclass(frozen=True)
class Call:
    """The inputs of one forward, batch first, time second."""

    x: Tensor  # (B, T) ids or (B, T, ...) values; the target side of an encoder-decoder
    is_token: Tensor | None = None  # (B, past + T) bool
    positions: Tensor | None = None  # (B, T)
    source: Tensor | None = None  # (B, S)
    source_is_token: Tensor | None = None  # (B, S) bool
    documents: Tensor | None = None  # (B, T)
    labels: Tensor | None = None  # (B, T)
    cache: Any = None
    use_cache: bool | None = None
    attentions: bool = False
    offset: int = 0  # tokens already in the cache

    def changed(self, **fields: Any) -> Call:
        """The same call with some fields replaced."""
        return replace(self, **fields)

    def only(self, rows: slice) -> Call:
        """The same call for some of its rows."""
        changes: dict[str, Any] = {"x": self.x[rows]}
        for name in ("is_token", "positions", "source", "source_is_token", "documents", "labels"):
            value = getattr(self, name)
            changes[name] = None if value is None else value[rows]
        return replace(self, **changes)


@dataclass(frozen=True)
class Answer:
    """What came back: outputs (B, T_out, ...), the next cache, the loss."""

    out: Tensor
    cache: Any = None
    loss: Tensor | None = None


@dataclass(frozen=True)
class Kind:
    """What the probed input looks like."""

    vocab: int | None = None  # ids below this; None: continuous values
    shape: tuple[int, ...] = ()  # of one position's value, when continuous
    avoid: tuple[int, ...] = ()  # ids with a meaning of their own
    special: tuple[int, ...] = ()  # of these, the ones worth putting into a suffix
    source_vocab: int | None = None
    source_shape: tuple[int, ...] = ()
    magnitude: float = 1.0
    longest: int | None = None  # more positions than this fail

    @property
    def is_discrete(self) -> bool:
        return self.vocab is not None


@dataclass
class Subject:
    """A model under audit with everything needed to call it."""

    name: str
    parts: dict[str, Callable[..., Any]]  # "target", and step, encode, decode, generate, loss
    plan: Plan
    kind: Kind
    time: tuple[int, int] = (1, 1)  # time axis of input and output
    is_batched: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)  # inputs the user fixed
    config: Any = None  # a Hugging Face config, if there is one
    notes: tuple[str, ...] = ()  # what was found out about how it wants to be called

    @property
    def modules(self) -> list[nn.Module]:
        return modules_of(list(self.parts.values()))

    @property
    def module(self) -> nn.Module | None:
        """The module whose forward is probed."""
        found = modules_of(self.parts["target"])
        return found[0] if found else None

    def has(self, capability: str) -> bool:
        return capability in self.parts or self.plan.has(capability)

    def copied(self, *, share_parameters: bool = False) -> Subject:
        """A twin with state of its own; with `share_parameters` it is cheap."""
        parts = fresh_copy(self.parts, share_parameters=share_parameters)
        twin = replace(self, parts=parts)
        if self.config is not None and twin.module is not None:
            twin.config = twin.module.config
        return twin

    def forward(self, call: Call) -> Answer:
        """Run the target once."""
        if not self.is_batched:
            rows = [self._forward(call.only(slice(r, r + 1))) for r in range(call.x.size(0))]
            return Answer(torch.cat([row.out for row in rows]))
        return self._forward(call)

    def _forward(self, call: Call) -> Answer:
        inputs = {"x": self.native(call.x, self.time[0]), "source": self._source(call)}
        arguments = [inputs.pop(role) for role in self.plan.positional]
        named = self._named(call)
        if not self.plan.positional:
            named[self.plan.first] = inputs["x"]
            if inputs["source"] is not None:
                named[self.plan.roles["source"]] = inputs["source"]
        result = self.parts["target"](*arguments, **named)
        out = pick_output(result)
        if out is None:
            raise InputError(
                f"{self.name} returned {type(result).__name__} without a tensor that has a time "
                "axis; wrap it in a function that returns the outputs per position"
            )
        wants_loss = call.labels is not None
        return Answer(
            self.canonical(out), pick_cache(result), pick_loss(result) if wants_loss else None
        )

    def _source(self, call: Call) -> Tensor | None:
        if call.source is None:
            return None
        return self.native(call.source, self.time[0])

    def _named(self, call: Call) -> dict[str, Any]:
        named = {key: self._fitted(value, call) for key, value in self.extras.items()}
        call = self._with_needed(call)
        values = {
            "positions": None
            if call.positions is None
            else call.positions + self.plan.first_position,
            "documents": call.documents,
            "labels": call.labels,
            "cache": call.cache,
            "use_cache": call.use_cache,
            "attentions": call.attentions or None,
            "triangle": self._triangle(call),
        }
        for role in ("is_token", "source_is_token"):
            mask = getattr(call, role)
            if mask is not None and self.plan.has(role):
                values[role] = self.plan.styles[role].write(mask)
        if call.source_is_token is not None and self.plan.has("memory_is_token"):
            values["memory_is_token"] = self.plan.styles["memory_is_token"].write(
                call.source_is_token
            )
        if self.plan.has("offset"):
            steps = torch.arange(call.offset, call.offset + call.x.size(1))
            is_vector = self.plan.roles["offset"] == "cache_position"
            values["offset"] = steps if is_vector else call.offset
        for role, value in values.items():
            if (value is not None and self.plan.has(role)) or role in self.plan.needed:
                named[self.plan.roles[role]] = value
        return named

    def _with_needed(self, call: Call) -> Call:
        """The call with a plain value for every role that has no default."""
        rows, length = call.x.shape[:2]
        total = call.offset + length
        plain: dict[str, Tensor] = {
            "is_token": torch.ones(rows, total, dtype=torch.bool),
            "positions": torch.arange(call.offset, total).expand(rows, -1),
            "documents": torch.zeros(rows, length, dtype=torch.long),
            "labels": torch.zeros(rows, length, dtype=torch.long),
        }
        if call.source is not None:
            plain["source_is_token"] = torch.ones(call.source.shape[:2], dtype=torch.bool)
        missing = {
            role: value
            for role, value in plain.items()
            if role in self.plan.needed and getattr(call, role) is None
        }
        return call.changed(**missing) if missing else call

    def _triangle(self, call: Call) -> Tensor:
        """The causal mask for models that want it from their caller."""
        is_wide = call.x.is_floating_point()
        dtype = call.x.dtype if is_wide else torch.get_default_dtype()
        return self.plan.triangle.write(call.x.size(1), dtype)

    def _fitted(self, value: Any, call: Call) -> Any:
        if not isinstance(value, Tensor) or value.dim() == 0:
            return value
        rows, length = call.x.size(0), call.x.size(1)
        if value.size(0) != rows and value.dim() > 1:
            value = value[:1].expand(rows, *value.shape[1:])
        return value[:, :length] if value.dim() > 1 and value.size(1) > length else value

    def native(self, x: Tensor, axis: int) -> Tensor:
        """(B, T, ...) laid out as the model wants it."""
        if not self.is_batched:
            return x[0].movedim(0, axis)
        return x.movedim(1, axis) if axis else x.transpose(0, 1)

    def canonical(self, out: Tensor) -> Tensor:
        """An output with batch first and time second."""
        axis = self.time[1]
        if out.dim() < (2 if self.is_batched else 1) or axis >= out.dim():
            raise InputError(
                f"{self.name} returned shape {tuple(out.shape)}, which has no axis {axis} for "
                "time; say where time is with time=(input axis, output axis)"
            )
        if not self.is_batched:
            return out.movedim(axis, 0)[None]
        return out.movedim(axis, 1) if axis else out.transpose(0, 1)


def cast(call: Call, dtype: torch.dtype | None) -> Call:
    """The call with continuous inputs in another dtype."""
    if dtype is None:
        return call
    changes = {
        name: value.to(dtype)
        for name in ("x", "source")
        if (value := getattr(call, name)) is not None and value.is_floating_point()
    }
    return replace(call, **changes) if changes else call
