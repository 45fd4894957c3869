"""`lookleft config`: what every setting means, and in what two configs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from lookleft.errors import InputError


def config(
    what: Literal["keys", "diff"],
    *names: str,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Explain settings.

    Examples:
      lookleft config keys
      lookleft config keys train
      lookleft config diff multi30k-en-de my.toml

    Parameters
    ----------
    what
        keys: all settings, or those of the sections named. diff: where two configs or runs differ.
    names
        Sections (data, text, model, train), or two configs: files, recipes or run folders.
    json_
        Print JSON.
    """
    if what == "keys":
        found = keys_of(names)
        print(json.dumps(found) if json_ else "\n".join(map(key_line, found)))
        return
    if len(names) != 2:
        raise InputError("config diff compares two configs: lookleft config diff A B")
    differences = difference(*names)
    if json_:
        print(json.dumps(differences))
        return
    for key, (one, other) in differences.items():
        print(f"{key:<24} {_shown(one):<24} {_shown(other)}")


def keys_of(sections: tuple[str, ...]) -> list[dict[str, Any]]:
    """Settings as {key, default, meaning}; of all sections if none is named."""
    from lookleft.train.keys import all_keys

    known = list(dict.fromkeys(key.section for key in all_keys() if key.section))
    for section in sections:
        if section not in known:
            raise InputError(f"there is no section {section!r}; there are {', '.join(known)}")
    return [
        {"key": key.path, "default": key.default, "meaning": key.meaning}
        for key in all_keys()
        if not sections or key.section in sections
    ]


def key_line(key: dict[str, Any]) -> str:
    """One setting as a line of text."""
    return f"{key['key']:<24} {_shown(key['default']):<16} {key['meaning']}".rstrip()


def difference(one: str, other: str) -> dict[str, tuple[Any, Any]]:
    """Key -> both values, of the settings that are not the same."""
    from lookleft.cli.recipes import find_config
    from lookleft.train.keys import all_keys
    from lookleft.train.settings_file import read_settings

    files = [
        file if (file := Path(name) / "config.toml").is_file() else find_config(name)
        for name in (one, other)
    ]
    pair = [read_settings(file).model_dump(mode="json") for file in files]
    found = {}
    for key in all_keys():
        values = [side[key.section][key.name] if key.section else side[key.name] for side in pair]
        if values[0] != values[1]:
            found[key.path] = (values[0], values[1])
    return found


def _shown(value: Any) -> str:
    from lookleft.train.keys import as_toml

    return "unset" if value is None else as_toml(value)
