"""Make the pages of the zoo: `python -m lookleft.audit.zoo docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from lookleft.audit.zoo import Row, from_json, sweep, to_json, to_markdown


def main(folder: str, mode: str = "") -> None:
    """Write zoo.json and zoo.md into a folder; `--reuse` renders the zoo.json that is there."""
    torch.set_num_threads(1)
    data, page = Path(folder, "zoo.json"), Path(folder, "zoo.md")
    rows = from_json(data.read_text()) if mode == "--reuse" else sweep(progress=_say)
    data.write_text(to_json(rows))
    page.write_text(to_markdown(rows))


def _say(row: Row) -> None:
    sys.stderr.write(f"{row.verdict:13} {row.name} ({row.seconds:.1f} s)\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
