"""Models that come with lookleft: one folder each, found by its name.

`python -m lookleft.demo.box` makes them.
"""

from __future__ import annotations

from pathlib import Path

from lookleft.errors import FileError
from lookleft.files import look_at

FOLDER = Path(__file__).parent
DEFAULT = "en-hi"  # translates English to Hindi
NAMES = (DEFAULT,)


def find_model(word: str | Path | None) -> Path:
    """The path that a user means: a thing that exists comes before a bundled model of that name.

    None means the model that comes along. What is neither is given back as it is: whoever opens it
    says what is wrong.
    """
    if word is None:
        return bundled_model(DEFAULT)
    path = Path(word)
    if str(word) in NAMES and look_at(path) == "nothing":
        return bundled_model(str(word))
    return path


def bundled_model(name: str) -> Path:
    """The folder of a model that comes with lookleft."""
    folder = FOLDER / name
    if look_at(folder / "config.json") != "file":
        raise FileError(
            f"{name}: this copy of lookleft came without its translator; name a model, as in "
            f"`lookleft translate runs/en-hi`, or train one: `lookleft train demo --out runs/en-hi`"
        )
    return folder
