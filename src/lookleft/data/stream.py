"""One long text without borders, a play or a book, cut into rows anew each epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from lookleft.data.examples import Example, Examples
from lookleft.data.lines import read_lines
from lookleft.errors import ConfigError, FileError
from lookleft.text.tokenizer import Tokenizer


def read_stream(path: Path, first: float = 0.0, last: float = 1.0) -> str:
    """The part of a text file between two shares of its characters, line ends included.

    It is read whole: a text that does not fit into memory is better given line by line.
    """
    lines = []
    for number, line in read_lines(path, after=0):
        if line is None:
            raise FileError(f"{path}:{number}: the line is too long to be text")
        lines.append(line + "\n")
    text = "".join(lines)
    part = text[round(first * len(text)) : round(last * len(text))]
    if len(part) < 2:
        raise ConfigError(f"{path}: {len(text):,} characters leave too little text to train on")
    return part


def stream_examples(
    text: str, tokenizer: Tokenizer, length: int, seed: int | None = None
) -> Examples:
    """Rows that predict `length` tokens each, one after another, and one shorter row at the end.

    With a seed every epoch begins at another place in the first row, so that over the epochs a
    token is met with every amount of text before it. Without one the first row begins at 0.
    """
    ids = tokenizer.encode_batch([text])[0]  # thrice as fast as `encode`: it keeps no offsets

    def read(epoch: int, after: int) -> Iterator[Example]:
        start = 0 if seed is None else random.Random(f"{seed}:{epoch}").randrange(length)
        starts = list(range(start, len(ids) - 1, length))
        for number in range(after, len(starts)):
            row = ids[starts[number] : starts[number] + length + 1]
            yield Example([], row, number + 1)

    return read
