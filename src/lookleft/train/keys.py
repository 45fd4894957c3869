"""Every setting of a run with its default and meaning, read from where it is declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import tomlkit

from lookleft.config import Frozen
from lookleft.train.settings import RunSettings

_DECLARED = re.compile(r"^    (\w+): .*?(?:\s{2}# (.*))?$")
_WIDTH = 34  # where the comments of a written config begin


@dataclass(frozen=True)
class Key:
    """One setting."""

    section: str  # "" for those above all sections
    name: str
    default: Any
    meaning: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


def all_keys() -> list[Key]:
    """Every setting, in the order of the config file."""
    defaults = RunSettings()
    found = []
    for name in RunSettings.model_fields:
        value = getattr(defaults, name)
        if isinstance(value, Frozen):
            meanings = _meanings(type(value))
            found += [
                Key(name, key, getattr(value, key), meanings.get(key, ""))
                for key in type(value).model_fields
            ]
        else:
            found.append(Key("", name, value, _meanings(RunSettings).get(name, "")))
    return found


def commented_toml(values: Mapping[str, Any]) -> str:
    """A config file with every option, its meaning beside it; `values` replace defaults by path.

    What has no value stands there as a comment, ready to be filled in.
    """
    lines: list[str] = []
    section = ""
    for key in all_keys():
        if key.section != section:
            section = key.section
            lines += ["", f"[{section}]"]
        value = values.get(key.path, key.default)
        setting = f"# {key.name} =" if value is None else f"{key.name} = {as_toml(value)}"
        lines.append(f"{setting:<{_WIDTH}}# {key.meaning}" if key.meaning else setting)
    return "\n".join(lines) + "\n"


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    plain = list(value) if isinstance(value, tuple) else value
    written: str = tomlkit.item(plain).as_string()
    return written


def _meanings(record: type[Frozen]) -> dict[str, str]:
    """Name -> the comment behind its declaration."""
    found = (_DECLARED.match(line) for line in inspect.getsource(record).splitlines())
    return {match.group(1): match.group(2) or "" for match in found if match}


def changed_keys(one: RunSettings, other: RunSettings, among: Sequence[str]) -> list[str]:
    """Which of the named settings differ between two runs."""
    return [path for path in among if _value(one, path) != _value(other, path)]


def _value(settings: RunSettings, path: str) -> Any:
    return attrgetter(path)(settings)
