"""Make the pages of the zoo: `python -m lookleft.audit.zoo docs [CLASS ...]`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from lookleft.audit.zoo import Row, from_json, sweep, to_json, to_markdown


def main(folder: str, *names: str) -> None:
    """Write zoo.json and zoo.md into a folder.

    Names of classes audit these anew and keep the other rows of the zoo.json that is there;
    `--reuse` keeps them all and renders the page.
    """
    torch.set_num_threads(1)
    data, page = Path(folder, "zoo.json"), Path(folder, "zoo.md")
    if names:
        asked = [name for name in names if name != "--reuse"]
        fresh = {row.name: row for row in sweep(names=asked, progress=_say)}
        rows = [fresh.get(row.name, row) for row in from_json(data.read_text())]
    else:
        rows = sweep(progress=_say)
    data.write_text(to_json(rows))
    page.write_text(to_markdown(rows))


def _say(row: Row) -> None:
    sys.stderr.write(f"{row.verdict:13} {row.name} ({row.seconds:.1f} s)\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
