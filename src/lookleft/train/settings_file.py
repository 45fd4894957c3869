"""The settings of a run as a TOML file: read with overrides put over it, written back resolved."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import TypeAdapter, ValidationError

from lookleft.config import Frozen
from lookleft.errors import ConfigError
from lookleft.files import read_bytes, write_atomically
from lookleft.train.settings import RunSettings
from lookleft.train.where import line_of

_MAX_BYTES = 1_000_000
_MAX_BITS = 64  # of an integer, by the definition of TOML


def read_settings(path: Path | None, overrides: Mapping[str, str] | None = None) -> RunSettings:
    """The settings of a TOML file, or the defaults; `{"train.lr": "3e-4"}` is put over them."""
    values: dict[str, Any] = {}
    text_of_file = ""
    if path is not None:
        try:
            text_of_file = read_bytes(path, max_bytes=_MAX_BYTES).decode("utf-8-sig")
            values = _read_toml(text_of_file)
        except ValueError as error:  # not UTF-8 either
            raise ConfigError(f"{path}: is no valid TOML: {error}") from error
        except RecursionError as error:
            raise ConfigError(f"{path}: is no valid TOML: it is nested too deeply") from error
        _begin_at(path.parent, values)
    given = {key.replace("-", "_"): text for key, text in (overrides or {}).items()}
    for key, text in given.items():
        _check_utf8(text, f"--{key}")
        *sections, name = key.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--{key}: {section} is a value, not a section")
        place[name] = _typed(text, key)
        if key == "data.dir":
            _begin_at(Path.cwd(), values)

    def place_of(key: str) -> str:
        if path is None:
            return ""
        if key in given:
            return " (given beside the file)"
        line = line_of(text_of_file, key)
        return f" ({path}:{line})" if line else ""

    return RunSettings.parse(values, str(path or "the settings"), place_of)


def _read_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; a ValueError if it is none, or has an integer that TOML cannot hold.

    Python reads one of any size, and then refuses to print it.
    """
    values = tomllib.loads(text)
    rest: list[Any] = [values]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            rest += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise ValueError(f"it has an integer of {value.bit_length():,} bits")
    return values


def _begin_at(folder: Path, values: dict[str, Any]) -> None:
    """Make data.dir absolute, so that it means the same from wherever the run is taken up."""
    data = values.get("data")
    if isinstance(data, dict) and isinstance(data.get("dir"), str):
        try:
            data["dir"] = str((folder / data["dir"]).resolve())
        except (ValueError, RuntimeError) as error:  # a NUL in it, or a link that leads to itself
            raise ConfigError(f"data.dir: {data['dir']!r} is no folder: {error}") from error
        _check_utf8(data["dir"], "data.dir")


def _check_utf8(text: str, where: str) -> None:
    """Raise for a name that no file of settings could hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{where}: {text!r} is not UTF-8") from error


def write_settings(settings: RunSettings, path: Path) -> None:
    """The resolved settings as TOML; what is unset is left out."""
    text = tomlkit.dumps(settings.model_dump(mode="json", exclude_none=True))
    write_atomically(path, text.encode("utf-8"))


def _typed(text: str, key: str) -> Any:
    """An override as TOML would read it; what TOML cannot read is a string.

    So is what only looks like a number or a date where a string is wanted: a folder named 2026.
    """
    try:
        value = _read_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return text if not _is_taken(value, key) and _is_taken(text, key) else value


def _is_taken(value: Any, key: str) -> bool:
    """Whether a setting of that name could have such a value."""
    section, _, name = key.rpartition(".")
    owner = getattr(RunSettings(), section, None) if section else RunSettings()
    field = type(owner).model_fields.get(name) if isinstance(owner, Frozen) else None
    if field is None:
        return False
    try:
        TypeAdapter(field.rebuild_annotation()).validate_python(value)
    except ValidationError:
        return False
    return True
