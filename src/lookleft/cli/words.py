"""What is typed behind `lookleft train` and `check`: one config, and settings by their names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from lookleft.errors import InputError

_OPTION = re.compile(r"--[A-Za-z]")  # not "---", the line that ends documents in many files


def given_settings(
    words: tuple[str, ...],
    command: Callable[..., object],
    *,
    device: str | None,
    seed: int | None,
) -> tuple[str | None, dict[str, str]]:
    """The config, if one is named, and all settings: some are options of the command itself."""
    config, found = parse_words(words, options_of(command))
    if device is not None:
        found["train.device"] = device
    if seed is not None:
        found["train.seed"] = str(seed)
    return config, found


def options_of(command: Callable[..., object]) -> list[str]:
    """What a command takes besides settings, as its signature has it: ["--out", "--json"]."""
    parameters = inspect.signature(command).parameters.values()
    names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    return [as_option(name.rstrip("_")) for name in names]


def as_option(name: str) -> str:
    """A setting or a parameter as it is typed: "data.skip_empty" -> "--data.skip-empty"."""
    return f"--{name.replace('_', '-')}"


def parse_words(
    words: tuple[str, ...], options: Sequence[str] = ()
) -> tuple[str | None, dict[str, str]]:
    """["my.toml", "--train.lr", "3e-4", "--data.dev=x.tsv"] -> "my.toml" and two settings.

    The config may stand anywhere. `options` are those that could have been meant by a word that
    names no setting.
    """
    rest, configs = list(words), list[str]()
    found: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            configs.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or ("." not in name and name != "task"):
            typed = word.partition("=")[0]
            raise InputError(f"{typed!r} is no option; {_hint(typed.lstrip('-'), options)}")
        if not equals:
            if not rest or _OPTION.match(rest[0]):
                raise InputError(f"--{name} needs a value{_example(name)}")
            value = rest.pop(0)
        found[name] = value
    if len(configs) > 1:
        raise InputError(
            f"give one config, not {' and '.join(map(repr, configs))}; settings look like "
            f'--train.lr 3e-4, and several values like --data.train \'["a.en", "a.de"]\''
        )
    return (configs[0] if configs else None), found


def _hint(name: str, options: Sequence[str]) -> str:
    """What was probably meant by the name of no option: a setting without its section, or so."""
    from lookleft.train.keys import all_keys
    from lookleft.train.settings import RunSettings

    exact = [as_option(path) for path in RunSettings.paths_of(name.replace("-", "_"))]
    if exact:
        return f"did you mean {' or '.join(exact)} ?"
    known = {as_option(key.name).removeprefix("--"): as_option(key.path) for key in all_keys()}
    known |= {option.removeprefix("--"): option for option in options}
    meant = get_close_matches(name, known, n=1)
    if meant:
        return f"did you mean {known[meant[0]]} ?"
    return "settings look like --train.lr 3e-4; to see all: lookleft config keys"


def _example(name: str) -> str:
    """How a setting is given a value, to be put behind the word that it needs one."""
    from lookleft.train.keys import all_keys

    defaults = {as_option(key.path): key.default for key in all_keys()}
    default = defaults.get(as_option(name))
    if isinstance(default, bool):
        return ": true or false"
    value = default if isinstance(default, str | int | float) else "VALUE"
    return f", as in --{name} {value}"
