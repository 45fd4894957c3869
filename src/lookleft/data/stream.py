"""One long text without borders, a play or a book, cut into rows anew each epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from lookleft.data.examples import Example, Examples
from lookleft.data.lines import NO_LIMIT, read_lines
from lookleft.errors import ConfigError
from lookleft.text.tokenizer import Tokenizer


def read_stream(path: Path, first: float = 0.0, last: float = 1.0) -> str:
    """The part of a text file between two shares of its characters, line ends included.

    It is read whole, be it a single line: a text that does not fit into memory is better given
    line by line.
    """
    lines = read_lines(path, max_bytes=NO_LIMIT)  # so that none comes as None
    text = "".join(f"{line}\n" for _, line in lines)
    part = text[round(first * len(text)) : round(last * len(text))]
    if len(part) < 2:
        raise ConfigError(f"{path}: {len(text):,} characters leave too little text to train on")
    return part


def stream_examples(
    text: str, tokenizer: Tokenizer, length: int, seed: int | None = None
) -> Examples:
    """Rows that predict `length` tokens each, one after another; the last may be shorter.

    With a seed the first is shorter too, by another number of tokens every epoch, so that over the
    epochs a token is met with every amount of text before it. However the text is cut, and however
    short it is, an epoch predicts each of its tokens but the first once.
    """
    ids = tokenizer.encode_batch([text])[0]  # thrice as fast as `encode`: it keeps no offsets

    def read(epoch: int, after: int) -> Iterator[Example]:
        start = 0 if seed is None else random.Random(f"{seed}:{epoch}").randrange(length)
        last = len(ids) - 1
        borders = [0, *range(start or length, last, length), last]
        for number, (first, end) in enumerate(pairwise(borders), start=1):
            if number > after:
                # The token at a border is predicted by one row, and the next begins with it.
                yield Example([], ids[first : end + 1], number)

    return read
