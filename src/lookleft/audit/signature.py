"""What a forward function takes and gives back, guessed from names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from lookleft.errors import InputError

# role -> parameter names that play it, most specific first
_ROLES: dict[str, tuple[str, ...]] = {
    "is_token": (
        "attention_mask",
        "is_token",
        "token_mask",
        "padding_mask",
        "key_padding_mask",
        "src_key_padding_mask",
        "pad_mask",
        "valid",
        "valid_mask",
        "mask",
    ),
    "positions": ("position_ids", "positions", "pos_ids", "pos"),
    "cache": (
        "past_key_values",
        "cache_params",
        "cache",
        "kv_cache",
        "past_kv",
        "past",
        "layer_past",
        "state",
        "mems",
        "hx",
    ),
    "use_cache": ("use_cache", "return_cache"),
    "offset": ("start_pos", "offset", "cache_position"),
    "labels": ("labels", "targets", "target"),
    "documents": ("document_ids", "doc_ids", "documents", "segment_ids", "seq_ids", "docs"),
    "attentions": ("output_attentions", "return_attention", "return_attn", "return_weights"),
}
_TARGETS = ("decoder_input_ids", "tgt", "target", "target_ids", "tgt_ids", "trg", "dec_input")
_SOURCES = ("input_ids", "src", "source", "source_ids", "src_ids", "enc_input", "memory")
_LENGTHS = ("lengths", "lens", "seq_lens", "seq_lengths", "input_lengths", "x_lengths", "seq_len")
_SOURCE_LENGTHS = ("src_lengths", "source_lengths", "src_lens", "src_len", *_LENGTHS)
_TARGET_LENGTHS = ("tgt_lengths", "target_lengths", "tgt_lens", "tgt_len")
_SOURCE_MASKS = (
    "attention_mask",
    "source_is_token",
    "src_key_padding_mask",
    "memory_key_padding_mask",
    "source_mask",
    "src_mask",
    "mask",
)
_TARGET_MASKS = (
    "decoder_attention_mask",
    "target_is_token",
    "tgt_key_padding_mask",
    "target_padding_mask",
)
# Some models take the causal mask from the caller, torch's own decoders among them.
_TARGET_TRIANGLES = ("tgt_mask", "target_mask", "trg_mask")
_TRIANGLES = ("attn_mask", "causal_mask", "tgt_mask", "src_mask", "mask")
_PAD_IS_TRUE = ("pad", "padding")  # in a mask's name: True marks padding

_OUTPUTS = ("logits", "last_hidden_state", "log_probs", "output", "out", "hidden_states")
_CACHES = (*_ROLES["cache"], "memory", "present", "presents")


@dataclass(frozen=True)
class MaskStyle:
    """How padding is written: as a mask of some type and polarity, or as the lengths of rows."""

    token_is_true: bool = True
    dtype: torch.dtype = torch.bool
    axes: int = 0  # of size one between the rows and the positions
    is_lengths: bool = False  # one number per row, which can describe padding on the right only

    def write(self, is_token: Tensor) -> Tensor:
        """(B, T) -> (B,), (B, T), (B, 1, T) or (B, 1, 1, T)."""
        if self.is_lengths:
            return is_token.long().sum(1)
        mask = (is_token if self.token_is_true else ~is_token).to(self.dtype)
        return mask.reshape(mask.size(0), *[1] * self.axes, mask.size(1))


@dataclass(frozen=True)
class TriangleStyle:
    """How a model that wants the causal mask from its caller wants it written."""

    form: str = "added"  # 0 and -inf; "hide", "allow": True means so; "ones": 1 means allow
    axes: int = 0  # of size one in front

    def write(self, length: int, dtype: torch.dtype) -> Tensor:
        """-> (T, T), (1, T, T) or (1, 1, T, T)."""
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        forms = {"hide": future, "allow": ~future, "ones": (~future).long()}
        added = torch.zeros(length, length, dtype=dtype).masked_fill(future, -torch.inf)
        return forms.get(self.form, added).reshape(*[1] * self.axes, length, length)


@dataclass(frozen=True)
class Plan:
    """Which parameter plays which role; `first` is what the probed input is called."""

    first: str
    roles: Mapping[str, str] = field(default_factory=dict)
    positional: tuple[str, ...] = ()  # roles passed by position, in order
    styles: Mapping[str, MaskStyle] = field(default_factory=dict)
    triangle: TriangleStyle = TriangleStyle()
    triangles: tuple[str, ...] = ()  # parameters that may want the causal mask
    first_position: int = 0  # what the model calls the first position
    needed: tuple[str, ...] = ()  # roles whose parameter has no default
    unknown: tuple[str, ...] = ()  # required parameters nobody can guess

    def has(self, role: str) -> bool:
        return role in self.roles

    @property
    def needed_names(self) -> tuple[str, ...]:
        """Parameters without a default that play a known role."""
        return tuple(self.roles[role] for role in self.needed)

    @property
    def sides(self) -> tuple[str, ...]:
        """Where rows can be padded, as far as the model can be told."""
        style = self.styles.get("is_token")
        return ("right",) if style is not None and style.is_lengths else ("right", "left")

    def without(self, role: str) -> Plan:
        """The same plan, one role left out."""
        roles = {other: name for other, name in self.roles.items() if other != role}
        return replace(self, roles=roles, needed=tuple(r for r in self.needed if r != role))


def read_plan(function: Callable[..., Any], name: str) -> Plan:
    """The plan a callable's signature suggests."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Plan("x", positional=("x",))
    parameters = [
        p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if not parameters:
        if signature.parameters:  # forward(*args, **kwargs)
            return Plan("x", positional=("x",))
        raise InputError(f"{name} takes no input, so there is nothing to change")
    names = [p.name for p in parameters]
    target = _first_of(_TARGETS, names)
    source = _first_of(_SOURCES, names) if target else None
    if target is not None and source is not None:
        roles, first = _two_sided(names, source, target), target
    else:
        first = names[0]
        roles = {role: found for role in _ROLES if (found := _first_of(_ROLES[role], names[1:]))}
        if "is_token" not in roles and (found := _first_of(_LENGTHS, names[1:])):
            roles["is_token"] = found
    positional = tuple(
        "x" if p.name == first else "source" if p.name == source else ""
        for p in parameters
        if p.name in (first, source)
    )
    if target is not None and source is not None and names.index(source) > names.index(target):
        positional = ("x", "source")
    triangles = tuple(n for n in _TRIANGLES if n in names and n not in (first, source))
    bare = {p.name for p in parameters if p.default is inspect.Parameter.empty}
    if source is None and (must := [n for n in triangles if n in bare and n not in roles.values()]):
        roles["triangle"] = must[0]
    given = {first, source, *roles.values()}
    unknown = tuple(p.name for p in parameters if p.name in bare and p.name not in given)
    by_name = {first, source} & {"input_ids", "decoder_input_ids"}
    return Plan(
        first,
        roles,
        positional=() if by_name else positional,
        styles={role: _style(roles[role]) for role in roles if role.endswith("is_token")},
        triangles=() if source else triangles,
        needed=tuple(role for role, found in roles.items() if found in bare),
        unknown=unknown,
    )


def _two_sided(names: list[str], source: str, target: str) -> dict[str, str]:
    roles = {"source": source}
    rest = [name for name in names if name not in (source, target)]
    if found := _first_of((*_SOURCE_MASKS, *_SOURCE_LENGTHS), rest):
        roles["source_is_token"] = found
        if found != "memory_key_padding_mask" and "memory_key_padding_mask" in rest:
            roles["memory_is_token"] = "memory_key_padding_mask"  # the same rows, seen from afar
    if found := _first_of((*_TARGET_MASKS, *_TARGET_LENGTHS), rest):
        roles["is_token"] = found
    if found := _first_of(_TARGET_TRIANGLES, rest):
        roles["triangle"] = found
    for role in ("cache", "use_cache", "labels", "attentions"):
        if found := _first_of(_ROLES[role], rest):
            roles[role] = found
    if found := _first_of(("decoder_position_ids", "target_positions"), rest):
        roles["positions"] = found
    return roles


def _first_of(candidates: tuple[str, ...], names: list[str]) -> str | None:
    return next((name for name in candidates if name in names), None)


def _style(name: str) -> MaskStyle:
    if name in (*_SOURCE_LENGTHS, *_TARGET_LENGTHS):
        return MaskStyle(is_lengths=True)
    if any(part in name for part in _PAD_IS_TRUE):
        return MaskStyle(token_is_true=False)
    return MaskStyle(dtype=torch.long if name.endswith("attention_mask") else torch.bool)


def pick_output(result: Any) -> Tensor | None:
    """The per-position output inside whatever a forward returned."""
    if isinstance(result, Tensor):
        return result if result.dim() else None
    for name in _OUTPUTS:
        value = _field(result, name)
        if isinstance(value, Tensor) and value.dim() > 1:
            return value
    tensors = [value for value in _values(result) if isinstance(value, Tensor) and value.dim() > 1]
    return next((value for value in tensors if value.is_floating_point()), None)


def pick_cache(result: Any) -> Any:
    """The state a forward returned for its next call, or None."""
    for name in _CACHES:
        if (value := _field(result, name)) is not None:
            return value
    if isinstance(result, tuple | list):
        output = pick_output(result)
        rest = [value for value in result if value is not None and value is not output]
        rest = [value for value in rest if not (isinstance(value, Tensor) and value.dim() == 0)]
        return rest[0] if rest else None
    return None


def pick_loss(result: Any) -> Tensor | None:
    """The scalar loss a forward returned, or None."""
    value = _field(result, "loss")
    if isinstance(value, Tensor):
        return value
    scalars = (v for v in _values(result) if isinstance(v, Tensor) and v.numel() == 1)
    return next((v for v in scalars if v.is_floating_point()), None)


def _field(result: Any, name: str) -> Any:
    if isinstance(result, Mapping):
        return result.get(name)
    return (
        None
        if isinstance(result, Tensor | tuple) and not _is_named(result)
        else getattr(result, name, None)
    )


def _is_named(result: Any) -> bool:
    return hasattr(result, "_fields")  # a namedtuple


def _values(result: Any) -> Iterator[Any]:
    if isinstance(result, Mapping):
        yield from result.values()
    elif isinstance(result, tuple | list):
        yield from result
    elif hasattr(result, "__dict__"):
        yield from vars(result).values()
