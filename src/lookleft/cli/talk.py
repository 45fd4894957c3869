"""Talking to people on a terminal: remarks beside the results, questions, answers as they come."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from typing import TypeVar

from lookleft.errors import InputError

Result = TypeVar("Result")


def say(text: str, end: str = "\n") -> None:
    """A remark, on standard error: standard output is for results."""
    print(text, file=sys.stderr, end=end, flush=True)


def drop_output() -> None:
    """From now on standard output goes nowhere: whoever read it (head, less) has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ask(prompt: str) -> Iterator[str]:
    """What is typed, line by line, without empty ones, until :q or the end of input.

    From a pipe the lines come without being asked for.
    """
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):  # not everywhere
            import readline  # noqa: F401  gives input() a history and arrow keys
    while True:
        try:
            line = input(prompt if sys.stdin.isatty() else "")
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise InputError(f"standard input: is not UTF-8: {error.reason}") from None
        if line.strip() == ":q":
            return
        if line.strip():
            yield line.strip()


def show_pieces(pieces: Generator[str, None, Result], *, is_shown: bool = True) -> Result:
    """Print pieces as they come, if they are to be shown; get what the generator returns."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as stop:
            result: Result = stop.value
            break
        if is_shown:
            print(piece, end="", flush=True)
    if is_shown:
        print()
    return result


def use_threads(threads: int | None) -> None:
    """Compute with so many threads; None leaves it to torch."""
    import torch

    if threads is None:
        return
    if threads < 1:
        raise InputError(f"--threads {threads}: give 1 or more")
    torch.set_num_threads(threads)
