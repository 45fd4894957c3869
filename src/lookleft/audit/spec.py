"""Which input position an output position may use: the rule a subject is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from lookleft.errors import InputError

Allowed = Callable[[int, int], bool]
Grid = Callable[[Tensor, Tensor], Tensor]  # (T, 1) outputs, (1, S) inputs -> (T, S) bool


@dataclass(frozen=True)
class Rule:
    """A dependency rule: `allowed` says what may be used, `required` what must be."""

    name: str
    grid: Grid
    edge: Grid | None = None  # pairs of which each existing diagonal must be used by some output
    stride: int = 1  # input positions per output position
    is_fully_required: bool = False  # every allowed pair must be used
    documents: tuple[int, ...] | None = None

    def outputs(self, length: int) -> int:
        """The number of outputs that `length` inputs give."""
        return -(-length // self.stride)

    def allowed(self, length: int) -> Tensor:
        """True where output i may use input j. (T_out, T)"""
        return self._paint(self.grid, length)

    def required(self, length: int) -> Tensor:
        """True where output i has to use input j; mostly empty. (T_out, T)"""
        if self.is_fully_required:
            return self.allowed(length)
        if self.edge is None:
            return torch.zeros(self.outputs(length), length, dtype=torch.bool)
        return self._paint(self.edge, length) & self.allowed(length)

    def protected(self, changed: Tensor) -> Tensor:
        """True for outputs that may not notice a change at the inputs marked. (T,) -> (T_out,)"""
        return ~(self.allowed(changed.numel()) & changed[None, :]).any(1)

    def _paint(self, grid: Grid, length: int) -> Tensor:
        outputs = torch.arange(self.outputs(length))[:, None]
        inputs = torch.arange(length)[None, :]
        return grid(outputs, inputs).expand(self.outputs(length), length).clone()


def parse_rule(spec: str | Rule | Sequence[int] | Allowed) -> Rule:
    """The rule a user wrote: a name, document ids, or a function allowed(i, j)."""
    if isinstance(spec, Rule):
        return spec
    if callable(spec):
        return Rule("custom", partial(_from_function, spec))
    if not isinstance(spec, str):
        return packed(spec)
    name, _, rest = spec.partition(":")
    if name in _PLAIN and not rest:
        return _PLAIN[name]
    if name == "packed" and rest:
        try:
            return packed([int(part) for part in rest.split(",")])
        except ValueError:
            raise InputError(f"{spec!r}: document ids must be integers, as packed:0,0,1") from None
    if name in _NUMBERED:
        least, make = _NUMBERED[name]
        if not rest.isdigit() or int(rest) < least:
            raise InputError(f"{spec!r} needs a number of at least {least}, as in {name}:{least}")
        return make(int(rest))
    known = ", ".join([*_PLAIN, *(f"{key}:N" for key in _NUMBERED), "packed:0,0,1"])
    raise InputError(f"unknown dependency rule {spec!r}: use one of {known}, or allowed(i, j)")


def window(width: int) -> Rule:
    """An output uses its own position and the `width - 1` before it."""
    return Rule(
        f"window:{width}",
        lambda i, j: (j <= i) & (i - j < width),
        edge=lambda i, j: i - j == width - 1,
    )


def lookahead(steps: int) -> Rule:
    """An output uses everything up to `steps` positions after its own."""
    return Rule(
        f"lookahead:{steps}",
        lambda i, j: j <= i + steps,
        edge=lambda i, j: j == i + steps,
    )


def prefix(count: int) -> Rule:
    """The first `count` positions see each other both ways; the rest only look left."""
    return Rule(
        f"prefix:{count}",
        lambda i, j: (j <= i) | (j < count),
        edge=lambda i, j: (i == 0) & (j == count - 1),
    )


def stride(step: int) -> Rule:
    """One output per `step` inputs; output i may use inputs up to (i + 1) * step - 1."""
    return Rule(f"stride:{step}", lambda i, j: j <= (i + 1) * step - 1, stride=step)


def packed(documents: Sequence[int]) -> Rule:
    """Several documents in one row: causal inside each, nothing between them."""
    ids = tuple(int(part) for part in documents)
    known = torch.tensor(ids, dtype=torch.long)

    def same_document(i: Tensor, j: Tensor) -> Tensor:
        longest = max(int(i.max()), int(j.max())) + 1
        if longest > known.numel():
            raise InputError(f"packed rule names {known.numel()} positions, input has {longest}")
        return (known[i] == known[j]) & (j <= i)

    return Rule("packed", same_document, documents=ids)


def _from_function(allowed: Allowed, i: Tensor, j: Tensor) -> Tensor:
    rows = [[bool(allowed(int(a), int(b))) for b in j.flatten()] for a in i.flatten()]
    return torch.tensor(rows, dtype=torch.bool)


_PLAIN = {
    "causal": Rule("causal", lambda i, j: j <= i),
    "strict": Rule("strict", lambda i, j: j < i),
    "bidirectional": Rule(
        "bidirectional", lambda i, j: (i >= 0) & (j >= 0), is_fully_required=True
    ),
}
_NUMBERED: dict[str, tuple[int, Callable[[int], Rule]]] = {
    "window": (1, window),
    "lookahead": (0, lookahead),
    "prefix": (1, prefix),
    "stride": (1, stride),
}
