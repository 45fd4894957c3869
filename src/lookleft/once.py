"""Attributes that are computed when somebody asks for them first.

In place of `functools.cached_property`, which in Python 3.11 takes a lock that torch.compile cannot
follow: a block that asks for a mask or for angles would fall into pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):
    """A method as such an attribute; the value is kept in the instance and found there first."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self.make, self.name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> once[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> once[Value] | Value:
        if instance is None:
            return self
        value = self.make(instance)
        instance.__dict__[self.name] = value
        return value
