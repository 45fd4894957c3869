"""Fresh copies of whatever a user hands over: modules, methods, closures, partials."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from lookleft.errors import InputError

Memo = dict[int, Any]
_SHARED = -1  # a key no object's id can have: parameters are shared in this copy
_ATOMS = {int, float, bool, str, bytes, type(None), torch.dtype, torch.device, type}
_EMPTY = {dict, OrderedDict, list, set, tuple}  # most of a module's fields: hooks nobody has set


def fresh_copy(thing: Any, *, memo: Memo | None = None, share_parameters: bool = False) -> Any:
    """A copy that shares no state with `thing`; with `share_parameters` only the weights.

    A function is rebuilt around copies of the modules it closes over, so that the copy can be cast,
    redrawn or switched to training without the user's module noticing.
    """
    memo = {} if memo is None else memo
    for module in modules_of(thing):
        _prepare(module, memo, share_parameters)
    try:
        return _copied(thing, memo)
    except Exception as error:
        raise InputError(
            f"{type(thing).__name__} cannot be copied ({type(error).__name__}: {error}); "
            "the audit works on copies only, so hand over a model that copy.deepcopy accepts"
        ) from error


def modules_of(thing: Any, _seen: set[int] | None = None) -> list[nn.Module]:
    """The outermost modules a callable is or closes over, each once."""
    seen = set() if _seen is None else _seen
    if id(thing) in seen:
        return []
    seen.add(id(thing))
    if isinstance(thing, nn.Module):
        return [thing]
    return [module for part in _parts(thing) for module in modules_of(part, seen)]


def _parts(thing: Any) -> Iterator[Any]:
    if isinstance(thing, types.MethodType):
        yield thing.__self__
        yield thing.__func__
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, types.FunctionType):
        yield from _cells(thing)
        yield from thing.__defaults__ or ()
        yield from (thing.__kwdefaults__ or {}).values()
        yield from _global_modules(thing).values()
    elif isinstance(thing, list | tuple | set):
        yield from thing
    elif isinstance(thing, dict):
        yield from thing.values()
    elif type(thing).__module__ not in ("builtins", "torch") and hasattr(thing, "__dict__"):
        yield from () if isinstance(thing, type | types.ModuleType) else vars(thing).values()


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is assigned later
            continue


def _global_modules(function: types.FunctionType) -> dict[str, Any]:
    names = (name for name in function.__code__.co_names if name in function.__globals__)
    found = {name: function.__globals__[name] for name in names}
    return {name: value for name, value in found.items() if isinstance(value, nn.Module)}


def _prepare(module: nn.Module, memo: Memo, share_parameters: bool) -> None:
    for part in module.modules():
        for value in vars(part).values():
            if type(value) in _ATOMS or type(value) in _EMPTY:
                continue
            if isinstance(value, Tensor) and not value.is_leaf:  # deepcopy refuses these
                memo[id(value)] = value.detach().clone()
            elif isinstance(value, torch.Generator):
                memo[id(value)] = torch.Generator(value.device).set_state(value.get_state())
    if share_parameters:
        memo[_SHARED] = True
        memo.update({id(parameter): parameter for parameter in module.parameters()})


def _copied(thing: Any, memo: Memo) -> Any:
    if id(thing) in memo:
        return memo[id(thing)]
    if isinstance(thing, types.FunctionType):
        return _copied_function(thing, memo)
    if isinstance(thing, functools.partial):
        arguments = [_copied(part, memo) for part in thing.args]
        named = {key: _copied(part, memo) for key, part in thing.keywords.items()}
        return functools.partial(_copied(thing.func, memo), *arguments, **named)
    if isinstance(thing, types.MethodType):
        return types.MethodType(thing.__func__, _copied(thing.__self__, memo))
    if isinstance(thing, dict):
        return {key: _copied(value, memo) for key, value in thing.items()}
    if isinstance(thing, nn.Module) and memo.get(_SHARED):
        return _light_copy(thing, memo)
    if not modules_of(thing) and not isinstance(thing, Tensor):
        return thing  # nothing in it that a forward pass could be confused by
    return copy.deepcopy(thing, memo)


def _light_copy(module: nn.Module, memo: Memo) -> nn.Module:
    """A module with the same parameters and everything else its own; far cheaper than deepcopy."""
    if id(module) in memo:
        return cast(nn.Module, memo[id(module)])
    kind = type(module)
    if hasattr(kind, "__deepcopy__") or isinstance(module, torch.jit.ScriptModule):
        return copy.deepcopy(module, memo)
    twin = kind.__new__(kind)
    memo[id(module)] = twin
    children = {
        name: None if part is None else _light_copy(part, memo)
        for name, part in module._modules.items()
    }
    for name, value in vars(module).items():
        if name == "_modules":
            twin.__dict__[name] = children
        elif name == "_parameters":
            twin.__dict__[name] = dict(value)
        elif name == "_buffers":
            twin.__dict__[name] = {key: _cloned(one, memo) for key, one in value.items()}
        elif type(value) in _ATOMS:
            twin.__dict__[name] = value
        elif type(value) in _EMPTY and not value:
            twin.__dict__[name] = type(value)()
        else:
            twin.__dict__[name] = copy.deepcopy(value, memo)
    return twin


def _cloned(buffer: Tensor | None, memo: Memo) -> Tensor | None:
    if buffer is None:
        return None
    if id(buffer) not in memo:
        memo[id(buffer)] = buffer.detach().clone()
    return cast(Tensor, memo[id(buffer)])


def _copied_function(function: types.FunctionType, memo: Memo) -> Callable[..., Any]:
    if not modules_of(function):
        return function
    scope = dict(function.__globals__)
    scope.update({key: _copied(value, memo) for key, value in _global_modules(function).items()})
    twin = types.FunctionType(
        function.__code__,
        scope if _global_modules(function) else function.__globals__,
        function.__name__,
        tuple(_copied(value, memo) for value in function.__defaults__ or ()) or None,
        tuple(_copied_cell(cell, memo) for cell in function.__closure__ or ()) or None,
    )
    twin.__kwdefaults__ = {k: _copied(v, memo) for k, v in (function.__kwdefaults__ or {}).items()}
    return twin


def _copied_cell(cell: types.CellType, memo: Memo) -> types.CellType:
    try:
        return types.CellType(_copied(cell.cell_contents, memo))
    except ValueError:
        return types.CellType()
