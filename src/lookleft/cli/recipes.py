"""`lookleft ls`, `show` and `cp`: the recipes that come with lookleft, to read and to copy."""

from __future__ import annotations

import json
import sys
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import lookleft
from lookleft.errors import FileError, InputError
from lookleft.files import write_atomically

CONFIG = "lookleft.toml"  # of a folder that `lookleft init` makes


def ls(*, json_: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """List the recipes that come with lookleft.

    Examples: lookleft ls, then lookleft cp multi30k-en-de my.toml

    Parameters
    ----------
    json_
        Print {name: what it is}.
    """
    told = {name: _first_words(path) for name, path in find_recipes().items()}
    if json_:
        print(json.dumps(told, ensure_ascii=False))
        return
    width = max(map(len, told), default=0)
    for name, words in told.items():
        print(f"{name:<{width}}  {words}")


def show(
    name: str, *, json_: Annotated[bool, Parameter(name="--json", negative="")] = False
) -> None:
    """Print a recipe.

    Examples:
      lookleft show shakespeare-char

    Parameters
    ----------
    name
        One of the names that `lookleft ls` prints.
    json_
        Print its values as JSON, without the comments.
    """
    text = find_recipe(name).read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(tomllib.loads(text)) + "\n" if json_ else text)


def cp(
    name: str,
    file: Path | None = None,
    *,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Copy a recipe, to change it.

    Examples:
      lookleft cp multi30k-en-de
      lookleft cp multi30k-en-de my.toml

    Parameters
    ----------
    name
        One of the names that `lookleft ls` prints.
    file
        Where to; unset: NAME.toml here. A file that is there already is not touched.
    json_
        Print {"wrote", "next"}.
    """
    recipe = find_recipe(name)
    target = file or Path(recipe.name)
    if target.is_dir():
        target = target / recipe.name
    if target.exists():
        raise FileError(f"{target}: is there already; give another name: lookleft cp {name} FILE")
    write_atomically(target, recipe.read_bytes())
    if json_:
        print(json.dumps({"wrote": str(target), "next": f"lookleft check {target}"}))
    else:
        print(f"wrote {target}\nnext:  lookleft check {target}", file=sys.stderr)


def find_config(word: str) -> Path:
    """The file a user means by a path or by the name of a recipe."""
    path = Path(word)
    if path.is_file():
        return path
    if (path / CONFIG).is_file():  # a folder that `lookleft init` made
        return path / CONFIG
    if (path / "config.toml").is_file():
        raise FileError(
            f"{word}: is a run, not a config. To go on with it: lookleft train --resume --out "
            f"{word}; to begin another like it: {path / 'config.toml'}"
        )
    known = find_recipes()
    # Not NAME.toml by itself: that would be a copy of the recipe, looked for in the wrong folder.
    is_recipe = path.parent == Path("recipes") and path.suffix == ".toml"
    if word in known or (is_recipe and path.stem in known):
        return known[path.stem]
    meant = get_close_matches(path.stem, known, n=1)
    hint = f"did you mean {meant[0]} ?" if meant else f"recipes are {', '.join(known)}"
    raise FileError(f"{word}: there is no such file, and no recipe of that name; {hint}")


def find_recipe(name: str) -> Path:
    """The file of a recipe."""
    known = find_recipes()
    if name.removesuffix(".toml") in known:
        return known[name.removesuffix(".toml")]
    meant = get_close_matches(name, known, n=1)
    hint = f"did you mean {meant[0]} ?" if meant else f"there are {', '.join(known)}"
    raise InputError(f"there is no recipe {name!r}; {hint}")


def find_recipes() -> dict[str, Path]:
    """Name -> file of every recipe: inside an installed package, or beside `src` in a checkout."""
    package = Path(lookleft.__file__).parent
    for folder in (package / "recipes", package.parents[1] / "recipes"):
        found = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        if found:
            return found
    raise FileError(f"{package / 'recipes'}: is not there; install lookleft again")


def _first_words(path: Path) -> str:
    """The comment that a recipe begins with."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.removeprefix("#").strip()
