"""Numbers in a subject at which its behaviour may change: windows, chunks, thresholds, ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from lookleft.audit.huggingface import constants as of_config
from lookleft.audit.subject import Subject

LARGEST = 2048
_NAMES_OF_IDS = ("pad", "eos", "bos", "sep", "cls", "end", "start", "stop", "unk", "mask_id", "_id")


def constants_of(subject: Subject) -> set[int]:
    """Integers at whose multiples a boundary may lie, from the config or else from the code.

    A threshold that is written into a forward as a literal is found as well as an attribute.
    """
    if subject.config is not None:
        return of_config(subject.config)
    found = {value for kind in _own_kinds(subject) for value in _in_class(kind)}
    for part in _own_parts(subject):
        found |= set(_integers(vars(part).values()))
    for function in subject.parts.values():
        if isinstance(function, FunctionType):
            found |= set(_integers(function.__code__.co_consts))
    return {value for value in found if 2 <= value <= LARGEST}


def ids_with_meaning(subject: Subject, vocab: int) -> set[int]:
    """Ids that attributes of the model single out by their name, such as `eos_id`."""
    found: set[int] = set()
    for part in _own_parts(subject):
        for name, value in vars(part).items():
            if any(word in name.lower() for word in _NAMES_OF_IDS):
                found |= set(_integers([value]))
    return {value for value in found if 0 <= value < vocab}


def _own_parts(subject: Subject) -> Iterator[Any]:
    for root in subject.modules:
        yield from (part for part in root.modules() if not _is_torch(type(part)))


def _own_kinds(subject: Subject) -> set[type]:
    kinds = {base for part in _own_parts(subject) for base in type(part).__mro__}
    return {kind for kind in kinds if not _is_torch(kind)}


def _is_torch(kind: type) -> bool:
    return kind.__module__.split(".")[0] in ("torch", "builtins", "abc", "typing")


def _in_class(kind: type) -> Iterator[int]:
    for value in vars(kind).values():
        if isinstance(value, FunctionType):
            yield from _integers(value.__code__.co_consts)
        else:
            yield from _integers([value])


def _integers(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            yield value
