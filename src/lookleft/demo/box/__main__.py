"""`python -m lookleft.demo.box RUN --data.dir DIR`: make the translator that comes along."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lookleft.bundled import DEFAULT, FOLDER
from lookleft.demo.box.make import CARD, make_box
from lookleft.errors import LookleftError


def main(words: list[str]) -> int:
    """Make it and say where it is; get the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lookleft.demo.box",
        description="Quantise, measure, audit and describe a trained run, and put it into the "
        "package as the translator that comes with lookleft.",
    )
    parser.add_argument("run", type=Path, help="a finished run folder of a translator")
    parser.add_argument(
        "--data.dir", dest="data", type=Path, required=True, help="where the validation sets lie"
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER / DEFAULT, help="where to; unset: into the package"
    )
    parser.add_argument("--quick", action="store_true", help="a shorter audit")
    given = parser.parse_args(words)
    try:
        n_bytes = make_box(given.run, given.data, given.out, is_quick=given.quick, say=_say)
    except LookleftError as error:
        _say(f"error: {error}")
        return error.exit_code
    _say(f"wrote {given.out} ({n_bytes / 1e6:.1f} MB); read the sentences in {CARD}, and say so")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
