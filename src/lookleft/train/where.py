"""Where a setting stands in the file it was read from, for messages about it."""

from __future__ import annotations

import re

_HEADER = re.compile(r"^\s*\[\s*([\w.-]+)\s*\]")


def line_of(text: str, key: str) -> int | None:
    """The line of a TOML text that sets a key such as train.lr, counted from 1."""
    *sections, name = key.split(".")
    wanted, here = ".".join(sections), ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header:
            here = header.group(1)
            if here == key:
                return number
        elif here == wanted and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", line):
            return number
    return None
