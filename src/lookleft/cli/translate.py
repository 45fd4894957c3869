"""`lookleft translate`: a sentence, or standard input line by line."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from cyclopts import Parameter

from lookleft.errors import InputError


def translate(
    model: str,
    sentence: str | None = None,
    *,
    max_new: int = 128,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Translate SENTENCE, or each line of standard input, with MODEL.

    Examples:
      lookleft translate runs/en-hi "I am fine."
      lookleft translate runs/en-hi < in.en > out.hi

    Parameters
    ----------
    model
        A run folder or model folder of an encoder-decoder.
    sentence
        What to translate; without it standard input is read, one sentence a line.
    max_new
        The longest answer, in tokens.
    json_
        Print one JSON object {"source", "target"} a line.
    """
    from lookleft.bundle import load
    from lookleft.generate.translate import translate as translate_all

    bundle = load(model)
    sentences = [sentence] if sentence is not None else read_lines()
    for source, target in zip(sentences, translate_all(bundle, sentences, max_new), strict=True):
        pair = {"source": source, "target": target}
        print(json.dumps(pair, ensure_ascii=False) if json_ else target)


def read_lines() -> list[str]:
    """The lines of standard input; one that is not UTF-8 is named."""
    lines = []
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            lines.append(raw.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input, line {number}: is not UTF-8: {error.reason}"
            ) from None
    return lines
